use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::capture::Capture;
use super::exchange::without;
use super::{Exchange, ExchangeEnd};

/// Number of commands that are remembered.
const MAX_EXCHANGES: usize = 1_000;

/// Memory for the output of all commands together, in bytes; the oldest output goes first.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Whether commands are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CaptureState {
    #[default]
    On,
    Off,
}

/// Recorder of the commands in one shell.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    state: CaptureState,
    running: Option<Running>,
    exchanges: VecDeque<Exchange>,
    /// Number of the newest command.
    last: u64,
    /// Number of the newest command that the model was told.
    told: u64,
    dir: Option<String>,
    /// Directory that the model was told.
    told_dir: Option<String>,
    size: (u16, u16),
    /// Word that is in no text that leaves the recorder.
    nonce: Arc<str>,
    /// Last command of the agent.
    by_agent: Option<Exchange>,
}

#[derive(Debug)]
struct Running {
    command: Option<String>,
    dir: Option<String>,
    since: Instant,
    output: Capture,
    is_full_screen: bool,
    is_by_agent: bool,
}

impl Recorder {
    /// Records the beginning of a command; one that the person keeps out of the record is not recorded.
    pub(crate) fn started(&mut self, command: Option<String>, is_private: bool, is_by_agent: bool) {
        self.stop(ExchangeEnd::Unknown);
        if is_private || self.state == CaptureState::Off {
            return;
        }
        let command = command.map(|text| without(&self.nonce, text.as_bytes()));
        let command = command.map(|text| String::from_utf8_lossy(&text).into_owned());
        let dir = self.dir.clone();
        let (since, output) = (Instant::now(), Capture::default());
        self.running = Some(Running { command, dir, since, output, is_full_screen: false, is_by_agent });
    }

    /// Records output of the present command.
    pub(crate) fn output(&mut self, bytes: &[u8]) {
        if self.state == CaptureState::Off {
            return;
        }
        if let Some(running) = &mut self.running {
            running.output.push(bytes);
        }
    }

    /// Records that the present command draws on the alternate screen.
    pub(crate) fn full_screen(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_full_screen = true;
            running.output = Capture::default();
        }
    }

    /// Records the end of the present command.
    pub(crate) fn stop(&mut self, end: ExchangeEnd) {
        let Some(running) = self.running.take() else { return };
        let Running { command, dir, since, output, is_full_screen, is_by_agent } = running;
        self.last += 1;
        let (number, duration, size) = (self.last, since.elapsed(), self.size);
        let nonce = self.nonce.clone();
        let ended = Exchange { number, command, dir, end, duration, is_full_screen, output, size, nonce };
        if is_by_agent {
            // The tool's result tells the model.
            self.by_agent = Some(ended);
            return;
        }
        self.exchanges.push_back(ended);
        while self.exchanges.len() > MAX_EXCHANGES {
            self.exchanges.pop_front();
        }
        let mut bytes: usize = self.exchanges.iter().map(|exchange| exchange.output.bytes()).sum();
        for exchange in &mut self.exchanges {
            if bytes <= MAX_OUTPUT_BYTES {
                break;
            }
            bytes -= exchange.output.bytes();
            exchange.output = Capture::default();
        }
    }

    /// Takes the command that the agent ran last.
    pub(crate) fn take_by_agent(&mut self) -> Option<Exchange> {
        self.by_agent.take()
    }

    /// The command that runs, as far as it is recorded.
    pub(crate) fn running(&self) -> Option<Exchange> {
        let running = self.running.as_ref()?;
        Some(Exchange {
            number: self.last + 1,
            command: running.command.clone(),
            dir: running.dir.clone(),
            end: ExchangeEnd::Unknown,
            duration: running.since.elapsed(),
            is_full_screen: running.is_full_screen,
            output: running.output.clone(),
            size: self.size,
            nonce: self.nonce.clone(),
        })
    }

    /// The newest command of the person.
    pub(crate) fn newest(&self) -> Option<Exchange> {
        self.exchanges.back().cloned()
    }

    /// Sets the directory that the conversation was opened in, which the model knows.
    pub(crate) fn begin_in(&mut self, dir: String) {
        self.told_dir = Some(dir.clone());
        self.dir = Some(dir);
    }

    /// Sets the nonce of the marks, with which output could imitate them.
    pub(crate) fn hide(&mut self, nonce: &str) {
        self.nonce = nonce.into();
    }

    pub(crate) fn set_dir(&mut self, dir: String) {
        self.dir = Some(dir);
    }

    pub(crate) fn dir(&self) -> Option<&str> {
        self.dir.as_deref()
    }

    /// Sets the terminal's columns and rows.
    pub(crate) fn set_size(&mut self, size: (u16, u16)) {
        self.size = size;
    }

    /// Commands that the model was not told yet, oldest first.
    pub(crate) fn news(&self) -> Vec<Exchange> {
        self.exchanges.iter().filter(|exchange| exchange.number > self.told).cloned().collect()
    }

    /// Present directory, if the model was told another one.
    pub(crate) fn new_dir(&self) -> Option<String> {
        let is_new = self.state == CaptureState::On && self.dir != self.told_dir;
        self.dir.clone().filter(|_| is_new)
    }

    /// Marks the commands up to this number, and a directory, as told.
    pub(crate) fn tell(&mut self, number: u64, dir: Option<String>) {
        self.told = self.told.max(number);
        self.told_dir = dir.or_else(|| self.told_dir.take());
    }

    /// Forgets all commands, the running one and the agent's as well; returns the number of ended ones.
    pub(crate) fn forget(&mut self) -> usize {
        let count = self.exchanges.len();
        self.running = None;
        self.by_agent = None;
        self.exchanges.clear();
        count
    }

    /// Switches recording. Switched off, everything that the model was not told is forgotten.
    pub(crate) fn set_state(&mut self, state: CaptureState) {
        self.state = state;
        if state == CaptureState::Off {
            self.forget();
        }
    }

    pub(crate) fn state(&self) -> CaptureState {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nonce_is_in_no_record() {
        let mut recorder = Recorder::default();
        recorder.hide("0123456789abcdef");
        recorder.set_size((20, 5));
        recorder.started(Some("echo 0123456789abcdef".to_owned()), false, false);
        recorder.output(b"__zk_nonce=0123456789abcdef\r\n");
        recorder.stop(ExchangeEnd::Code(0));
        let told = recorder.newest().unwrap();
        assert_eq!(told.command.as_deref(), Some("echo [nonce]"));
        assert_eq!(told.output_lines(), ["__zk_nonce=[nonce]"]);
    }

    #[test]
    fn nothing_outlasts_forgetting() {
        let mut recorder = Recorder::default();
        for is_by_agent in [false, true, false] {
            recorder.started(Some("ls".to_owned()), false, is_by_agent);
        }
        assert_eq!(recorder.forget(), 1);
        let left = (recorder.running(), recorder.newest(), recorder.take_by_agent());
        assert!(matches!(left, (None, None, None)), "{left:?}");
    }
}
