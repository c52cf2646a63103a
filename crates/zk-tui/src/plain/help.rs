//! Text of `/help`.

use zk_core::kernel::Cx;
use zk_core::service::Command;

use crate::view::MARGIN;

/// Group of commands in the help, with short descriptions. Commands that a conversation lacks are left out.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const GROUPS: [Group; 4] = [
    (
        "Conversation",
        &[
            ("new", "begin anew"),
            ("resume", "go on with another"),
            ("tree", "branches; /back, /label"),
            ("fork", "go on in a copy"),
            ("btw", "ask beside it; /recap"),
            ("compact", "make it smaller"),
            ("context", "what fills the window"),
            ("copy", "the last answer"),
            ("show", "a result whole"),
            ("export", "write it as Markdown"),
            ("background", "let a command go on"),
            ("jobs", "commands behind"),
            ("exit", "end it (Ctrl-D too)"),
        ],
    ),
    (
        "Model",
        &[
            ("model", "choose another"),
            ("effort", "how much it thinks"),
            ("provider", "another service"),
            ("login", "sign in, or a key"),
            ("cost", "what was spent"),
        ],
    ),
    (
        "Project",
        &[
            ("init", "write AGENTS.md"),
            ("review", "have changes reviewed"),
            ("plan", "plan before changes"),
            ("goal", "until it is done; /loop"),
            ("undo", "files as before"),
            ("cd", "change it; /add-dir"),
            ("permissions", "what runs unasked"),
            ("skills", "skills there are"),
            ("agents", "sub-agents"),
            ("tools", "tools of the model"),
            ("mcp", "MCP servers"),
        ],
    ),
    (
        "zk",
        &[
            ("status", "all that holds now"),
            ("fleet", "all conversations"),
            ("backend", "another agent"),
            ("config", "settings, and edit"),
            ("theme", "colours; /screen"),
            ("reload", "read all anew"),
            ("help", "this list"),
        ],
    ),
];

/// Number of groups in the left of two columns.
const LEFT_GROUPS: usize = 2;

/// Commands that the help omits, since they are aliases or variants of another.
const UNLISTED: [&str; 18] = [
    "add-dir",
    "loop",
    "recap",
    "screen",
    "clear",
    "quit",
    "sessions",
    "models",
    "thinking",
    "history",
    "logout",
    "back",
    "label",
    "name",
    "uncompact",
    "redo",
    "done",
    "bug",
];

/// Lines about the keys of a drawn screen; `??` shows all keys.
const DRAWN: [&str; 2] = [
    "@ a file · ! your own command (!! unseen by the model) · ? keys · ?? all keys",
    "Enter sends or steers · Tab queues · Esc stops · Shift-Tab: permission mode · Ctrl-V an image",
];

/// Lines on keys of plain lines.
const PLAIN: [&str; 3] = [
    "!command runs one of your own; !!command does so unseen by the model",
    "Enter sends; during a run it keeps the text for the next prompt, or tries again at once",
    "Esc stops the run · Shift-Tab: the next permission mode · Ctrl-D or Ctrl-C twice ends",
];

/// Minimum width of the help in two columns.
const MIN_TWO_COLUMN_WIDTH: usize = 78;

/// Width of the column with the names, in columns.
const NAME_COLUMNS: usize = 16;

/// Help on commands and keys for a terminal of `width` columns: at most 24 lines in two columns.
pub fn help(cx: &Cx, is_drawn: bool, width: usize) -> String {
    let commands = cx.items::<dyn Command>();
    let names: Vec<String> = commands.iter().map(|command| command.name.to_string()).collect();
    // A drawn screen has the text at its margin.
    help_of(&names, is_drawn, if is_drawn { width.saturating_sub(MARGIN.len()) } else { width })
}

fn help_of(names: &[String], is_drawn: bool, width: usize) -> String {
    let is_known = |name: &str| names.iter().any(|known| known == name);
    let of_groups = |groups: &[Group]| {
        let mut lines = Vec::new();
        for (title, entries) in groups {
            let entries: Vec<String> = entries
                .iter()
                .filter(|(name, _)| is_known(name))
                .map(|(name, what)| format!("  {:<pad$}{what}", format!("/{name}"), pad = NAME_COLUMNS - 2))
                .collect();
            if !entries.is_empty() {
                lines.push((*title).to_owned());
                lines.extend(entries);
            }
        }
        lines
    };
    let (left, right) = GROUPS.split_at(LEFT_GROUPS);
    let (mut lines, right) = (of_groups(left), of_groups(right));
    if width < MIN_TWO_COLUMN_WIDTH {
        lines.extend(right);
    } else {
        let rows = lines.len().max(right.len());
        let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
        let both = |at| format!("{:<half$}{}", line(&lines, at), line(&right, at), half = width / 2);
        lines = (0..rows).map(|at| both(at).trim_end().to_owned()).collect();
    }
    lines.extend(other_commands_line(names, width));
    let keys: &[&str] = if is_drawn { &DRAWN } else { &PLAIN };
    keys.iter().for_each(|key| push_broken(key, width, &mut lines));
    lines.join("\n")
}

/// A line on the commands of skills, files, servers and plugins.
fn other_commands_line(names: &[String], width: usize) -> Option<String> {
    let is_listed = |name: &str| {
        UNLISTED.contains(&name)
            || GROUPS.iter().any(|(_, entries)| entries.iter().any(|(of, _)| *of == name))
    };
    let mut rest = names.iter().filter(|name| !is_listed(name)).peekable();
    rest.peek()?;
    let mut line = "More".to_owned();
    while let Some(name) = rest.next() {
        let left = rest.clone().count();
        let room = width.saturating_sub(if left > 0 { 22 } else { 0 });
        if line.chars().count() + name.chars().count() + 3 > room {
            line.push_str(&format!("  … {} more: type /", left + 1));
            break;
        }
        line.push_str(&format!("  /{name}"));
    }
    Some(line)
}

/// Appends a line, broken at its separators if too long.
fn push_broken(text: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = String::new();
    for part in text.split(" · ") {
        let columns = line.chars().count() + 3 + part.chars().count();
        if !line.is_empty() && columns > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push_str(" · ");
        }
        line.push_str(part);
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<String> {
        let own = GROUPS.iter().flat_map(|(_, entries)| entries.iter().map(|(name, _)| *name));
        own.chain(UNLISTED).map(str::to_owned).collect()
    }

    #[test]
    fn every_command_fits_a_screen_of_24_rows_in_two_columns() {
        let mut names = every();
        names.extend((0..30).map(|at| format!("skill:number-{at}")));
        let help = help_of(&names, true, MIN_TWO_COLUMN_WIDTH);
        let lines: Vec<&str> = help.lines().collect();
        assert!(lines.len() <= 24, "{}\n{help}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= MIN_TWO_COLUMN_WIDTH), "{help}");
        let what = GROUPS.iter().flat_map(|(_, entries)| entries.iter().map(|(_, what)| *what));
        assert!(what.clone().all(|what| what.len() + NAME_COLUMNS < 40), "{help}");
        for (_, entries) in GROUPS {
            for (name, what) in entries {
                assert!(help.contains(&format!("/{name} ")) && help.contains(what), "{name}\n{help}");
            }
        }
        assert!(help.contains("/skill:number-0") && help.contains("more: type /"), "{help}");
    }

    #[test]
    fn a_command_stands_below_the_heading_of_what_it_is_about() {
        let help = help_of(&every(), true, 60);
        let heading = |name: &str| {
            let before = help.split(&format!("\n  /{name} ")).next().unwrap_or_default();
            before.lines().rfind(|line| !line.starts_with(' ')).map(str::to_owned)
        };
        for (name, expected) in
            [("resume", "Conversation"), ("effort", "Model"), ("cd", "Project"), ("config", "zk")]
        {
            assert_eq!(heading(name).as_deref(), Some(expected), "{help}");
        }
    }

    #[test]
    fn a_narrow_screen_has_one_column_and_what_no_conversation_has_is_left_out() {
        let help = help_of(&["new".to_owned(), "model".to_owned()], false, 60);
        let lines: Vec<&str> = help.lines().collect();
        let first = ["Conversation", "  /new          begin anew", "Model"];
        assert_eq!(lines[..3], first, "{help}");
        assert!(!help.contains("/plan") && lines.iter().all(|line| line.chars().count() <= 88), "{help}");
    }
}
