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

/// Line of the output in the place of a full-screen program. Its first byte (CAN) ends a sequence that the switch to the
/// alternate screen left incomplete.
const FULL_SCREEN_LINE: &[u8] = b"\x18(a full-screen program; its screen is not recorded)\r\n";

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
        if is_by_agent && self.running.as_ref().is_some_and(|running| running.is_by_agent) {
            // A shell may run the lines of one paste as commands of their own; the agent entered one.
            return;
        }
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
        if let Some(running) = &mut self.running {
            running.exchange.output.push(bytes);
        }
    }

    /// Records that the running command draws on the alternate screen from the end of these bytes on. A line of the output
    /// names that, and the output goes on where the command leaves the screen.
    pub(crate) fn enter_full_screen(&mut self, bytes: &[u8]) {
        // The sequence that switches has no part in the output; its first bytes may have come before.
        let before = memchr::memrchr(0x1b, bytes).and_then(|at| bytes.get(..at)).unwrap_or_default();
        self.record_output(before);
        self.record_output(FULL_SCREEN_LINE);
        if let Some(running) = &mut self.running {
            let mut screen = LiveScreen::default();
            screen.push(bytes);
            running.screen = Some(screen);
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
            exchange.output.clear();
        }
    }

    /// Last ended command of the agent, if it began after the command of this number.
    pub(crate) fn command_of_agent_since(&self, number: u64) -> Option<Exchange> {
        self.by_agent.clone().filter(|exchange| exchange.number > number)
    }

    /// Number of the last ended command.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Running command, as far as it is recorded.
    pub(crate) fn running(&self) -> Option<Exchange> {
        let Running { exchange, since, .. } = self.running.as_ref()?;
        let (number, duration) = (self.last + 1, since.elapsed());
        Some(Exchange { number, duration, size: self.size, ..exchange.clone() })
    }

    /// Last ended command, of the person or of the agent.
    pub(crate) fn newest(&self) -> Option<Exchange> {
        let both = self.exchanges.back().into_iter().chain(&self.by_agent);
        both.max_by_key(|exchange| exchange.number).cloned()
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
        let left = (recorder.running(), recorder.newest(), recorder.command_of_agent_since(0));
        assert!(matches!(left, (None, None, None)), "{left:?}");
    }

    #[test]
    fn output_before_and_after_a_full_screen_program_is_recorded() {
        let mut recorder = Recorder::default();
        recorder.set_size((60, 5));
        recorder.record_start(command("git rebase -i; git push"), false);
        // The switch may come in two parts.
        recorder.record_output(b"one\r\n\x1b[?10");
        recorder.enter_full_screen(b"49h");
        recorder.record_drawing(b"\x1b[2Jdrawn");
        assert!(recorder.live_screen().is_some());
        recorder.leave_full_screen();
        recorder.record_output(b"pushed\r\n");
        recorder.enter_full_screen(b"again\r\n\x1b[?1049h");
        recorder.record_end(ExchangeEnd::Code(0));
        let named = "(a full-screen program; its screen is not recorded)";
        assert_eq!(recorder.newest().unwrap().output_lines(), ["one", named, "pushed", "again", named]);
    }

    #[test]
    fn output_that_is_no_longer_kept_is_named_and_a_command_without_output_has_none() {
        let mut recorder = Recorder::default();
        recorder.set_limits(RecordLimits { commands: 3, output_bytes: 5 });
        for output in [&b"12345"[..], b"", b"67890"] {
            recorder.record_start(command("c"), false);
            recorder.record_output(output);
            recorder.record_end(ExchangeEnd::Code(0));
        }
        let lines: Vec<_> = recorder.untold_commands().iter().map(Exchange::output_lines).collect();
        let gone = "[its output of 5 bytes is no longer kept: the record has no room for more]";
        assert_eq!(lines, [vec![gone], vec![], vec!["67890"]]);
    }

    #[test]
    fn a_command_of_the_agent_in_several_lines_is_one() {
        let mut recorder = Recorder::default();
        recorder.set_size((20, 5));
        recorder.record_start(command("before"), false);
        for output in [&b"one\r\n"[..], b"two\r\n"] {
            recorder.record_start(command("one\ntwo"), true);
            recorder.record_output(output);
        }
        recorder.record_end(ExchangeEnd::Code(3));
        let newest = recorder.newest().unwrap();
        assert_eq!((newest.command.as_deref(), newest.output_lines().len()), (Some("one\ntwo"), 2));
        assert!(recorder.command_of_agent_since(recorder.last() - 1).is_some());
        assert!(recorder.command_of_agent_since(recorder.last()).is_none());
    }
}
