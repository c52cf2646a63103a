use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::modes::is_in_foreground;
use crate::keys::{Key, KeyDecoder};

/// Time after ESC in which the rest of a sequence may come, in nanoseconds: longer than a terminal needs,
/// also over a slow line, shorter than a person notices.
const SEQUENCE_WAIT_NS: i64 = 30_000_000;

/// Input that comes from the terminal.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Keys that were read at once.
    Keys(Vec<Key>),
    /// Bytes that were typed, for a program that reads them itself: see [`Input::read_bytes`].
    Bytes(Vec<u8>),
    /// The terminal is somebody else's: nothing is read until [`Input::resume`].
    Away,
    /// Nobody is at the terminal any more.
    Gone,
}

/// Reads the terminal on a thread of its own until it is dropped. The thread sleeps while nothing is typed.
#[derive(Debug)]
pub struct Input {
    typed: mpsc::UnboundedReceiver<Typed>,
    /// Whether a question to the terminal is not answered yet.
    reply_pending: Arc<AtomicBool>,
    /// Stream that wakes the thread; its end is the thread's.
    wake: UnixStream,
}

/// Thread's side of an [`Input`]: the stream that wakes it, and where what is read goes.
#[derive(Debug)]
struct Reading {
    woken: UnixStream,
    sender: mpsc::UnboundedSender<Typed>,
    reply_pending: Arc<AtomicBool>,
}

impl Input {
    /// Reads from now on; the terminal's modes are entered already.
    ///
    /// # Errors
    /// There is no thread or no descriptor left.
    pub fn read() -> io::Result<Self> {
        Self::begin(read)
    }

    /// Reads from now on, and makes no keys of what is typed.
    ///
    /// # Errors
    /// There is no thread or no descriptor left.
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

    /// The terminal is asked something now, last of all what it is: its answer is no text, however late it comes.
    pub fn expect_reply(&self) {
        self.reply_pending.store(true, Ordering::SeqCst);
    }

    /// The process is in the foreground again, after [`Typed::Away`].
    pub fn resume(&self) {
        // The write fails where the reading thread has ended: there is nothing to resume.
        let _ = (&self.wake).write(&[0]);
    }

    /// Ends the reading, and gives the keys that were read and not taken yet.
    pub async fn finish(self) -> Vec<Key> {
        let Self { mut typed, wake, .. } = self;
        drop(wake);
        let mut keys = Vec::new();
        // The thread ends now, and its sender with it.
        while let Some(next) = typed.recv().await {
            if let Typed::Keys(read) = next {
                keys.extend(read);
            }
        }
        keys
    }

    /// The next keys.
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
        // In the background the keys are for somebody else, and reading them would stop the process.
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
