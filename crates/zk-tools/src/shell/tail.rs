use zk_core::service::{OutputSink, OutputStream, Progress};

use crate::caps::{RESULT_BYTES, WATCHED_BYTES};

/// Keeps the end of what a command prints, both outputs as they come.
#[derive(Debug)]
pub(super) struct Tail {
    max: usize,
    kept: Vec<u8>,
    total: u64,
    /// Line ends among them.
    line_ends: u64,
    last: Option<OutputStream>,
    progress: Progress,
    watched: usize,
    /// The beginning of a character whose rest has not come yet.
    partial: Vec<u8>,
}

impl Tail {
    /// Keeps `max` bytes; as many as a result may have if 0.
    pub(super) fn new(max: usize, progress: Progress) -> Self {
        let max = if max == 0 { RESULT_BYTES } else { max.min(RESULT_BYTES) };
        Self {
            max,
            kept: Vec::new(),
            total: 0,
            line_ends: 0,
            last: None,
            progress,
            watched: 0,
            partial: Vec::new(),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.line_ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let bytes = bytes.get(bytes.len().saturating_sub(self.max)..).unwrap_or_default();
        // Twice the size is let grow before the front is cut, so that every byte is moved once at most.
        if self.kept.len() + bytes.len() > self.max * 2 {
            let surplus = (self.kept.len() + bytes.len()).saturating_sub(self.max).min(self.kept.len());
            self.kept.drain(..surplus);
        }
        self.kept.extend_from_slice(bytes);
    }

    fn show(&mut self, bytes: &[u8]) {
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

    /// The end of the output, saying what was cut.
    pub(super) fn finish(mut self) -> Printed {
        let surplus = self.kept.len().saturating_sub(self.max);
        self.kept.drain(..surplus);
        let mut cut = self.total - self.kept.len() as u64;
        let is_open = self.kept.last().is_some_and(|last| *last != b'\n');
        let total_lines = self.line_ends + u64::from(is_open);
        if cut > 0 {
            let inside = self.kept.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            self.kept.drain(..inside);
            cut += inside as u64;
        }
        let kept = String::from_utf8_lossy(&self.kept);
        let lines = kept.lines().map(str::to_owned).collect();
        let text = match cut {
            0 => kept.into_owned(),
            cut => format!("…({cut} bytes truncated from head)…\n{kept}"),
        };
        Printed { text, lines, total_lines }
    }
}

/// What a command printed.
pub(super) struct Printed {
    /// Its end for the model, saying what was cut.
    pub(super) text: String,
    /// Its end in lines; the first may have lost its beginning.
    pub(super) lines: Vec<String>,
    /// How many lines it printed in all.
    pub(super) total_lines: u64,
}

/// How many bytes at the end may be the beginning of a character.
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
        // Two outputs share the text; one does not go on in the middle of the other's line.
        if self.last.is_some_and(|last| last != stream) && self.kept.last().is_some_and(|last| *last != b'\n')
        {
            self.keep(b"\n");
        }
        self.last = Some(stream);
        self.keep(bytes);
        self.show(bytes);
    }
}
