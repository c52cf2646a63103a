use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use zk_chat::TerminalLoans;
use zk_core::model::{Approved, CallKind, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Redactor, Tool, ToolCx};

use super::read_shell::last_lines;
use crate::line::Phase;
use crate::pump::{Shared, SharedState, write_all};
use crate::shell_access::ShellAccess;

/// Time after which a command counts as still running.
const END_WAIT: Duration = Duration::from_secs(30);

/// Time for the shell to draw a prompt.
const PROMPT_WAIT: Duration = Duration::from_millis(500);

/// Lines of output in the result.
const RESULT_LINES: usize = 400;

/// Beginning and end of a bracketed paste.
const PASTE: (&str, &str) = ("\u{1b}[200~", "\u{1b}[201~");

/// Tool that runs a command in the person's live shell.
pub(crate) struct RunInShell {
    spec: Arc<ToolSpec>,
    shared: SharedState,
    access: ShellAccess,
    loans: TerminalLoans,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Command as the user would type it; may have several lines
    command: String,
}

/// Outcome of a command in the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ended(Option<i32>),
    StillRunning,
    NotAtPrompt,
}

impl RunInShell {
    pub(crate) fn new(shared: SharedState, access: ShellAccess, loans: TerminalLoans) -> Self {
        let about = "Run a command in the user's own live shell, where it changes their directory, variables and jobs. \
                     Use it only when the user wants something to happen in their shell; the user is asked each time.";
        Self { spec: ToolSpec::of::<Args>("run_in_shell", about), shared, access, loans }
    }
}

#[async_trait]
impl Tool for RunInShell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Unknown effects: nothing contains a live shell, so the person is asked.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }

    fn asks_each_time(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Execute)
    }

    fn summary(&self, args: &Value) -> String {
        let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
        format!("run in your live shell: {}", command.lines().next().unwrap_or_default())
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { command } = call.parse()?;
        check(&command)?;
        let is_ready = matches!(self.shared.line().phase, Phase::Ready { .. });
        if !is_ready || !self.shared.line().is_untouched() {
            return Err(ToolError::failed(
                "the user's shell is not at an empty line: a program runs there, or the user typed something",
            ));
        }
        if !self.shared.modes().brackets_pastes {
            return Err(ToolError::failed(
                "the user's shell takes no bracketed paste, so that a command could arrive changed",
            ));
        }
        let (shared, access) = (self.shared.clone(), self.access.clone());
        let outcome = self.loans.lend(run(shared, access, command)).await;
        let outcome = outcome.map_err(|error| ToolError::failed(error.to_string()))?;
        let outcome = outcome.map_err(|error| ToolError::failed(format!("the terminal failed: {error}")))?;
        let recorded = {
            let mut recorder = self.shared.recorder();
            recorder.take_by_agent().or_else(|| recorder.running())
        };
        let redactor = cx.cx.service::<Redactor>();
        let output = recorded.map(|recorded| last_lines(&recorded, RESULT_LINES, redactor.as_deref()));
        let output = output.unwrap_or_else(|| "(the output was not recorded)".to_owned());
        Ok(ToolOutput::text(match outcome {
            Outcome::Ended(Some(code)) => format!("{output}\n(exit code {code})"),
            Outcome::Ended(None) => format!("{output}\n(exit code unknown)"),
            Outcome::StillRunning => {
                format!(
                    "{output}\n(still running after {} s; it goes on in the user's shell)",
                    END_WAIT.as_secs()
                )
            }
            Outcome::NotAtPrompt => "the shell did not begin the command; look with read_shell".to_owned(),
        }))
    }
}

/// Refuses a command that a paste would not carry exactly.
fn check(command: &str) -> Result<(), ToolError> {
    let is_unsafe = |c: char| c.is_control() && c != '\n' && c != '\t';
    if command.trim().is_empty() {
        return Err(ToolError::invalid("the command is empty"));
    }
    if command.contains(is_unsafe) {
        return Err(ToolError::invalid(
            "the command has control characters, which a shell would take for keys",
        ));
    }
    if has_history_expansion(command) {
        return Err(ToolError::invalid(
            "the command has a `!`, or a line that begins with `^`, which the shell may replace by older commands: \
             write it without, or put it into a script",
        ));
    }
    Ok(())
}

/// Whether bash or zsh may take a part of the command for a reference to an older one. Quotes are not followed:
/// they do not always protect a bang.
fn has_history_expansion(command: &str) -> bool {
    let is_plain = |next: Option<char>| next.is_none_or(|next| next == '=' || next.is_ascii_whitespace());
    let has_bang = command
        .match_indices('!')
        .any(|(at, bang)| !is_plain(command.get(at + bang.len()..).and_then(|behind| behind.chars().next())));
    // zsh takes a caret behind blanks, too.
    has_bang || command.lines().any(|line| line.trim_start().starts_with('^'))
}

/// Runs the command while the shell has the terminal.
async fn run(shared: SharedState, access: ShellAccess, command: String) -> std::io::Result<Outcome> {
    access.raw.enter()?;
    write_all(std::io::stdout(), shared.modes().restore().as_bytes())?;
    access.gate.open()?;
    access.redraw()?;
    let (ended, prompts) = {
        let mut line = shared.line();
        line.is_by_agent = true;
        (line.ended, line.prompts)
    };
    access.input.give_to_shell();
    let (from, to) = PASTE;
    // The terminal of a shell that does not read may be full.
    let (sender, pasted) = (access.clone(), format!("{from}{command}{to}\r"));
    tokio::task::spawn_blocking(move || sender.send(pasted.as_bytes()))
        .await
        .map_err(std::io::Error::other)??;
    let begins = || shared.line().phase == Phase::Busy || shared.line().prompts > prompts;
    let outcome = if !wait(&shared, PROMPT_WAIT * 4, begins).await {
        Outcome::NotAtPrompt
    } else if wait(&shared, END_WAIT, || shared.line().ended > ended).await {
        // The prompt is drawn before the conversation goes on below it.
        wait(&shared, PROMPT_WAIT, || shared.line().prompts > prompts).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Outcome::Ended(shared.line().code)
    } else {
        Outcome::StillRunning
    };
    access.input.take();
    access.gate.close();
    access.raw.leave();
    write_all(std::io::stdout(), b"\r\n")?;
    Ok(outcome)
}

/// Waits until a mark makes `is_so` true; false after the time limit.
async fn wait(shared: &Shared, limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        loop {
            let changed = shared.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    };
    timeout(limit, waiting).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_keys_in_it_is_refused() {
        for (command, is_fine) in [
            ("ls", true),
            ("cat <<X\n\ttab\nX", true),
            ("", false),
            (" \n", false),
            ("a\u{1b}[201~\rrm", false),
            ("a\rb", false),
            ("a\u{3}", false),
            ("[ a != b ] && ! false", true),
            ("echo done!", true),
            ("if !\ntrue", true),
            ("echo a^b", true),
            ("!!", false),
            ("rm -rf ./!$", false),
            ("echo \"hi!there\"", false),
            ("echo '!x'", false),
            ("ls !(a)", false),
            ("^a^b", false),
            ("true\n ^a^b", false),
        ] {
            assert_eq!(check(command).is_ok(), is_fine, "{command:?}");
        }
    }
}
