//! Text that cannot control the terminal, which is the only text that may be written to it.

use std::io::{IsTerminal, Write};

use zk_view::{Sanitiser, sanitise};

use super::modes::Modes;
use super::redact::redacted;
use crate::text::folded;

/// Kind of reader of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Terminal, which interprets control sequences.
    Terminal,
    /// File or program, which gets text unchanged.
    Program,
}

/// Output stream of this process.
#[derive(Clone, Copy, Debug)]
pub enum StdStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StdStream {
    /// Reader of this output.
    pub fn reader(self) -> Reader {
        let is_terminal = match self {
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::Stderr => std::io::stderr().is_terminal(),
        };
        if is_terminal { Reader::Terminal } else { Reader::Program }
    }

    /// Writes a text, and flushes.
    pub fn write(self, text: &SafeText) -> std::io::Result<()> {
        let (mut stdout, mut stderr);
        let out: &mut dyn Write = match self {
            Self::Stdout => {
                stdout = std::io::stdout().lock();
                &mut stdout
            }
            Self::Stderr => {
                stderr = std::io::stderr().lock();
                &mut stderr
            }
        };
        out.write_all(text.0.as_bytes()).and_then(|()| out.flush())
    }
}

/// Text that is safe for its [`Reader`]. For a terminal, all text is sanitised except control sequences in
/// the source code of zk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafeText(String);

impl SafeText {
    /// Text of any origin, without secrets.
    pub fn new(text: &str, reader: Reader) -> Self {
        Self::exact(&redacted(text), reader)
    }

    /// Variant of [`SafeText::new`] without redaction, for a person's approval.
    pub(crate) fn exact(text: &str, reader: Reader) -> Self {
        Self(match reader {
            Reader::Terminal => sanitise(text).into_owned(),
            Reader::Program => text.to_owned(),
        })
    }

    /// Sanitises the next piece of a text; `sanitiser` keeps the state between pieces.
    pub(crate) fn piece(piece: &str, sanitiser: &mut Sanitiser, reader: Reader) -> Self {
        let piece = redacted(piece);
        match reader {
            Reader::Terminal => {
                let mut out = String::with_capacity(piece.len());
                sanitiser.push(&piece, &mut out);
                Self(out)
            }
            Reader::Program => Self(piece.into_owned()),
        }
    }

    /// Creates a text from a literal in the source code.
    pub(crate) fn own(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Control sequence that begins a style.
    pub(crate) fn style(style: crate::row::Style, theme: crate::row::Theme) -> Self {
        Self(style.sequence(theme))
    }

    /// Converts a row, whose texts are sanitised already.
    pub(crate) fn row(row: &crate::row::Row, looks: crate::row::Looks) -> Self {
        Self(row.encode(looks, None))
    }

    /// Appends another text.
    pub(crate) fn append(mut self, more: &Self) -> Self {
        self.0.push_str(&more.0);
        self
    }

    /// Text as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Prints a line on standard error: warnings, errors and verbose output.
pub fn print_stderr(text: &str) {
    let reader = StdStream::Stderr.reader();
    // Redacted as a whole, since a secret may contain blanks.
    let text = redacted(text.trim_end());
    let text = match reader {
        // The text is wrapped here, since a terminal would break it within words.
        Reader::Terminal => {
            let width = Modes::size().width;
            let lines: Vec<String> = text.lines().flat_map(|line| folded(line, width)).collect();
            SafeText::exact(&lines.join("\n"), reader)
        }
        Reader::Program => SafeText::exact(&text, reader),
    };
    // With standard error closed there is no other place to report.
    let _ = StdStream::Stderr.write(&text.append(&SafeText::own("\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_of_a_text_and_a_program_gets_all_of_it() {
        let hostile = "a\u{1b}]52;c;aGk=\u{7}b\u{9b}2Jc\rd\u{202e}\0e";
        assert_eq!(SafeText::new(hostile, Reader::Terminal).as_str(), "abcde");
        assert_eq!(SafeText::exact(hostile, Reader::Terminal).as_str(), "abcde");
        assert_eq!(SafeText::new(hostile, Reader::Program).as_str(), hostile);
        let mut sanitiser = Sanitiser::default();
        let text = hostile.chars().fold(SafeText::default(), |text, c| {
            text.append(&SafeText::piece(&c.to_string(), &mut sanitiser, Reader::Terminal))
        });
        assert_eq!(text.as_str(), "abcde");
    }
}
