//! Key bindings: the defaults, and those of the person.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::keys::{Direction, Key};

/// Actions that a key can be bound to: name, default key and description.
const ACTIONS: [(&str, Key, &str); 23] = [
    ("stop", Key::Escape, "stop; twice: clear, or go back"),
    ("queue", Key::Tab, "complete; during a run: queue"),
    ("newline", Key::Newline, "break the line (also Shift-Enter, Alt-Enter, \\ Enter)"),
    ("picker", Key::Ctrl('o'), "commands, models, sessions, prompts, files, sub-agents, jobs"),
    ("pager", Key::Ctrl('t'), "all of the conversation, with search"),
    ("take-back", Key::Move { to: Direction::Up, word: true }, "take back what was queued last"),
    ("editor", Key::Ctrl('g'), "edit the text in your editor (also Ctrl-X Ctrl-E)"),
    ("history", Key::Ctrl('r'), "search what was typed before"),
    ("stash", Key::Ctrl('s'), "put text aside, bring it back"),
    ("paste-image", Key::Ctrl('v'), "attach the clipboard's image"),
    ("next-mode", Key::BackTab, "the next permission mode"),
    ("answer", Key::Alt('q'), "turn to a question"),
    ("suspend", Key::Ctrl('z'), "stop zk itself; `fg` goes on"),
    ("undo", Key::Ctrl('_'), "undo"),
    ("line-start", Key::Ctrl('a'), "to the beginning of the line"),
    ("line-end", Key::Ctrl('e'), "to the end of the line"),
    ("word-left", Key::Alt('b'), "a word to the left"),
    ("word-right", Key::Alt('f'), "a word to the right"),
    ("kill-word", Key::Ctrl('w'), "cut the word before the caret"),
    ("kill-to-start", Key::Ctrl('u'), "cut all before the caret"),
    ("kill-to-end", Key::Ctrl('k'), "cut all behind the caret"),
    ("yank", Key::Ctrl('y'), "put in what was cut last"),
    ("yank-older", Key::Alt('y'), "… what was cut before that"),
];

/// Keys that cannot be bound to other actions, so that the person can always leave, with their descriptions.
const FIXED: [(&str, &str); 7] = [
    ("Enter", "send; during a run: steer it"),
    ("Ctrl-C", "stop the run, clear the text; twice: end the conversation"),
    ("Ctrl-D", "delete; on an empty line: end the conversation"),
    ("↑ ↓ Ctrl-P Ctrl-N", "lines of the text, then texts of before"),
    ("← → Home End", "move in the line; with Alt or Ctrl: by words; also Ctrl-B Ctrl-F"),
    ("PgUp PgDn", "turn pages of a question, or of the full screen"),
    ("Ctrl-B", "alone: command to background"),
];

/// Keys and signs of the first day, in the order of two columns: a sign, a fixed key, or the name of an action.
const FIRST_KEYS: [(&str, &str); 14] = [
    ("/", "commands"),
    ("@", "files and directories"),
    ("!", "a command of your own"),
    ("next-mode", "permission mode"),
    ("Enter", "send, or steer a run"),
    ("queue", "complete, or queue"),
    ("stop", "stop the run"),
    ("take-back", "take back what waits"),
    ("newline", "break the line"),
    ("history", "search what you typed"),
    ("picker", "models, sessions, …"),
    ("pager", "pages, with search"),
    ("Ctrl-D", "end the conversation"),
    ("??", "all keys"),
];

/// Keys of [`FIXED`] that an action may take over, and their own function.
const GIVEN_UP: [(Key, &str); 6] = [
    (Key::Ctrl('p'), "the line above"),
    (Key::Ctrl('n'), "the line below"),
    (Key::Ctrl('b'), "one character to the left"),
    (Key::Ctrl('f'), "one character to the right"),
    (Key::Ctrl('x'), "the first of two keys"),
    (Key::Ctrl('d'), "the end of the conversation"),
];

/// Key bindings.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    /// Default key that each rebound key acts as; `None` for an unbound key.
    turned: HashMap<Key, Option<Key>>,
    /// Command lines that keys run, with their keys.
    commands: BTreeMap<String, Vec<Key>>,
    /// Whether the vi key bindings are enabled.
    vim: bool,
}

impl Keymap {
    /// Default bindings, changed by `bindings`: an action or a `/command`, and its keys. Invalid ones are
    /// left out, with a message each.
    ///
    /// ```
    /// use zk_tui::Keymap;
    ///
    /// let (_, said) = Keymap::new(&[("pager".into(), vec!["ctrl-k".into()])]);
    /// assert_eq!(said, ["ctrl-k is `pager` now and no longer `kill-to-end`, which has no key"]);
    /// ```
    #[must_use]
    pub fn new(bindings: &[(String, Vec<String>)]) -> (Self, Vec<String>) {
        let (mut turned, mut said) = (HashMap::new(), Vec::new());
        let mut commands: BTreeMap<String, Vec<Key>> = BTreeMap::new();
        let mut owners: HashMap<Key, &str> = HashMap::new();
        let mut rebound: Vec<&str> = Vec::new();
        for (name, keys) in bindings {
            let known = ACTIONS.iter().find(|(known, _, _)| known == name);
            let (action, usual) = match known {
                Some((action, usual, _)) => (*action, Some(usual)),
                None if name.starts_with('/') => (name.trim(), None),
                None => {
                    let known: Vec<&str> = ACTIONS.iter().map(|(name, _, _)| *name).collect();
                    let known = known.join(", ");
                    said.push(format!("there is no action `{name}`; there are {known}, and each /command"));
                    continue;
                }
            };
            for text in keys {
                let Some(key) = parse(text) else {
                    said.push(format!("`{name}` cannot have the key `{text}`: ctrl-x, alt-x, alt-up, tab and shift-tab are keys"));
                    continue;
                };
                match owners.get(&key) {
                    Some(owner) if *owner != action => {
                        said.push(format!(
                            "{text} is given to `{owner}` and to `{action}`: it stays with `{owner}`"
                        ));
                        continue;
                    }
                    Some(_) | None => {}
                }
                if let Some((_, before)) = GIVEN_UP.iter().find(|(known, _)| *known == key) {
                    said.push(format!("{text} is `{action}` now and no longer {before}"));
                }
                owners.insert(key.clone(), action);
                rebound.push(action);
                if usual.is_none() {
                    commands.entry(action.to_owned()).or_default().push(key.clone());
                }
                turned.insert(key, usual.cloned());
            }
        }
        for (action, usual, _) in &ACTIONS {
            match (owners.get(usual), rebound.contains(action)) {
                (None, true) => _ = turned.insert(usual.clone(), None),
                (Some(owner), false) if owner != action => {
                    let key = describe(usual).to_lowercase();
                    said.push(format!("{key} is `{owner}` now and no longer `{action}`, which has no key"));
                }
                (Some(_) | None, _) => {}
            }
        }
        (Self { turned, commands, vim: false }, said)
    }

    /// Sets whether the vi key bindings are enabled.
    #[must_use]
    pub fn vim(self, vim: bool) -> Self {
        Self { vim, ..self }
    }

    pub(crate) fn is_vim(&self) -> bool {
        self.vim
    }

    /// The commands that have keys, each with its slash and its arguments.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.commands.keys().map(String::as_str)
    }

    /// Command that is bound to a key.
    pub(crate) fn command(&self, key: &Key) -> Option<&str> {
        self.commands.iter().find(|(_, keys)| keys.contains(key)).map(|(line, _)| line.as_str())
    }

    /// Translates a key to the default key of its action; `None` if it is unbound.
    pub(crate) fn translate(&self, key: &Key) -> Option<Key> {
        match self.turned.get(key) {
            Some(turned) => turned.clone(),
            None => Some(key.clone()),
        }
    }

    /// Keys bound to an action, given by its default key.
    fn keys_of(&self, usual: &Key) -> Vec<String> {
        let given = self.turned.iter().filter(|(_, turned)| turned.as_ref() == Some(usual));
        let mut keys: Vec<String> = given.map(|(key, _)| describe(key)).collect();
        keys.sort_unstable();
        if !self.turned.contains_key(usual) {
            keys.insert(0, describe(usual));
        }
        keys
    }

    /// Keys for new users, with their present bindings.
    pub(crate) fn short_help(&self) -> Vec<(String, &'static str)> {
        let mut lines = Vec::new();
        for (key, what) in FIRST_KEYS {
            match ACTIONS.iter().find(|(action, _, _)| *action == key) {
                None => lines.push((key.to_owned(), what)),
                Some((_, usual, _)) => {
                    let keys = self.keys_of(usual);
                    lines.extend(keys.into_iter().next().map(|key| (key, what)));
                }
            }
        }
        lines
    }

    /// Table of all keys, with their present bindings.
    pub(crate) fn help(&self) -> Vec<(String, Cow<'static, str>)> {
        let fixed = FIXED.iter().map(|(key, what)| ((*key).to_owned(), Cow::Borrowed(*what)));
        let mut lines: Vec<(String, Cow<'static, str>)> = fixed.collect();
        for (_, usual, what) in &ACTIONS {
            let keys = self.keys_of(usual);
            if !keys.is_empty() {
                lines.push((keys.join(" "), Cow::Borrowed(*what)));
            }
        }
        for (line, keys) in &self.commands {
            let keys: Vec<String> = keys.iter().map(describe).collect();
            lines.push((keys.join(" "), Cow::Owned(format!("run {line}"))));
        }
        if self.vim {
            lines.push(("Esc ?".to_owned(), "behind a text: the commands of vi".into()));
        }
        lines
    }
}

/// Parses the name of a key that can be bound.
fn parse(text: &str) -> Option<Key> {
    let text = text.trim().to_lowercase();
    let arrow = |name: &str| {
        Some(match name {
            "left" => Direction::Left,
            "right" => Direction::Right,
            "up" => Direction::Up,
            "down" => Direction::Down,
            _ => return None,
        })
    };
    match text.as_str() {
        "esc" | "escape" => return Some(Key::Escape),
        "tab" => return Some(Key::Tab),
        "shift-tab" => return Some(Key::BackTab),
        "alt-enter" | "shift-enter" | "ctrl-j" => return Some(Key::Newline),
        _ => {}
    }
    let (modifier, name) = text.split_once('-')?;
    if let Some(to) = arrow(name) {
        return matches!(modifier, "alt" | "ctrl").then_some(Key::Move { to, word: true });
    }
    let mut letters = name.chars();
    let (letter, None) = (letters.next()?, letters.next()) else { return None };
    match (modifier, letter) {
        // These have a fixed meaning, or are another key's code.
        ("ctrl", 'c' | 'd' | 'm' | 'i' | 'h' | '[') => None,
        ("ctrl", 'a'..='z' | '_' | '\\') => Some(Key::Ctrl(letter)),
        ("alt", letter) if !letter.is_control() => Some(Key::Alt(letter)),
        _ => None,
    }
}

pub(crate) fn describe(key: &Key) -> String {
    let direction = |to: &Direction| format!("{to:?}");
    match key {
        Key::Ctrl(c) => format!("Ctrl-{}", c.to_ascii_uppercase()),
        Key::Alt(c) => format!("Alt-{}", c.to_uppercase()),
        Key::Escape => "Esc".to_owned(),
        Key::Tab => "Tab".to_owned(),
        Key::BackTab => "Shift-Tab".to_owned(),
        Key::Newline => "Ctrl-J".to_owned(),
        Key::Move { to, word: true } => format!("Alt-{}", direction(to)),
        Key::Move { to, word: false } => direction(to),
        Key::Char(_)
        | Key::Paste(_)
        | Key::Enter
        | Key::Back
        | Key::Wheel { .. }
        | Key::Delete
        | Key::Synchronized(_)
        | Key::Ground { .. }
        | Key::Size { .. }
        | Key::Version(_)
        | Key::Answered
        | Key::Focus(_) => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keymap(bindings: &[(&str, &[&str])]) -> (Keymap, Vec<String>) {
        let owned = |(action, keys): &(&str, &[&str])| {
            ((*action).to_owned(), keys.iter().map(ToString::to_string).collect())
        };
        Keymap::new(&bindings.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_rebound_action_has_its_new_keys_and_not_its_default_key() {
        let (keymap, said) = keymap(&[("pager", &["alt-p", "ctrl-\\"]), ("editor", &["ctrl-g", "ctrl-x"])]);
        assert_eq!(said, ["ctrl-x is `editor` now and no longer the first of two keys"]);
        let turn = |key: Key| keymap.translate(&key);
        assert_eq!(turn(Key::Alt('p')), Some(Key::Ctrl('t')));
        assert_eq!(turn(Key::Ctrl('\\')), Some(Key::Ctrl('t')));
        assert_eq!(turn(Key::Ctrl('t')), None);
        assert_eq!(
            (turn(Key::Ctrl('g')), turn(Key::Ctrl('x'))),
            (Some(Key::Ctrl('g')), Some(Key::Ctrl('g')))
        );
        assert_eq!((turn(Key::Enter), turn(Key::Char('p'))), (Some(Key::Enter), Some(Key::Char('p'))));
        let help = keymap.help();
        assert!(
            help.iter().any(|(keys, what)| keys == "Alt-P Ctrl-\\" && what.contains("with search")),
            "{help:?}"
        );
    }

    #[test]
    fn invalid_bindings_are_left_out_and_conflicts_name_both_actions() {
        let (keymap, said) = keymap(&[
            ("pager", &["ctrl-y"]),
            ("editor", &["ctrl-y", "alt-e"]),
            ("pagr", &["ctrl-b"]),
            ("undo", &["ctrl-c", "x", "hyper-u", ""]),
        ]);
        assert_eq!(said.len(), 7, "{said:#?}");
        assert!(said[0].contains("`pager`") && said[0].contains("`editor`"), "{said:#?}");
        assert!(said[1].contains("no action `pagr`") && said[6].contains("no longer `yank`"), "{said:#?}");
        assert_eq!(keymap.translate(&Key::Ctrl('y')), Some(Key::Ctrl('t')));
        assert_eq!(keymap.translate(&Key::Alt('e')), Some(Key::Ctrl('g')));
        assert_eq!(keymap.translate(&Key::Ctrl('_')), Some(Key::Ctrl('_')), "it kept its usual key");
    }

    #[test]
    fn a_key_bound_to_a_command_loses_its_default_action() {
        let (keymap, said) = keymap(&[("/review src", &["alt-v", "ctrl-k"]), ("pager", &["alt-v"])]);
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(said[0].contains("it stays with `/review src`"), "{said:#?}");
        assert!(said[1].contains("no longer `kill-to-end`"), "{said:#?}");
        assert_eq!(keymap.command(&Key::Ctrl('k')), Some("/review src"));
        assert_eq!((keymap.translate(&Key::Alt('v')), keymap.command(&Key::Alt('x'))), (None, None));
        assert!(keymap.help().contains(&("Alt-V Ctrl-K".to_owned(), "run /review src".into())));
    }

    #[test]
    fn no_two_actions_share_a_default_key() {
        for (at, (one, key, _)) in ACTIONS.iter().enumerate() {
            for (other, same, _) in ACTIONS.iter().skip(at + 1) {
                assert!(key != same && one != other, "{one} and {other}");
            }
        }
    }
}
