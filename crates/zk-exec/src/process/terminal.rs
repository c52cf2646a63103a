use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;
use zk_core::service::TerminalSize;

use super::ends::{ChildEnds, Ends};

/// Opens a pseudo-terminal; returns this program's side and the side of a command.
pub(super) fn open_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    fcntl_setfd(&terminal, FdFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let side = open_side(&terminal)?;
    Ok((terminal, side))
}

/// Opens the side of a command.
pub(super) fn open_side(terminal: &OwnedFd) -> io::Result<OwnedFd> {
    let name = ptsname(terminal, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, Mode::empty())?)
}

/// Opens a pseudo-terminal of this size for one command.
pub(super) fn open(size: TerminalSize) -> io::Result<(Ends, ChildEnds)> {
    let (terminal, side) = open_pair()?;
    resize(&terminal, size)?;
    let of_command = [duplicate(&side)?, duplicate(&side)?, side];
    let (reads, writes) = (duplicate(&terminal)?, duplicate(&terminal)?);
    rustix::io::ioctl_fionbio(&terminal, true)?;
    let ends = Ends {
        // The terminal is no pipe, but is read and written like a pipe.
        stdin: Some(pipe::Sender::from_file_unchecked(File::from(writes))?),
        stdout: pipe::Receiver::from_file_unchecked(File::from(reads))?,
        stderr: None,
        terminal: Some(terminal),
    };
    Ok((ends, of_command))
}

/// Sets the size of a terminal.
pub(super) fn resize(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

fn duplicate(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}
