//! Commands that leave a run as it is: they are done beside it.

use tokio::sync::mpsc::UnboundedSender;
use zk_core::service::{Command, CommandOutcome, match_command};

use super::worker::{Note, Opened};

/// Commands that only show something, and change at most how the conversation is drawn and what runs without asking.
const HARMLESS: [&str; 10] =
    ["cd", "context", "help", "history", "models", "permissions", "screen", "sessions", "show", "tools"];

/// Commands that show something unless they are told more.
const HARMLESS_ALONE: [&str; 4] = ["jobs", "model", "provider", "thinking"];

/// Whether a line is a command that can be done while a run goes on.
pub(super) fn is_harmless(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    HARMLESS.contains(&name) || HARMLESS_ALONE.contains(&name) && args.trim().is_empty()
}

/// Runs such a command, and tells the screen what it says.
pub(super) fn run(opened: &Opened, line: String, notes: UnboundedSender<Note>) {
    let cx = opened.conversation.command_cx();
    let rest = line.trim_start_matches('/').to_owned();
    let running = async move {
        let text = match match_command(&rest, |name| cx.item::<dyn Command>(name)) {
            None => format!("there is no command `{line}`; /help lists them"),
            Some((command, args)) => match command.run(args, &cx).await {
                Ok(CommandOutcome::Show(text)) => text,
                Ok(CommandOutcome::Done | CommandOutcome::Prompt(_) | CommandOutcome::Quit) => String::new(),
                Err(error) => error.to_string(),
            },
        };
        // The screen may have ended.
        let _ = notes.send(Note::Beside { line, text });
    };
    tokio::spawn(running);
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn only_what_leaves_the_run_as_it_is_runs_beside_it() {
        for line in ["/cd src", "/help", "/show 3", "/screen plain", "/permissions auto", "/model", "/jobs "]
        {
            assert!(is_harmless(line), "{line}");
        }
        for line in ["/compact", "/new", "/model opus", "/jobs kill j1", "!ls", "help", "/helpless", "/"] {
            assert!(!is_harmless(line), "{line}");
        }
    }
}
