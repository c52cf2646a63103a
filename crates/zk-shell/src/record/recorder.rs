use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::capture::Capture;
use super::exchange::without_nonce;
use super::live_screen::LiveScreen;
use super::{Exchange, ExchangeEnd};
use crate::line::StartedCommand;

/// Default number of commands that are remembered.
pub(crate) const MAX_COMMANDS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Default size of the output that is remembered, in bytes.
pub(crate) const MAX_OUTPUT_BYTES: u32 = 4 << 20;

/// Limits of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLimits {
    /// Number of commands that are remembered.
    pub(crate) commands: usize,
    /// Memory for the output of all commands together, in bytes; the oldest output goes first.
    pub(crate) output_bytes: usize,
}

impl RecordLimits {
    /// Converts the limits of the settings.
    pub(crate) fn new(commands: NonZeroU32, output_bytes: u32) -> Self {
        let size = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
        Self { commands: size(commands.get()), output_bytes: size(output_bytes) }
    }
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self::new(MAX_COMMANDS, MAX_OUTPUT_BYTES)
    }
}

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
    limits: RecordLimits,
    running: Option<Running>,
    exchanges: VecDeque<Exchange>,
    /// Number of the last ended command.
    last: u64,
    /// Number of the last command that the model was told about.
    told: u64,
    dir: Option<String>,
    /// Working directory that the model was told last.
    told_dir: Option<String>,
    size: (u16, u16),
    /// Nonce of the marks, which is removed from every recorded text.
    nonce: Arc<str>,
    /// Last ended command of the agent.
    by_agent: Option<Exchange>,
}

#[derive(Debug)]
struct Running {
    /// Running command; its exit code is unknown.
    exchange: Exchange,
    since: Instant,
    /// Alternate screen, while the command draws on it.
    screen: Option<LiveScreen>,
    is_by_agent: bool,
}

impl Recorder {
    /// Records the beginning of a command; one that the person keeps out of the record is not recorded.
    pub(crate) fn record_start(&mut self, command: StartedCommand, is_by_agent: bool) {
        self.record_end(ExchangeEnd::Unknown);
        let StartedCommand { text, is_joined, is_private } = command;
        if is_private || self.state == CaptureState::Off {
            return;
        }
        let command = text.map(|text| without_nonce(&self.nonce, text.as_bytes()));
        let command = command.map(|text| String::from_utf8_lossy(&text).into_owned());
        let exchange = Exchange {
            number: 0,
            command,
            is_joined,
            dir: self.dir.clone(),
            end: ExchangeEnd::Unknown,
            duration: Duration::ZERO,
            is_full_screen: false,
            output: Capture::default(),
            size: self.size,
            nonce: self.nonce.clone(),
        };
        self.running = Some(Running { exchange, since: Instant::now(), screen: None, is_by_agent });
    }

    /// Records output of the running command.
    pub(crate) fn record_output(&mut self, bytes: &[u8]) {
        if self.state == CaptureState::Off {
            return;
        }
        if let Some(running) = self.running.as_mut().filter(|running| !running.exchange.is_full_screen) {
            running.exchange.output.push(bytes);
        }
    }

    /// Records that the running command draws on the alternate screen. Its output is not kept.
    pub(crate) fn record_full_screen(&mut self) {
        if let Some(running) = &mut self.running {
            running.exchange.is_full_screen = true;
            running.exchange.output = Capture::default();
            running.screen = Some(LiveScreen::default());
        }
    }

    /// Adds output of the running command to its alternate screen, while it draws there.
    pub(crate) fn record_drawing(&mut self, bytes: &[u8]) {
        if let Some(screen) = self.running.as_mut().and_then(|running| running.screen.as_mut()) {
            screen.push(bytes);
        }
    }

    /// Forgets the alternate screen, which the running command has left.
    pub(crate) fn leave_full_screen(&mut self) {
        if let Some(running) = &mut self.running {
            running.screen = None;
        }
    }

    /// Alternate screen of the running command, and the terminal's columns and rows.
    pub(crate) fn live_screen(&self) -> Option<(LiveScreen, (u16, u16))> {
        Some((self.running.as_ref()?.screen.clone()?, self.size))
    }

    /// Records the end of the running command.
    pub(crate) fn record_end(&mut self, end: ExchangeEnd) {
        let Some(running) = self.running.take() else { return };
        let Running { exchange, since, screen: _, is_by_agent } = running;
        self.last += 1;
        let ended =
            Exchange { number: self.last, end, duration: since.elapsed(), size: self.size, ..exchange };
        if is_by_agent {
            // The tool's result tells the model about this command.
            self.by_agent = Some(ended);
            return;
        }
        self.exchanges.push_back(ended);
        while self.exchanges.len() > self.limits.commands {
            self.exchanges.pop_front();
        }
        let mut bytes: usize = self.exchanges.iter().map(|exchange| exchange.output.kept_bytes()).sum();
        for exchange in &mut self.exchanges {
            if bytes <= self.limits.output_bytes {
                break;
            }
            bytes -= exchange.output.kept_bytes();
            exchange.output = Capture::default();
        }
    }

    /// Takes the command that the agent ran last.
    pub(crate) fn take_command_of_agent(&mut self) -> Option<Exchange> {
        self.by_agent.take()
    }

    /// Running command, as far as it is recorded.
    pub(crate) fn running(&self) -> Option<Exchange> {
        let Running { exchange, since, .. } = self.running.as_ref()?;
        let (number, duration) = (self.last + 1, since.elapsed());
        Some(Exchange { number, duration, size: self.size, ..exchange.clone() })
    }

    /// Last ended command of the person.
    pub(crate) fn newest(&self) -> Option<Exchange> {
        self.exchanges.back().cloned()
    }

    /// Sets the directory that the conversation was opened in, which the model knows.
    pub(crate) fn set_initial_dir(&mut self, dir: String) {
        self.told_dir = Some(dir.clone());
        self.dir = Some(dir);
    }

    /// Sets the nonce that is removed from recorded texts, since output with it could imitate marks.
    pub(crate) fn set_nonce(&mut self, nonce: &str) {
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
    pub(crate) fn untold_commands(&self) -> Vec<Exchange> {
        self.exchanges.iter().filter(|exchange| exchange.number > self.told).cloned().collect()
    }

    /// Working directory, if the model was told another one last.
    pub(crate) fn untold_dir(&self) -> Option<String> {
        let is_new = self.state == CaptureState::On && self.dir != self.told_dir;
        self.dir.clone().filter(|_| is_new)
    }

    /// Marks the commands up to this number, and a directory, as told.
    pub(crate) fn mark_told(&mut self, number: u64, dir: Option<String>) {
        self.told = self.told.max(number);
        self.told_dir = dir.or_else(|| self.told_dir.take());
    }

    /// Forgets all commands, also the running one and the agent's; returns the number of ended ones.
    pub(crate) fn forget_commands(&mut self) -> usize {
        let count = self.exchanges.len();
        self.running = None;
        self.by_agent = None;
        self.exchanges.clear();
        count
    }

    /// Sets the limits of the record.
    pub(crate) fn set_limits(&mut self, limits: RecordLimits) {
        self.limits = limits;
    }

    /// Switches recording. Switched off, everything that the model was not told is forgotten.
    pub(crate) fn set_state(&mut self, state: CaptureState) {
        self.state = state;
        if state == CaptureState::Off {
            self.forget_commands();
        }
    }

    pub(crate) fn state(&self) -> CaptureState {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> StartedCommand {
        StartedCommand { text: Some(text.to_owned()), ..StartedCommand::default() }
    }

    #[test]
    fn the_nonce_is_in_no_record() {
        let mut recorder = Recorder::default();
        recorder.set_nonce("0123456789abcdef");
        recorder.set_size((20, 5));
        recorder.record_start(command("echo 0123456789abcdef"), false);
        recorder.record_output(b"__zk_nonce=0123456789abcdef\r\n");
        recorder.record_end(ExchangeEnd::Code(0));
        let told = recorder.newest().unwrap();
        assert_eq!(told.command.as_deref(), Some("echo [nonce]"));
        assert_eq!(told.output_lines(), ["__zk_nonce=[nonce]"]);
    }

    #[test]
    fn the_oldest_commands_and_outputs_beyond_the_limits_are_forgotten() {
        let mut recorder = Recorder::default();
        recorder.set_limits(RecordLimits { commands: 3, output_bytes: 10 });
        for n in 0..5 {
            recorder.record_start(command(&format!("c{n}")), false);
            recorder.record_output(b"12345");
            recorder.record_end(ExchangeEnd::Code(0));
        }
        let kept: Vec<_> =
            recorder.untold_commands().iter().map(|kept| (kept.number, kept.output.kept_bytes())).collect();
        assert_eq!(kept, [(3, 0), (4, 5), (5, 5)]);
    }

    #[test]
    fn nothing_outlasts_forgetting() {
        let mut recorder = Recorder::default();
        for is_by_agent in [false, true, false] {
            recorder.record_start(command("ls"), is_by_agent);
        }
        assert_eq!(recorder.forget_commands(), 1);
        let left = (recorder.running(), recorder.newest(), recorder.take_command_of_agent());
        assert!(matches!(left, (None, None, None)), "{left:?}");
    }
}
