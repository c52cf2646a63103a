//! Commands that leave a run as it is: they are done beside it.

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use zk_agent::AgentConversation;
use zk_core::service::{Command, CommandOutcome, match_command};
use zk_skills::CommandFilesPlugin;
use zk_view::{Effect, Intent};

use super::chat::Chat;
use super::line::{load_body, refresh_files};
use super::screen_kind::ScreenKind;
use super::worker::{Note, Opened};
use crate::mode::OWN_COMMANDS;
use crate::term::Style;

/// Commands that only show something, and change at most how the conversation is drawn and what runs without asking.
const HARMLESS: [&str; 10] =
    ["cd", "context", "help", "history", "models", "permissions", "screen", "sessions", "show", "tools"];

/// Commands that show something unless they are told more.
const HARMLESS_ALONE: [&str; 4] = ["jobs", "model", "provider", "thinking"];

/// Verbs of `/jobs` that can be used beside a run, as in the list of jobs on a drawn screen.
const HARMLESS_OF_JOBS: [&str; 3] = ["kill", "list", "tail"];

/// Whether a line is a command that can be done while a run goes on.
pub(super) fn is_harmless(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    HARMLESS.contains(&name)
        || HARMLESS_ALONE.contains(&name) && args.trim().is_empty()
        || name == "jobs"
            && args.split_whitespace().next().is_some_and(|verb| HARMLESS_OF_JOBS.contains(&verb))
}

/// Runs a command that works during a run, and returns its output.
async fn output(conversation: &AgentConversation, line: &str) -> String {
    let cx = conversation.command_cx();
    match match_command(line.trim_start_matches('/'), |name| cx.item::<dyn Command>(name)) {
        None => format!("there is no command `{line}`; /help lists them"),
        Some((command, args)) => match command.run(args, &cx).await {
            Ok(CommandOutcome::Show(text)) => text,
            Ok(
                CommandOutcome::Done
                | CommandOutcome::Prompt(_)
                | CommandOutcome::Quit
                | CommandOutcome::Reload,
            ) => String::new(),
            Err(error) => error.to_string(),
        },
    }
}

/// Runs such a command, and tells the screen what it says.
pub(super) fn run(opened: &Opened, line: String, notes: UnboundedSender<Note>) {
    let conversation = opened.conversation.clone();
    let running = async move {
        let text = output(&conversation, &line).await;
        // The screen may have ended.
        let _ = notes.send(Note::Beside { line, text });
    };
    tokio::spawn(running);
}

/// Whether a line is a command of a file, a plugin or a server, which may make a prompt. A skill is part of a prompt itself.
pub(super) fn makes_prompt(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().filter(|_| !rest.starts_with(char::is_whitespace));
    name.is_some_and(|name| !name.starts_with("skill:") && !OWN_COMMANDS.contains(&name))
}

/// Runs such a command, and tells the screen the prompt that it makes, or what it says.
pub(super) fn make_prompt(opened: &Opened, line: String, steers: bool, notes: UnboundedSender<Note>) {
    let conversation = opened.conversation.clone();
    let running = async move {
        let note = match prompt_of(&conversation, &line, steers).await {
            Ok(Some(text)) if steers => Note::Prompt(Intent::Steer { text }),
            Ok(Some(text)) => Note::Prompt(Intent::Submit { text }),
            Ok(None) => Note::Beside { line, text: String::new() },
            Err(text) => Note::Beside { line, text },
        };
        // The screen may have ended.
        let _ = notes.send(note);
    };
    tokio::spawn(running);
}

/// The prompt that a command makes, if it makes one. The text of a command file is put in its place where the prompt steers: one
/// that waits gets it when its run begins.
async fn prompt_of(
    conversation: &AgentConversation,
    line: &str,
    steers: bool,
) -> Result<Option<String>, String> {
    let cx = conversation.command_cx();
    refresh_files(&cx).await;
    let rest = line.trim_start_matches('/');
    let prompt = match match_command(rest, |name| cx.item::<dyn Command>(name)) {
        // Something like `/etc/hosts` is the beginning of a prompt.
        None if rest.split_whitespace().next().is_some_and(|name| name.contains('/')) => line.to_owned(),
        None => return Err(format!("there is no command `{line}`; /help lists them")),
        Some((command, args)) => match command.run(args, &cx).await {
            Ok(CommandOutcome::Prompt(text)) => text,
            Ok(CommandOutcome::Show(text)) => return Err(text),
            Ok(CommandOutcome::Done) => return Ok(None),
            Ok(CommandOutcome::Quit | CommandOutcome::Reload) => {
                return Err("this waits for the end of the run: Esc stops it".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        },
    };
    let files = cx.service::<CommandFilesPlugin>().filter(|_| steers);
    let Some(files) = files else { return Ok(Some(prompt)) };
    let text = files.prompt_of(&prompt, &cx).await.map_err(|error| error.to_string())?;
    Ok(Some(text.unwrap_or(prompt)))
}

impl Chat {
    /// Awaits `work`, and does such commands that are typed meanwhile, where a conversation is drawn in lines.
    pub(super) async fn do_beside<T>(&self, stop: &CancellationToken, work: impl Future<Output = T>) -> T {
        let Ok(mut typed) = self.beside.try_lock() else { return work.await };
        let over = CancellationToken::new();
        let working = async {
            let worked = work.await;
            over.cancel();
            worked
        };
        let beside = async {
            while let Some(Some(line)) = over.run_until_cancelled(typed.recv()).await {
                self.command_beside(&line, stop).await;
            }
        };
        tokio::join!(working, Box::pin(beside)).0
    }

    /// Runs the commands still in the channel after the keyboard stopped listening.
    pub(super) async fn do_left(&self) {
        let Ok(mut typed) = self.beside.try_lock() else { return };
        while let Ok(line) = typed.try_recv() {
            self.command_beside(&line, &CancellationToken::new()).await;
        }
    }

    async fn command_beside(&self, line: &str, stop: &CancellationToken) {
        self.echo(line);
        let Some(text) = stop.run_until_cancelled(output(&self.conversation, line)).await else {
            return self.screen.line(Style::Yellow, &format!("stopped: {line} was not done to its end"));
        };
        text.lines().for_each(|line| self.screen.line(Style::Plain, line));
        let loads = |effect: &Effect| matches!(effect, Effect::LoadBody { .. });
        while let Some(Effect::LoadBody { id }) = self.view.take_effect_where(loads) {
            if !load_body(&self.view, &self.sessions, &id).await {
                self.screen.line(Style::Yellow, "this output is not kept any more");
            }
        }
        if self.wanted.peek().is_some_and(|kind| kind != ScreenKind::Plain) {
            self.screen.line(Style::Dim, "the other screen follows at the end of this run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_harmless, makes_prompt};

    #[test]
    fn commands_that_are_none_of_zk_may_make_a_prompt() {
        for (line, expected) in [
            ("/review src", true),
            ("/git commit", true),
            ("/etc/hosts is wrong", true),
            ("/compact", false),
            ("/skill:pdf page", false),
            ("/ review", false),
            ("!ls", false),
            ("review", false),
        ] {
            assert_eq!(makes_prompt(line), expected, "{line}");
        }
    }

    #[test]
    fn only_what_leaves_the_run_as_it_is_runs_beside_it() {
        for line in [
            "/cd src",
            "/help",
            "/show 3",
            "/screen plain",
            "/permissions auto",
            "/model",
            "/jobs ",
            "/jobs tail j1",
            "/jobs kill j1",
        ] {
            assert!(is_harmless(line), "{line}");
        }
        for line in ["/compact", "/new", "/model opus", "/jobs start ls", "!ls", "help", "/helpless", "/"] {
            assert!(!is_harmless(line), "{line}");
        }
    }
}
