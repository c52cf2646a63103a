//! One line of an output, in memory that does not grow with it.

use std::io::{self, BufRead};

use tokio_util::sync::CancellationToken;

/// Bytes of a line that are shown.
const MAX_SHOWN_BYTES: usize = 2_000;

/// Number of shown bytes before a match.
const BYTES_BEFORE_MATCH: usize = 400;

/// Bytes of a line that are searched at a time.
const SEARCHED_BYTES: usize = 64 * 1024;

/// Line during reading: its visible part, or else its last bytes, still to be searched.
#[derive(Debug)]
pub(super) struct Line {
    /// Byte of the line to begin at.
    begin: u64,
    length: u64,
    buffer: Vec<u8>,
    /// Byte of the line at which the buffer begins.
    start: u64,
    /// Offset of the match within the line.
    found: Option<u64>,
}

/// The part of a line that is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Line {
    /// Creates a line that is examined from this byte on.
    pub(super) fn new(begin: u64) -> Self {
        Self { begin, length: 0, buffer: Vec::new(), start: begin, found: None }
    }

    /// Returns the length of the line in bytes, without its end.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads the line with its line end. Returns false at the end of the input and after a stop.
    pub(super) fn read(
        &mut self,
        reader: &mut impl BufRead,
        query: Option<&str>,
        stop: &CancellationToken,
    ) -> io::Result<bool> {
        let mut is_line = false;
        loop {
            let piece = reader.fill_buf()?;
            if piece.is_empty() || stop.is_cancelled() {
                break;
            }
            is_line = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(piece.len());
            self.add(piece.get(..taken).unwrap_or_default(), query);
            reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        self.search(query, true);
        Ok(is_line && !stop.is_cancelled())
    }

    fn add(&mut self, bytes: &[u8], query: Option<&str>) {
        let skipped = usize::try_from(self.begin.saturating_sub(self.length)).unwrap_or(usize::MAX);
        self.length += bytes.len() as u64;
        let bytes = bytes.get(skipped.min(bytes.len())..).unwrap_or_default();
        if query.is_none() || self.found.is_some() {
            let room = MAX_SHOWN_BYTES.saturating_sub(self.buffer.len()).min(bytes.len());
            self.buffer.extend_from_slice(bytes.get(..room).unwrap_or_default());
            return;
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= SEARCHED_BYTES {
            self.search(query, false);
        }
    }

    /// Searches the text read so far, and drops text that is not shown.
    fn search(&mut self, query: Option<&str>, is_end: bool) {
        let Some(query) = query.filter(|_| self.found.is_none()) else { return };
        let keep_from = match find(&self.buffer, query) {
            Some(at) => {
                self.found = Some(self.start + at as u64);
                let is_short = is_end && self.buffer.len() <= MAX_SHOWN_BYTES;
                if is_short { 0 } else { at.saturating_sub(BYTES_BEFORE_MATCH) }
            }
            // The searched text may have started, and its length may differ in other letter case.
            None => self.buffer.len().saturating_sub(BYTES_BEFORE_MATCH + query.len() * 3),
        };
        self.buffer.drain(..keep_from);
        self.start += keep_from as u64;
        if self.found.is_some() {
            self.buffer.truncate(MAX_SHOWN_BYTES);
        }
    }

    /// Visible part; `None` if the line does not match.
    pub(super) fn part(&self, query: Option<&str>) -> Option<Part> {
        if query.is_some() && self.found.is_none() {
            return None;
        }
        let is_inside = |byte: &&u8| (0x80..0xc0).contains(*byte);
        let skipped =
            if self.start > 0 { self.buffer.iter().take(3).take_while(is_inside).count() } else { 0 };
        let mut bytes = self.buffer.get(skipped..).unwrap_or_default();
        // A character that does not fit is left for the part after this one.
        if let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            bytes = bytes.get(..error.valid_up_to()).unwrap_or_default();
        }
        let from = self.start.min(self.length) + skipped as u64;
        let text = String::from_utf8_lossy(bytes).into_owned();
        Some(Part { text, from, to: from + bytes.len() as u64 })
    }
}

/// Finds a lower-case text in `bytes`, ignoring case.
fn find(bytes: &[u8], query: &str) -> Option<usize> {
    if query.is_ascii() {
        let query = query.as_bytes();
        return bytes.windows(query.len()).position(|window| window.eq_ignore_ascii_case(query));
    }
    let mut before = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let is_there = |at: usize| {
            let mut letters = valid.get(at..).unwrap_or_default().chars().flat_map(char::to_lowercase);
            query.chars().all(|wanted| letters.next() == Some(wanted))
        };
        if let Some((at, _)) = valid.char_indices().find(|(at, _)| is_there(*at)) {
            return Some(before + at);
        }
        before += valid.len() + chunk.invalid().len();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn part(text: &str, begin: u64, query: Option<&str>) -> Option<Part> {
        // Small pieces, so that a match spans two of them.
        let mut reader = BufReader::with_capacity(7, text.as_bytes());
        let mut line = Line::new(begin);
        assert!(line.read(&mut reader, query, &CancellationToken::new()).unwrap());
        assert_eq!(line.length(), text.lines().next().unwrap().len() as u64);
        line.part(query)
    }

    #[test]
    fn a_match_deep_in_a_line_is_shown_with_the_text_around_it() {
        for (needle, query) in [("NEEDLE", "needle"), ("Äpfel", "äpfel")] {
            for at in [0, 1_990, 65_530, 65_537, 300_000] {
                let text = format!("{}{needle}{}\nnext", "x".repeat(at), "y".repeat(5_000));
                let part = part(&text, 0, Some(query)).unwrap();
                assert!(part.text.contains(needle) && part.text.len() <= MAX_SHOWN_BYTES, "{at}: {part:?}");
                assert_eq!(part.from, at.saturating_sub(BYTES_BEFORE_MATCH) as u64, "{at}");
                assert_eq!(text.get(part.from as usize..part.to as usize), Some(&*part.text));
            }
        }
        assert_eq!(part(&"x".repeat(70_000), 0, Some("y")), None);
    }

    #[test]
    fn a_line_is_shown_from_the_byte_that_is_asked_for_in_whole_characters() {
        let text = "é".repeat(3_000);
        let first = part(&text, 0, None).unwrap();
        assert_eq!((first.from, first.to), (0, 2_000));
        let second = part(&text, 2_001, None).unwrap();
        assert_eq!((second.from, second.to), (2_002, 4_000));
        let past = part("short\n", 99, None).unwrap();
        assert_eq!((past.text.as_str(), past.from, past.to), ("", 5, 5));
        assert_eq!(
            part("needle and needle", 3, Some("needle")).unwrap().from,
            3,
            "a short line is shown whole"
        );
    }
}
