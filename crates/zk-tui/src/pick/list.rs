use std::sync::Arc;

use super::fuzzy::best;
use crate::row::{Row, Style};

/// Rows of a list that are shown at once.
const MAX_LIST_ROWS: usize = 8;

/// Names that are ranked: who wants others types another letter.
const MAX_RANKED: usize = 200;

/// Kind of word that a person may be about to type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A command of the conversation, without its `/`.
    Command,
    /// An argument of this command.
    Argument(String),
    /// A path, without its `@`.
    File,
    /// A program that a command of the person's own begins with, after `!`.
    Program,
    /// A path within a command of the person's own.
    ShellWord,
}

/// Names there are for what is asked, and a few words for some of them.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// The names, in the order in which they are shown while nothing is typed.
    pub names: Arc<[String]>,
    /// Remark on each name, if there is any; as long as the names, or empty.
    pub notes: Arc<[String]>,
    /// Remark below the names, such as that there are others, if there is one.
    pub remark: Option<Arc<str>>,
}

/// Gives the names of what a person may be about to type. It answers at once, with what it knows by then.
pub type Completer = Box<dyn Fn(&Asked) -> Offered + Send>;

/// Returns what is asked by a text before the caret, where the word begins that a choice replaces, and the
/// part of it that is looked for.
pub(crate) fn asked(before: &str) -> Option<(Asked, usize, &str)> {
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let word = before.get(from..).unwrap_or_default();
    if let Some(path) = word.strip_prefix('@') {
        return Some((Asked::File, from + 1, path));
    }
    if let Some(name) = word.strip_prefix('/').filter(|name| from == 0 && !name.contains('/')) {
        return Some((Asked::Command, 1, name));
    }
    if before.starts_with('!') {
        let from = from.max(before.len() - before.trim_start_matches('!').len());
        let word = before.get(from..).unwrap_or_default();
        // Behind a pipe, and behind what else ends a command, another one begins.
        let is_first =
            before.get(..from).is_some_and(|before| before.trim_end().ends_with(['!', '|', '&', ';', '(']));
        let asked = if is_first && !word.contains('/') { Asked::Program } else { Asked::ShellWord };
        return Some((asked, from, word));
    }
    let (command, argument) = before.strip_prefix('/')?.split_once(' ')?;
    let is_one = !argument.contains(char::is_whitespace) && !command.contains('/');
    is_one.then(|| (Asked::Argument(command.to_owned()), before.len() - argument.len(), argument))
}

/// A path as it is typed: in quotes where a blank would end it.
pub(crate) fn quoted(path: &str) -> String {
    match (path.contains(char::is_whitespace), path.contains('"')) {
        (false, _) => path.to_owned(),
        (true, false) => format!("\"{path}\""),
        (true, true) => format!("'{path}'"),
    }
}

/// Names that fit what is typed, one of which may be chosen.
#[derive(Debug)]
pub(crate) struct List {
    asked: Asked,
    offered: Offered,
    /// Beginning of the word in the text.
    from: usize,
    query: String,
    found: Vec<usize>,
    chosen: usize,
    /// Whether the person moved in it: Enter chooses then.
    is_moved: bool,
}

impl List {
    /// The names for what stands before the caret; nothing where none fit and there is no remark. `old` is the list that was shown before.
    pub(crate) fn of(before: &str, old: Option<Self>, completer: &Completer) -> Option<Self> {
        let (asked, from, query) = asked(before)?;
        // Files may have come since; commands and their arguments stay while one is typed.
        let offered = match old {
            Some(old) if old.asked == asked && old.from == from && asked != Asked::File => old.offered,
            Some(_) | None => completer(&asked),
        };
        let found = best(query, &offered.names, MAX_RANKED);
        let is_complete =
            matches!(found.as_slice(), [only] if offered.names.get(*only).is_some_and(|name| name == query));
        // A name that fits may be one of those that are not offered.
        if found.is_empty() && offered.remark.is_none() || is_complete {
            return None;
        }
        let query = query.to_owned();
        Some(Self { asked, offered, from, query, found, chosen: 0, is_moved: false })
    }

    /// Whether no name fits, so that there is only a remark.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether there is nothing to choose from.
    pub(crate) fn is_only(&self) -> bool {
        self.found.len() == 1
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Goes to another name.
    pub(crate) fn go(&mut self, back: bool) {
        let count = self.found.len();
        self.is_moved = true;
        self.chosen =
            if back { (self.chosen + count - 1) % count.max(1) } else { (self.chosen + 1) % count.max(1) };
    }

    /// Returns the beginning of the word, and what to put in its place: the name that is chosen, and what
    /// follows it.
    pub(crate) fn choice(&self) -> Option<(usize, String)> {
        let name = self.offered.names.get(*self.found.get(self.chosen)?)?;
        let is_path = matches!(self.asked, Asked::File | Asked::ShellWord);
        let name = if is_path { quoted(name) } else { name.clone() };
        let goes_on = name.ends_with('/') && is_path;
        Some((self.from, if goes_on { name } else { format!("{name} ") }))
    }

    pub(crate) fn rows(&self, width: usize) -> Vec<Row> {
        let first = self.chosen.saturating_sub(MAX_LIST_ROWS - 1);
        let shown: Vec<(usize, &usize)> =
            self.found.iter().enumerate().skip(first).take(MAX_LIST_ROWS).collect();
        let name = |at: &usize| self.offered.names.get(*at).map_or("", String::as_str);
        // As it is drawn: what is not harmless has no columns.
        let columns = |text: &str| Row::of(Style::PLAIN, text).columns();
        let room = shown.iter().map(|(_, at)| columns(name(at))).max().unwrap_or_default().min(width / 2);
        let mut rows: Vec<Row> = shown
            .into_iter()
            .map(|(place, at)| {
                let is_chosen = place == self.chosen;
                let style = if is_chosen { Style { bold: true, ..Style::CYAN } } else { Style::CYAN };
                let mark = if is_chosen { "❯ " } else { "  " };
                let row = Row::of(style, mark).with(style, name(at));
                let Some(note) = self.offered.notes.get(*at).filter(|note| !note.is_empty()) else {
                    return row;
                };
                let pad = " ".repeat(2 + room.saturating_sub(columns(name(at))));
                let room = width.saturating_sub(row.columns() + pad.len());
                let mut row = row.with(Style::DIM, &pad);
                row.append(&Row::of(Style::DIM, note).clipped(room));
                row
            })
            .collect();
        if self.found.len() > MAX_LIST_ROWS {
            let more =
                if self.found.len() >= MAX_RANKED { "many".to_owned() } else { self.found.len().to_string() };
            rows.push(Row::of(
                Style::DIM,
                &format!("  {more} fit `{}` · ↑↓ chooses · Tab takes it", self.query),
            ));
        }
        if let Some(remark) = &self.offered.remark {
            rows.push(Row::of(Style::DIM, &format!("  {remark}")).clipped(width));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_blank_is_chosen_in_quotes() {
        let names: Arc<[String]> = ["docs/my notes.md".to_owned()].into();
        let completer: Completer = Box::new(move |_| Offered { names: names.clone(), ..Offered::default() });
        let list = List::of("see @notes", None, &completer).unwrap();
        assert_eq!(list.choice(), Some((5, "\"docs/my notes.md\" ".to_owned())));
        assert_eq!(quoted("a \"b\".md"), "'a \"b\".md'");
    }

    #[test]
    fn a_remark_stands_below_the_names_also_where_none_fits() {
        let names: Arc<[String]> = ["src/main.rs".to_owned()].into();
        let offered = Offered { names, remark: Some("there are others".into()), ..Offered::default() };
        let completer: Completer = Box::new(move |_| offered.clone());
        let shown = |typed: &str| {
            let list = List::of(typed, None, &completer).unwrap();
            let rows = list.rows(40);
            let is_told = rows.last().is_some_and(|row| row.text().contains("there are others"));
            (list.is_empty(), rows.len(), is_told)
        };
        assert_eq!(shown("see @main"), (false, 2, true));
        assert_eq!(shown("see @zzz"), (true, 1, true));
    }

    #[test]
    fn what_stands_before_the_caret_says_what_is_asked() {
        let argument = |command: &str| Asked::Argument(command.to_owned());
        for (before, expected) in [
            ("/mo", Some((Asked::Command, 1, "mo"))),
            ("/", Some((Asked::Command, 1, ""))),
            ("/etc/ho", None),
            ("/model cl", Some((argument("model"), 7, "cl"))),
            ("/model ", Some((argument("model"), 7, ""))),
            ("/model a b", None),
            ("see @src/ma", Some((Asked::File, 5, "src/ma"))),
            ("see /mo", None),
            ("!ls sr", Some((Asked::ShellWord, 4, "sr"))),
            ("!!ls", Some((Asked::Program, 2, "ls"))),
            ("! ls", Some((Asked::Program, 2, "ls"))),
            ("!./ru", Some((Asked::ShellWord, 1, "./ru"))),
            ("!ls | gr", Some((Asked::Program, 6, "gr"))),
            ("!make && ./ru", Some((Asked::ShellWord, 9, "./ru"))),
            ("words", None),
            ("", None),
        ] {
            assert_eq!(asked(before), expected, "{before}");
        }
    }
}
