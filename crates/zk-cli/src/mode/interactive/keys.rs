use zk_tui::answer_keys::AnswerKey;

#[cfg(test)]
mod tests;

/// What a person presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// A character of a paste, its line ends included.
    Pasted(char),
    Enter,
    /// Takes the last character back.
    Back,
    /// Takes the last word back: Ctrl-W.
    BackWord,
    /// Takes everything back: Ctrl-U.
    BackAll,
    Escape,
    /// Shift-Tab.
    BackTab,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-\.
    Quit,
}

impl AnswerKey for Key {
    fn letter(&self) -> Option<char> {
        if let Self::Char(letter) = self { Some(*letter) } else { None }
    }

    fn is_enter(&self) -> bool {
        *self == Self::Enter
    }

    fn empties_draft(&self) -> bool {
        *self == Self::BackAll
    }
}

/// Makes keys of the bytes a terminal sends. Keys that zk has no use for, such as the arrows, give none.
#[derive(Debug, Default)]
pub(super) struct Keys {
    state: State,
    /// The beginning of a character.
    partial: Vec<u8>,
    /// The parameters of a control sequence, as far as they matter.
    parameters: Vec<u8>,
    /// Whether a paste has begun, and for how many waits nothing of it has come.
    paste: Option<u8>,
}

/// The most parameters of a sequence that zk looks at.
const PARAMETERS: usize = 8;
/// Waits after which a paste whose end never came is over.
const PASTE_WAITS: u8 = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC: the key itself, or the beginning of a sequence.
    Escape,
    /// In a control sequence, until its final byte.
    Control,
    /// Before the one byte of a sequence that ESC O began.
    Single,
    /// In a string that the terminal sends of itself, until BEL or ESC \.
    String,
    StringEscape,
}

impl Keys {
    /// The key that ends with `byte`, if one does.
    pub(super) fn push(&mut self, byte: u8) -> Option<Key> {
        if let Some(waits) = &mut self.paste {
            *waits = 0;
        }
        let (state, key) = match (self.state, byte) {
            (State::Ground | State::Single | State::Control, 0x1b) => (State::Escape, None),
            (State::Ground, _) => (State::Ground, self.plain(byte)),
            (State::Escape, 0x1b) => (State::Escape, Some(Key::Escape)),
            (State::Escape, b'[') => {
                self.parameters.clear();
                (State::Control, None)
            }
            (State::Escape, b'O') => (State::Single, None),
            (State::Escape, b']' | b'P' | b'_' | b'^' | b'X') => (State::String, None),
            // Alt and a key.
            (State::Escape, 0..0x80) => (State::Ground, None),
            (State::Escape, _) => (State::Ground, self.plain(byte)),
            (State::Control, b'~') => {
                self.note_paste();
                (State::Ground, None)
            }
            (State::Control, b'Z') if self.parameters.is_empty() => (State::Ground, Some(Key::BackTab)),
            (State::Control, 0x40..=0x7e) | (State::Single, _) => (State::Ground, None),
            (State::Control, _) => {
                if self.parameters.len() < PARAMETERS {
                    self.parameters.push(byte);
                }
                (State::Control, None)
            }
            (State::String, 0x07) | (State::StringEscape, b'\\') => (State::Ground, None),
            (State::String | State::StringEscape, 0x1b) => (State::StringEscape, None),
            (State::String | State::StringEscape, _) => (State::String, None),
        };
        self.state = state;
        match (key, self.paste) {
            (key, None) => key,
            (Some(Key::Char(c)), Some(_)) => Some(Key::Pasted(c)),
            (Some(Key::Enter), Some(_)) => Some(Key::Pasted('\n')),
            // Nothing of a paste is a command.
            (_, Some(_)) => None,
        }
    }

    /// Notes where a paste begins and ends, as terminals mark it.
    fn note_paste(&mut self) {
        match self.parameters.as_slice() {
            b"200" => self.paste = Some(0),
            b"201" => self.paste = None,
            _ => {}
        }
    }

    /// Whether more bytes may follow at once.
    pub(super) fn is_within(&self) -> bool {
        self.state != State::Ground
    }

    /// Nothing came for a while: what looked like a sequence was a key, or is not worth waiting for.
    pub(super) fn idle(&mut self) -> Option<Key> {
        let escape = std::mem::take(&mut self.state) == State::Escape;
        let is_paste = self.paste.is_some();
        self.paste = self.paste.and_then(|waits| (waits < PASTE_WAITS).then_some(waits + 1));
        (escape && !is_paste).then_some(Key::Escape)
    }

    fn plain(&mut self, byte: u8) -> Option<Key> {
        if !self.partial.is_empty() || byte >= 0x80 {
            return self.part(byte);
        }
        match byte {
            b'\r' | b'\n' => Some(Key::Enter),
            b'\t' => Some(Key::Char(' ')),
            0x08 | 0x7f => Some(Key::Back),
            0x15 => Some(Key::BackAll),
            0x17 => Some(Key::BackWord),
            0x1a => Some(Key::Suspend),
            0x1c => Some(Key::Quit),
            0..0x20 => None,
            _ => Some(Key::Char(byte.into())),
        }
    }

    /// One byte of a character that has several.
    fn part(&mut self, byte: u8) -> Option<Key> {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let key = text.chars().next().map(Key::Char);
                self.partial.clear();
                key
            }
            Err(error) if error.error_len().is_none() => None,
            Err(_) => {
                self.partial.clear();
                None
            }
        }
    }
}
