use std::fmt;

use zk_core::kernel::Cx;

use crate::policy::handle_of;
use crate::shell::output::{Output, OutputPlace, Since};
use crate::text::size;

/// Maximum size of an output that a model gets in full, in bytes.
const MAX_WHOLE_BYTES: usize = 32 << 10;
/// Bytes that a model gets of the beginning of a longer output.
const MAX_HEAD_BYTES: usize = 4 << 10;
/// Bytes that a model gets of the end of a longer output.
const MAX_TAIL_BYTES: usize = 24 << 10;

/// Output of a person's command, shortened for a model like a tool result: beginning, end and the handle of a
/// file with the full output. Memory does not grow with it.
///
/// The file is in the [`OutputDir`](crate::OutputDir) of the session; without one, the part between is lost, and the text says so.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::CommandOutput;
///
/// let mut output = CommandOutput::new(&Bus::new().cx(), 1 << 20);
/// output.write(b"one\n");
/// assert_eq!(output.finish(), "one\n");
/// ```
pub struct CommandOutput {
    head: Vec<u8>,
    output: Output,
}

impl fmt::Debug for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandOutput").field("bytes", &self.output.total()).finish_non_exhaustive()
    }
}

impl CommandOutput {
    /// Creates an empty output in the session of `cx`. Its file gets at most `max_file_bytes`: see
    /// [`ToolsOptions::output_file_bytes`](crate::ToolsOptions::output_file_bytes).
    #[must_use]
    pub fn new(cx: &Cx, max_file_bytes: u64) -> Self {
        let place = OutputPlace::of(cx, max_file_bytes);
        Self { head: Vec::new(), output: Output::new(MAX_WHOLE_BYTES, place) }
    }

    /// Adds bytes, which may end within a character.
    pub fn write(&mut self, bytes: &[u8]) {
        let room = MAX_HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.output.write(bytes);
    }

    /// Text for a model. A longer output is cut between lines, or between words in a long line: a secret cut
    /// in two would not be recognised.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.output.flush();
        let Since { cut, text } = self.output.since(0);
        if cut == 0 {
            return text;
        }
        let (total, place) = (size(self.output.total()), self.output.describe_file());
        let place =
            place.unwrap_or_else(|| "this session has no place for the rest, which is lost".to_owned());
        let handle = self.output.whole_file().map(handle_of).unwrap_or_default();
        let head = String::from_utf8_lossy(&self.head);
        let (head, tail) = (beginning(&head), end(&text));
        format!("[the output has {total}; {place}{handle}]\n{head}[…]\n{tail}")
    }
}

/// Whole lines at the beginning of `text`, or whole words if there is no whole line.
fn beginning(text: &str) -> String {
    let words = || text.rfind(char::is_whitespace).and_then(|at| text.get(..at)).unwrap_or_default();
    match text.rfind('\n') {
        Some(at) => text.get(..=at).unwrap_or_default().to_owned(),
        None if words().is_empty() => String::new(),
        None => format!("{}\n", words()),
    }
}

/// Whole lines at the end of `text`, or whole words if there is no whole line.
fn end(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
    let part = text.get(from..).unwrap_or_default();
    let is_whole = |at: &usize| at + 1 < part.len();
    let at = part.find('\n').filter(is_whole).or_else(|| part.find(char::is_whitespace).filter(is_whole));
    at.and_then(|at| part.get(at..)).map(str::trim_start).unwrap_or_default()
}
