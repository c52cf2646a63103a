use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::Results;

/// Formats matches as lines: `path:12:text`, and `path-11-text` for context lines.
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    path: &'a str,
    /// Maximum length of a printed line, in bytes.
    width: usize,
    results: &'a mut Results,
    any: bool,
    /// Whether a binary part of the file followed some matches.
    pub(super) binary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        matcher: &'a RegexMatcher,
        path: &'a str,
        width: usize,
        results: &'a mut Results,
    ) -> Self {
        Self { matcher, path, width, results, any: false, binary: false }
    }

    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) -> bool {
        let (matcher, path, width) = (self.matcher, self.path, self.width);
        self.results.push(|| {
            let number = number.unwrap_or(0);
            format!("{path}{mark}{number}{mark}{}", shorten_line(matcher, without_end(line), width))
        })
    }
}

/// Shortens a line to the part around the match.
fn shorten_line(matcher: &RegexMatcher, line: &[u8], width: usize) -> String {
    if line.len() <= width {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    let from = if start < width * 3 / 4 { 0 } else { start - width / 4 };
    // A few bytes more, so that characters at both ends are whole.
    let piece = line.get(from..line.len().min(from + width + 8)).unwrap_or_default();
    let inside = if from > 0 {
        piece.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count()
    } else {
        0
    };
    let piece = String::from_utf8_lossy(piece.get(inside..).unwrap_or_default());
    let before = if from > 0 { "…" } else { "" };
    let piece = piece.get(..piece.floor_char_boundary(width)).unwrap_or(&piece);
    format!("{before}{piece}… [cut, {} bytes]", line.len())
}

/// Line without its line ending.
fn without_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    line.get(..end).unwrap_or_default()
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.any = true;
        Ok(self.push(found.line_number(), ':', found.bytes()))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.push(around.line_number(), '-', around.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.results.push(|| "--".to_owned()))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.binary = self.any && end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Counts matching lines, or stops at the first.
pub(super) struct Counter {
    first_only: bool,
    pub(super) matches: u64,
}

impl Counter {
    pub(super) fn new(first_only: bool) -> Self {
        Self { first_only, matches: 0 }
    }
}

impl Sink for Counter {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        Ok(!self.first_only)
    }
}
