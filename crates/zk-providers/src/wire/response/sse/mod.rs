//! Decoder of server-sent events without I/O of its own.

#[cfg(test)]
mod tests;

use std::ops::Range;

use memchr::memchr2;

/// Default size limit of one event in bytes, 16 MiB; see [`SseDecoder::with_limit`].
pub const EVENT_LIMIT: usize = super::limits::EVENT;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// An incremental decoder of `text/event-stream`.
///
/// Lines may end in CR, LF or CRLF, a byte order mark may come first, several `data` lines are joined with a
/// line feed, and comments and unknown fields are ignored. Characters may be split anywhere between two calls
/// of [`feed`](Self::feed). An event with a single `data` line, the usual case, is returned without a copy.
///
/// ```
/// use zk_providers::sse::SseDecoder;
///
/// let mut decoder = SseDecoder::new();
/// decoder.feed(b"event: greeting\ndata: hel");
/// assert!(decoder.next()?.is_none());
/// decoder.feed(b"lo\n\n");
/// let event = decoder.next()?.expect("it is complete now");
/// assert_eq!((event.name, event.data), ("greeting", &b"hello"[..]));
/// # Ok::<(), zk_providers::sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    buffer: Vec<u8>,
    /// Offset of the current event; everything before it was returned.
    event: usize,
    /// Offset of the current line.
    line: usize,
    /// Offset up to which the end of the line was searched.
    searched: usize,
    name: Range<usize>,
    data: Data,
    joined: Vec<u8>,
    limit: usize,
    /// Whether a byte order mark may still come.
    at_start: bool,
    /// Whether the last line ended in CR at the end of the buffer, so that a following LF belongs to it.
    after_cr: bool,
    ended: bool,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// One line, still in the buffer.
    Line(Range<usize>),
    /// Several lines, in `joined`.
    Joined,
}

/// One server-sent event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Value of the `event` field; empty if it is missing or no valid UTF-8.
    pub name: &'a str,
    /// Data as sent; not checked for UTF-8.
    pub data: &'a [u8],
}

/// A stream that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event exceeds the size limit.
    #[error("one event of the stream is larger than {limit} bytes")]
    TooLarge {
        /// Size limit in bytes.
        limit: usize,
    },
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SseDecoder {
    /// Creates a decoder with the default limit, [`EVENT_LIMIT`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(EVENT_LIMIT)
    }

    /// Creates a decoder for events of at most `limit` bytes, field names included.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            event: 0,
            line: 0,
            searched: 0,
            name: 0..0,
            data: Data::None,
            joined: Vec::new(),
            limit,
            at_start: true,
            after_cr: false,
            ended: false,
        }
    }

    /// Adds bytes of the stream. Bytes after [`finish`](Self::finish) are ignored.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.ended {
            self.discard_read();
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Announces the end of the stream, so that a last event without a blank line is returned too.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// Returns the next event; `None` until more bytes are fed.
    ///
    /// # Errors
    /// [`SseError::TooLarge`] when an event exceeds the limit; the decoder stays at that event.
    #[expect(clippy::should_implement_trait, reason = "an event borrows from the decoder")]
    pub fn next(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        if !self.skip_bom() {
            return Ok(None);
        }
        loop {
            let Some(line) = self.next_line() else {
                // The end of a line does not count, since its length is not always known yet.
                let is_partial = self.line < self.buffer.len();
                if is_partial && self.buffer.len().saturating_sub(self.event) > self.limit {
                    return Err(SseError::TooLarge { limit: self.limit });
                }
                if !self.ended {
                    return Ok(None);
                }
                return Ok(self.take_event());
            };
            if !line.is_empty() {
                if line.end.saturating_sub(self.event) > self.limit {
                    self.line = line.start;
                    self.searched = line.start;
                    return Err(SseError::TooLarge { limit: self.limit });
                }
                self.process_field(line);
            } else if !matches!(self.data, Data::None) {
                return Ok(self.take_event());
            } else {
                self.name = 0..0;
                self.event = self.line;
            }
        }
    }

    /// Drops returned bytes, so that the buffer never holds more than one event and one chunk.
    fn discard_read(&mut self) {
        let read = self.event;
        if read == 0 {
            return;
        }
        self.buffer.drain(..read);
        self.event = 0;
        self.line = self.line.saturating_sub(read);
        self.searched = self.searched.saturating_sub(read);
        shift_range(&mut self.name, read);
        if let Data::Line(range) = &mut self.data {
            shift_range(range, read);
        }
    }

    /// Skips a byte order mark; returns false if more bytes are needed to decide.
    fn skip_bom(&mut self) -> bool {
        if !self.at_start {
            return true;
        }
        if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) && !self.ended {
            return false;
        }
        if self.buffer.starts_with(BOM) {
            self.line = BOM.len();
            self.searched = BOM.len();
            self.event = BOM.len();
        }
        self.at_start = false;
        true
    }

    /// Returns the next complete line without its end. At the end of the stream an unfinished line counts
    /// too.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr
            && let Some(&byte) = self.buffer.get(self.line)
        {
            self.after_cr = false;
            if byte == b'\n' {
                self.line += 1;
                self.searched = self.line;
                // The event before may have ended in CR, and its LF does not begin the next one.
                if matches!(self.data, Data::None) && self.name.is_empty() {
                    self.event = self.line;
                }
            }
        }
        let from = self.searched.max(self.line);
        let found = self.buffer.get(from..).and_then(|rest| memchr2(b'\n', b'\r', rest));
        let Some(offset) = found else {
            self.searched = self.buffer.len();
            if self.ended && self.line < self.buffer.len() {
                let line = self.line..self.buffer.len();
                self.line = self.buffer.len();
                return Some(line);
            }
            return None;
        };
        let end = from + offset;
        let line = self.line..end;
        let mut next = end + 1;
        if self.buffer.get(end) == Some(&b'\r') {
            match self.buffer.get(next) {
                Some(b'\n') => next += 1,
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        self.line = next;
        self.searched = next;
        Some(line)
    }

    /// Processes the field of a non-empty line.
    fn process_field(&mut self, line: Range<usize>) {
        let bytes = self.buffer.get(line.clone()).unwrap_or_default();
        let colon = bytes.iter().take(6).position(|&byte| byte == b':').unwrap_or(bytes.len());
        let mut value = (line.start + colon + 1).min(line.end)..line.end;
        if self.buffer.get(value.start) == Some(&b' ') && !value.is_empty() {
            value.start += 1;
        }
        match bytes.get(..colon).unwrap_or_default() {
            b"data" => match std::mem::take(&mut self.data) {
                Data::None => self.data = Data::Line(value),
                Data::Line(first) => {
                    self.joined.clear();
                    self.joined.extend_from_slice(self.buffer.get(first).unwrap_or_default());
                    self.append_data(value);
                }
                Data::Joined => self.append_data(value),
            },
            b"event" => self.name = value,
            _ => {}
        }
        // Comments before the first field are dropped, so that any number of them needs no memory.
        if matches!(self.data, Data::None) && self.name.is_empty() {
            self.event = self.line;
        }
    }

    fn append_data(&mut self, value: Range<usize>) {
        self.joined.push(b'\n');
        self.joined.extend_from_slice(self.buffer.get(value).unwrap_or_default());
        self.data = Data::Joined;
    }

    fn take_event(&mut self) -> Option<SseEvent<'_>> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        self.event = self.line;
        let data = match data {
            Data::None => return None,
            Data::Line(range) => self.buffer.get(range).unwrap_or_default(),
            Data::Joined => &self.joined,
        };
        let name = self.buffer.get(name).unwrap_or_default();
        Some(SseEvent { name: std::str::from_utf8(name).unwrap_or_default(), data })
    }
}

fn shift_range(range: &mut Range<usize>, by: usize) {
    range.start = range.start.saturating_sub(by);
    range.end = range.end.saturating_sub(by);
}
