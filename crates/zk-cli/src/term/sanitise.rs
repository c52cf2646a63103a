use std::borrow::Cow;

#[cfg(test)]
mod tests;

/// After this many characters a string sequence counts as unterminated, and what follows is text again.
const LONGEST_STRING: usize = 4096;

/// Makes untrusted text harmless for a terminal: no escape sequence, no control character but tab and
/// newline, nothing that reverses or hides text comes through.
///
/// It remembers what it is inside of, so a sequence that is split over several pieces is removed as well.
#[derive(Debug, Default)]
pub(crate) struct Sanitiser {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC, and any intermediate characters.
    Escape,
    /// In a control sequence: parameters and intermediates until a final character.
    Control,
    /// In a string that a terminal would take as data: OSC, DCS, APC, PM or SOS.
    String { length: usize },
    /// After ESC within such a string: a backslash ends it.
    StringEscape { length: usize },
}

impl Sanitiser {
    /// Appends what is harmless of `text` to `out`.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        if self.state == State::Ground && is_plain(text) {
            out.push_str(text);
            return;
        }
        for c in text.chars() {
            self.step(c, out);
        }
    }

    fn step(&mut self, c: char, out: &mut String) {
        self.state = match self.state {
            State::Ground => ground(c, out),
            State::Escape => match c {
                '[' => State::Control,
                ']' | 'P' | '_' | '^' | 'X' => State::String { length: 0 },
                '\u{20}'..='\u{2f}' => State::Escape,
                '\u{30}'..='\u{7e}' => State::Ground,
                _ => ground(c, out),
            },
            State::Control => match c {
                '\u{20}'..='\u{3f}' => State::Control,
                '\u{40}'..='\u{7e}' => State::Ground,
                _ => ground(c, out),
            },
            State::String { length } => match c {
                '\u{7}' | '\u{9c}' => State::Ground,
                '\u{1b}' => State::StringEscape { length },
                '\n' => ground(c, out),
                _ if length >= LONGEST_STRING => ground(c, out),
                _ => State::String { length: length + 1 },
            },
            State::StringEscape { length } => match c {
                '\\' => State::Ground,
                '\u{1b}' => State::StringEscape { length },
                '\n' => ground(c, out),
                _ if length >= LONGEST_STRING => ground(c, out),
                _ => State::String { length: length + 1 },
            },
        };
    }
}

/// Text outside any sequence.
fn ground(c: char, out: &mut String) -> State {
    match c {
        '\u{1b}' => State::Escape,
        '\u{9b}' => State::Control,
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => State::String { length: 0 },
        c => {
            if is_harmless(c) {
                out.push(c);
            }
            State::Ground
        }
    }
}

/// `text` as a whole, made harmless.
pub(crate) fn sanitise(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    Sanitiser::default().push(text, &mut out);
    Cow::Owned(out)
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) || text.chars().all(is_harmless)
}

fn is_harmless(c: char) -> bool {
    match c {
        '\t' | '\n' => true,
        // C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        // Marks and controls of writing direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        // Characters without width, which make two texts look the same.
        '\u{ad}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' => false,
        // Line separators, a byte order mark, annotations and tags.
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => false,
        _ => true,
    }
}
