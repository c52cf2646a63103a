//! Reading a line that is not shown.

use std::io::BufRead;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::error::TerminalError;
use super::safe::{SafeText, StdStream, print_stderr};

/// Modes of the terminal, restored on drop.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Reads a line from the terminal without echo.
pub fn read(question: &str) -> Result<String, TerminalError> {
    let before = tcgetattr(std::io::stdin()).map_err(|error| TerminalError::Read(error.into()))?;
    let mut silent = before.clone();
    // Signal keys arrive as characters, too: a signal here would leave a terminal without echo.
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    let restore = Restore(before);
    tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)
        .map_err(|error| TerminalError::Read(error.into()))?;
    ask(question);
    let line = line(std::io::stdin().lock());
    drop(restore);
    print_stderr("");
    line.map_err(TerminalError::Read)?.ok_or(TerminalError::GivenUp)
}

fn ask(question: &str) {
    // An unreadable question can still be answered.
    let _ = StdStream::Stderr.write(&SafeText::new(question, StdStream::Stderr.reader()));
}

/// Characters up to the end of the line; `None` if cancelled.
fn line(input: impl BufRead) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\r' | b'\n' => break,
            3 | 28 => return Ok(None),
            4 if bytes.is_empty() => return Ok(None),
            // Ctrl-U.
            21 => bytes.clear(),
            8 | 127 => while bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => bytes.push(byte),
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::line;

    fn typed(keys: &[u8]) -> Option<String> {
        line(keys).unwrap()
    }

    #[test]
    fn a_line_ends_where_it_ends() {
        assert_eq!(typed(b"key\rrest").as_deref(), Some("key"));
        assert_eq!(typed(b"key").as_deref(), Some("key"));
    }

    #[test]
    fn mistakes_can_be_taken_back() {
        assert_eq!(typed(b"kez\x7fy\n").as_deref(), Some("key"));
        assert_eq!(typed("ä\u{7f}key\n".as_bytes()).as_deref(), Some("key"));
        assert_eq!(typed(b"wrong\x15key\n").as_deref(), Some("key"));
        assert_eq!(typed(b"\x7fkey\n").as_deref(), Some("key"));
    }

    #[test]
    fn giving_up_gives_nothing() {
        assert_eq!(typed(b"ke\x03y\n"), None);
        assert_eq!(typed(b"\x04"), None);
    }
}
