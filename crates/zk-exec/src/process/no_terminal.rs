//! Replacement for terminals in a build without the feature `pty`: every request for a terminal fails.

use std::io;
use std::os::fd::OwnedFd;

use zk_core::service::TerminalSize;

use super::ends::{ChildEnds, Ends};

pub(super) fn open(_: TerminalSize) -> io::Result<(Ends, ChildEnds)> {
    Err(unsupported())
}

pub(super) fn resize(_: &OwnedFd, _: TerminalSize) -> io::Result<()> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this program was built without the feature `pty` of zk-exec")
}
