use std::sync::{Arc, Mutex, PoisonError};

/// Size of the kept end of the program's standard error, in bytes.
const MAX_SAID_BYTES: usize = 2 << 10;
/// Characters of a program's text that a message quotes.
const MAX_QUOTED_CHARS: usize = 300;

/// Receiver of the program's standard error, for a log.
pub(crate) type LogSink = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// End of a program's standard error.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(bytes);
        let above = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..above);
    }

    /// Returns the last line that contains an error, or else the last line, to append to a reason; empty
    /// without output.
    pub(crate) fn last_line(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = || said.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        // Node prints its version last, and the error above the stack.
        let is_error = |line: &&[u8]| line.windows(6).any(|part| part == b"Error:" || part == b"Error ");
        let last = lines().rfind(is_error).or_else(|| lines().next_back());
        last.map_or(String::new(), |line| format!("; it said: {}", quoted(line)))
    }
}

/// Shortens a program's text and makes it safe to print.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_program_are_its_error() {
        for (said, told) in [
            ("", ""),
            ("warming up\nout of luck\n\n", "; it said: out of luck"),
            ("Traceback:\n  x\nKeyError: 'a'\n", "; it said: KeyError: 'a'"),
            (
                "TypeError [X]: no .ts\n    at f (a.js)\n\nNode.js v20.20.2\n",
                "; it said: TypeError [X]: no .ts",
            ),
        ] {
            let all = Said::default();
            all.append(said.as_bytes());
            assert_eq!(all.last_line(), told);
        }
    }
}
