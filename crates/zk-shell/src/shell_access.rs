use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::pump::{Input, OutputGate, RawMode, write_all};

/// Hidden key that makes the shell redraw its prompt and line.
const REDRAW_KEY: &[u8] = b"\x1b[1007178u";

/// Access of the conversation to the shell and its terminal.
#[derive(Clone, Debug)]
pub(crate) struct ShellAccess {
    pub(crate) terminal: Arc<File>,
    pub(crate) gate: Arc<OutputGate>,
    pub(crate) input: Arc<Input>,
    pub(crate) raw: RawMode,
    /// Private directory of the instance, if there is one.
    pub(crate) dir: Option<PathBuf>,
}

impl ShellAccess {
    /// Sends bytes to the shell, as if they were typed.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(&*self.terminal, bytes)
    }

    /// Whether the process is the shell as zk started it, by the private start file on its command line: one that replaced
    /// it by `exec` has no keys of zk.
    pub(crate) fn has_start_files(&self, process: u32) -> bool {
        let Some(dir) = self.dir.as_ref() else { return false };
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        memchr::memmem::find(&line, dir.as_os_str().as_bytes()).is_some()
    }

    /// Makes the shell redraw its prompt and line, without a command.
    pub(crate) fn redraw(&self) -> io::Result<()> {
        self.send(REDRAW_KEY)
    }
}
