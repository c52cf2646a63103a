/// Maximum length of the parameters of a parsed escape sequence, in bytes.
const MAX_PARAMETER_BYTES: usize = 32;

/// Private modes of the terminal as programs set them, read from their output: the alternate screen, and the
/// modes that a conversation on the same terminal changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// Whether a program draws on the alternate screen.
    pub is_alternate: bool,
    /// Whether pastes are bracketed.
    pub brackets_pastes: bool,
    /// Whether the terminal reports its focus.
    pub reports_focus: bool,
    /// Parameters of an escape sequence that is not complete.
    partial: Option<Vec<u8>>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    Csi,
    Private,
}

impl TerminalModes {
    /// Updates the modes by output, however it is split.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = self.push_to_switch(rest);
            rest = rest.get(len..).unwrap_or_default();
        }
    }

    /// Updates the modes by output up to the end of the first sequence that switches to the alternate screen or back;
    /// returns the number of these bytes, which is that of all without such a sequence.
    pub(crate) fn push_to_switch(&mut self, bytes: &[u8]) -> usize {
        let was_alternate = self.is_alternate;
        let mut rest = bytes;
        while !rest.is_empty() && self.is_alternate == was_alternate {
            if self.state == State::Text {
                let Some(at) = memchr::memchr(0x1b, rest) else { return bytes.len() };
                rest = rest.get(at + 1..).unwrap_or_default();
                self.state = State::Escape;
                continue;
            }
            let Some((byte, behind)) = rest.split_first() else { break };
            rest = behind;
            self.state = self.next_state(*byte);
        }
        bytes.len() - rest.len()
    }

    fn next_state(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (_, 0x1b) => State::Escape,
            (State::Escape, b'[') => State::Csi,
            // Full reset of the terminal (RIS).
            (State::Escape, b'c') => {
                *self = Self::default();
                State::Text
            }
            (State::Csi, b'?') => {
                self.partial = Some(Vec::new());
                State::Private
            }
            (State::Private, b'0'..=b'9' | b';') => {
                let partial = self.partial.get_or_insert_default();
                partial.push(byte);
                if partial.len() > MAX_PARAMETER_BYTES { State::Text } else { State::Private }
            }
            (State::Private, b'h' | b'l') => {
                let partial = self.partial.take().unwrap_or_default();
                partial.split(|byte| *byte == b';').for_each(|mode| self.set_mode(mode, byte == b'h'));
                State::Text
            }
            (State::Text | State::Escape | State::Csi | State::Private, _) => State::Text,
        }
    }

    fn set_mode(&mut self, mode: &[u8], is_on: bool) {
        match mode {
            b"47" | b"1047" | b"1049" => self.is_alternate = is_on,
            b"2004" => self.brackets_pastes = is_on,
            b"1004" => self.reports_focus = is_on,
            _ => {}
        }
    }

    /// Sequences that set these modes again after a conversation switched them off.
    #[must_use]
    pub fn restore(&self) -> String {
        let mut set = String::new();
        if self.brackets_pastes {
            set.push_str("\u{1b}[?2004h");
        }
        if self.reports_focus {
            set.push_str("\u{1b}[?1004h");
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_followed_however_the_output_is_split() {
        let output = b"text\x1b[?2004h\x1b[1;2H\x1b[?1049;1004hfull\x1b[?1049lend\x1b[?25l";
        for at in 0..output.len() {
            let mut modes = TerminalModes::default();
            let (first, second) = output.split_at(at);
            modes.push(first);
            modes.push(second);
            assert!(modes.brackets_pastes && modes.reports_focus && !modes.is_alternate, "{at}");
            assert_eq!(modes.restore(), "\u{1b}[?2004h\u{1b}[?1004h");
        }
        let mut modes = TerminalModes::default();
        modes.push(b"\x1b[?1049h");
        assert!(modes.is_alternate);
        modes.push(b"\x1bc");
        assert_eq!(modes, TerminalModes::default());
    }
}
