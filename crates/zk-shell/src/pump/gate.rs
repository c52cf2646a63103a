use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::write_all;
use crate::start::{private_file, random_word};

/// Size limit of held output in memory, in bytes; more goes to a spill file.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Size limit of the spill file, in bytes; beyond it the shell waits.
const MAX_SPILLED_BYTES: u64 = 64 << 20;

/// Read buffer for the spill file, in bytes.
const REPLAY_BYTES: usize = 64 * 1024;

/// Buffer of the shell's output while the conversation draws, in memory and then in a spill file; opening it flushes in
/// order.
#[derive(Debug)]
pub(crate) struct OutputGate {
    state: Mutex<State>,
    /// Signals that the gate opens.
    opened: Condvar,
    /// Private directory for the spill file; `None` keeps all output in memory.
    dir: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// Output buffer in memory, before the spill file.
    held: Vec<u8>,
    /// Spill file of the output that follows the buffer, already unlinked.
    spilled: Option<File>,
    /// Size of the spill file, in bytes.
    spilled_bytes: u64,
}

impl OutputGate {
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { state: Mutex::default(), opened: Condvar::new(), dir }
    }

    /// Writes output to the terminal, or holds it while the gate is closed; waits for the opening if there is no room.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if state.is_closed && self.hold(&mut state, bytes)? {
            return Ok(());
        }
        let waits = |state: &mut State| state.is_closed;
        let _opened = self.opened.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        write_all(io::stdout(), bytes)
    }

    /// Adds output to the buffer or the spill file; false if there is no room for it.
    fn hold(&self, state: &mut State, bytes: &[u8]) -> io::Result<bool> {
        if state.spilled.is_none() {
            if state.held.len() + bytes.len() <= MAX_HELD_BYTES {
                state.held.extend_from_slice(bytes);
                return Ok(true);
            }
            state.spilled = self.spill_file();
            state.spilled_bytes = 0;
        }
        let after = state.spilled_bytes + bytes.len() as u64;
        let Some(file) = state.spilled.as_mut().filter(|_| after <= MAX_SPILLED_BYTES) else {
            return Ok(false);
        };
        if file.write_all(bytes).is_err() {
            // A full disk: a part of the bytes may have been written.
            file.set_len(state.spilled_bytes)?;
            file.seek(SeekFrom::Start(state.spilled_bytes))?;
            return Ok(false);
        }
        state.spilled_bytes = after;
        Ok(true)
    }

    /// Closes the gate: output is held from now on.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
    }

    /// Opens the gate: writes the held output to the terminal, and lets further output through.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut state = self.state();
        state.is_closed = false;
        self.opened.notify_all();
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
        // Unlinked at once, so that no file remains, however this process ends.
        std::fs::remove_file(&path).ok()?;
        Some(file)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_end_has_no_more_room_than_the_cap() {
        let home = tempfile::tempdir().unwrap();
        let chunk = vec![b' '; MAX_HELD_BYTES];
        for (dir, chunks) in [(None, 1), (Some(home.path().to_path_buf()), 65)] {
            let gate = OutputGate::new(dir);
            gate.close();
            let mut state = gate.state();
            let held = (0..100).take_while(|_| gate.hold(&mut state, &chunk).unwrap()).count();
            assert_eq!((held, state.held.len()), (chunks, MAX_HELD_BYTES));
        }
    }
}
