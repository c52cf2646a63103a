use std::sync::Arc;
use std::time::Duration;

use super::capture::Capture;
use super::render::render_output;

/// Command of the shell with its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Number of the command in this zk instance, from 1.
    pub(crate) number: u64,
    /// Command line; `None` if the shell did not report it for certain.
    pub(crate) command: Option<String>,
    /// Whether the command stands in the history's form, which joins lines.
    pub(crate) is_joined: bool,
    /// Directory in which the command was started; `None` if unknown.
    pub(crate) dir: Option<String>,
    /// Exit code of the command, if the shell reported one.
    pub(crate) end: ExchangeEnd,
    /// Running time of the command.
    pub(crate) duration: Duration,
    pub(crate) output: Capture,
    /// Columns and rows of the terminal at the end of the command.
    pub(crate) size: (u16, u16),
    /// Nonce of the marks, which is removed from all texts.
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
        let (head, tail) = self.output.parts();
        let dropped = self.output.dropped();
        if dropped == 0 {
            return render_output(&without_nonce(&self.nonce, &[head, tail].concat()), self.size);
        }
        let (head, tail) = (without_nonce(&self.nonce, &head), without_nonce(&self.nonce, &tail));
        let mut lines = render_output(&head, self.size);
        let is_forgotten = head.is_empty() && tail.is_empty();
        lines.push(if is_forgotten {
            format!("[its output of {dropped} bytes is no longer kept: the record has no room for more]")
        } else {
            format!("[{dropped} bytes were not recorded]")
        });
        // The place at which output was dropped may be within a line or an escape sequence.
        let tail =
            tail.iter().position(|byte| *byte == b'\n').and_then(|at| tail.get(at + 1..)).unwrap_or(&tail);
        lines.extend(render_output(tail, self.size));
        lines
    }
}

/// Output or text in which the nonce is replaced, before lines are broken.
pub(super) fn without_nonce(nonce: &str, text: &[u8]) -> Vec<u8> {
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
