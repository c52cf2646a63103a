use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use tokio::net::unix::pipe;
use zk_core::service::{ExecRequest, Input};

use super::terminal;

/// This program's ends of a command's standard streams.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: pipe::Receiver,
    /// `None` for a terminal, which carries both outputs.
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) terminal: Option<OwnedFd>,
}

/// The command's ends: standard input, output and error.
pub(super) type ChildEnds = [OwnedFd; 3];

/// Opens pipes, or a terminal, for one command.
pub(super) fn open(request: &ExecRequest) -> io::Result<(Ends, ChildEnds)> {
    match request.terminal {
        Some(size) => terminal::open(size),
        None => open_pipes(request.input),
    }
}

/// Opens a file to which both outputs are appended; there is no input, and this program reads no output.
pub(super) fn open_file(output: &Path) -> io::Result<(Ends, ChildEnds)> {
    let file = File::options().append(true).open(output)?;
    let (stdout, _) = io::pipe()?;
    let ends = Ends {
        stdin: None,
        stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
        stderr: None,
        terminal: None,
    };
    Ok((ends, [File::open("/dev/null")?.into(), file.try_clone()?.into(), file.into()]))
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
