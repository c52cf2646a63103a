use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// How often a wait for a key looks whether it is still wanted.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How a terminal treats what is typed.
#[derive(Clone)]
pub(crate) struct Mode(Termios);

impl Mode {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        Ok(Self(tcgetattr(io::stdin())?))
    }

    /// Makes the terminal behave like this again.
    pub(crate) fn apply(&self) {
        // A terminal that is gone needs no repair.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }

    /// Keys one by one and unseen, while Ctrl-C stays a signal. What was typed before the question is thrown
    /// away: nobody approves by accident.
    fn keys(&self) -> io::Result<Restore<'_>> {
        let mut raw = self.0.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Restore(self))
    }

    /// Whole lines, typed before or not.
    fn lines(&self) -> io::Result<Restore<'_>> {
        tcsetattr(io::stdin(), OptionalActions::Flush, &self.0)?;
        Ok(Restore(self))
    }
}

struct Restore<'a>(&'a Mode);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.apply();
    }
}

/// Asks, and gives the first key that is `wanted`; nothing when it is not wanted any more or nobody is there.
///
/// The question is shown once the terminal takes keys: whoever answers it is heard, whoever typed before it is
/// not.
pub(crate) fn key(
    unwanted: &AtomicBool,
    ask: impl FnOnce(),
    wanted: impl Fn(char) -> bool,
) -> io::Result<Option<char>> {
    let mode = Mode::of_stdin()?;
    let _restore = mode.keys()?;
    ask();
    let mut buffer = [0; 64];
    while !unwanted.load(Ordering::Acquire) {
        if !ready()? {
            continue;
        }
        let read = rustix::io::read(io::stdin(), &mut buffer)?;
        let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).to_lowercase();
        let Some(key) = text.chars().next() else { return Ok(None) };
        if wanted(key) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Asks, and gives the next line without its end; nothing when it is not wanted any more or nobody is there.
pub(crate) fn line(unwanted: &AtomicBool, ask: impl FnOnce()) -> io::Result<Option<String>> {
    let mode = Mode::of_stdin()?;
    let _restore = mode.lines()?;
    ask();
    let mut typed = Vec::new();
    let mut buffer = [0; 1024];
    while !unwanted.load(Ordering::Acquire) {
        if !ready()? {
            continue;
        }
        let read = rustix::io::read(io::stdin(), &mut buffer)?;
        typed.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if typed.ends_with(b"\n") {
            return Ok(Some(String::from_utf8_lossy(&typed).trim().to_owned()));
        }
        if read == 0 {
            return Ok(None);
        }
    }
    Ok(None)
}

fn ready() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&LOOK)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
