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

/// Control sequence that saves the title; enables bracketed paste, focus reports and disambiguated keys
/// (Shift-Enter); and queries support for synchronized output.
const ENTER: &str = "\u{1b}[22;2t\u{1b}[?2004h\u{1b}[?1004h\u{1b}[>1u\u{1b}[?2026$p";
/// Query of the terminal's background colour.
const BACKGROUND_QUERY: &str = "\u{1b}]11;?\u{1b}\\";
/// Query of the terminal's name and version.
const VERSION_QUERY: &str = "\u{1b}[>0q";
/// Query of the device attributes, which every terminal answers. Replies to earlier queries come before this
/// one, or never.
const DEVICE_ATTRIBUTES_QUERY: &str = "\u{1b}[c";
/// Control sequence that switches off the modes of [`ENTER`], restores the title and shows the caret.
const LEAVE: &str = "\u{1b}[23;2t\u{1b}[<u\u{1b}[?1004l\u{1b}[?2004l\u{1b}[?25h";

/// Modes of the terminal on standard input. Clones share the terminal; it is restored once any of them
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
    /// Left for good, since the process ends.
    Never,
}

/// Queries that not every terminal supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// Whether to query the background colour.
    pub ground: bool,
    /// Whether to query the terminal's name and version.
    pub version: bool,
}

/// Minimum size of the terminal for a usable conversation, in columns and rows.
const MIN_SIZE: (u16, u16) = (20, 5);

impl Modes {
    /// Records the present modes of the terminal.
    ///
    /// # Errors
    /// Standard input is not a terminal.
    pub fn of_stdin() -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        let is_alternate = AtomicBool::new(false);
        Ok(Self(Arc::new(State { usual, entered: Mutex::new(Entered::No), is_alternate })))
    }

    /// Enters raw mode with signal keys as input, and sends queries.
    ///
    /// # Errors
    /// The terminal is disconnected.
    pub fn enter(&self, Queries { ground, version }: Queries) -> io::Result<()> {
        let ground = if ground { BACKGROUND_QUERY } else { "" };
        let version = if version { VERSION_QUERY } else { "" };
        self.begin_raw(&format!("{ENTER}{ground}{version}{DEVICE_ATTRIBUTES_QUERY}"))
    }

    /// Variant of [`enter`](Self::enter) that only sets raw mode.
    ///
    /// # Errors
    /// The terminal is disconnected.
    pub fn enter_raw(&self) -> io::Result<()> {
        self.begin_raw("")
    }

    fn begin_raw(&self, asked: &str) -> io::Result<()> {
        let mut entered = self.0.lock_entered();
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

    /// Writes a frame; `is_alternate` tells whether it leaves the alternate screen in use.
    ///
    /// # Errors
    /// The terminal is disconnected.
    pub fn write_frame(&self, frame: &str, is_alternate: bool) -> io::Result<()> {
        // If the terminal is restored at the same time, the alternate screen is left once too often rather than
        // never.
        if is_alternate {
            self.0.is_alternate.store(true, Ordering::SeqCst);
        }
        if !frame.is_empty() {
            write(frame)?;
        }
        self.0.is_alternate.store(is_alternate, Ordering::SeqCst);
        Ok(())
    }

    /// Whether this process is in the foreground; true if the terminal does not say.
    #[must_use]
    pub fn is_in_foreground(&self) -> bool {
        is_in_foreground()
    }

    /// Whether another process changed the modes since they were set: a shell, while this process was
    /// stopped.
    #[must_use]
    pub fn are_changed(&self) -> bool {
        let is_usual = |mode: Termios| mode.local_modes.contains(LocalModes::ICANON);
        *self.0.lock_entered() == Entered::Yes && tcgetattr(io::stdin()).is_ok_and(is_usual)
    }

    /// Restores the terminal. Does nothing in the background, where the modes belong to the shell.
    pub fn leave(&self) {
        self.0.leave(Entered::No);
    }

    /// Restores the terminal for good, at the end of the process.
    pub fn leave_for_good(&self) {
        self.0.leave(Entered::Never);
    }

    /// Passes on the output of a program that runs on its own pseudo-terminal.
    ///
    /// # Errors
    /// The terminal is disconnected.
    pub fn write_output(bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Remark on a terminal that does not report its size, or is too small.
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

    /// Size of the terminal; 80 by 24 if unknown.
    #[must_use]
    pub fn size() -> Size {
        let size = tcgetwinsize(io::stdout()).ok();
        let or = |size: Option<u16>, usual| size.filter(|size| *size > 0).map_or(usual, usize::from);
        Size::new(or(size.map(|size| size.ws_col), 80), or(size.map(|size| size.ws_row), 24))
    }
}

impl State {
    fn lock_entered(&self) -> MutexGuard<'_, Entered> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, next: Entered) {
        let mut entered = self.lock_entered();
        if *entered == Entered::Yes && is_in_foreground() {
            // A disconnected terminal needs no restore.
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

/// Writes a text in one call, which a terminal shows at once, unless it accepts only a part.
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
