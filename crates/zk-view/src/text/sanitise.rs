use std::borrow::Cow;

use zk_core::service::{MAX_MARKS, is_combining_mark};

#[cfg(test)]
mod tests;

/// Number of characters after which an unterminated string sequence is given up, so that text resumes.
const MAX_STRING_CHARS: usize = 4096;

/// Makes untrusted text harmless for a terminal: no escape sequence, no control character but tab and
/// newline, no character that reverses or hides text, no long run of combining marks passes.
///
/// ```
/// use zk_view::Sanitiser;
///
/// let (mut sanitiser, mut out) = (Sanitiser::default(), String::new());
/// ["Nice \u{1b}]0;tit", "le\u{7}and clean"].iter().for_each(|piece| sanitiser.push(piece, &mut out));
/// assert_eq!(out, "Nice and clean");
/// ```
///
/// State is kept across pieces, so a split sequence is removed as well. Variation selectors and joiners are
/// kept in emoji, joiners also within words of scripts that need them.
#[derive(Debug, Default)]
pub struct Sanitiser {
    state: State,
    /// Last character that passed.
    last: char,
    /// Joiner after an emoji, or after a letter of a script with joiners. Emitted only if such a character
    /// follows.
    joiner: Option<char>,
    /// Number of combining marks since the last base character.
    marks: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC, and any intermediate characters.
    Escape,
    /// In a control sequence (CSI): parameters and intermediate bytes, until the final byte.
    Control,
    /// In a string sequence: OSC, DCS, APC, PM or SOS.
    String { length: usize },
    /// After ESC within such a string: a backslash ends it.
    StringEscape { length: usize },
}

impl Sanitiser {
    /// Appends the sanitised `text` to `out`.
    pub fn push(&mut self, text: &str, out: &mut String) {
        if self.state == State::Ground && self.joiner.is_none() && is_plain(text) {
            out.push_str(text);
            self.last = text.chars().next_back().unwrap_or(self.last);
            self.marks = 0;
            return;
        }
        for c in text.chars() {
            self.push_char(c, out);
        }
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        self.state = match self.state {
            State::Ground => self.push_outside_sequence(c, out),
            State::Escape => match c {
                '[' => State::Control,
                ']' | 'P' | '_' | '^' | 'X' => State::String { length: 0 },
                '\u{20}'..='\u{2f}' => State::Escape,
                '\u{30}'..='\u{7e}' => State::Ground,
                _ => self.push_outside_sequence(c, out),
            },
            State::Control => match c {
                '\u{20}'..='\u{3f}' => State::Control,
                '\u{40}'..='\u{7e}' => State::Ground,
                _ => self.push_outside_sequence(c, out),
            },
            State::String { length } => match c {
                '\u{7}' | '\u{9c}' => State::Ground,
                '\u{1b}' => State::StringEscape { length },
                '\n' => self.push_outside_sequence(c, out),
                _ if length >= MAX_STRING_CHARS => self.push_outside_sequence(c, out),
                _ => State::String { length: length + 1 },
            },
            State::StringEscape { length } => match c {
                '\\' => State::Ground,
                '\u{1b}' => State::StringEscape { length },
                '\n' => self.push_outside_sequence(c, out),
                _ if length >= MAX_STRING_CHARS => self.push_outside_sequence(c, out),
                _ => State::String { length: length + 1 },
            },
        };
    }

    /// Handles a character outside of any sequence.
    fn push_outside_sequence(&mut self, c: char, out: &mut String) -> State {
        let joiner = std::mem::take(&mut self.joiner);
        match c {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return State::Control,
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return State::String { length: 0 },
            JOINER if is_emoji(self.last) || is_emoji_style(self.last) => self.joiner = Some(c),
            JOINER | NON_JOINER if has_joiners(self.last) => self.joiner = Some(c),
            c if is_combining_mark(c) => {
                self.marks += 1;
                if self.marks <= MAX_MARKS {
                    out.push(c);
                }
            }
            c if is_harmless(c) || (is_emoji_style(c) && is_emoji(self.last)) => {
                let is_joined = is_emoji(c) || (has_joiners(c) && has_joiners(self.last));
                out.extend(joiner.filter(|_| is_joined));
                out.push(c);
                self.last = c;
                self.marks = 0;
            }
            _ => {}
        }
        State::Ground
    }
}

/// Sanitises a complete text.
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    Sanitiser::default().push(text, &mut out);
    Cow::Owned(out)
}

fn is_plain(text: &str) -> bool {
    is_plain_ascii(text.as_bytes()) || text.chars().all(|c| is_harmless(c) && !is_combining_mark(c))
}

/// Whether all bytes are printable ASCII, line ends or tabs, which need no sanitising. Fast.
// Inlined into a crate that is optimised for size, it would take eight times as long.
#[inline(never)]
#[must_use]
pub fn is_plain_ascii(text: &[u8]) -> bool {
    let plain = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    // Eight bytes as one number: every streamed text passes here.
    let (words, rest) = text.as_chunks::<8>();
    words.iter().all(|word| is_printable(u64::from_le_bytes(*word)) || plain(word)) && plain(rest)
}

/// Whether each of these eight bytes is printable ASCII, from the blank to the tilde.
fn is_printable(bytes: u64) -> bool {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let below_blank = bytes.wrapping_sub(EACH * 0x20);
    let above_tilde = bytes.wrapping_add(EACH);
    // The high bit of a byte is set if it is beyond ASCII, or if a subtraction or addition left the range
    // 0–127.
    (bytes | below_blank | above_tilde) & (EACH * 0x80) == 0
}

/// Zero-width joiner, which joins two emoji or two letters.
const JOINER: char = '\u{200d}';
/// Zero-width non-joiner, which keeps two letters apart.
const NON_JOINER: char = '\u{200c}';

/// Whether `c` is a letter or sign of a script that is spelt with joiners: Arabic, Syriac and the Indic
/// scripts with a virama.
fn has_joiners(c: char) -> bool {
    let is_virama = c == '\u{dca}' || (c >= '\u{900}' && u32::from(c) & 0x7f == 0x4d);
    matches!(c, '\u{600}'..='\u{77f}' | '\u{8a0}'..='\u{dff}') && (c.is_alphabetic() || is_virama)
}

/// Whether `c` is a variation selector for the text or emoji style.
fn is_emoji_style(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Whether `c` may be an emoji, by the Unicode blocks that contain them.
fn is_emoji(c: char) -> bool {
    matches!(
        c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
    )
}

/// Whether `c` is always shown as itself. Unicode's default-ignorable characters are not.
pub fn is_harmless(c: char) -> bool {
    match c {
        '\t' | '\n' => true,
        // C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        // Marks and controls of writing direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        // Zero-width characters and fillers, which make different texts look alike.
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => false,
        // Line separators, variation selectors, a byte order mark, annotations and tags.
        '\u{2028}'
        | '\u{2029}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}
