#[cfg(test)]
mod tests;

/// What a person presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    /// Takes the last character back.
    Back,
    /// Takes the last word back: Ctrl-W.
    BackWord,
    /// Takes everything back: Ctrl-U.
    BackAll,
    Escape,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-\.
    Quit,
}

/// Makes keys of the bytes a terminal sends. Keys that zk has no use for, such as the arrows, give none.
#[derive(Debug, Default)]
pub(super) struct Keys {
    state: State,
    /// The beginning of a character.
    partial: Vec<u8>,
}

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
        let (state, key) = match (self.state, byte) {
            (State::Ground | State::Single | State::Control, 0x1b) => (State::Escape, None),
            (State::Ground, _) => (State::Ground, self.plain(byte)),
            (State::Escape, 0x1b) => (State::Escape, Some(Key::Escape)),
            (State::Escape, b'[') => (State::Control, None),
            (State::Escape, b'O') => (State::Single, None),
            (State::Escape, b']' | b'P' | b'_' | b'^' | b'X') => (State::String, None),
            // Alt and a key.
            (State::Escape, 0..0x80) => (State::Ground, None),
            (State::Escape, _) => (State::Ground, self.plain(byte)),
            (State::Control, 0x40..=0x7e) | (State::Single, _) => (State::Ground, None),
            (State::Control, _) => (State::Control, None),
            (State::String, 0x07) | (State::StringEscape, b'\\') => (State::Ground, None),
            (State::String | State::StringEscape, 0x1b) => (State::StringEscape, None),
            (State::String | State::StringEscape, _) => (State::String, None),
        };
        self.state = state;
        key
    }

    /// Whether more bytes may follow at once.
    pub(super) fn is_within(&self) -> bool {
        self.state != State::Ground
    }

    /// Nothing followed: what looked like a sequence was a key, or is not worth waiting for.
    pub(super) fn end(&mut self) -> Option<Key> {
        let escape = std::mem::take(&mut self.state) == State::Escape;
        escape.then_some(Key::Escape)
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
