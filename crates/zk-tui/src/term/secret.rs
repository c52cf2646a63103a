//! Reading a line that is not shown.

use std::io::BufRead;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::error::TerminalError;
use super::safe::{SafeText, StdStream, print_stderr};

/// Guard that restores the terminal's modes on drop.
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
    write_question(question);
    let line = read_line(std::io::stdin().lock());
    drop(restore);
    print_stderr("");
    line.map_err(TerminalError::Read)?.ok_or(TerminalError::GivenUp)
}

fn write_question(question: &str) {
    // A question that cannot be written can still be answered.
    let _ = StdStream::Stderr.write(&SafeText::new(question, StdStream::Stderr.reader()));
}

/// Characters up to the end of the line; `None` if cancelled.
fn read_line(input: impl BufRead) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\r' | b'\n' => break,
            3 | 28 => return Ok(None),
            4 if bytes.is_empty() => return Ok(None),
            // Ctrl-U clears the line.
            21 => bytes.clear(),
            8 | 127 => while bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => bytes.push(byte),
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::read_line;

    fn read_keys(keys: &[u8]) -> Option<String> {
        read_line(keys).unwrap()
    }

    #[test]
    fn a_line_ends_at_enter_or_end_of_input() {
        assert_eq!(read_keys(b"key\rrest").as_deref(), Some("key"));
        assert_eq!(read_keys(b"key").as_deref(), Some("key"));
    }

    #[test]
    fn backspace_and_ctrl_u_delete_text() {
        assert_eq!(read_keys(b"kez\x7fy\n").as_deref(), Some("key"));
        assert_eq!(read_keys("ä\u{7f}key\n".as_bytes()).as_deref(), Some("key"));
        assert_eq!(read_keys(b"wrong\x15key\n").as_deref(), Some("key"));
        assert_eq!(read_keys(b"\x7fkey\n").as_deref(), Some("key"));
    }

    #[test]
    fn cancelling_returns_no_text() {
        assert_eq!(read_keys(b"ke\x03y\n"), None);
        assert_eq!(read_keys(b"\x04"), None);
    }
}
