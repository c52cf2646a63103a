use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;
use zk_core::service::{ExecRequest, Input, TerminalSize};

/// This side of what a command reads and prints to.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: pipe::Receiver,
    /// Nothing for a terminal, which shows both outputs.
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) terminal: Option<OwnedFd>,
}

/// The command's side: standard input and both outputs.
pub(super) type ChildEnds = [OwnedFd; 3];

/// Pipes, or a terminal, for one command.
pub(super) fn open(request: &ExecRequest) -> io::Result<(Ends, ChildEnds)> {
    match request.terminal {
        Some(size) => open_terminal(size),
        None => open_pipes(request.input),
    }
}

fn open_pipes(input: Input) -> io::Result<(Ends, ChildEnds)> {
    let (stdout, of_stdout) = io::pipe()?;
    let (stderr, of_stderr) = io::pipe()?;
    let (of_stdin, stdin) = match input {
        Input::Closed => (OwnedFd::from(File::open("/dev/null")?), None),
        Input::Piped => {
            let (of_stdin, stdin) = io::pipe()?;
            (of_stdin.into(), Some(pipe::Sender::from_owned_fd(stdin.into())?))
        }
    };
    let ends = Ends {
        stdin,
        stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
        stderr: Some(pipe::Receiver::from_owned_fd(stderr.into())?),
        terminal: None,
    };
    Ok((ends, [of_stdin, of_stdout.into(), of_stderr.into()]))
}

fn open_terminal(size: TerminalSize) -> io::Result<(Ends, ChildEnds)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    fcntl_setfd(&terminal, FdFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let side = rustix::fs::open(name, flags, Mode::empty())?;
    resize(&terminal, size)?;
    let of_command = [duplicate(&side)?, duplicate(&side)?, side];
    let (reads, writes) = (duplicate(&terminal)?, duplicate(&terminal)?);
    rustix::io::ioctl_fionbio(&terminal, true)?;
    let ends = Ends {
        // It is no pipe, and is read and written like one.
        stdin: Some(pipe::Sender::from_file_unchecked(File::from(writes))?),
        stdout: pipe::Receiver::from_file_unchecked(File::from(reads))?,
        stderr: None,
        terminal: Some(terminal),
    };
    Ok((ends, of_command))
}

/// Tells a terminal its size.
pub(super) fn resize(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

fn duplicate(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}
