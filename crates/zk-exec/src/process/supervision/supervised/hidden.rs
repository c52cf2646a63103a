use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::process::supervision::supervisor::{HIDE, SANDBOX};
use crate::sandbox::{SandboxReport, read_answer, write_frame};
use crate::wire::put_all;

/// Additional paths that the sandbox hides, beyond its plan.
#[derive(Debug, Default)]
pub(super) struct Hidden(Mutex<Vec<PathBuf>>);

impl Hidden {
    pub(super) fn add(&self, paths: &[PathBuf]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(paths);
    }

    /// Sends all paths to a supervisor that has just been set up.
    pub(super) fn send_to(&self, socket: &UnixStream) -> io::Result<()> {
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.is_empty() { Ok(()) } else { hide(socket, &paths) }
    }
}

/// Makes a supervisor hide more paths.
pub(super) fn hide(mut socket: &UnixStream, paths: &[PathBuf]) -> io::Result<()> {
    let mut listed = Vec::new();
    put_all(&mut listed, paths);
    let mut order = vec![HIDE];
    write_frame(&mut order, &listed)?;
    socket.write_all(&order)
}

/// Sends a supervisor the plan of its sandbox and blocks until its report arrives, for 20 s at most.
pub(super) fn set_up(mut socket: &UnixStream, plan: &[u8]) -> io::Result<SandboxReport> {
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut request = vec![SANDBOX];
    write_frame(&mut request, plan)?;
    socket.write_all(&request)?;
    read_answer(&mut socket)
}
