use std::path::Path;

use zk_core::service::{OutputSink, OutputStream, Progress};

use crate::limits::{RESULT_BYTES, WATCHED_BYTES};
use crate::policy::CutOutput;
use crate::shell::output::{Output, OutputPlace, Since};

/// Kept size of an output in bytes for a result of `max`; 0 means the maximum size of a result.
pub(super) fn kept_bytes(max: usize) -> usize {
    if max == 0 { RESULT_BYTES } else { max.min(RESULT_BYTES) }
}

/// Keeps the end of a command's output, both streams merged.
#[derive(Debug)]
pub(super) struct Tail {
    output: Output,
    limit: usize,
    /// Number of line ends in the output.
    line_ends: u64,
    last: Option<OutputStream>,
    progress: Progress,
    watched: usize,
    /// Incomplete character at the end of the output.
    partial: Vec<u8>,
}

impl Tail {
    /// Keeps `max` bytes in memory, or the maximum size of a result if `max` is 0. If `place` is given, the
    /// rest goes to a file.
    pub(super) fn new(max: usize, place: Option<OutputPlace>, progress: Progress) -> Self {
        Self {
            output: Output::new(kept_bytes(max), place),
            limit: kept_bytes(max),
            line_ends: 0,
            last: None,
            progress,
            watched: 0,
            partial: Vec::new(),
        }
    }

    fn add_output(&mut self, bytes: &[u8]) {
        self.line_ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.output.write(bytes);
    }

    fn show_progress(&mut self, bytes: &[u8]) {
        if !self.progress.is_watched() || self.watched > WATCHED_BYTES {
            return;
        }
        self.watched += bytes.len();
        self.partial.extend_from_slice(bytes);
        let incomplete = match std::str::from_utf8(&self.partial) {
            Err(error) if error.error_len().is_none() => self.partial.len() - error.valid_up_to(),
            Ok(_) | Err(_) => trailing_start(&self.partial),
        };
        let rest = self.partial.split_off(self.partial.len() - incomplete);
        self.progress.show(&String::from_utf8_lossy(&self.partial));
        self.partial = rest;
        if self.watched > WATCHED_BYTES {
            self.progress.show("\n… the output goes on and is no longer shown\n");
        }
    }

    /// End of the output so far with a note on the omission, and the full output to continue with.
    pub(super) fn output_so_far(self) -> (String, Output) {
        let Since { cut, text } = self.output.since(0);
        let head =
            if cut == 0 { String::new() } else { format!("…({cut} bytes truncated from head)…\n") };
        (format!("{head}{text}"), self.output)
    }

    /// End of the output, with a note on the omission.
    pub(super) fn finish(mut self) -> Printed {
        let total_lines = self.line_ends + u64::from(!self.output.ends_in_line());
        self.output.flush();
        let Since { cut, text: kept } = self.output.since(0);
        let lines = kept.lines().map(str::to_owned).collect();
        let head = match (cut, self.output.describe_file()) {
            (0, _) => String::new(),
            (cut, None) => format!("…({cut} bytes truncated from head)…\n"),
            (cut, Some(place)) => format!("…({cut} bytes truncated from head; {place})…\n"),
        };
        let text = format!("{head}{kept}");
        let file = self.output.whole_file().map(Path::to_path_buf);
        let cut = (cut > 0).then_some(CutOutput { head, footer: String::new(), file, limit: self.limit });
        Printed { text, lines, total_lines, cut }
    }
}

/// Output of a command.
pub(super) struct Printed {
    /// End of the output for the model, with a note on the omission.
    pub(super) text: String,
    /// End of the output in lines; the first may have lost its beginning.
    pub(super) lines: Vec<String>,
    /// Total number of printed lines.
    pub(super) total_lines: u64,
    /// Whole output, if the text lacks its beginning.
    pub(super) cut: Option<CutOutput>,
}

/// Counts the bytes at the end that may be the beginning of a character.
fn trailing_start(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    let begins = match last.first() {
        Some(0xc2..=0xdf) => last.len() < 2,
        Some(0xe0..=0xef) => last.len() < 3,
        Some(0xf0..=0xf4) => last.len() < 4,
        Some(_) | None => false,
    };
    if begins { last.len() } else { 0 }
}

impl OutputSink for Tail {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        // Two streams share the text; one must not continue in the middle of the other's line.
        if self.last.is_some_and(|last| last != stream) && !self.output.ends_in_line() {
            self.add_output(b"\n");
        }
        self.last = Some(stream);
        self.add_output(bytes);
        self.show_progress(bytes);
    }
}
