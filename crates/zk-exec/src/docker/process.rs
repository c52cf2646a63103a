use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until};
use zk_core::service::{
    Denial, ExecError, Exit, KillSignal, OutputStream, Process, ProcessEvent, TerminalSize,
};

use super::engine::{Engine, EngineError, Stream};
use super::{Container, MARK, says_missing};
use crate::Limits;
use crate::limits::Exceeded;
use crate::sandbox::Printed;

const BUFFER: usize = 32 * 1024;
/// First and longest pause between two checks whether a silent command has ended.
const EXIT_CHECK_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// End-of-file character of a terminal: Ctrl-D.
const END_OF_FILE: u8 = 4;
/// Time between `TERM` and `KILL` for a dropped command.
const KILL_GRACE: Duration = Duration::from_millis(1_750);

/// Finds and signals the processes of a command, from inside the container, since the engine cannot do that.
/// The environment is split into lines first, since busybox's `grep` stops at the first NUL. The last line of
/// the output proves that the script ran to its end.
const SCRIPT: &str = r#"command -v cat >/dev/null && command -v grep >/dev/null && command -v tr >/dev/null || exit 0
for dir in /proc/[0-9]*; do
  tr '\0' '\n' 2>/dev/null < "$dir/environ" | grep -qxF -e "$1" || continue
  pid=${dir#/proc/}
  case "$(cat "$dir/stat" 2>/dev/null)" in *") Z "*|"") continue;; esac
  [ "$pid" = $$ ] && continue
  if [ -n "$2" ]; then kill "-$2" "$pid" 2>/dev/null; [ "$2" = TERM ] && kill -CONT "$pid" 2>/dev/null; fi
  echo "$pid"
done
echo looked"#;

/// Engine, container and environment mark by which the processes of one command are found.
#[derive(Clone, Debug)]
pub(super) struct Containered {
    pub(super) engine: Engine,
    pub(super) container: Arc<Container>,
    pub(super) mark: String,
}

impl Containered {
    /// Starts a program in the container; returns the engine's exec id and its connection.
    pub(super) async fn exec(
        &self,
        body: &Value,
        is_terminal: bool,
    ) -> Result<(String, Stream), EngineError> {
        let path = format!("/containers/{}/exec", self.container.id);
        let made = self.engine.call("prepare the command", Method::POST, &path, Some(body)).await?;
        let id = made.get("Id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let how = json!({ "Detach": false, "Tty": is_terminal });
        let path = format!("/exec/{id}/start");
        let stream = self.engine.hijack("start the command", &path, Some(&how)).await?;
        Ok((id, stream))
    }

    /// Sends a signal, if not empty, to the processes of the command and returns their ids.
    async fn signal(&self, signal: &str) -> io::Result<Vec<u32>> {
        let entry = format!("{MARK}={}", self.mark);
        let body = json!({
            "AttachStdout": true,
            "Cmd": ["sh", "-c", SCRIPT, "sh", entry, signal],
        });
        let (_, stream) = self.exec(&body, false).await?;
        let mut frames = Frames::new(stream, false);
        let mut text = Vec::new();
        while let Some((_, bytes)) = frames.next().await {
            text.extend(bytes);
        }
        let text = String::from_utf8_lossy(&text);
        if text.lines().next_back() != Some("looked") {
            let lacks =
                "the processes of a command cannot be found: the image needs `sh`, `cat`, `grep` and `tr`";
            return Err(io::Error::other(lacks));
        }
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    async fn exec_state(&self, id: &str) -> Result<Value, EngineError> {
        self.engine.call("look at the command", Method::GET, &format!("/exec/{id}/json"), None).await
    }

    /// Returns the exit of the command, if it has ended.
    async fn exit(&self, id: &str) -> io::Result<Option<Exit>> {
        let state = self.exec_state(id).await?;
        if state.get("Running") == Some(&Value::Bool(true)) {
            return Ok(None);
        }
        let code = state.get("ExitCode").and_then(Value::as_i64);
        Ok(code.and_then(|code| i32::try_from(code).ok()).map(|code| match code {
            // The engine reports the end by a signal as 128 plus its number.
            129..=192 => Exit::Signal(code - 128),
            code => Exit::Code(code),
        }))
    }
}

/// Reader of the output frames on the connection of a command.
struct Frames {
    from: Option<ReadHalf<UnixStream>>,
    to: Option<WriteHalf<UnixStream>>,
    is_terminal: bool,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(stream: Stream, is_terminal: bool) -> Self {
        let (from, to) = tokio::io::split(stream.io);
        Self { from: Some(from), to: Some(to), is_terminal, bytes: stream.first }
    }

    /// Next piece of output; `None` at the end. Safe to cancel: no bytes are lost.
    async fn next(&mut self) -> Option<(OutputStream, Vec<u8>)> {
        loop {
            if let Some(piece) = self.take_frame() {
                return Some(piece);
            }
            let from = self.from.as_mut()?;
            self.bytes.reserve(BUFFER);
            if let Ok(0) | Err(_) = from.read_buf(&mut self.bytes).await {
                self.from = None;
            }
        }
    }

    /// Next complete frame of the buffer. Without a terminal, each frame has a head of eight bytes: stream
    /// and length.
    fn take_frame(&mut self) -> Option<(OutputStream, Vec<u8>)> {
        if self.is_terminal {
            let piece = std::mem::take(&mut self.bytes);
            return (!piece.is_empty()).then_some((OutputStream::Stdout, piece));
        }
        loop {
            let (head, _) = self.bytes.split_first_chunk::<8>()?;
            let [which, _, _, _, length @ ..] = *head;
            let end = 8 + u32::from_be_bytes(length) as usize;
            if self.bytes.len() < end {
                return None;
            }
            let piece: Vec<u8> = self.bytes.drain(..end).skip(8).collect();
            let stream = if which == 2 { OutputStream::Stderr } else { OutputStream::Stdout };
            if !piece.is_empty() {
                return Some((stream, piece));
            }
        }
    }
}

/// A command in a container. Dropping it ends all processes that carry its mark.
pub(super) struct DockerProcess {
    program: String,
    cwd: PathBuf,
    /// Error message for an image without the program.
    missing: String,
    place: Containered,
    id: String,
    frames: Frames,
    is_terminal: bool,
    /// Streams whose end was not yet reported.
    closing: Vec<OutputStream>,
    is_open: bool,
    exit: Option<Exit>,
    next_look: Instant,
    pause: Duration,
    armed: bool,
    limits: Limits,
    /// Bytes printed so far.
    printed: u64,
    /// Parts of the output that are searched for denials.
    kept: Printed,
}

impl DockerProcess {
    pub(super) fn new(
        program: String,
        cwd: PathBuf,
        place: Containered,
        (id, stream): (String, Stream),
        is_terminal: bool,
        (reads, kept): (bool, Printed),
    ) -> Self {
        let mut frames = Frames::new(stream, is_terminal);
        if !reads {
            frames.to = None;
        }
        let closing = if is_terminal {
            vec![OutputStream::Stdout]
        } else {
            vec![OutputStream::Stderr, OutputStream::Stdout]
        };
        Self {
            program,
            cwd,
            missing: String::new(),
            place,
            id,
            frames,
            is_terminal,
            closing,
            is_open: true,
            exit: None,
            next_look: Instant::now() + EXIT_CHECK_PAUSES.0,
            pause: EXIT_CHECK_PAUSES.0,
            armed: true,
            limits: Limits::default(),
            printed: 0,
            kept,
        }
    }

    pub(super) fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub(super) fn with_missing_message(mut self, missing: String) -> Self {
        self.missing = missing;
        self
    }

    /// Fails if the first bytes are the engine's message that the program is missing. Older engines print it
    /// as output.
    async fn check_started(&mut self, first: &[u8]) -> Result<(), ExecError> {
        if !["OCI runtime", "crun", "runc"].iter().any(|name| first.starts_with(name.as_bytes()))
            || !says_missing(&String::from_utf8_lossy(first))
        {
            return Ok(());
        }
        let state = self.place.exec_state(&self.id).await.map_err(|error| self.watch_error(error.into()))?;
        // A command that prints the same text has a process.
        if state.get("Pid").and_then(Value::as_i64).unwrap_or_default() != 0 {
            return Ok(());
        }
        (self.is_open, self.armed) = (false, false);
        let source = EngineError::Lacks(self.missing.clone()).into();
        Err(ExecError::Spawn { program: self.program.clone(), cwd: self.cwd.clone(), source })
    }

    /// Counts output; bytes above the limit are dropped and the command is killed.
    async fn count_output(&mut self, bytes: &mut Vec<u8>) -> Result<(), ExecError> {
        let before = self.printed;
        self.printed += bytes.len() as u64;
        if let Some(most) = self.limits.output.filter(|most| self.printed > *most) {
            bytes.truncate(usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX));
            if before <= most {
                self.kill(KillSignal::Kill).await?;
            }
        }
        Ok(())
    }

    fn watch_error(&self, source: io::Error) -> ExecError {
        ExecError::Watch { program: self.program.clone(), source }
    }

    fn input_error(&self, source: io::Error) -> ExecError {
        ExecError::Input { program: self.program.clone(), source }
    }

    pub(super) async fn set_size(&self, size: TerminalSize) -> io::Result<()> {
        let path = format!("/exec/{}/resize?h={}&w={}", self.id, size.rows, size.columns);
        self.place.engine.call("resize the terminal", Method::POST, &path, None).await?;
        Ok(())
    }

    /// Checks whether the command has ended.
    async fn check_exit(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        self.pause = (self.pause * 2).min(EXIT_CHECK_PAUSES.1);
        let found = self.place.exit(&self.id).await.map_err(|error| self.watch_error(error))?;
        self.next_look = Instant::now() + self.pause;
        self.exit = found;
        Ok(found.map(ProcessEvent::Exited))
    }
}

#[async_trait]
impl Process for DockerProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        loop {
            if self.is_open {
                tokio::select! {
                    piece = self.frames.next() => match piece {
                        Some((stream, mut bytes)) => {
                            if self.printed == 0 {
                                self.check_started(&bytes).await?;
                            }
                            self.count_output(&mut bytes).await?;
                            self.kept.add(stream, &bytes);
                            return Ok(Some(ProcessEvent::Output(stream, bytes)));
                        }
                        None => {
                            self.is_open = false;
                            (self.pause, self.next_look) = (EXIT_CHECK_PAUSES.0, Instant::now());
                        }
                    },
                    () = sleep_until(self.next_look), if self.exit.is_none() => {
                        if let Some(event) = self.check_exit().await? {
                            return Ok(Some(event));
                        }
                    }
                }
            } else if let Some(stream) = self.closing.pop() {
                return Ok(Some(ProcessEvent::Closed(stream)));
            } else if self.exit.is_none() {
                sleep_until(self.next_look).await;
                if let Some(event) = self.check_exit().await? {
                    return Ok(Some(event));
                }
            } else {
                return Ok(None);
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        let written = match &mut self.frames.to {
            Some(to) => match to.write_all(bytes).await {
                Ok(()) => to.flush().await,
                failed => failed,
            },
            None => Err(io::Error::new(io::ErrorKind::BrokenPipe, "its input is closed")),
        };
        written.map_err(|error| self.input_error(error))
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        if self.is_terminal {
            return self.write(&[END_OF_FILE]).await;
        }
        if let Some(mut to) = self.frames.to.take() {
            to.shutdown().await.map_err(|error| self.input_error(error))?;
        }
        Ok(())
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        let resized = if self.is_terminal {
            self.set_size(size).await
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, "it has no terminal"))
        };
        resized.map_err(|error| self.input_error(error))
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        let signal = match signal {
            KillSignal::Terminate => "TERM",
            KillSignal::Kill => "KILL",
        };
        self.place.signal(signal).await.map(drop).map_err(|error| self.watch_error(error))
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        self.place.signal("").await.map_err(|error| self.watch_error(error))
    }

    fn denials(&self) -> Vec<Denial> {
        if self.limits.output.is_some_and(|most| self.printed > most) {
            return vec![self.limits.denial(Exceeded::Output)];
        }
        let has_failed = self.exit != Some(Exit::Code(0));
        self.kept.denials(&self.place.container.mounts.denials, &self.cwd, has_failed)
    }

    fn release(mut self: Box<Self>) {
        self.armed = false;
    }
}

impl Drop for DockerProcess {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let Some(mut from) = self.frames.from.take() {
            runtime.spawn(async move { tokio::io::copy(&mut from, &mut tokio::io::sink()).await });
        }
        if self.armed {
            let place = self.place.clone();
            runtime.spawn(async move {
                let left = place.signal("TERM").await.unwrap_or_default();
                if !left.is_empty() {
                    tokio::time::sleep(KILL_GRACE).await;
                    let _ = place.signal("KILL").await;
                }
            });
        }
    }
}
