//! Splits the bytes of a response into events: server-sent events, or one JSON value per line.

#[cfg(test)]
mod tests;

use memchr::memchr;

use crate::wire::response::decode::Framing;
use crate::wire::response::sse::{EVENT_LIMIT, SseDecoder, SseError, SseEvent};

/// Splitter for one response.
#[derive(Debug)]
pub(crate) enum Frames {
    Sse(SseDecoder),
    Lines(Lines),
}

impl Frames {
    /// Creates the splitter for a framing.
    pub(crate) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Sse => Self::Sse(SseDecoder::new()),
            Framing::JsonLines => Self::Lines(Lines::default()),
        }
    }

    /// Returns the media type for the `Accept` header.
    pub(crate) fn media_type(&self) -> &'static str {
        match self {
            Self::Sse(_) => "text/event-stream",
            Self::Lines(_) => "application/x-ndjson",
        }
    }

    /// Whether a response of status 200 with this `content-type` cannot be the requested stream.
    pub(crate) fn rejects_content_type(&self, content_type: &str) -> bool {
        let is_json = content_type.contains("json") && matches!(self, Self::Sse(_));
        is_json || content_type.contains("text/html")
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(decoder) => decoder.feed(bytes),
            Self::Lines(lines) => lines.feed(bytes),
        }
    }

    pub(crate) fn finish(&mut self) {
        match self {
            Self::Sse(decoder) => decoder.finish(),
            Self::Lines(lines) => lines.ended = true,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        match self {
            Self::Sse(decoder) => decoder.next(),
            Self::Lines(lines) => Ok(lines.next()?.map(|data| SseEvent { name: "", data })),
        }
    }
}

/// Incremental reader of lines; blank ones are left out.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Offset of the current line; everything before it was returned.
    line: usize,
    /// Offset up to which the end of the line was searched.
    searched: usize,
    ended: bool,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        self.buffer.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Result<Option<&[u8]>, SseError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let (end, next) = match memchr(b'\n', rest) {
                Some(offset) => (self.searched + offset, self.searched + offset + 1),
                None if self.ended && self.line < self.buffer.len() => (self.buffer.len(), self.buffer.len()),
                None => {
                    self.searched = self.buffer.len();
                    if self.searched - self.line > EVENT_LIMIT {
                        return Err(SseError::TooLarge { limit: EVENT_LIMIT });
                    }
                    return Ok(None);
                }
            };
            let line = self.line..end;
            self.line = next;
            self.searched = next;
            if line.len() > EVENT_LIMIT {
                return Err(SseError::TooLarge { limit: EVENT_LIMIT });
            }
            let is_blank =
                |range| self.buffer.get(range).is_none_or(|line: &[u8]| line.trim_ascii().is_empty());
            if !is_blank(line.clone()) {
                return Ok(self.buffer.get(line).map(<[u8]>::trim_ascii));
            }
        }
    }
}
