//! Size limit of the events in a stream.

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, future};
use reqwest::Response;
use sse_stream::{Error as SseError, Sse, SseStream};

/// Reason for which a stream of events ends early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Source(#[from] reqwest::Error),
    #[error("an event has more than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
}

/// Parses the events of a body; fails at an event with more than `max_bytes`.
pub(super) fn bounded_events(
    response: Response,
    max_bytes: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let (mut event, mut is_over) = (EventBytes::default(), false);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk?;
        if event.add(&chunk, max_bytes) { Ok(chunk) } else { Err(Broken::TooLarge { max_bytes }) }
    });
    // No event follows an error.
    let bytes = bytes.take_while(move |chunk| {
        let goes_on = !is_over;
        is_over = chunk.is_err();
        future::ready(goes_on)
    });
    SseStream::from_bytes_stream(bytes).boxed()
}

/// Counts the bytes of the current event, without comments.
#[derive(Debug, Default)]
struct EventBytes {
    event: usize,
    line: usize,
    is_comment: bool,
    is_after_return: bool,
}

impl EventBytes {
    /// Counts a chunk of a stream; returns false if an event or line exceeds `max_bytes`.
    fn add(&mut self, bytes: &[u8], max_bytes: usize) -> bool {
        for byte in bytes {
            let is_second = std::mem::take(&mut self.is_after_return) && *byte == b'\n';
            match byte {
                _ if is_second => {}
                b'\r' | b'\n' => {
                    self.is_after_return = *byte == b'\r';
                    self.end_line();
                }
                _ => {
                    self.is_comment |= self.line == 0 && *byte == b':';
                    self.line += 1;
                }
            }
            if self.event + self.line > max_bytes {
                return false;
            }
        }
        true
    }

    fn end_line(&mut self) {
        match (self.line, self.is_comment) {
            (0, _) => self.event = 0,
            (_, true) => {}
            (line, false) => self.event += line + 1,
        }
        (self.line, self.is_comment) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_counted_across_lines_and_parts_and_comments_are_not() {
        for (parts, fits) in [
            (&["data: 12", "34\ndata: 5\n\n", "data: 1234567890\n\n"][..], true),
            (&["data: 1234567890\r\n", "\r\ndata: 1234567890\r\n\r\n"], true),
            (&[": a comment\n", ": and another\n", ": and more\n"], true),
            (&["data: 1234567890\n", "data: 1\n"], false),
            (&["data: 1234567890123456"], false),
        ] {
            let mut event = EventBytes::default();
            assert_eq!(parts.iter().all(|part| event.add(part.as_bytes(), 20)), fits, "{parts:?}");
        }
    }
}
