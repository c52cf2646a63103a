use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_chat::TerminalLoans;
use zk_core::model::{Approved, CallKind, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Redactor, Tool, ToolCx};

use super::definitions::Definitions;
use super::read_shell::last_lines;
use super::shown::{Shown, ShownDefinitions};
use crate::line::Phase;
use crate::pump::{REPORT_KEY, REPORT_WAIT, Shared, SharedState, wait_for, write_all, write_within};
use crate::shell_access::ShellAccess;

/// Time after which a command counts as still running.
const END_WAIT: Duration = Duration::from_secs(30);

/// Time for the shell to draw a prompt.
const PROMPT_WAIT: Duration = Duration::from_millis(500);

/// Most lines of output in the tool's result.
const RESULT_LINES: usize = 400;

/// Beginning and end of a bracketed paste, after a hidden key by which zsh inserts it without the person's widgets.
const PASTE: (&str, &str) = ("\u{1b}[1007181u\u{1b}[200~", "\u{1b}[201~");

/// Hidden key that makes the shell report the text of its line.
const SHOW_KEY: &str = "\u{1b}[1007182u";

/// Time limit for the shell to report the text of its line after a paste.
const SHOW_WAIT: Duration = Duration::from_secs(5);

/// Time limit for the shell to read a whole paste.
const WRITE_WAIT: Duration = Duration::from_secs(5);

/// Time limit for the shell to read the keys that remove a paste.
const CLEAR_WAIT: Duration = Duration::from_millis(500);

/// Keys that remove a part of a paste: Ctrl-C, the end of a paste for a shell that does not heed it, and Ctrl-U.
const CLEAR_LINE: &[u8] = b"\x03\x1b[201~\x15";

const NOT_EMPTY: &str = "the user's shell is not at an empty line, or does not say so: a program runs there, or the \
                         user typed something; nothing was entered";

const NO_KEYS: &str = "the user's shell cannot say whether its line is empty, so nothing is entered in it; ask the \
                       user to run the command";

const CHANGED: &str = "the shell's aliases or functions behind the command have changed since the user saw them, so nothing \
                       was entered; call again";

const FORGOTTEN: &str = "the aliases and functions that the user saw for this command are no longer known, since many other \
                         commands were shown after it, so nothing was entered; call again";

const NOT_TAKEN: &str =
    "the user's shell did not take the whole command, and it was not entered; look with read_shell";

const ALTERED: &str = "the user's shell did not take the command as it was approved, or did not show its line, so it was not \
                       entered: its line editor changes pastes; ask the user to run the command";

const NOT_BEGUN: &str = "the shell has not begun the command: it may still run it, so do not repeat it; look with \
                         read_shell";

/// Tool that runs a command in the person's live shell.
pub(crate) struct RunInShell {
    spec: Arc<ToolSpec>,
    shared: SharedState,
    access: ShellAccess,
    loans: TerminalLoans,
    shown: Mutex<ShownDefinitions>,
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
    /// The shell read the whole command, and has not begun it.
    NotAtPrompt,
    /// The shell did not read the whole command.
    NotTaken,
    /// The shell's line is not the command, after its paste.
    Altered,
    /// The shell has text in its line, or did not report whether it has.
    LineNotEmpty,
    /// The aliases or functions behind the command are not those that the person saw.
    Changed,
}

impl RunInShell {
    pub(crate) fn new(shared: SharedState, access: ShellAccess, loans: TerminalLoans) -> Self {
        let about = "Run a command in the user's own live shell, where it changes their directory, variables and jobs. \
                     Use it only when the user wants something to happen in their shell; the user is asked each time.";
        Self {
            spec: ToolSpec::of::<Args>("run_in_shell", about),
            shared,
            access,
            loans,
            shown: Mutex::default(),
        }
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

    /// Aliases and functions of the shell that run for words of the command.
    async fn preview(&self, args: &Value, _: &CallPlace) -> Option<Display> {
        let command = args.get("command").and_then(Value::as_str)?;
        let definitions = Definitions::ask(&self.shared, &self.access, command).await;
        let lines = definitions.lines();
        self.shown().keep(command, definitions);
        (!lines.is_empty()).then_some(Display::Lines { lines })
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { command } = call.parse()?;
        check_paste(&command)?;
        if self.shared.line().phase == (Phase::Ready { has_keys: false }) {
            return Err(ToolError::failed(NO_KEYS));
        }
        if !self.shared.line().is_untouched() {
            return Err(ToolError::failed(NOT_EMPTY));
        }
        if !self.shared.modes().brackets_pastes {
            return Err(ToolError::failed(
                "the user's shell takes no bracketed paste, so that a command could arrive changed",
            ));
        }
        let shown = match self.shown().take(&command) {
            Shown::Nothing => None,
            Shown::Definitions(shown) => Some(shown),
            Shown::Forgotten => return Err(ToolError::failed(FORGOTTEN)),
        };
        let (shared, access) = (self.shared.clone(), self.access.clone());
        let before = shared.recorder().last();
        let outcome = self.loans.lend(run(shared, access, command, shown)).await;
        let outcome = outcome.map_err(|error| ToolError::failed(error.to_string()))?;
        let outcome = outcome.map_err(|error| ToolError::failed(format!("the terminal failed: {error}")))?;
        let how = match outcome {
            Outcome::LineNotEmpty => return Err(ToolError::failed(NOT_EMPTY)),
            Outcome::Changed => return Err(ToolError::failed(CHANGED)),
            Outcome::NotTaken => return Err(ToolError::failed(NOT_TAKEN)),
            Outcome::Altered => return Err(ToolError::failed(ALTERED)),
            Outcome::NotAtPrompt => return Err(ToolError::failed(NOT_BEGUN)),
            Outcome::Ended(Some(code)) => format!("exit code {code}"),
            Outcome::Ended(None) => "exit code unknown".to_owned(),
            Outcome::StillRunning => {
                format!("still running after {} s; it goes on in the user's shell", END_WAIT.as_secs())
            }
        };
        let recorded = {
            let recorder = self.shared.recorder();
            recorder.command_of_agent_since(before).or_else(|| recorder.running())
        };
        let redactor = cx.cx.service::<Redactor>();
        let output = match recorded {
            Some(recorded) => last_lines(recorded, RESULT_LINES, redactor).await?,
            None => "(the output was not recorded)".to_owned(),
        };
        Ok(ToolOutput::text(format!("{output}\n({how})")))
    }
}

impl RunInShell {
    fn shown(&self) -> MutexGuard<'_, ShownDefinitions> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a command that a paste would change.
fn check_paste(command: &str) -> Result<(), ToolError> {
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
async fn run(
    shared: SharedState,
    access: ShellAccess,
    command: String,
    shown: Option<Definitions>,
) -> std::io::Result<Outcome> {
    let outcome = match show_shell(&shared, &access) {
        Ok(()) => enter_command(&shared, &access, &command, shown).await,
        Err(error) => Err(error),
    };
    access.input.give_to_conversation();
    access.gate.close();
    access.raw.leave();
    write_all(std::io::stdout(), b"\r\n")?;
    outcome
}

/// Lets the shell draw on the terminal; its input stays with the conversation.
fn show_shell(shared: &Shared, access: &ShellAccess) -> std::io::Result<()> {
    access.raw.enter()?;
    write_all(std::io::stdout(), shared.modes().restore().as_bytes())?;
    access.gate.open()?;
    access.redraw()
}

/// Enters the command at an empty line, if its aliases and functions are those that were `shown`, and waits for its
/// end.
async fn enter_command(
    shared: &Shared,
    access: &ShellAccess,
    command: &str,
    shown: Option<Definitions>,
) -> std::io::Result<Outcome> {
    if !is_line_empty(shared, &access.terminal).await? {
        return Ok(Outcome::LineNotEmpty);
    }
    // As late as possible, since a trap or a timer of the shell may change a definition at any time.
    if let Some(shown) = shown {
        if Definitions::ask(shared, access, command).await != shown {
            return Ok(Outcome::Changed);
        }
        // The shell may have left its prompt, or text may have come into the line, while it was asked.
        if !is_line_empty(shared, &access.terminal).await? {
            return Ok(Outcome::LineNotEmpty);
        }
    }
    let (ended, prompts) = {
        let mut line = shared.line();
        line.agent_command = Some(command.to_owned());
        (line.ended, line.prompts)
    };
    let outcome = paste_and_wait(shared, access, command, (ended, prompts)).await;
    if matches!(outcome, Ok(Outcome::NotAtPrompt | Outcome::NotTaken | Outcome::Altered) | Err(_)) {
        shared.line().agent_command = None;
    }
    outcome
}

/// Pastes the command, and waits for its end; `ended` and `prompts` were counted before.
async fn paste_and_wait(
    shared: &Shared,
    access: &ShellAccess,
    command: &str,
    (ended, prompts): (u64, u64),
) -> std::io::Result<Outcome> {
    shared.line().reported_text = None;
    let (from, to) = PASTE;
    // The terminal of a shell that does not read may be full. No key may come between the bytes.
    let (sender, pasted) = (access.terminal.clone(), format!("{from}{command}{to}{SHOW_KEY}"));
    let written = tokio::task::spawn_blocking(move || {
        let written = write_within(&*sender, pasted.as_bytes(), WRITE_WAIT);
        if written.is_err() {
            // Removes the part of the paste that arrived from the line.
            let _ = write_within(&*sender, CLEAR_LINE, CLEAR_WAIT);
        }
        written
    });
    match written.await.map_err(std::io::Error::other)? {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Ok(Outcome::NotTaken),
        Err(error) => return Err(error),
    }
    // A paste passes through the person's widgets, which may change it: a line that is not what was approved is not run.
    wait_for(shared, SHOW_WAIT, || shared.line().reported_text.is_some()).await;
    let shown = shared.line().reported_text.take();
    if shown.is_none_or(|shown| !is_same_command(&shown, command)) {
        write_within(&*access.terminal, CLEAR_LINE, CLEAR_WAIT)?;
        return Ok(Outcome::Altered);
    }
    write_within(&*access.terminal, b"\r", WRITE_WAIT)?;
    access.input.give_to_shell();
    let begins = || shared.line().phase == Phase::Busy || shared.line().prompts > prompts;
    if !wait_for(shared, PROMPT_WAIT * 4, begins).await {
        return Ok(Outcome::NotAtPrompt);
    }
    if !wait_for(shared, END_WAIT, || shared.line().ended > ended).await {
        return Ok(Outcome::StillRunning);
    }
    // The prompt is drawn before the conversation goes on below it.
    wait_for(shared, PROMPT_WAIT, || shared.line().prompts > prompts).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(Outcome::Ended(shared.line().code))
}

/// Whether the shell's line is the command. Line ends behind it are no part of a command.
fn is_same_command(line: &[u8], command: &str) -> bool {
    let line = String::from_utf8_lossy(line);
    line.trim_end_matches('\n') == command.trim_end_matches('\n')
}

/// Whether the shell itself says that its line is empty: text may have come before the prompt, which no mark tells.
/// A shell that does not answer in time may have text in it.
async fn is_line_empty(shared: &Shared, terminal: &File) -> std::io::Result<bool> {
    {
        let mut line = shared.line();
        if line.phase != (Phase::Ready { has_keys: true }) || !line.is_untouched() {
            return Ok(false);
        }
        line.reported = None;
    }
    write_within(terminal, REPORT_KEY, REPORT_WAIT)?;
    wait_for(shared, REPORT_WAIT, || shared.line().reported.is_some()).await;
    let line = shared.line();
    Ok(line.reported == Some(0) && line.phase == Phase::Ready { has_keys: true })
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::Mark;

    fn terminal() -> (File, UnixStream) {
        let (zk, shell) = UnixStream::pair().unwrap();
        zk.set_nonblocking(true).unwrap();
        (OwnedFd::from(zk).into(), shell)
    }

    #[tokio::test]
    async fn a_line_is_empty_only_if_the_shell_says_so() {
        // Text that was typed while a command ran is known to the shell alone.
        for (has_keys, said, is_empty) in
            [(true, Some(0), true), (true, Some(7), false), (true, None, false), (false, Some(0), false)]
        {
            let (zk, mut shell) = terminal();
            let shared = SharedState::default();
            shared.line().record_typed(b"rm -rf ");
            shared.line().apply_mark(&Mark::Ready { has_keys, next_entry: None });
            let answering = shared.clone();
            let answer = std::thread::spawn(move || {
                let mut asked = vec![0; REPORT_KEY.len()];
                if let (Ok(()), Some(len)) = (shell.read_exact(&mut asked), said) {
                    answering.line().apply_mark(&Mark::Line { len });
                    answering.changed.notify_waiters();
                }
                shell
            });
            assert_eq!(is_line_empty(&shared, &zk).await.unwrap(), is_empty, "{has_keys} {said:?}");
            drop(zk);
            answer.join().unwrap();
        }
    }

    #[test]
    fn a_shell_that_reads_nothing_holds_a_paste_up_for_a_limited_time() {
        let (zk, shell) = terminal();
        let written = write_within(&zk, &vec![b'x'; 8 << 20], Duration::from_millis(50));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(shell);
    }

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
            assert_eq!(check_paste(command).is_ok(), is_fine, "{command:?}");
        }
    }
}
