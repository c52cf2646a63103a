//! Lines of a file that one read shows.

use std::io::Read;

use memchr::{memchr, memchr_iter, memrchr};
use tokio_util::sync::CancellationToken;
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::FileStat;

use super::Slice;
use crate::files::fingerprint::{ContentHasher, Fingerprint, HASHED_UP_TO};
use crate::files::read_state::{Flaw, Shown};
use crate::limits;
use crate::text::{head, is_binary, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{check_not_stopped, io_error};

/// Maximum size in bytes of a file that a call may read without naming a part.
const WHOLE_UP_TO: u64 = 2 << 20;

pub(super) enum Content {
    Text(Page),
    Binary,
}

/// Lines of one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    first: u64,
    /// Text of the lines, with their line ends.
    text: String,
    pub(super) lines: u64,
    /// Number of lines in the file; `None` if it was not read to its end.
    total: Option<u64>,
    /// Whether the last line is cut.
    cut: bool,
    /// Whether the page ends because of the limit of a result.
    capped: bool,
    crlf: bool,
    /// Reason why the page is not exactly the file's text.
    flaw: Option<Flaw>,
    pub(super) fingerprint: Fingerprint,
}

/// Reads the file once, in pieces, and keeps only the requested lines.
pub(super) fn page(
    mut file: Box<dyn Read + Send>,
    stat: &FileStat,
    shown: &str,
    (slice, in_parts): (Slice, bool),
    tools: &ToolNames,
    stop: &CancellationToken,
) -> Result<Content, ToolError> {
    let hashed = stat.len <= HASHED_UP_TO;
    let mut hasher = ContentHasher::default();
    let mut keep = Keep::new(slice);
    // Large enough for a small file and its end; a file of size zero may still have content, such as one of
    // `/proc`.
    let mut buffer = vec![0_u8; (stat.len as usize).saturating_add(1).clamp(4 * 1024, 64 * 1024)];
    let mut begun = false;
    let mut at_end = false;
    while hashed || !keep.full {
        check_not_stopped(stop)?;
        let read = file.read(&mut buffer).map_err(|error| io_error("read", shown, &error))?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
            at_end = true;
            break;
        };
        if !begun && is_binary(piece) {
            return Ok(Content::Binary);
        }
        if !begun && !in_parts && stat.len > WHOLE_UP_TO {
            let text = format!(
                "`{shown}` has {}; say which part to read with offset and limit{}",
                size(stat.len),
                tools.advise("grep", |grep| format!(", or find the place with {grep}"))
            );
            return Err(ToolError::invalid(text));
        }
        begun = true;
        if hashed {
            hasher.add(piece);
        }
        keep.take_piece(piece);
    }
    let fingerprint = if hashed { hasher.finish() } else { Fingerprint::of_stat(stat) };
    Ok(Content::Text(keep.finish(at_end, fingerprint)))
}

/// Collector of the requested lines from a stream of bytes.
struct Keep {
    slice: Slice,
    /// Remaining bytes that may be kept.
    budget: u64,
    /// Bytes that the result may still take, line numbers included.
    room: u64,
    line: u64,
    current: Vec<u8>,
    current_len: u64,
    /// Kept lines, with their line ends.
    kept: Vec<u8>,
    lines: u64,
    cut: bool,
    full: bool,
    capped: bool,
    crlf: bool,
}

impl Keep {
    fn new(slice: Slice) -> Self {
        let room = limits::RESULT_BYTES as u64 - 1024;
        let budget = if slice.max_bytes == 0 { room } else { slice.max_bytes.min(room) };
        Self {
            slice,
            budget,
            room,
            line: 1,
            current: Vec::new(),
            current_len: 0,
            kept: Vec::new(),
            lines: 0,
            cut: false,
            full: false,
            capped: false,
            crlf: false,
        }
    }

    fn take_piece(&mut self, mut piece: &[u8]) {
        while !self.full
            && let Some(end) = memchr(b'\n', piece)
        {
            let (line, rest) = piece.split_at(end);
            // Fast path for a complete line that fits.
            if self.current_len == 0 && self.is_line_wanted() && (line.len() as u64) < self.line_limit() {
                self.keep_line(line, line.len() as u64);
                self.line += 1;
            } else {
                self.extend(line);
                self.end_line();
            }
            piece = rest.get(1..).unwrap_or_default();
        }
        if self.full
            && let Some(last) = memrchr(b'\n', piece)
        {
            // Further lines are only counted.
            self.line += memchr_iter(b'\n', piece).count() as u64;
            self.current.clear();
            self.current_len = 0;
            piece = piece.get(last + 1..).unwrap_or_default();
        }
        self.extend(piece);
    }

    /// Maximum number of bytes of the current line.
    fn line_limit(&self) -> u64 {
        self.budget.min(self.room.saturating_sub(self.line_overhead()))
    }

    fn is_line_wanted(&self) -> bool {
        !self.full && self.line >= self.slice.offset
    }

    /// Bytes of a line's number, tab and line end.
    fn line_overhead(&self) -> u64 {
        u64::from(self.line.ilog10()) + 3
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.current_len += bytes.len() as u64;
        if !self.is_line_wanted() {
            return;
        }
        let most = self.line_limit();
        let room = most.saturating_sub(self.current.len() as u64);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.current.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if self.current_len >= most {
            self.full = true;
            self.capped = most < self.budget || self.slice.max_bytes == 0;
            // A line that does not fit is left for the next read, unless it is too long for any.
            if self.lines == 0 {
                self.cut = true;
                self.keep_current();
            }
        }
    }

    fn keep_current(&mut self) {
        self.kept.append(&mut self.current);
        self.kept.push(b'\n');
        self.lines += 1;
    }

    fn end_line(&mut self) {
        if self.is_line_wanted() {
            let line = std::mem::take(&mut self.current);
            self.keep_line(&line, self.current_len);
            self.current = line;
        }
        self.current.clear();
        self.current_len = 0;
        self.line += 1;
    }

    /// Keeps a line of this length that fits.
    fn keep_line(&mut self, line: &[u8], len: u64) {
        self.budget -= len + 1;
        self.room -= len + self.line_overhead();
        let without_cr = line.strip_suffix(b"\r");
        self.crlf |= without_cr.is_some();
        let line = without_cr.unwrap_or(line);
        self.kept.extend_from_slice(line);
        self.kept.push(b'\n');
        self.lines += 1;
        let enough = self.slice.limit > 0 && self.lines >= self.slice.limit;
        self.capped = !enough && self.room <= self.line_overhead() + 1;
        self.full = enough || self.budget == 0 || self.capped;
    }

    fn finish(mut self, at_end: bool, fingerprint: Fingerprint) -> Page {
        if self.current_len > 0 {
            self.end_line();
        }
        // A line that is cut inside of a character loses that character.
        if self.cut {
            self.kept.pop();
            self.kept = whole_characters(std::mem::take(&mut self.kept));
            self.kept.push(b'\n');
        }
        let (text, flaw) = match String::from_utf8(self.kept) {
            Ok(text) => (text, None),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(Flaw::Bytes)),
        };
        Page {
            first: self.slice.offset,
            text,
            lines: self.lines,
            total: at_end.then_some(self.line - 1),
            cut: self.cut,
            capped: self.capped,
            crlf: self.crlf,
            flaw,
            fingerprint,
        }
    }
}

/// Increments the decimal digits of a number, which is far faster than formatting each.
fn increment_digits(number: &mut Vec<u8>) {
    for digit in number.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    number.insert(0, b'1');
}

fn whole_characters(mut line: Vec<u8>) -> Vec<u8> {
    if let Err(error) = std::str::from_utf8(&line)
        && error.error_len().is_none()
    {
        line.truncate(error.valid_up_to());
    }
    line
}

impl Page {
    fn last(&self) -> u64 {
        (self.first + self.lines).saturating_sub(1)
    }

    /// Page with the fingerprint of a file whose bytes were decoded.
    pub(super) fn decoded(self, fingerprint: Fingerprint) -> Self {
        Self { fingerprint, flaw: Some(Flaw::Encoding), ..self }
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            lines: (self.lines > 0).then(|| (self.first, self.last())),
            // A page after the end contains nothing of the file.
            to_the_end: self
                .total
                .is_some_and(|total| self.last() >= total && (self.lines > 0 || total == 0))
                && !self.cut,
            flaw: self.flaw,
        }
    }

    pub(super) fn check_offset(&self, shown: &str, slice: Slice) -> Result<(), ToolError> {
        match self.total {
            Some(total) if slice.offset > total.max(1) => Err(ToolError::new(
                ToolErrorKind::InvalidArgs,
                format!(
                    "`{shown}` has {total} lines; there is no line {}, give a lower offset",
                    slice.offset
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn render(&self, numbers: bool, tools: &ToolNames) -> String {
        if self.lines == 0 {
            return "(the file is empty)".to_owned();
        }
        let numbers_bytes =
            if numbers { self.lines * (u64::from(self.last().max(1).ilog10()) + 2) } else { 0 };
        let mut text =
            String::with_capacity(self.text.len() + usize::try_from(numbers_bytes).unwrap_or(0) + 512);
        if numbers {
            let mut number = self.first.to_string().into_bytes();
            let mut from = 0;
            for end in memchr_iter(b'\n', self.text.as_bytes()) {
                text.extend(number.iter().copied().map(char::from));
                text.push('\t');
                text.push_str(self.text.get(from..=end).unwrap_or_default());
                from = end + 1;
                increment_digits(&mut number);
            }
        } else {
            text.push_str(&self.text);
        }
        let last = self.last();
        let mut notes = Vec::new();
        if self.cut {
            let byte = self.text.len();
            let rest = tools.advise("shell", |shell| {
                format!(
                    "; in {shell}, `sed -n {last}p FILE | tail -c +{byte} | head -c 2000` shows more of it"
                )
            });
            notes.push(format!(
                "line {last} is cut after byte {}, it does not fit into max_bytes{rest}",
                byte - 1
            ));
        }
        if self.capped {
            notes.push(format!("one result may have {}", size(limits::RESULT_BYTES as u64)));
        }
        match self.total {
            Some(total) if last < total => {
                notes.push(format!(
                    "lines {}-{last} of {total}; continue with offset={}",
                    self.first,
                    last + 1
                ));
            }
            Some(_) => {}
            None => notes.push(format!(
                "lines {}-{last}, more follow; continue with offset={}",
                self.first,
                last + 1
            )),
        }
        if self.crlf {
            notes.push("lines end with CR LF".to_owned());
        }
        match self.flaw {
            Some(Flaw::Bytes) => notes.push("bytes that are no UTF-8 are shown as \u{fffd}".to_owned()),
            Some(Flaw::Encoding) => notes.push("the file is UTF-16, shown as UTF-8".to_owned()),
            Some(Flaw::Hidden | Flaw::Form) | None => {}
        }
        if !notes.is_empty() {
            text.push_str(&format!("({})", head(&notes.join("; "), 400)));
        }
        text
    }
}
