//! Process of a hook's command.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_core::service::{Exec, ExecRequest, Exit, Input, OutputStream, Process, ProcessEvent};

use super::config::CommandHook;
use super::failure::HookFailure;
use super::quote_line;

/// Largest standard output of a hook, in bytes.
const MAX_STDOUT_BYTES: usize = 1 << 20;
/// Bytes of standard error that are kept.
const MAX_STDERR_BYTES: usize = 10 << 10;
/// Longest time for which output is read after the hook's exit, while a background process holds it open.
const LEFTOVER_TIMEOUT: Duration = Duration::from_millis(500);

/// Size of one write, in bytes: a pipe accepts so few bytes as a whole or not at all, so a blocked write can be
/// repeated.
const CHUNK_BYTES: usize = 4096;
/// Time after which a blocked write is interrupted to read output, and reading to write.
const WRITE_TIMEOUT: Duration = Duration::from_millis(5);

/// Exit and output of a hook.
pub(super) struct Printed {
    pub(super) exit: Exit,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Executor and directory of a hook.
pub(super) struct Place<'a> {
    pub(super) exec: &'a dyn Exec,
    pub(super) cwd: &'a Path,
    pub(super) project: &'a Path,
    /// Id of the session; empty for none.
    pub(super) session: &'a str,
    /// Variables with the place of the event in a trace.
    pub(super) trace: &'a [(String, String)],
}

/// Runs a hook to its end with `input` on its standard input. Dropping the future ends all its processes.
pub(super) async fn run(hook: &CommandHook, input: &[u8], place: &Place<'_>) -> Result<Printed, HookFailure> {
    let command = || quote_line(&hook.command);
    let mut request = ExecRequest { input: Input::Piped, ..ExecRequest::shell(&hook.command, place.cwd) };
    for name in ["CLAUDE_PROJECT_DIR", "ZK_PROJECT_DIR"] {
        request.env.insert(name.into(), place.project.into());
    }
    request.env.extend(place.trace.iter().map(|(name, value)| (name.into(), value.into())));
    if !hook.env.is_empty() {
        request.env.insert("CLAUDE_CODE_SESSION_ID".into(), place.session.into());
        request.env.extend(hook.env.iter().map(|(name, value)| (name.into(), value.into())));
    }
    let deadline = Instant::now() + hook.timeout;
    let late = |_| HookFailure::TimedOut { command: command(), limit: hook.timeout };
    let spawned = tokio::time::timeout_at(deadline, place.exec.spawn(request)).await.map_err(late)?;
    let process =
        spawned.map_err(|error| HookFailure::Start { command: command(), why: error.to_string() })?;
    let running = Running { process, stdout: Vec::new(), stderr: Vec::new(), exit: None };
    let printed = tokio::time::timeout_at(deadline, running.run_to_exit(input)).await.map_err(late)?;
    printed.map_err(|how| match how {
        Trouble::TooMuch => {
            HookFailure::Garbage { command: command(), why: format!("more than {MAX_STDOUT_BYTES} bytes") }
        }
        Trouble::Lost(how) => HookFailure::Ended { command: command(), how, said: String::new() },
    })
}

enum Trouble {
    TooMuch,
    Lost(String),
}

struct Running {
    process: Box<dyn Process>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<Exit>,
}

impl Running {
    async fn run_to_exit(mut self, input: &[u8]) -> Result<Printed, Trouble> {
        self.write_input(input).await?;
        let _ = self.process.close_input().await;
        while self.exit.is_none() && self.handle_event().await? {}
        let Some(exit) = self.exit else { return Err(Trouble::Lost("was lost".to_owned())) };
        let leftover = async {
            while self.handle_event().await? {}
            Ok(())
        };
        if let Ok(read) = timeout(LEFTOVER_TIMEOUT, leftover).await {
            read?;
        }
        Ok(Printed { exit, stdout: self.stdout, stderr: String::from_utf8_lossy(&self.stderr).into_owned() })
    }

    /// Writes the input and reads output at the same time: a hook may print before it has read its input, or
    /// never read it.
    async fn write_input(&mut self, input: &[u8]) -> Result<(), Trouble> {
        for chunk in input.chunks(CHUNK_BYTES) {
            loop {
                match timeout(WRITE_TIMEOUT, self.process.write(chunk)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => {}
                }
                if let Ok(more) = timeout(WRITE_TIMEOUT, self.handle_event()).await
                    && (!more? || self.exit.is_some())
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Processes one event; returns false after the last.
    async fn handle_event(&mut self) -> Result<bool, Trouble> {
        match self.process.next().await {
            Ok(Some(ProcessEvent::Output(OutputStream::Stdout, bytes))) => {
                self.stdout.extend_from_slice(&bytes);
                if self.stdout.len() > MAX_STDOUT_BYTES {
                    return Err(Trouble::TooMuch);
                }
            }
            Ok(Some(ProcessEvent::Output(OutputStream::Stderr, bytes))) => {
                self.stderr.extend_from_slice(&bytes);
                let above = self.stderr.len().saturating_sub(MAX_STDERR_BYTES);
                self.stderr.drain(..above);
            }
            Ok(Some(ProcessEvent::Closed(_))) => {}
            Ok(Some(ProcessEvent::Exited(exit))) => self.exit = Some(exit),
            Ok(None) => return Ok(false),
            Err(error) => return Err(Trouble::Lost(format!("was lost ({error})"))),
        }
        Ok(true)
    }
}
