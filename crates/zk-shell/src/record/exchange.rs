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
            return render_output(&[head, tail].concat(), self.size);
        }
        let mut lines = render_output(&head, self.size);
        lines.push(format!("[{dropped} bytes were not recorded]"));
        // The cut may be within a line or a sequence.
        let tail =
            tail.iter().position(|byte| *byte == b'\n').and_then(|at| tail.get(at + 1..)).unwrap_or(&tail);
        lines.extend(render_output(tail, self.size));
        lines
    }
}
