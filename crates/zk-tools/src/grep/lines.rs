use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::text::{head, tail};

/// How much of a line is shown.
const WIDTH: usize = 500;

/// Turns matches into lines: `path:12:text`, and `path-11-text` for the lines around them.
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    path: &'a str,
    results: &'a mut Vec<String>,
    room: usize,
    any: bool,
    /// Whether the file turned out to be no text, after some of it had matched.
    pub(super) binary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        matcher: &'a RegexMatcher,
        path: &'a str,
        results: &'a mut Vec<String>,
        room: usize,
    ) -> Self {
        Self { matcher, path, results, room, any: false, binary: false }
    }

    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        let number = number.unwrap_or(0);
        let shown = if text.len() <= WIDTH { text.to_owned() } else { self.window(text) };
        self.results.push(format!("{}{mark}{number}{mark}{shown}", self.path));
        self.results.len() < self.room
    }

    /// The part of a long line where the match is.
    fn window(&self, text: &str) -> String {
        let start = self.matcher.find(text.as_bytes()).ok().flatten().map_or(0, |found| found.start());
        if start < WIDTH * 3 / 4 {
            return format!("{}… [cut, {} bytes]", head(text, WIDTH), text.len());
        }
        let rest = tail(text, text.len() - (start - WIDTH / 4));
        format!("…{}… [cut, {} bytes]", head(rest, WIDTH), text.len())
    }
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
        self.results.push("--".to_owned());
        Ok(self.results.len() < self.room)
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
