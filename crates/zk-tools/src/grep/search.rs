use std::io::{self, Read};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::DirEntry;
use tokio_util::sync::CancellationToken;
use zk_core::model::ToolError;
use zk_core::service::{Paths, Resolved};

use super::Mode;
use super::lines::{Counter, Lines};
use crate::walk;
use crate::work::go_on;

/// Files one thread takes at a time.
const BATCH: usize = 64;
const THREADS: usize = 4;
/// The longest line that is searched; a longer one makes its file unsearchable.
const MAX_LINE: usize = 8 * 1024 * 1024;

/// What to look for.
pub(super) struct Query {
    pub(super) matcher: RegexMatcher,
    pub(super) mode: Mode,
    pub(super) context: usize,
    /// How many results are enough.
    pub(super) wanted: usize,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// A path, a path with a count, or a line, in the order of the paths.
    pub(super) results: Vec<String>,
    /// Files that could not be read, or have a line too long.
    pub(super) skipped: usize,
}

/// A pattern as ripgrep understands it.
pub(super) fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| ToolError::invalid(format!("this is no usable regular expression: {error}")))
}

/// Searches the files in order, several at a time, until there are enough results.
pub(super) fn run(
    paths: &dyn Paths,
    mut files: impl Iterator<Item = DirEntry>,
    query: &Query,
    stop: &CancellationToken,
) -> Result<Found, ToolError> {
    let roots = paths.roots();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut found = Found::default();
    while found.results.len() < query.wanted {
        go_on(stop)?;
        let batch: Vec<Resolved> =
            files.by_ref().take(BATCH * threads).map(|entry| walk::below(&roots, entry.path())).collect();
        if batch.is_empty() {
            break;
        }
        let room = query.wanted - found.results.len();
        if batch.len() < 8 {
            found.add(part(paths, &batch, query, room, stop));
            continue;
        }
        let share = batch.len().div_ceil(threads);
        let parts: Vec<Option<Found>> = std::thread::scope(|scope| {
            let running: Vec<_> = batch
                .chunks(share)
                .map(|share| scope.spawn(move || part(paths, share, query, room, stop)))
                .collect();
            running.into_iter().map(|thread| thread.join().ok()).collect()
        });
        for part in parts {
            found.add(part.ok_or_else(|| ToolError::failed("the search broke; try a simpler pattern"))?);
        }
    }
    go_on(stop)?;
    Ok(found)
}

impl Found {
    fn add(&mut self, other: Self) {
        self.results.extend(other.results);
        self.skipped += other.skipped;
    }
}

fn part(
    paths: &dyn Paths,
    files: &[Resolved],
    query: &Query,
    room: usize,
    stop: &CancellationToken,
) -> Found {
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(query.mode == Mode::Content)
        .before_context(query.context)
        .after_context(query.context)
        .heap_limit(Some(MAX_LINE))
        .build();
    let mut found = Found::default();
    for file in files {
        if found.results.len() >= room || stop.is_cancelled() {
            break;
        }
        if one(paths, file, query, room, &mut searcher, &mut found.results, stop).is_err() {
            found.skipped += 1;
        }
    }
    found
}

fn one(
    paths: &dyn Paths,
    file: &Resolved,
    query: &Query,
    room: usize,
    searcher: &mut Searcher,
    results: &mut Vec<String>,
    stop: &CancellationToken,
) -> io::Result<()> {
    let reader = paths.open(file).map_err(io::Error::other)?;
    let reader = Stoppable { reader, stop };
    match query.mode {
        Mode::Content => {
            let before = results.len();
            let mut lines = Lines::new(&query.matcher, &file.shown, results, room);
            let done = searcher.search_reader(&query.matcher, reader, &mut lines);
            if lines.binary {
                results.truncate(before);
                results.push(format!("{}: binary file matches", file.shown));
            }
            done
        }
        Mode::Files | Mode::Count => {
            let first_only = query.mode == Mode::Files;
            let mut counter = Counter::new(first_only);
            searcher.search_reader(&query.matcher, reader, &mut counter)?;
            if counter.matches > 0 {
                results.push(match query.mode {
                    Mode::Count => format!("{}:{}", file.shown, counter.matches),
                    Mode::Files | Mode::Content => file.shown.clone(),
                });
            }
            Ok(())
        }
    }
}

/// Ends when the run is to stop, in the middle of a file too.
struct Stoppable<'a, R> {
    reader: R,
    stop: &'a CancellationToken,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        self.reader.read(buffer)
    }
}
