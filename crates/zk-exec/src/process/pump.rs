use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Exit, OutputSink, OutputStream};

use super::GRACE;
use super::group::Ask;
use super::started::{Output, Started, Tree, Waiter};

/// After the exit: how long output that is held open may be silent …
const QUIET: Duration = Duration::from_millis(200);
/// … and how long it is read at most.
const DRAIN: Duration = Duration::from_millis(1_500);
/// How long a stopped run waits to see its command gone.
const PROMPT: Duration = Duration::from_millis(60);
/// How long after the kill its end is waited for.
const LAST: Duration = Duration::from_millis(200);
const BUFFER: usize = 32 * 1024;

/// Reads what a command prints and watches how it ends.
pub(super) struct Pump<'a> {
    waiter: Waiter,
    stdout: Pipe,
    stderr: Pipe,
    sink: &'a mut dyn OutputSink,
    status: Option<ExitStatus>,
}

/// How it ended.
pub(super) struct Ended {
    pub(super) exit: Exit,
    pub(super) survivors: Vec<u32>,
    pub(super) output_still_open: bool,
}

impl<'a> Pump<'a> {
    /// Splits a started command into what is read and what may have to be ended.
    pub(super) fn new(started: Started, sink: &'a mut dyn OutputSink) -> (Self, Tree) {
        let (stdout, stderr) = (Pipe::new(started.stdout), Pipe::new(started.stderr));
        (Self { waiter: started.waiter, stdout, stderr, sink, status: None }, started.tree)
    }

    /// Watches the command to its end, or ends it.
    pub(super) async fn run(
        mut self,
        tree: Tree,
        deadline: Option<Instant>,
        stop: &CancellationToken,
    ) -> io::Result<Ended> {
        let exit = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Exit::Stopped,
                () = until(deadline) => break Exit::TimedOut,
                done = self.step() => {
                    done?;
                    if let Some(status) = self.status {
                        break exit_of(status);
                    }
                }
            }
        };
        let survivors = match exit {
            Exit::Code(_) | Exit::Signal(_) => {
                self.drain(stop).await?;
                if tree.may_live() { tree.members().await } else { Vec::new() }
            }
            Exit::Stopped => {
                tree.signal(Ask::End).await;
                // Dropping `tree` has what is left ended in the background.
                self.wait_gone(&tree, PROMPT).await?
            }
            Exit::TimedOut => {
                tree.signal(Ask::End).await;
                if !self.wait_gone(&tree, GRACE).await?.is_empty() {
                    tree.signal(Ask::Kill).await;
                }
                self.wait_gone(&tree, LAST).await?
            }
        };
        if survivors.is_empty() || matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
            tree.release();
        }
        let output_still_open = self.is_open();
        self.read_on();
        Ok(Ended { exit, survivors, output_still_open })
    }

    /// One piece of output, one end of an output, or the exit.
    async fn step(&mut self) -> io::Result<()> {
        tokio::select! {
            read = self.stdout.read(), if self.stdout.is_open() => {
                hand_over(&mut *self.sink, OutputStream::Stdout, &mut self.stdout, &read)
            }
            read = self.stderr.read(), if self.stderr.is_open() => {
                hand_over(&mut *self.sink, OutputStream::Stderr, &mut self.stderr, &read)
            }
            status = self.waiter.wait(), if self.status.is_none() => {
                self.status = Some(status?);
            }
            else => std::future::pending::<()>().await,
        }
        Ok(())
    }

    /// Reads what is still in the pipes after the exit.
    async fn drain(&mut self, stop: &CancellationToken) -> io::Result<()> {
        let end = Instant::now() + DRAIN;
        while self.is_open() && !stop.is_cancelled() {
            let patience = QUIET.min(end.saturating_duration_since(Instant::now()));
            match timeout(patience, self.step()).await {
                Ok(done) => done?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Reads on until no process of the group is left; says which are after `patience`.
    async fn wait_gone(&mut self, tree: &Tree, patience: Duration) -> io::Result<Vec<u32>> {
        let end = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        loop {
            self.absorb(pause.min(end.saturating_duration_since(Instant::now()))).await?;
            let left = tree.members().await;
            if left.is_empty() {
                // What it printed last is still in the pipes.
                self.absorb(Duration::from_millis(20)).await?;
                return Ok(left);
            }
            if Instant::now() >= end {
                return Ok(left);
            }
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Reads for `time`, or less if the command is over and its output at its end.
    async fn absorb(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        while self.is_open() || self.status.is_none() {
            tokio::select! {
                biased;
                () = until(Some(end)) => return Ok(()),
                done = self.step() => done?,
            }
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    /// Keeps reading, into nothing, what something in the background may still print: it would be killed by
    /// its next line otherwise.
    fn read_on(&mut self) {
        self.stdout.discard();
        self.stderr.discard();
    }
}

/// One output of a command.
struct Pipe {
    reader: Option<Output>,
    buffer: Vec<u8>,
}

impl Pipe {
    fn new(reader: Output) -> Self {
        Self { reader: Some(reader), buffer: Vec::with_capacity(BUFFER) }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Fills the buffer with what is there; nothing at the end. Cancelling loses nothing.
    async fn read(&mut self) -> io::Result<usize> {
        match &mut self.reader {
            Some(reader) => reader.read_buf(&mut self.buffer).await,
            None => std::future::pending().await,
        }
    }

    fn discard(&mut self) {
        if let Some(mut reader) = self.reader.take() {
            tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }
}

fn hand_over(sink: &mut dyn OutputSink, stream: OutputStream, pipe: &mut Pipe, read: &io::Result<usize>) {
    match read {
        // A pipe that cannot be read is at its end; how the command ended is what counts.
        Ok(0) | Err(_) => pipe.reader = None,
        Ok(_) => {
            sink.write(stream, &pipe.buffer);
            pipe.buffer.clear();
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
