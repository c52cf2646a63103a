mod lines;

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::Scope;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use tokio_util::sync::CancellationToken;
use zk_core::service::{FileKind, Files, PathError, Resolved, SearchFound, SearchMode, SearchQuery};

use super::WorkspaceFiles;
use super::protect::Reading;
use lines::{Counter, Lines};

/// Number of files in one batch for a thread.
const BATCH_FILES: usize = 64;
const THREADS: usize = 4;
/// Maximum number of batches that are queued for one thread.
const MAX_QUEUED_BATCHES: usize = 4;

/// Longest searchable line, in bytes. A file with a longer line cannot be searched.
const SEARCHED_LINE_BYTES: usize = 4 << 20;

/// Searches the text of all files below `from`.
pub(super) fn search(
    files: &WorkspaceFiles,
    from: &Resolved,
    query: &SearchQuery,
    stop: &CancellationToken,
) -> Result<SearchFound, PathError> {
    let matcher = matcher(&query.pattern, query.ignore_case)?;
    let task = Task { files, from, query, matcher: &matcher, stop };
    std::thread::scope(|scope| {
        let mut search = Search::new(task, scope);
        let report = files.walk(from, &query.walk, &mut |entry| match entry.kind {
            _ if stop.is_cancelled() => ControlFlow::Break(()),
            FileKind::File => search.add(entry.at),
            FileKind::Directory | FileKind::Link | FileKind::Other => ControlFlow::Continue(()),
        })?;
        let found = search.finish().map_err(|source| super::io_error("search", &from.shown, source))?;
        Ok(SearchFound {
            results: found.results.list,
            skipped: found.results.skipped,
            capped: found.results.capped,
            unsearchable: found.unsearchable,
            protected: found.protected,
            notices: report.notices,
        })
    })
}

/// Inputs that all threads of a search share.
#[derive(Clone, Copy)]
struct Task<'a> {
    files: &'a WorkspaceFiles,
    /// Start of the search, as the tool named it.
    from: &'a Resolved,
    query: &'a SearchQuery,
    matcher: &'a RegexMatcher,
    stop: &'a CancellationToken,
}

/// Results of a search, and counts of files that were not searched.
#[derive(Default)]
struct Found {
    results: Results,
    /// Files that could not be read, or have too long a line.
    unsearchable: usize,
    /// Files that tools must not read.
    protected: usize,
}

/// Results up to a limit of number and bytes.
#[derive(Default)]
pub(super) struct Results {
    /// Results in the order of the paths: a path, a path with a count, or a line.
    pub(super) list: Vec<String>,
    pub(super) skipped: usize,
    to_skip: usize,
    room: usize,
    bytes_left: usize,
    /// Whether the limit was reached.
    pub(super) capped: bool,
}

impl Results {
    fn new(to_skip: usize, room: usize, bytes_left: usize) -> Self {
        Self { to_skip, room, bytes_left, ..Self::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.capped || self.list.len() >= self.room
    }

    /// Adds a result; returns whether there is room for another one.
    pub(super) fn push(&mut self, result: impl FnOnce() -> String) -> bool {
        if self.skipped < self.to_skip {
            self.skipped += 1;
            return true;
        }
        if self.is_full() {
            return false;
        }
        let result = result();
        match self.bytes_left.checked_sub(result.len() + 1) {
            Some(left) => {
                self.bytes_left = left;
                self.list.push(result);
            }
            None => self.capped = true,
        }
        !self.is_full()
    }

    /// Removes the results that were added since `mark`.
    pub(super) fn truncate(&mut self, mark: (usize, usize)) {
        let (len, skipped) = mark;
        self.bytes_left += self.list.drain(len..).map(|result| result.len() + 1).sum::<usize>();
        self.skipped = skipped;
    }

    pub(super) fn mark(&self) -> (usize, usize) {
        (self.list.len(), self.skipped)
    }
}

/// Compiles a pattern with ripgrep's syntax.
fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, PathError> {
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| PathError::Pattern { what: "regular expression".into(), why: error.to_string() })
}

/// Searches files in the order in which they arrive, in several threads, while the tree is still being
/// walked.
struct Search<'scope, 'env> {
    task: Task<'env>,
    scope: &'scope Scope<'scope, 'env>,
    workers: Vec<Worker>,
    batch: Vec<Resolved>,
    /// Counts of batches that were sent to workers in turn, and of batches whose results were received.
    sent: usize,
    taken: usize,
    found: Found,
    failure: Option<io::Error>,
}

/// Thread that searches batches in order and answers in the same order.
struct Worker {
    batches: SyncSender<Vec<Resolved>>,
    found: Receiver<Found>,
}

impl<'scope, 'env> Search<'scope, 'env> {
    fn new(task: Task<'env>, scope: &'scope Scope<'scope, 'env>) -> Self {
        let results = Results::new(task.query.skip, task.query.wanted, task.query.max_bytes);
        let found = Found { results, ..Found::default() };
        Self { task, scope, workers: Vec::new(), batch: Vec::new(), sent: 0, taken: 0, found, failure: None }
    }

    /// Queues a file; breaks when there are enough results.
    fn add(&mut self, file: Resolved) -> ControlFlow<()> {
        self.batch.push(file);
        if self.batch.len() >= BATCH_FILES {
            self.send_batch();
            self.take_ready_results();
        }
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Waits for the threads and returns the results of all files.
    fn finish(mut self) -> io::Result<Found> {
        if self.workers.is_empty() {
            self.search_here();
        } else {
            self.send_batch();
        }
        while self.taken < self.sent && !self.is_over() {
            match self.next_worker().map(|worker| worker.found.recv()) {
                Some(Ok(found)) => self.take_results(found),
                Some(Err(_)) | None => self.fail(),
            }
        }
        self.failure.map_or(Ok(self.found), Err)
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || self.found.results.is_full() || self.task.stop.is_cancelled()
    }

    /// Sends the batch to the next worker, and waits while that worker is far behind.
    fn send_batch(&mut self) {
        // While results are skipped, one thread searches: it would not know how many results the other
        // threads have.
        if self.task.query.skip > 0 {
            return self.search_here();
        }
        if self.workers.is_empty() {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
            self.workers = (0..threads).map(|_| self.worker()).collect();
        }
        let batch = std::mem::take(&mut self.batch);
        let at = self.sent % self.workers.len().max(1);
        match self.workers.get(at).map(|worker| worker.batches.send(batch)) {
            Some(Ok(())) => self.sent += 1,
            Some(Err(_)) | None => self.fail(),
        }
    }

    fn worker(&self) -> Worker {
        let (batches, work) = mpsc::sync_channel::<Vec<Resolved>>(MAX_QUEUED_BATCHES);
        let (results, found) = mpsc::channel();
        let (task, room, bytes) = (self.task, self.task.query.wanted, self.task.query.max_bytes);
        self.scope.spawn(move || {
            let mut searcher = searcher(task.query);
            // A panic in the search ends this thread, and is reported as a failed search.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                for batch in work {
                    let mut found = Found { results: Results::new(0, room, bytes), ..Found::default() };
                    search_batch(task, &batch, &mut searcher, &mut found);
                    if results.send(found).is_err() {
                        break;
                    }
                }
            }));
        });
        Worker { batches, found }
    }

    fn search_here(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        search_batch(self.task, &batch, &mut searcher(self.task.query), &mut self.found);
    }

    fn next_worker(&self) -> Option<&Worker> {
        self.workers.get(self.taken % self.workers.len().max(1))
    }

    fn take_ready_results(&mut self) {
        while self.taken < self.sent && !self.is_over() {
            match self.next_worker().map(|worker| worker.found.try_recv()) {
                Some(Ok(found)) => self.take_results(found),
                Some(Err(TryRecvError::Empty)) => break,
                Some(Err(TryRecvError::Disconnected)) | None => self.fail(),
            }
        }
    }

    fn take_results(&mut self, found: Found) {
        self.taken += 1;
        self.found.add(found);
    }

    fn fail(&mut self) {
        self.failure = Some(io::Error::other("the search broke; try a simpler pattern"));
    }
}

impl Found {
    fn add(&mut self, other: Self) {
        for result in other.results.list {
            self.results.push(|| result);
        }
        self.results.capped |= other.results.capped;
        self.unsearchable += other.unsearchable;
        self.protected += other.protected;
    }
}

fn searcher(query: &SearchQuery) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(query.mode == SearchMode::Content)
        .before_context(query.context)
        .after_context(query.context)
        .heap_limit(Some(SEARCHED_LINE_BYTES))
        .build()
}

fn search_batch(task: Task<'_>, batch: &[Resolved], searcher: &mut Searcher, found: &mut Found) {
    let Task { files, from, query, matcher, stop } = task;
    let mut reading = Reading::new(&files.protection);
    for file in batch {
        if found.results.is_full() || stop.is_cancelled() {
            break;
        }
        let is_named = file.path == from.path;
        let opened = if is_named { files.open_file(file) } else { files.open_listed(file, &mut reading) };
        match opened {
            Ok(reader) => {
                let reader = Stoppable { reader, stop };
                if search_file(reader, file, (query, matcher), searcher, &mut found.results).is_err() {
                    found.unsearchable += 1;
                }
            }
            Err(PathError::Protected { .. }) => found.protected += 1,
            Err(_) => found.unsearchable += 1,
        }
    }
}

fn search_file(
    reader: impl Read,
    file: &Resolved,
    (query, matcher): (&SearchQuery, &RegexMatcher),
    searcher: &mut Searcher,
    results: &mut Results,
) -> io::Result<()> {
    match query.mode {
        SearchMode::Content => {
            let before = results.mark();
            let mut lines = Lines::new(matcher, &file.shown, query.line_bytes, results);
            let done = searcher.search_reader(matcher, reader, &mut lines);
            if lines.binary {
                results.truncate(before);
                results.push(|| format!("{}: binary file matches", file.shown));
            }
            done
        }
        SearchMode::Files | SearchMode::Count => {
            let mut counter = Counter::new(query.mode == SearchMode::Files);
            searcher.search_reader(matcher, reader, &mut counter)?;
            if counter.matches > 0 {
                results.push(|| match query.mode {
                    SearchMode::Count => format!("{}:{}", file.shown, counter.matches),
                    SearchMode::Files | SearchMode::Content => file.shown.clone(),
                });
            }
            Ok(())
        }
    }
}

/// Reader that fails once the run is cancelled, also in the middle of a file.
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
