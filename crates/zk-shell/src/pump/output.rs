use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{OutputGate, SharedState};
use crate::marks::{Mark, MarkScanner, MarkSink};
use crate::record::ExchangeEnd;

/// Read buffer for the shell's output, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// Time without output after which the output of an ended shell is complete, in nanoseconds; background
/// processes may hold the terminal open.
const LAST_OUTPUT_WAIT_NS: i64 = 20_000_000;

/// Sink for the scanned output of one shell.
struct Tap<'a> {
    gate: &'a OutputGate,
    shared: &'a SharedState,
    is_lost: bool,
}

/// Copies the output of the shell to the terminal, on this thread, and applies its marks. `ended` becomes readable when
/// the shell has exited.
pub(crate) fn run_output(
    terminal: &File,
    ended: &UnixStream,
    nonce: &str,
    gate: &OutputGate,
    shared: &SharedState,
) {
    let mut scanner = MarkScanner::new(nonce);
    let mut tap = Tap { gate, shared, is_lost: false };
    let mut buffer = vec![0; READ_BYTES];
    let mut has_ended = false;
    loop {
        let mut fds = [PollFd::new(terminal, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let wait = has_ended.then_some(Timespec { tv_sec: 0, tv_nsec: LAST_OUTPUT_WAIT_NS });
        let watched = if has_ended { fds.get_mut(..1) } else { Some(&mut fds[..]) };
        let ready = poll(watched.unwrap_or_default(), wait.as_ref());
        let [output, exited] = fds.map(|fd| fd.revents());
        if has_ended && matches!(ready, Ok(0)) {
            break;
        }
        has_ended |= !exited.is_empty();
        if output.is_empty() {
            continue;
        }
        match rustix::io::read(terminal, &mut buffer) {
            Ok(read @ 1..) => scanner.push(buffer.get(..read).unwrap_or_default(), &mut tap),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Ok(0) | Err(_) => break,
        }
        if tap.is_lost {
            break;
        }
    }
    scanner.finish(&mut tap);
    if !has_ended && !tap.is_lost {
        // The terminal of a shell that ends is closed a moment before its exit code is known.
        let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], None);
    }
}

impl MarkSink for Tap<'_> {
    fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (was_alternate, is_alternate, len) = {
                let mut modes = self.shared.modes();
                let was = modes.is_alternate;
                let len = modes.push_to_switch(rest);
                (was, modes.is_alternate, len)
            };
            // The part ends with the sequence that switches, if one does.
            let (part, behind) = rest.split_at(len);
            rest = behind;
            let mut recorder = self.shared.recorder();
            match (was_alternate, is_alternate) {
                (false, false) => recorder.record_output(part),
                (false, true) => recorder.enter_full_screen(part),
                (true, true) => recorder.record_drawing(part),
                (true, false) => recorder.leave_full_screen(),
            }
        }
        self.is_lost |= self.gate.write(bytes).is_err();
    }

    fn mark(&mut self, mark: Mark) {
        {
            let mut line = self.shared.line();
            if let Mark::Started { text, source, entry } = &mark {
                let command = line.started_command(text, *source, *entry);
                self.shared.recorder().record_start(command, line.agent_command.is_some());
            }
            line.apply_mark(&mark);
        }
        match mark {
            Mark::Ended { code, dir } => {
                let mut recorder = self.shared.recorder();
                recorder.record_end(ExchangeEnd::Code(code));
                follow(&mut recorder, dir);
            }
            Mark::Directory(dir) => follow(&mut self.shared.recorder(), dir),
            // A command whose end was not told has ended by now.
            Mark::Ready { .. } => self.shared.recorder().record_end(ExchangeEnd::Unknown),
            Mark::Started { .. }
            | Mark::Continued
            | Mark::LineText(_)
            | Mark::Definitions(_)
            | Mark::Line { .. } => {}
        }
        self.shared.wake_waiters();
    }
}

/// Changes to the shell's directory, so that multiplexers open panes there.
fn follow(recorder: &mut crate::record::Recorder, dir: Vec<u8>) {
    let dir = PathBuf::from(std::ffi::OsString::from_vec(dir));
    let text = dir.to_string_lossy().into_owned();
    if recorder.dir() == Some(&text) {
        return;
    }
    // The directory may be gone; everything of zk names its paths in full.
    let _ = std::env::set_current_dir(&dir);
    recorder.set_dir(text);
}
