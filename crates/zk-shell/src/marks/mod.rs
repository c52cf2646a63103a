//! Marks that the start scripts put into the output: what the shell does, for zk alone.

mod modes;
mod scanner;

pub use modes::TerminalModes;
pub use scanner::{MarkScanner, MarkSink};

/// Number of the private OSC of all marks.
pub(crate) const OSC_NUMBER: &str = "7177";

/// Mark of a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The shell waits for a line. It may have keys by which zk asks for the line and redraws it.
    Ready {
        /// Whether the shell has these keys.
        has_keys: bool,
        /// Number that the next command gets in the shell's history, if the history takes it; `None` for shells that tell
        /// a command by its line.
        next_entry: Option<u64>,
    },
    /// A command begins.
    Started {
        /// Text of the command, byte for byte.
        text: Vec<u8>,
        /// Source of the text: the line or the history.
        source: TextSource,
        /// Number of the history's entry that the text is of; `None` for a text that is certain without.
        entry: Option<u64>,
    },
    /// The line goes on: the shell asks for more of it.
    Continued,
    /// Text of the line that is being edited, byte for byte.
    LineText(Vec<u8>),
    /// Aliases and functions behind the words that zk asked for, as the shell prints them.
    Definitions(Vec<u8>),
    /// The last command ended.
    Ended {
        /// Exit code of the command.
        code: i32,
        /// Working directory of the shell after the command.
        dir: Vec<u8>,
    },
    /// Working directory of the shell.
    Directory(Vec<u8>),
    /// Length of the line that is being edited.
    Line {
        /// Length in the shell's own unit, such as characters; zero for an empty line.
        len: usize,
    },
}

/// Origin of a command's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// The shell's own line, as it was entered.
    Line,
    /// The shell's history, which joins the lines of a command that went on.
    History,
    /// The shell's history, which did not take the command; the text may be that of another command.
    OlderHistory,
}

impl Mark {
    /// Parses the part of a mark after the nonce; `None` for anything that no script writes.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        let rest = rest.strip_prefix(b";")?;
        Some(match kind {
            b'R' => {
                let mut fields = rest.splitn(2, |byte| *byte == b';');
                let has_keys = fields.next() == Some(b"1");
                Self::Ready { has_keys, next_entry: fields.next().and_then(number) }
            }
            b'B' => {
                let mut fields = rest.splitn(3, |byte| *byte == b';');
                let (entry, form, text) = (number(fields.next()?), fields.next()?, unescape(fields.next()?)?);
                let source = match (entry, form) {
                    (None, _) => TextSource::OlderHistory,
                    (_, b"C") => TextSource::Line,
                    (_, b"H") => TextSource::History,
                    _ => return None,
                };
                Self::Started { text, source, entry }
            }
            b'C' => Self::Started { text: unescape(rest)?, source: TextSource::Line, entry: None },
            b'U' => Self::Started { text: unescape(rest)?, source: TextSource::OlderHistory, entry: None },
            b'V' => Self::LineText(unescape(rest)?),
            b'P' => Self::Continued,
            b'F' => Self::Definitions(unescape(rest)?),
            b'W' => Self::Directory(unescape(rest)?),
            b'L' => Self::Line { len: number(rest)? },
            b'D' => {
                let at = rest.iter().position(|byte| *byte == b';')?;
                let (code, dir) = rest.split_at(at);
                Self::Ended { code: number(code)?, dir: unescape(dir.strip_prefix(b";")?)? }
            }
            _ => return None,
        })
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Decodes percent escapes (`%XX`).
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        if *byte == b'%' {
            let (hex, behind) = behind.split_at_checked(2)?;
            plain.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = behind;
        } else {
            plain.push(*byte);
            rest = behind;
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_exactly_and_anything_else_is_none() {
        let started = |text: &[u8], source, entry| Some(Mark::Started { text: text.to_vec(), source, entry });
        let ready = |has_keys, next_entry| Some(Mark::Ready { has_keys, next_entry });
        for (body, expected) in [
            (&b"R;1"[..], ready(true, None)),
            (b"R;0;12", ready(false, Some(12))),
            (b"R;1;", ready(true, None)),
            (b"C;echo 100%25;ls%0A", started(b"echo 100%;ls\n", TextSource::Line, None)),
            (b"B;7;H;ls;a", started(b"ls;a", TextSource::History, Some(7))),
            (b"B;7;C;ls", started(b"ls", TextSource::Line, Some(7))),
            (b"B;;C;", started(b"", TextSource::OlderHistory, None)),
            (b"B;7;X;ls", None),
            (b"B;7;H", None),
            (b"U;\xff", started(b"\xff", TextSource::OlderHistory, None)),
            (b"V;a%0Ab", Some(Mark::LineText(b"a\nb".to_vec()))),
            (b"P;", Some(Mark::Continued)),
            (b"F;alias l='ls'%0A", Some(Mark::Definitions(b"alias l='ls'\n".to_vec()))),
            (b"D;130;/a%07b;c", Some(Mark::Ended { code: 130, dir: b"/a\x07b;c".to_vec() })),
            (b"W;/", Some(Mark::Directory(b"/".to_vec()))),
            (b"L;12", Some(Mark::Line { len: 12 })),
            (b"L;-1", None),
            (b"D;x;/", None),
            (b"D;1", None),
            (b"C;%4", None),
            (b"C;%zz", None),
            (b"C", None),
            (b"X;1", None),
            (b"", None),
        ] {
            assert_eq!(Mark::parse(body), expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
