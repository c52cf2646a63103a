use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::write_all;
use crate::start::{private_file, random_word};

/// Output that is held in memory; more goes to a file, in bytes.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Buffer of a replay, in bytes.
const REPLAY_BYTES: usize = 64 * 1024;

/// Gate between the output of the shell and the terminal: closed while the conversation draws, and what comes
/// meanwhile is replayed in order.
#[derive(Debug)]
pub(crate) struct OutputGate {
    state: Mutex<State>,
    /// Private directory for held output; `None` keeps it in memory.
    dir: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// First output held, in memory.
    held: Vec<u8>,
    /// Output behind it: a file that no directory names any more.
    spilled: Option<File>,
}

impl OutputGate {
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { state: Mutex::default(), dir }
    }

    /// Writes output to the terminal, or holds it.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if !state.is_closed {
            return write_all(io::stdout(), bytes);
        }
        if state.spilled.is_none() && state.held.len() + bytes.len() > MAX_HELD_BYTES {
            state.spilled = self.spill_file();
        }
        match &mut state.spilled {
            Some(file) => match file.write_all(bytes) {
                Ok(()) => {}
                // A full disk: memory holds the rest, in order, from the whole of the file on.
                Err(_) => state.unspill(bytes)?,
            },
            None => state.held.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Holds output from now on.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
    }

    /// Replays what was held, and lets output through.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut state = self.state();
        state.is_closed = false;
        let held = std::mem::take(&mut state.held);
        write_all(io::stdout(), &held)?;
        if let Some(mut file) = state.spilled.take() {
            file.seek(SeekFrom::Start(0))?;
            let mut buffer = vec![0; REPLAY_BYTES];
            loop {
                let read = file.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                write_all(io::stdout(), buffer.get(..read).unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn spill_file(&self) -> Option<File> {
        let path = self.dir.as_ref()?.join(random_word().ok()?);
        let file = private_file(&path).ok()?;
        // Nothing remains of it, however this process ends.
        std::fs::remove_file(&path).ok()?;
        Some(file)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unspill(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = self.spilled.take() {
            // A part of `bytes` may have been written.
            let written = file.stream_position()?;
            file.seek(SeekFrom::Start(0))?;
            file.take(written).read_to_end(&mut self.held)?;
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }
}
