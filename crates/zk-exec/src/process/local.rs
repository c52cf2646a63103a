use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use zk_core::service::{
    Denial, ExecError, Exit, KillSignal, OutputStream, Process, ProcessEvent, TerminalSize,
};

use super::ends::Ends;
use super::group::Ask;
use super::started::{Started, Tree, Waiter};
use super::terminal;
use crate::Limits;
use crate::limits::Exceeded;

const BUFFER: usize = 32 * 1024;
/// Bytes at the end of the output that are searched for "out of memory".
const TAIL_BYTES: usize = 4 * 1024;

/// End-of-file character of a terminal: Ctrl-D.
const END_OF_FILE: u8 = 4;

/// A command that runs on this machine.
pub(super) struct LocalProcess {
    program: String,
    waiter: Waiter,
    status: Option<ExitStatus>,
    stdin: Option<Sender>,
    stdout: Pipe,
    stderr: Pipe,
    terminal: Option<std::os::fd::OwnedFd>,
    /// Process tree, which the drop ends; `None` after the release.
    tree: Option<Tree>,
    /// Whether the caller asked for the end of the process tree.
    is_ending: bool,
    limits: Limits,
    printed: u64,
    /// End of the output, kept if it can tell which limit was exceeded.
    tail: Vec<u8>,
}

impl LocalProcess {
    pub(super) fn new(program: String, started: Started, ends: Ends, limits: Limits) -> Self {
        let Ends { stdin, stdout, stderr, terminal } = ends;
        Self {
            program,
            waiter: started.waiter,
            status: None,
            stdin,
            stdout: Pipe { reader: Some(stdout), buffer: Vec::new() },
            stderr: Pipe { reader: stderr, buffer: Vec::new() },
            terminal,
            tree: Some(started.tree),
            is_ending: false,
            limits,
            printed: 0,
            tail: Vec::new(),
        }
    }

    /// Counts output; bytes above the limit are dropped and the command is killed.
    async fn count_output(&mut self, stream: OutputStream, mut bytes: Vec<u8>) -> ProcessEvent {
        let before = self.printed;
        self.printed += bytes.len() as u64;
        if let Some(most) = self.limits.output.filter(|most| self.printed > *most) {
            bytes.truncate(usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX));
            if before <= most
                && let Some(tree) = &self.tree
            {
                tree.signal(Ask::Kill).await;
            }
        }
        if self.limits.memory.is_some() {
            self.tail
                .extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
            let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
            self.tail.drain(..surplus);
        }
        ProcessEvent::Output(stream, bytes)
    }

    fn exceeded(&self) -> Option<Exceeded> {
        if self.limits.output.is_some_and(|most| self.printed > most) {
            return Some(Exceeded::Output);
        }
        let by_tree = self.tree.as_ref().and_then(Tree::exceeded);
        let failed = self.status.is_some_and(|status| !status.success());
        let by_words =
            || failed.then(|| self.limits.in_output(&String::from_utf8_lossy(&self.tail))).flatten();
        by_tree.or_else(by_words)
    }

    fn input_error(&self, source: io::Error) -> ExecError {
        ExecError::Input { program: self.program.clone(), source }
    }
}

#[async_trait]
impl Process for LocalProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        let event = tokio::select! {
            event = self.stdout.next(OutputStream::Stdout), if self.stdout.is_open() => event,
            event = self.stderr.next(OutputStream::Stderr), if self.stderr.is_open() => event,
            status = self.waiter.wait(), if self.status.is_none() => {
                let status =
                    status.map_err(|source| ExecError::Watch { program: self.program.clone(), source })?;
                self.status = Some(status);
                ProcessEvent::Exited(exit_of(status))
            }
            else => return Ok(None),
        };
        Ok(Some(match event {
            ProcessEvent::Output(stream, bytes) => self.count_output(stream, bytes).await,
            ProcessEvent::Closed(_) | ProcessEvent::Exited(_) => event,
        }))
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        let none = || io::Error::new(io::ErrorKind::BrokenPipe, "its input is closed");
        let written = match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes).await,
            None => Err(none()),
        };
        written.map_err(|source| self.input_error(source))
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        if self.terminal.is_some() {
            return self.write(&[END_OF_FILE]).await;
        }
        self.stdin = None;
        Ok(())
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        let resized = match &self.terminal {
            Some(terminal) => terminal::resize(terminal, size),
            None => Err(io::Error::new(io::ErrorKind::Unsupported, "it has no terminal")),
        };
        resized.map_err(|source| self.input_error(source))
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        self.is_ending = true;
        if let Some(tree) = &self.tree {
            tree.signal(match signal {
                KillSignal::Terminate => Ask::End,
                KillSignal::Kill => Ask::Kill,
            })
            .await;
        }
        Ok(())
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        match &self.tree {
            // A process that left the process group can outlive it. A caller that ends the command gets the
            // exact list, although the scan is slow.
            Some(tree) if self.is_ending || tree.may_live() => Ok(tree.members().await),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    fn denials(&self) -> Vec<Denial> {
        self.exceeded().map(|exceeded| self.limits.denial(exceeded)).into_iter().collect()
    }

    fn release(mut self: Box<Self>) {
        if let Some(tree) = self.tree.take() {
            tree.release();
        }
    }
}

impl Drop for LocalProcess {
    /// Reads and discards further output of background processes, which `SIGPIPE` would kill otherwise.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for mut reader in [self.stdout.reader.take(), self.stderr.reader.take()].into_iter().flatten() {
            runtime.spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }
}

/// One output stream of a command.
struct Pipe {
    reader: Option<Receiver>,
    buffer: Vec<u8>,
}

impl Pipe {
    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Waits for bytes or the end of the stream. Safe to cancel: no bytes are lost.
    async fn next(&mut self, stream: OutputStream) -> ProcessEvent {
        let read = match &mut self.reader {
            Some(reader) => {
                self.buffer.reserve(BUFFER);
                reader.read_buf(&mut self.buffer).await
            }
            None => std::future::pending().await,
        };
        match read {
            // A pipe that cannot be read counts as ended; the exit status decides.
            Ok(0) | Err(_) => {
                self.reader = None;
                ProcessEvent::Closed(stream)
            }
            Ok(_) => ProcessEvent::Output(stream, std::mem::take(&mut self.buffer)),
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
