//! The thread that reads the terminal.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{Inner, Question};
use crate::keys::{Key, KeyDecoder};
use crate::term::KeyMode;

/// Maximum wait after ESC for the rest of a sequence: longer than a terminal needs, shorter than a person
/// notices.
const SEQUENCE_WAIT: Duration = Duration::from_millis(15);

/// Interval between checks of the terminal's modes while idle, since a shell may have changed them.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Inner {
    /// Reads until the other end of `woken` is closed; fails when the terminal is disconnected.
    pub(super) fn read_keys(&self, mode: &KeyMode, woken: &UnixStream) -> io::Result<()> {
        let stdin = io::stdin();
        let mut keys = KeyDecoder::default();
        let mut buffer = [0; 4096];
        let mut is_ours = true;
        let mut typed_before = mode.typed_before;
        loop {
            // In the background the keys belong to another process.
            let input = if is_ours { PollFlags::IN } else { PollFlags::empty() };
            let mut fds = [PollFd::new(&stdin, input), PollFd::new(woken, PollFlags::IN)];
            let wait =
                if keys.awaits_more_bytes() { SEQUENCE_WAIT } else { self.until_tick().min(LOOK_INTERVAL) };
            match poll(&mut fds, Some(&timespec(wait))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [typed, woken] = fds.map(|fd| fd.revents());
            if !woken.is_empty() {
                return Ok(());
            }
            if !is_ours && !typed.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if typed.is_empty() {
                self.press_all(mode, keys.idle().as_slice());
            }
            self.answer_after_pause();
            let were_ours = std::mem::replace(&mut is_ours, mode.set_mode_again());
            match (were_ours, is_ours) {
                (true, false) => self.screen.lock().set_draft(""),
                (false, true) => self.show_typed(&self.lock_state()),
                (true, true) | (false, false) => {}
            }
            if typed.is_empty() || !is_ours {
                continue;
            }
            let read = rustix::io::read(&stdin, &mut buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = buffer.get_mut(..read).unwrap_or_default();
            let before = typed_before.min(read);
            typed_before -= before;
            for byte in bytes.iter_mut().take(before).filter(|byte| **byte == b'\n') {
                *byte = b'\r';
            }
            self.press_all(mode, &keys.push(bytes));
        }
    }

    /// Time until a chosen answer takes effect without a further key.
    fn until_tick(&self) -> Duration {
        let at = match &self.lock_state().question {
            Some(Question::Keys { keys, .. }) => keys.next_tick(),
            Some(Question::Line { .. }) | None => None,
        };
        at.map_or(LOOK_INTERVAL, |at| at.saturating_sub(self.began.elapsed()))
    }

    /// Answers with a choice that no key followed.
    fn answer_after_pause(&self) {
        if let Some(Question::Keys { keys, meanings }) = &mut self.lock_state().question
            && let Some(meaning) = keys.tick(self.began.elapsed())
        {
            // The receiver of answers may be gone.
            let _ = meanings.send(meaning);
        }
    }

    /// Handles keys that were read together. A line end between them belongs to a paste, and does not submit
    /// the text.
    fn press_all(&self, mode: &KeyMode, keys: &[Key]) {
        let mut together = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let is_last = at + 1 == keys.len();
            match key {
                Key::Ctrl('z') => {
                    self.screen.lock().set_draft("");
                    mode.send(Signal::TSTP);
                    if mode.set_mode_again() {
                        self.show_typed(&self.lock_state());
                    }
                }
                Key::Ctrl('\\') => mode.send(Signal::QUIT),
                Key::BackTab => {
                    if let Some(cycle) = self.cycle.get() {
                        cycle();
                    }
                }
                Key::Escape => {
                    if let Some(stop) = &self.lock_state().stop {
                        stop.cancel();
                    }
                }
                Key::Enter if !is_last => together.push(Key::Paste("\n".to_owned())),
                key @ (Key::Char(_)
                | Key::Paste(_)
                | Key::Enter
                | Key::Newline
                | Key::Tab
                | Key::Back
                | Key::Ctrl('u' | 'w')) => together.push(key.clone()),
                Key::Alt('q') => self.focus_question(),
                // The remaining keys have no meaning for a line.
                Key::Ctrl(_)
                | Key::Alt(_)
                | Key::Delete
                | Key::Move { .. }
                | Key::Synchronized(_)
                | Key::Ground { .. }
                | Key::Size { .. }
                | Key::Version(_)
                | Key::Answered
                | Key::Wheel { .. }
                | Key::Focus(_) => {}
            }
        }
        if !together.is_empty() {
            self.handle_keys(&together);
        }
    }
}

/// Converts a duration to the form that `poll` takes.
fn timespec(wait: Duration) -> Timespec {
    Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}
