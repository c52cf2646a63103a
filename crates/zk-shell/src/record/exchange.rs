use std::sync::Arc;
use std::time::Duration;

use super::capture::Capture;
use super::render::render_output;

/// Command of the shell with its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Number in this instance, from 1.
    pub(crate) number: u64,
    /// Command; `None` if the shell did not tell it for certain.
    pub(crate) command: Option<String>,
    /// Whether the command stands in the history's form, which joins lines.
    pub(crate) is_joined: bool,
    /// Directory in which it was started; `None` if unknown.
    pub(crate) dir: Option<String>,
    /// End of the command.
    pub(crate) end: ExchangeEnd,
    /// Time from start to end.
    pub(crate) duration: Duration,
    /// Whether it drew on the alternate screen, whose content is not recorded.
    pub(crate) is_full_screen: bool,
    pub(crate) output: Capture,
    /// Columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    /// Nonce of the marks, which is left out.
    pub(crate) nonce: Arc<str>,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeEnd {
    /// Exit code.
    Code(i32),
    /// The shell reported no exit code.
    Unknown,
}

impl Exchange {
    /// Output as the terminal showed it, line by line. Output beyond the capture limit is replaced by a line that
    /// says so.
    pub(crate) fn output_lines(&self) -> Vec<String> {
        if self.is_full_screen {
            return Vec::new();
        }
        let (head, tail) = self.output.parts();
        let dropped = self.output.dropped();
        if dropped == 0 {
            return render_output(&without(&self.nonce, &[head, tail].concat()), self.size);
        }
        let (head, tail) = (without(&self.nonce, &head), without(&self.nonce, &tail));
        let mut lines = render_output(&head, self.size);
        lines.push(format!("[{dropped} bytes were not recorded]"));
        // The cut may be within a line or a sequence.
        let tail =
            tail.iter().position(|byte| *byte == b'\n').and_then(|at| tail.get(at + 1..)).unwrap_or(&tail);
        lines.extend(render_output(tail, self.size));
        lines
    }
}

/// Output or text in which the nonce is replaced, before lines are broken.
pub(super) fn without(nonce: &str, text: &[u8]) -> Vec<u8> {
    if nonce.is_empty() {
        return text.to_vec();
    }
    let (mut clean, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = memchr::memmem::find(rest, nonce.as_bytes()) {
        clean.extend_from_slice(rest.get(..at).unwrap_or_default());
        clean.extend_from_slice(b"[nonce]");
        rest = rest.get(at + nonce.len()..).unwrap_or_default();
    }
    clean.extend_from_slice(rest);
    clean
}
