mod keymap;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::keymap::Keymap;
pub(crate) use self::keymap::describe;

/// Key, or other input from a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A character.
    Char(char),
    /// Pasted text, with its line ends.
    Paste(String),
    /// Enter: submits the prompt.
    Enter,
    /// Breaks a line: Alt-Enter, Shift-Enter or Ctrl-J.
    Newline,
    /// Completes, or queues.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Takes the grapheme before the caret.
    Back,
    /// Takes the grapheme behind the caret.
    Delete,
    /// Arrow or other movement key; `word` with Ctrl or Alt.
    Move {
        /// Direction of the move.
        to: Direction,
        /// Whether it moves by words, or acts as with Alt.
        word: bool,
    },
    /// Ctrl and a letter, lower case; `\\` for Ctrl-\.
    Ctrl(char),
    /// Alt and a character.
    Alt(char),
    /// Escape.
    Escape,
    /// Wheel of a mouse, if reporting is on.
    Wheel {
        /// Whether it turns towards the beginning.
        up: bool,
    },
    /// Reply: support for synchronized output.
    Synchronized(bool),
    /// Reply: background colour.
    Ground {
        /// Whether it is light.
        is_light: bool,
    },
    /// Reply: size.
    Size {
        /// Rows of the terminal.
        rows: usize,
        /// Columns of the terminal.
        columns: usize,
    },
    /// Reply: name and version.
    Version(String),
    /// Reply: device attributes. Earlier queries are answered by now, or never will be.
    Answered,
    /// The terminal got or lost the focus.
    Focus(bool),
}

impl Key {
    /// Whether it is a reply of the terminal.
    #[must_use]
    pub fn is_reply(&self) -> bool {
        matches!(
            self,
            Self::Synchronized(_)
                | Self::Ground { .. }
                | Self::Size { .. }
                | Self::Version(_)
                | Self::Answered
                | Self::Focus(_)
        )
    }
}

/// Direction of a movement key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// One column to the left.
    Left,
    /// One column to the right.
    Right,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// To the beginning of the line, or of the text.
    Home,
    /// To the end of the line or of the text.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
}

/// Maximum length of a control sequence's parameters in bytes.
const MAX_PARAMETER_BYTES: usize = 32;
/// Maximum kept length of a string sequence in bytes.
const MAX_STRING_BYTES: usize = 64;
/// Prefix of the reply with the background colour.
const BACKGROUND_REPLY: &[u8] = b"11;";
/// Prefix of the reply with the terminal's name.
const VERSION_REPLY: &[u8] = b">|";
/// Maximum size of a paste in bytes; the rest is dropped.
const MAX_PASTE_BYTES: usize = 16 * 1024 * 1024;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Number of idle ticks, about a second, after which a paste without its end is complete.
const PASTE_WAITS: u8 = 33;
/// Number of idle ticks for which `ESC` is held back while a reply is expected, since it may start one.
const ESCAPE_WAITS: u8 = 3;
/// Time for which a reply is expected, so that a missing one does not delay Escape for good.
const REPLY_TIME: Duration = Duration::from_secs(1);

/// Decodes terminal input, in pieces of any size, to keys. Replies to queries are never taken for keys.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    state: State,
    /// Incomplete multi-byte character.
    partial: Vec<u8>,
    parameters: Vec<u8>,
    /// String sequence so far, and the byte that introduced it.
    string: Vec<u8>,
    string_begin: u8,
    /// Keys for bytes that were mistaken for the beginning of a string sequence.
    taken_back: Vec<Key>,
    /// Paste in progress, and the number of idle ticks since its last byte.
    paste: Option<Vec<u8>>,
    waits: u8,
    /// Number of idle ticks for which an `ESC` has been held back.
    held: u8,
    /// Whether a reply is expected, so that a single `ESC` may be its start.
    is_owed: bool,
    escaped: bool,
    now: Duration,
    /// Time of the last query.
    asked: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Control,
    Single,
    String,
    StringEscape,
    /// Remaining bytes of a mouse report in the old encoding.
    Mouse(u8),
    /// After `ESC` alone and then `]` or `P`: typed text, or a delayed string sequence.
    Late,
}

impl KeyDecoder {
    /// Records that a query was sent, to which the terminal may reply late.
    pub fn expect_reply(&mut self) {
        (self.is_owed, self.asked) = (true, self.now);
    }

    /// Sets the time of the following input, on the caller's clock, for the time limit of replies.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
        self.is_owed = self.is_owed && now < self.asked + REPLY_TIME;
    }

    /// Decodes bytes; returns the keys that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        for byte in bytes {
            if let Some(paste) = &mut self.paste {
                self.waits = 0;
                paste.push(*byte);
                if paste.ends_with(PASTE_END) {
                    paste.truncate(paste.len() - PASTE_END.len());
                    keys.extend(self.end_paste());
                } else if paste.len() > MAX_PASTE_BYTES {
                    paste.drain(MAX_PASTE_BYTES / 2..paste.len() - PASTE_END.len());
                }
                continue;
            }
            let key = self.decode_byte(*byte);
            keys.append(&mut self.taken_back);
            keys.extend(key);
        }
        keys
    }

    fn end_paste(&mut self) -> Option<Key> {
        let pasted = self.paste.take()?;
        let text = String::from_utf8_lossy(&pasted).replace("\r\n", "\n").replace('\r', "\n");
        (!text.is_empty()).then_some(Key::Paste(text))
    }

    /// Whether a sequence may be incomplete, so that [`idle`](Self::idle) must be called if no bytes follow.
    #[must_use]
    pub fn awaits_more_bytes(&self) -> bool {
        self.state == State::Escape || self.paste.is_some()
    }

    /// Handles a moment without input: an incomplete sequence becomes the Escape key, and an unfinished paste
    /// ends after some ticks.
    pub fn idle(&mut self) -> Option<Key> {
        if self.paste.is_some() {
            self.waits += 1;
            return if self.waits < PASTE_WAITS { None } else { self.end_paste() };
        }
        if self.state != State::Escape {
            return None;
        }
        if self.is_owed && self.held < ESCAPE_WAITS {
            self.held += 1;
            return None;
        }
        (self.state, self.escaped) = (State::Ground, true);
        Some(Key::Escape)
    }

    fn decode_byte(&mut self, byte: u8) -> Option<Key> {
        let escaped = std::mem::take(&mut self.escaped);
        self.held = 0;
        let (state, key) = match (self.state, byte) {
            (State::Ground, b'[') if escaped && self.is_owed => {
                self.parameters.clear();
                (State::Control, None)
            }
            (State::Ground, b']' | b'P') if escaped && self.is_owed => {
                self.string.clear();
                self.string_begin = byte;
                (State::Late, None)
            }
            (State::Late, _) => return self.decode_late_string(byte),
            (State::Ground | State::Single | State::Control, 0x1b) => (State::Escape, None),
            (State::Ground, _) => (State::Ground, self.decode_plain(byte)),
            (State::Escape, 0x1b) => (State::Escape, Some(Key::Escape)),
            (State::Escape, b'[') => {
                self.parameters.clear();
                (State::Control, None)
            }
            (State::Escape, b'O') => (State::Single, None),
            (State::Escape, b']' | b'P' | b'_' | b'^' | b'X') => {
                self.string.clear();
                self.string_begin = byte;
                (State::String, None)
            }
            (State::Escape, b'\r' | b'\n') => (State::Ground, Some(Key::Newline)),
            (State::Escape, 0x7f | 0x08) => (State::Ground, Some(Key::Ctrl('w'))),
            (State::Escape, 0x20..0x7f) => (State::Ground, Some(Key::Alt(byte.into()))),
            (State::Escape, _) => (State::Ground, self.decode_plain(byte)),
            (State::Mouse(left), _) => {
                let rest = if left > 1 { State::Mouse(left - 1) } else { State::Ground };
                (rest, (left == MOUSE_BYTES).then(|| wheel_key(u32::from(byte).checked_sub(32)?)).flatten())
            }
            (State::Single, _) => (State::Ground, direction_of(byte).map(|to| Key::Move { to, word: false })),
            (State::Control, b'M') if self.parameters.is_empty() => (State::Mouse(MOUSE_BYTES), None),
            (State::Control, 0x40..=0x7e) => (State::Ground, self.end_control_sequence(byte)),
            (State::Control, _) => {
                if self.parameters.len() < MAX_PARAMETER_BYTES {
                    self.parameters.push(byte);
                }
                (State::Control, None)
            }
            (State::String, 0x07) | (State::StringEscape, b'\\') => (State::Ground, self.end_string()),
            (State::String | State::StringEscape, 0x1b) => (State::StringEscape, None),
            (State::String | State::StringEscape, _) => {
                if self.string.len() < MAX_STRING_BYTES {
                    self.string.push(byte);
                }
                (State::String, None)
            }
        };
        self.state = state;
        key
    }

    /// Key of a control sequence with the final byte `last`.
    fn end_control_sequence(&mut self, last: u8) -> Option<Key> {
        let text = String::from_utf8_lossy(&self.parameters).into_owned();
        if let Some(report) = text.strip_prefix('<').filter(|_| last == b'M') {
            return wheel_key(report.split(';').next()?.parse().ok()?);
        }
        if text.starts_with(['?', '>', '<', '=']) {
            return self.parse_reply(&text, last);
        }
        let mut numbers =
            text.split(';').map(|part| part.split(':').next().unwrap_or_default().parse::<u32>().ok());
        let first = numbers.next().flatten().unwrap_or(1);
        let modifiers = numbers.next().flatten().unwrap_or(1).saturating_sub(1);
        let (shift, alt, ctrl) = (modifiers & 1 != 0, modifiers & 2 != 0, modifiers & 4 != 0);
        let moved = |to| Some(Key::Move { to, word: alt || ctrl });
        match last {
            b'~' => match first {
                1 | 7 => moved(Direction::Home),
                4 | 8 => moved(Direction::End),
                3 => Some(Key::Delete),
                5 => moved(Direction::PageUp),
                6 => moved(Direction::PageDown),
                200 => {
                    (self.paste, self.waits) = (Some(Vec::new()), 0);
                    None
                }
                _ => None,
            },
            b'Z' => Some(Key::BackTab),
            b'I' if text.is_empty() => Some(Key::Focus(true)),
            b'O' if text.is_empty() => Some(Key::Focus(false)),
            b'u' => kitty_key(first, shift, alt, ctrl),
            b't' => size_report(&text),
            b'A'..=b'D' | b'F' | b'H' => direction_of(last).and_then(moved),
            _ => None,
        }
    }

    /// Handles a byte after `ESC` alone and then `]` or `P`: it is typed, or part of a delayed reply.
    fn decode_late_string(&mut self, byte: u8) -> Option<Key> {
        self.string.push(byte);
        let reply = if self.string_begin == b']' { BACKGROUND_REPLY } else { VERSION_REPLY };
        if reply.starts_with(&self.string) {
            self.state = if self.string == reply { State::String } else { State::Late };
            return None;
        }
        self.state = State::Ground;
        self.string.pop();
        let typed = std::iter::once(self.string_begin).chain(std::mem::take(&mut self.string));
        self.taken_back.extend(typed.map(|byte| Key::Char(byte.into())));
        self.decode_byte(byte)
    }

    /// Ends a string sequence; returns the reply in it, if any.
    fn end_string(&mut self) -> Option<Key> {
        let string = std::mem::take(&mut self.string);
        match self.string_begin {
            b']' => Self::parse_background(&string),
            b'P' => {
                let version = string.strip_prefix(VERSION_REPLY)?;
                Some(Key::Version(String::from_utf8_lossy(version).into_owned()))
            }
            _ => None,
        }
    }

    /// Parses the background colour in a string sequence.
    fn parse_background(string: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(string.strip_prefix(BACKGROUND_REPLY)?).ok()?;
        let colour = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
        let mut parts = colour.split('/').map(|part| {
            let value = u32::from_str_radix(part, 16).ok()?;
            let most = 16u32
                .checked_pow(u32::try_from(part.len()).ok()?)?
                .checked_sub(1)
                .filter(|most| *most > 0)?;
            Some(value * 1000 / most)
        });
        let mut part = || parts.next().flatten();
        let (red, green, blue) = (part()?, part()?, part()?);
        // Perceived brightness, out of 1000.
        Some(Key::Ground { is_light: (red * 299 + green * 587 + blue * 114) / 1000 > 500 })
    }

    fn parse_reply(&mut self, text: &str, last: u8) -> Option<Key> {
        // Every terminal answers this query, and in order: no other reply follows.
        if last == b'c' {
            self.is_owed = false;
            return Some(Key::Answered);
        }
        let mode = text.strip_prefix("?2026;").filter(|_| last == b'y')?;
        // Mode states: 1 and 2 are set and reset, 0 is unknown, 3 and 4 are permanent.
        Some(Key::Synchronized(mode.starts_with(['1', '2'])))
    }

    fn decode_plain(&mut self, byte: u8) -> Option<Key> {
        if !self.partial.is_empty() || byte >= 0x80 {
            return self.decode_multibyte(byte);
        }
        Some(match byte {
            b'\r' => Key::Enter,
            b'\n' => Key::Newline,
            b'\t' => Key::Tab,
            0x08 | 0x7f => Key::Back,
            0x01..=0x1a => Key::Ctrl((byte - 1 + b'a').into()),
            0x1c => Key::Ctrl('\\'),
            0x1f => Key::Ctrl('_'),
            0..0x20 => return None,
            _ => Key::Char(byte.into()),
        })
    }

    /// Handles one byte of a multi-byte character.
    fn decode_multibyte(&mut self, byte: u8) -> Option<Key> {
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
                // The byte that interrupted the character is a key of its own.
                if byte < 0x80 { self.decode_plain(byte) } else { None }
            }
        }
    }
}

/// Number of bytes after the start of a mouse report in the old encoding: button, column and row.
const MOUSE_BYTES: u8 = 3;

/// Wheel event of a mouse report; other buttons do nothing.
fn wheel_key(button: u32) -> Option<Key> {
    // The bits between are Shift, Alt and Ctrl.
    match button & !0b1_1100 {
        64 => Some(Key::Wheel { up: true }),
        65 => Some(Key::Wheel { up: false }),
        _ => None,
    }
}

/// Parses the reply to a size query: `8;ROWS;COLUMNS`.
fn size_report(text: &str) -> Option<Key> {
    let mut numbers = text.split(';').map(|number| number.parse().ok());
    match (numbers.next()??, numbers.next()??, numbers.next()??) {
        (8, rows @ 1.., columns @ 1..) => Some(Key::Size { rows, columns }),
        _ => None,
    }
}

fn direction_of(last: u8) -> Option<Direction> {
    Some(match last {
        b'A' => Direction::Up,
        b'B' => Direction::Down,
        b'C' => Direction::Right,
        b'D' => Direction::Left,
        b'H' => Direction::Home,
        b'F' => Direction::End,
        _ => return None,
    })
}

/// A key of the kitty protocol: a code point with modifiers.
fn kitty_key(code: u32, shift: bool, alt: bool, ctrl: bool) -> Option<Key> {
    Some(match (code, char::from_u32(code)?) {
        (13 | 57414, _) if shift || alt => Key::Newline,
        (13 | 57414, _) => Key::Enter,
        (27, _) => Key::Escape,
        (9, _) if shift => Key::BackTab,
        (9, _) => Key::Tab,
        (127, _) if alt || ctrl => Key::Ctrl('w'),
        (127, _) => Key::Back,
        (_, 'j') if ctrl => Key::Newline,
        (_, c) if ctrl && c.is_ascii() => Key::Ctrl(c.to_ascii_lowercase()),
        (_, c) if alt => Key::Alt(c),
        (57344..=63743, _) => return None,
        (_, c) if c.is_control() => return None,
        (_, c) => Key::Char(c),
    })
}
