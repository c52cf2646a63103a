use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};

use crate::full::LEAVE as LEAVE_ALTERNATE;
use crate::inline::Size;

/// Saves the title, switches bracketed paste, focus reports and disambiguated keys (Shift-Enter) on, and asks whether the
/// terminal knows synchronized output.
const ENTER: &str = "\u{1b}[22;2t\u{1b}[?2004h\u{1b}[?1004h\u{1b}[>1u\u{1b}[?2026$p";
/// Query of the background colour.
const GROUND: &str = "\u{1b}]11;?\u{1b}\\";
/// Query of the terminal's name and version.
const VERSION: &str = "\u{1b}[>0q";
/// Query of the device attributes, which every terminal answers. Answers to earlier queries come before this one, or never.
const DEVICE_ATTRIBUTES: &str = "\u{1b}[c";
/// Switches the modes of [`ENTER`] off, restores the title and shows the caret.
const LEAVE: &str = "\u{1b}[23;2t\u{1b}[<u\u{1b}[?1004l\u{1b}[?2004l\u{1b}[?25h";

/// The modes of the terminal on standard input. Clones are the same terminal; it is as it was found once any of them
/// [leaves](Modes::leave), and when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Modes(Arc<State>);

#[derive(Debug)]
struct State {
    usual: Termios,
    entered: Mutex<Entered>,
    /// Whether the alternate screen is in use.
    is_alternate: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    No,
    Yes,
    /// For good: the process ends.
    Never,
}

/// Queries to a terminal beside what each of them is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// Whether the terminal is asked for the colour of its ground.
    pub ground: bool,
    /// Name and version of the terminal.
    pub version: bool,
}

/// Columns and rows that a conversation needs to be of use.
const MIN_SIZE: (u16, u16) = (20, 5);

impl Modes {
    /// The terminal as it is now.
    ///
    /// # Errors
    /// Standard input is no terminal.
    pub fn of_stdin() -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        let is_alternate = AtomicBool::new(false);
        Ok(Self(Arc::new(State { usual, entered: Mutex::new(Entered::No), is_alternate })))
    }

    /// Gives keys one by one and unseen, also those that are signals otherwise, and asks the terminal some questions.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn enter(&self, Queries { ground, version }: Queries) -> io::Result<()> {
        let ground = if ground { GROUND } else { "" };
        let version = if version { VERSION } else { "" };
        self.begin(&format!("{ENTER}{ground}{version}{DEVICE_ATTRIBUTES}"))
    }

    /// Enters as [`enter`](Self::enter) does, and leaves what else a terminal can do to whoever draws on it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn enter_raw(&self) -> io::Result<()> {
        self.begin("")
    }

    fn begin(&self, asked: &str) -> io::Result<()> {
        let mut entered = self.0.entered();
        if *entered != Entered::No {
            return Ok(());
        }
        let mut raw = self.0.usual.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.input_modes.remove(InputModes::ICRNL | InputModes::INLCR | InputModes::IXON | InputModes::ISTRIP);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        *entered = Entered::Yes;
        write(asked)
    }

    /// Writes a frame, after which the alternate screen is in use or not.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn write_frame(&self, frame: &str, is_alternate: bool) -> io::Result<()> {
        // Whoever gives the terminal back meanwhile leaves the alternate screen once too often rather than not at all.
        if is_alternate {
            self.0.is_alternate.store(true, Ordering::SeqCst);
        }
        if !frame.is_empty() {
            write(frame)?;
        }
        self.0.is_alternate.store(is_alternate, Ordering::SeqCst);
        Ok(())
    }

    /// Whether what is typed is for this process; a terminal that does not say so counts as its own.
    #[must_use]
    pub fn is_in_foreground(&self) -> bool {
        is_in_foreground()
    }

    /// Whether somebody else changed the modes since they were entered: a shell did, while the process was stopped.
    #[must_use]
    pub fn are_changed(&self) -> bool {
        let is_usual = |mode: Termios| mode.local_modes.contains(LocalModes::ICANON);
        *self.0.entered() == Entered::Yes && tcgetattr(io::stdin()).is_ok_and(is_usual)
    }

    /// Puts the terminal back as it was found; nothing in the background, where a shell has modes of its own.
    pub fn leave(&self) {
        self.0.leave(Entered::No);
    }

    /// Puts the terminal back as it was found, for good: the process ends.
    pub fn leave_for_good(&self) {
        self.0.leave(Entered::Never);
    }

    /// Writes what a program shows that the person runs on a terminal of its own: it does with this one what it likes.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn hand_on(bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Returns a remark on a terminal that does not tell its size, or has too little of it.
    #[must_use]
    pub fn size_remark() -> Option<String> {
        let said = tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_col, size.ws_row));
        match said {
            None | Some((0, _) | (_, 0)) => {
                let Size { width, height } = Self::size();
                Some(format!(
                    "the terminal does not say how large it is: {width} columns and {height} rows are assumed"
                ))
            }
            Some((width, height)) if width < MIN_SIZE.0 || height < MIN_SIZE.1 => {
                Some(format!("a terminal of {width}x{height} shows next to nothing: make it larger"))
            }
            Some(_) => None,
        }
    }

    /// The size of the terminal; 80 by 24 where it does not say.
    #[must_use]
    pub fn size() -> Size {
        let size = tcgetwinsize(io::stdout()).ok();
        let or = |size: Option<u16>, usual| size.filter(|size| *size > 0).map_or(usual, usize::from);
        Size::new(or(size.map(|size| size.ws_col), 80), or(size.map(|size| size.ws_row), 24))
    }
}

impl State {
    fn entered(&self) -> MutexGuard<'_, Entered> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, next: Entered) {
        let mut entered = self.entered();
        if *entered == Entered::Yes && is_in_foreground() {
            // A terminal that is gone needs no repair.
            if self.is_alternate.swap(false, Ordering::SeqCst) {
                let _ = write(LEAVE_ALTERNATE);
            }
            let _ = write(LEAVE);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.usual);
        }
        if *entered != Entered::Never {
            *entered = next;
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.leave(Entered::Never);
    }
}

pub(super) fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Writes a text at once: a terminal shows it as one, unless it takes only a part.
fn write(text: &str) -> io::Result<()> {
    let out = io::stdout().lock();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(&out, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&out, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
