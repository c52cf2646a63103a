use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::modes::is_in_foreground;
use crate::keys::{Key, KeyDecoder};

/// Time limit after ESC for the rest of a sequence, in nanoseconds: longer than a terminal needs, also over a
/// slow line, shorter than a person notices.
const SEQUENCE_WAIT_NS: i64 = 30_000_000;

/// Input from the terminal.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Keys that were read together.
    Keys(Vec<Key>),
    /// Raw bytes, for another program: see [`Input::read_bytes`].
    Bytes(Vec<u8>),
    /// Another process has the terminal: reading pauses until [`Input::resume`].
    Away,
    /// The terminal is disconnected.
    Gone,
}

/// Reader of the terminal on its own thread, until dropped. The thread sleeps without input.
#[derive(Debug)]
pub struct Input {
    typed: mpsc::UnboundedReceiver<Typed>,
    /// Whether a question to the terminal is not answered yet.
    reply_pending: Arc<AtomicBool>,
    /// Write end that wakes the reading thread, and ends it when closed.
    wake: UnixStream,
}

/// State of the reading thread of an [`Input`]: the stream that wakes it, and the channel for its output.
#[derive(Debug)]
struct Reading {
    woken: UnixStream,
    sender: mpsc::UnboundedSender<Typed>,
    reply_pending: Arc<AtomicBool>,
}

impl Input {
    /// Starts reading keys; the terminal's modes must be set.
    ///
    /// # Errors
    /// No thread or descriptor is available.
    pub fn read() -> io::Result<Self> {
        Self::begin(read)
    }

    /// Starts reading raw bytes.
    ///
    /// # Errors
    /// No thread or descriptor is available.
    pub fn read_bytes() -> io::Result<Self> {
        Self::begin(read_bytes)
    }

    fn begin(read: fn(&Reading) -> io::Result<()>) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        let (sender, typed) = mpsc::unbounded_channel();
        let reply_pending = Arc::new(AtomicBool::new(false));
        let reading = Reading { woken, sender, reply_pending: reply_pending.clone() };
        std::thread::Builder::new().name("keys".to_owned()).stack_size(256 * 1024).spawn(move || {
            if read(&reading).is_err() {
                let _ = reading.sender.send(Typed::Gone);
            }
        })?;
        Ok(Self { typed, reply_pending, wake })
    }

    /// Announces queries that end with one of the device attributes, so that late replies are not taken for
    /// text.
    pub fn expect_reply(&self) {
        self.reply_pending.store(true, Ordering::SeqCst);
    }

    /// Resumes reading in the foreground, after [`Typed::Away`].
    pub fn resume(&self) {
        // The write fails only if the reading thread has ended.
        let _ = (&self.wake).write(&[0]);
    }

    /// Stops reading; returns the unhandled keys.
    pub async fn finish(self) -> Vec<Key> {
        let Self { mut typed, wake, .. } = self;
        drop(wake);
        let mut keys = Vec::new();
        // The thread ends now, with its sender.
        while let Some(next) = typed.recv().await {
            if let Typed::Keys(read) = next {
                keys.extend(read);
            }
        }
        keys
    }

    /// Waits for the next input.
    pub async fn next(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or(Typed::Gone)
    }
}

fn read(Reading { woken, sender, reply_pending }: &Reading) -> io::Result<()> {
    let stdin = io::stdin();
    let (mut decoder, began) = (KeyDecoder::default(), Instant::now());
    decoder.expect_reply();
    let mut buffer = [0; 4096];
    loop {
        // In the background the keys belong to another process, and reading them would stop this one.
        let is_ours = is_in_foreground();
        if !is_ours && sender.send(Typed::Away).is_err() {
            return Ok(());
        }
        let input = if is_ours { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [PollFd::new(&stdin, input), PollFd::new(woken, PollFlags::IN)];
        let wait = (is_ours && decoder.awaits_more_bytes()).then_some(SEQUENCE_WAIT_NS);
        let wait = wait.map(|tv_nsec| Timespec { tv_sec: 0, tv_nsec });
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [typed, wakes] = fds.map(|fd| fd.revents());
        if !wakes.is_empty() && matches!((&*woken).read(&mut buffer), Ok(0) | Err(_)) {
            return Ok(());
        }
        if !is_ours && !typed.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !is_in_foreground() {
            continue;
        }
        decoder.set_time(began.elapsed());
        if reply_pending.swap(false, Ordering::SeqCst) {
            decoder.expect_reply();
        }
        let keys = if typed.is_empty() {
            decoder.idle().into_iter().collect()
        } else {
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => decoder.push(buffer.get(..read).unwrap_or_default()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            }
        };
        if !keys.is_empty() && sender.send(Typed::Keys(keys)).is_err() {
            return Ok(());
        }
    }
}

fn read_bytes(Reading { woken, sender, .. }: &Reading) -> io::Result<()> {
    let stdin = io::stdin();
    let mut buffer = [0; 4096];
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [typed, woken] = fds.map(|fd| fd.revents());
        if !woken.is_empty() {
            return Ok(());
        }
        if typed.is_empty() {
            continue;
        }
        let read = match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => buffer.get(..read).unwrap_or_default().to_vec(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(error) => return Err(error.into()),
        };
        if sender.send(Typed::Bytes(read)).is_err() {
            return Ok(());
        }
    }
}
