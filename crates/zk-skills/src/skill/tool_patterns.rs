//! Tool restrictions of skills in use.

use serde_json::Value;
use zk_core::service::foreign_server_names;

/// Tool names of other programs, with zk's names.
const ALIASES: [(&str, &[&str]); 12] = [
    ("bash", &["shell", "jobs"]),
    ("read", &["read_file"]),
    ("write", &["write_file"]),
    ("edit", &["edit", "multi_edit"]),
    ("multiedit", &["multi_edit"]),
    ("grep", &["grep"]),
    ("glob", &["glob", "list_files"]),
    ("ls", &["list_files"]),
    ("webfetch", &["fetch"]),
    ("task", &["spawn"]),
    ("todowrite", &["todo_read", "todo_write"]),
    ("askuserquestion", &["ask_user"]),
];

/// Tools that have the name `name` in zk or in other programs.
pub(crate) fn tools_called(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    match ALIASES.iter().find(|(alias, _)| *alias == lower) {
        Some((_, tools)) => tools.iter().map(ToString::to_string).collect(),
        None => vec![name.to_owned()],
    }
}

/// Shell syntax by which a line has several commands, or nested ones.
const OPERATORS: [&str; 9] = [";", "&", "|", "\n", "`", "$(", "<(", ">(", ">"];

/// Whether one of `patterns` allows the call: `Read`, `Bash(git:*)`, `Bash(git status)`, `mcp__files__*`.
pub(crate) fn is_allowed<'a>(patterns: impl IntoIterator<Item = &'a str>, tool: &str, args: &Value) -> bool {
    patterns.into_iter().any(|pattern| matches(pattern, tool, args))
}

fn matches(pattern: &str, tool: &str, args: &Value) -> bool {
    let (name, inner) = match pattern.split_once('(') {
        Some((name, rest)) => (name, Some(rest.trim_end_matches(')').trim())),
        None => (pattern, None),
    };
    if !matches_tool(name.trim(), tool) {
        return false;
    }
    match inner {
        None | Some("" | "*" | ":*") => true,
        Some(inner) => allows_command(inner, args.get("command").and_then(Value::as_str)),
    }
}

fn matches_tool(name: &str, tool: &str) -> bool {
    is_name_of(name, tool) || foreign_server_names(tool).any(|tool| is_name_of(name, &tool))
}

fn is_name_of(name: &str, tool: &str) -> bool {
    if let Some(beginning) = name.strip_suffix('*') {
        return tool.starts_with(beginning);
    }
    let lower = name.to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == lower);
    alias.is_some_and(|(_, tools)| tools.contains(&tool)) || name.eq_ignore_ascii_case(tool)
}

/// Whether a command line is a single command that `inner` allows: `git:*` allows `git` with any arguments.
fn allows_command(inner: &str, command: Option<&str>) -> bool {
    let Some(command) = command.map(str::trim) else { return false };
    if OPERATORS.iter().any(|operator| command.contains(operator)) {
        return false;
    }
    let beginning = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    match (beginning, inner.strip_suffix('*')) {
        (Some(words), _) => command
            .strip_prefix(words)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)),
        (None, Some(beginning)) => command.starts_with(beginning),
        (None, None) => command == inner,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_allow_what_they_say_and_no_second_command() {
        let shell =
            |pattern: &str, command: &str| is_allowed([pattern], "shell", &json!({ "command": command }));
        for (pattern, command, allowed) in [
            ("Bash", "rm -rf /; ls", true),
            ("Bash(*)", "rm -rf /", true),
            ("Bash(git:*)", "git status", true),
            ("Bash(git:*)", "git", true),
            ("Bash(git:*)", "gitk", false),
            ("Bash(git:*)", "git status; rm -rf /", false),
            ("Bash(git:*)", "git log | sh", false),
            ("Bash(git:*)", "git log $(rm x)", false),
            ("Bash(git status)", "git status", true),
            ("Bash(git status)", "git status -s", false),
            ("Bash(npm run test *)", "npm run test unit", true),
            ("Read", "cat x", false),
        ] {
            assert_eq!(shell(pattern, command), allowed, "{pattern} {command}");
        }
        let none = json!({});
        assert!(is_allowed(["Grep", "Read"], "read_file", &none));
        assert!(is_allowed(["read_file"], "read_file", &none) && is_allowed(["Edit"], "multi_edit", &none));
        assert!(
            is_allowed(["mcp__files__*"], "mcp_files_list", &none)
                && !is_allowed(["mcp__files__*"], "mcp_filesystem_list", &none)
                && !is_allowed(["mcp__f"], "mcp_files", &none)
        );
    }
}
