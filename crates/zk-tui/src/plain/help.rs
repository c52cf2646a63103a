//! Text of `/help`.

use zk_core::kernel::Cx;
use zk_core::service::Command;

/// zk's own commands by what they are for, the others come last.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "conversation",
        &[
            "new",
            "clear",
            "resume",
            "sessions",
            "tree",
            "compact",
            "uncompact",
            "context",
            "history",
            "copy",
            "show",
            "quit",
        ],
    ),
    ("model", &["model", "models", "provider", "login", "thinking"]),
    ("work", &["permissions", "tools", "jobs", "reload"]),
    ("screen", &["screen", "help"]),
];

/// Input beside prompts and commands, whatever draws the conversation.
const TYPED: [(&str, &str); 2] = [
    ("!command", "run a command of your own; the model sees its output"),
    ("!!command", "the same, and the model does not see it"),
];

/// The keys of a drawn screen; `?` lists all of them.
const DRAWN: [(&str, &str); 9] = [
    ("@path", "name a file: a list opens while you type"),
    ("Enter", "send; during a run: steer it"),
    ("Tab", "complete; during a run: queue the text behind it"),
    ("Esc", "stop the run; what is typed stays"),
    ("Ctrl-O", "choose commands, models, sessions, prompts, files, sub-agents, jobs"),
    ("Ctrl-T", "all of the conversation, with search"),
    ("Shift-Tab", "the next permission mode"),
    ("Ctrl-D", "end the conversation; so does Ctrl-C twice"),
    ("?", "alone: all keys; keys.toml beside settings.toml changes them"),
];

/// Keys of plain lines.
const PLAIN: [(&str, &str); 4] = [
    ("Enter", "send; during a run: keep the text for the next prompt, as Tab does, or try again at once"),
    ("Esc", "stop the run; what is typed meanwhile waits at the prompt"),
    ("Shift-Tab", "the next permission mode"),
    ("Ctrl-D", "end the conversation; so does Ctrl-C twice"),
];

/// The commands and keys there are, for a terminal of `width` columns.
pub fn help(cx: &Cx, is_drawn: bool, width: usize) -> String {
    let commands = cx.items::<dyn Command>();
    let mut rest: Vec<(String, String)> =
        commands.iter().map(|command| (command.name.to_string(), command.value.help().to_owned())).collect();
    let mut groups: Vec<(&str, Vec<(String, String)>)> = Vec::new();
    for (title, names) in GROUPS {
        let take = |name: &&str| {
            let at = rest.iter().position(|(known, _)| known == name)?;
            let (name, help) = rest.remove(at);
            Some((format!("/{name}"), help))
        };
        groups.push((title, names.iter().filter_map(take).collect()));
    }
    let others = rest.into_iter().map(|(name, help)| (format!("/{name}"), help)).collect();
    groups.push(("skills, command files and plugins", others));
    let keys: &[(&str, &str)] = if is_drawn { &DRAWN } else { &PLAIN };
    let owned = |(key, what): &(&str, &str)| ((*key).to_owned(), (*what).to_owned());
    groups.push(("typing", TYPED.iter().chain(keys).map(owned).collect()));
    groups.retain(|(_, lines)| !lines.is_empty());
    let mut out = Vec::new();
    for (title, lines) in groups {
        out.push(title.to_owned());
        lines.iter().for_each(|(name, what)| entry(name, what, width, &mut out));
    }
    out.join("\n")
}

/// Columns before what is said of a name.
const INDENT_COLUMNS: usize = 16;

/// Appends a name and what there is to say of it, broken at words.
fn entry(name: &str, what: &str, width: usize, out: &mut Vec<String>) {
    let room = width.saturating_sub(INDENT_COLUMNS).max(20);
    let mut line = format!("  {name:<pad$}", pad = INDENT_COLUMNS - 2);
    if name.chars().count() >= INDENT_COLUMNS - 2 {
        out.push(line.trim_end().to_owned());
        line = " ".repeat(INDENT_COLUMNS);
    }
    let mut taken = 0;
    for word in what.split_whitespace() {
        let columns = word.chars().count();
        if taken > 0 && taken + 1 + columns > room {
            out.push(std::mem::replace(&mut line, " ".repeat(INDENT_COLUMNS)));
            taken = 0;
        }
        if taken > 0 {
            line.push(' ');
            taken += 1;
        }
        line.push_str(word);
        taken += columns;
    }
    out.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_broken_at_words_and_a_long_name_has_a_line_of_its_own() {
        let mut out = Vec::new();
        entry("/new", "begin a new conversation; the present one stays saved", 40, &mut out);
        entry("/a-command-with-a-name", "does it", 40, &mut out);
        assert_eq!(
            out,
            [
                "  /new          begin a new",
                "                conversation; the",
                "                present one stays saved",
                "  /a-command-with-a-name",
                "                does it",
            ]
        );
        assert!(out.iter().all(|line| line.chars().count() <= 40));
    }
}
