use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::cli::{Cli, GLOBAL};

/// Global options with the commands that use them. The help of other commands omits them.
const USERS: [(&str, &[&str]); 10] = [
    ("provider", &["models", "doctor", "context", "prompt", "auth", "acp", "shell", "worker"]),
    ("model", &["doctor", "context", "prompt", "acp", "shell", "worker"]),
    ("base_url", &["models", "doctor", "acp", "shell", "worker"]),
    ("api_key", &["models", "doctor", "acp", "shell", "worker"]),
    ("preset", &["context", "prompt", "acp", "shell", "fleet", "worker", "handoff"]),
    ("permission_mode", &["policy", "doctor", "acp", "shell", "worker"]),
    ("mcp_config", &["mcp", "acp", "shell"]),
    ("plugin_dir", &["plugin", "skills", "hooks", "mcp", "doctor", "context", "prompt"]),
    ("log", &["models", "doctor", "mcp", "acp", "rpc", "web", "shell", "worker"]),
    ("verbose", &[]),
];

/// Prints the help of the subcommand in a command line; returns false if there is none.
pub fn print(words: impl IntoIterator<Item = String>) -> bool {
    let (mut at, mut is_below) = (command(), false);
    for word in words {
        if let Some(inner) = at.find_subcommand(&word).cloned() {
            (at, is_below) = (inner, true);
        }
    }
    if is_below {
        // Standard output may be closed.
        let _ = at.print_long_help();
    }
    is_below
}

/// Advice on an invalid command line, if the parser's message is not enough.
#[must_use]
pub fn usage_hint(error: &clap::Error) -> Option<&'static str> {
    let invalid = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(invalid)) => invalid.as_str(),
        Some(_) | None => return None,
    };
    // A command has its own arguments.
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let takes_prompt = usage.is_none_or(|usage| usage.contains("PROMPT"));
    match error.kind() {
        ErrorKind::UnknownArgument if matches!(invalid, "-y" | "--yes" | "--yolo") && takes_prompt => Some(
            "zk: no short flag lifts every question: --permission-mode auto runs what the sandbox bounds, \
             --permission-mode accept-edits changes files of the workspace, --allow-all runs everything",
        ),
        ErrorKind::UnknownArgument if !invalid.starts_with('-') && takes_prompt => {
            Some("zk: put a prompt of several words in quotes: zk -p \"what is this\"")
        }
        ErrorKind::InvalidValue if invalid.starts_with("--resume") => {
            Some("zk: --resume needs an ID; `zk sessions` lists them, and --continue takes the newest")
        }
        _ => None,
    }
}

/// Help of the subcommand with exactly these names.
pub fn text(words: &[String]) -> Option<String> {
    let mut at = command();
    for word in words {
        at = at.find_subcommand(word)?.clone();
    }
    (!words.is_empty()).then(|| at.render_long_help().to_string())
}

/// Command line whose subcommands list only the options that apply to them.
pub fn command() -> Command {
    let mut command = Cli::command();
    // Building passes the global options to the subcommands.
    command.build();
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(&name, |one| belonging(one, &name));
    }
    command
}

fn belonging(mut command: Command, name: &str) -> Command {
    let global: Vec<(String, String)> = command
        .get_arguments()
        .filter(|arg| arg.get_help_heading() == Some(GLOBAL))
        .map(|arg| (arg.get_id().to_string(), arg.get_long().unwrap_or_default().to_owned()))
        .collect();
    let mut counting = Vec::new();
    for (id, long) in global {
        let users = USERS.iter().find(|(of, _)| *of == id);
        if users.is_none_or(|(_, users)| users.contains(&name)) {
            counting.push(format!("--{long}"));
        }
        command = command.mut_arg(id, |arg| arg.hide(true));
    }
    if !counting.is_empty() {
        let line = format!("{GLOBAL} that count here: {}. `zk --help` explains them.", counting.join(", "));
        command = command.after_help(line);
    }
    let inner: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for one in inner {
        command = command.mut_subcommand(one, |inner| belonging(inner, name));
    }
    command
}

/// Reference of the command line in Markdown: the help of each command.
pub fn reference() -> String {
    let mut page = "# Command line\n\nThe help of each command, as `--help` prints it.\n".to_owned();
    describe(&mut command(), "zk", &mut page);
    page
}

fn describe(command: &mut Command, path: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a string never fails.
    let _ = write!(page, "\n## `{path}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help" || path == "zk") {
        let path = format!("{path} {}", inner.get_name());
        describe(inner, &path, page);
    }
}
