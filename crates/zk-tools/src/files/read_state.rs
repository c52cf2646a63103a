use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zk_core::kernel::Cx;
use zk_core::model::{Block, CallId, ToolContent};
use zk_core::service::ContextId;

use crate::files::fingerprint::Fingerprint;

/// Maximum number of results that are awaited at a time.
const MAX_AWAITED_RESULTS: usize = 1_024;

/// Record of the file contents that each agent's model has seen. A tree of agents shares one record, so that
/// agents take turns at a file, and a change by one is noticed by the others that have seen the file.
///
/// | question | answer |
/// |---|---|
/// | is this read a repetition? | the same lines of the same content are already in the conversation |
/// | has the file changed since the model saw it? | its content is not the one last read, written or edited |
/// | does the model know the whole file? | its reads, from line 1 on, left no gap, and all bytes were readable |
///
/// Files are identified by resolved path, contents by hash (above 64 MiB by size and date), and readers by
/// their conversation.
#[derive(Debug, Default)]
pub struct ReadState {
    files: Mutex<HashMap<Key, Seen>>,
    awaited: Mutex<HashMap<CallId, Awaited>>,
    locks: Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>,
    /// Parents whose reads count for a reader that has not read a file itself.
    shared: Mutex<HashMap<String, String>>,
}

/// Reader and file.
type Key = (String, PathBuf);

#[derive(Debug)]
struct Seen {
    content: Fingerprint,
    /// Last line up to which all lines were shown.
    upto: u64,
    whole: bool,
    /// Reason why a read did not show the file exactly.
    flaw: Option<Flaw>,
    /// Parts of this content that are in the conversation.
    shown: HashSet<Slice>,
}

/// Recorded read whose result may still be cut before the model gets it.
#[derive(Debug)]
pub(crate) struct ReadNote {
    /// Whether the read repeats an earlier one.
    pub(crate) repeats: bool,
    key: Key,
    content: Fingerprint,
    slice: Slice,
    /// Last known line before this read, and whether the whole file was known.
    upto: u64,
    whole: bool,
}

/// Result that has not reached the model yet.
#[derive(Debug)]
struct Awaited {
    note: ReadNote,
    text: Fingerprint,
    bytes: usize,
}

/// Key of this context as a reader and writer: the conversation of one agent.
pub(crate) fn reader(cx: &Cx) -> String {
    // Without a run there is no context that could be lost, so the agent's name is enough.
    cx.service::<ContextId>().map_or_else(|| cx.origin().agent.to_string(), |id| id.to_string())
}

/// Requested part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slice {
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    pub(crate) max_bytes: u64,
    pub(crate) raw: bool,
}

/// Reason why a read showed something else than the file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Some bytes are no valid text.
    Bytes,
    /// A secret was redacted, or invisible characters were made visible.
    Hidden,
    /// The text has another encoding than UTF-8.
    Encoding,
    /// The file was shown as a notebook's cells, or as an image.
    Form,
}

/// Extent of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// First and last shown line; `None` for an empty file.
    pub(crate) lines: Option<(u64, u64)>,
    /// Whether the file's last line was shown completely.
    pub(crate) to_the_end: bool,
    /// Reason why the shown text is not exactly the file's.
    pub(crate) flaw: Option<Flaw>,
}

/// State of a file compared to the model's knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The file was never read or written.
    Never,
    /// Unchanged, and completely known.
    Whole,
    /// Unchanged, and known in part or inexactly.
    Part(Option<Flaw>),
    /// Changed since the model last saw it.
    Changed,
}

impl ReadState {
    /// Empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets which reads are in the conversation, since their results are no longer sent. Knowledge for the
    /// detection of changes is kept.
    pub fn forget_shown(&self) {
        for seen in self.files().values_mut() {
            seen.shown.clear();
        }
    }

    /// Forgets everything, since another conversation replaces the one that saw it.
    pub fn forget(&self) {
        self.files().clear();
    }

    /// Lets the reads of another agent, its parent, count for a reader.
    pub(crate) fn share(&self, reader: String, parent: String) {
        self.shared().insert(reader, parent);
    }

    /// Agents above a reader whose reads count for it, the nearest first.
    fn parents(&self, reader: &str) -> Vec<String> {
        let shared = self.shared();
        std::iter::successors(shared.get(reader), |parent| shared.get(*parent)).cloned().collect()
    }

    fn shared(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the knowledge of one agent, which has ended.
    pub(crate) fn forget_reader(&self, reader: &str) {
        self.shared().remove(reader);
        self.files().retain(|(of, _), _| of != reader);
    }

    /// Records a read. [`await_result`](Self::await_result) takes the returned note once the result is
    /// formatted.
    pub(crate) fn note_read(
        &self,
        reader: &str,
        path: &Path,
        content: Fingerprint,
        slice: Slice,
        shown: Shown,
    ) -> ReadNote {
        let mut files = self.files();
        let key = key(reader, path);
        let seen = files.entry(key.clone()).or_insert_with(|| Seen::new(content));
        if seen.content != content {
            *seen = Seen::new(content);
        }
        let (upto, whole) = (seen.upto, seen.whole);
        seen.flaw = shown.flaw.or(seen.flaw);
        match shown.lines {
            Some((first, last)) if shown.flaw.is_none() && first <= seen.upto + 1 => {
                seen.upto = seen.upto.max(last);
                seen.whole |= shown.to_the_end;
            }
            None if shown.flaw.is_none() => seen.whole |= shown.to_the_end,
            Some(_) | None => {}
        }
        let repeats = !seen.shown.insert(slice);
        ReadNote { repeats, key, content, slice, upto, whole }
    }

    /// Waits for the result `text` of a read to reach the model.
    pub(crate) fn await_result(&self, call: &CallId, note: ReadNote, text: &str) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls outside of an agent, whose results are never reported.
        if awaited.len() >= MAX_AWAITED_RESULTS {
            awaited.clear();
        }
        let text = (Fingerprint::of(text.as_bytes()), text.len());
        awaited.insert(call.clone(), Awaited { note, text: text.0, bytes: text.1 });
    }

    /// Applies a result as the model gets it: parts that were cut do not count as seen.
    pub(crate) fn take_result(&self, call: &CallId, content: &ToolContent) {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(call);
        let Some(Awaited { note, text, bytes }) = awaited else { return };
        let parts = match content {
            ToolContent::Text(text) => Some(text.as_str()),
            ToolContent::Blocks(blocks) => blocks.first().and_then(Block::as_text),
        };
        // Notes may be appended to the result.
        let given = parts.and_then(|given| given.as_bytes().get(..bytes));
        if given.is_some_and(|given| Fingerprint::of(given) == text) {
            return;
        }
        if let Some(seen) = self.files().get_mut(&note.key)
            && seen.content == note.content
        {
            seen.shown.remove(&note.slice);
            (seen.upto, seen.whole) = (note.upto, note.whole);
        }
    }

    /// Records a content that the model wrote or was shown in a message; `whole` if it now knows all of it.
    pub(crate) fn record_content(&self, reader: &str, path: &Path, content: Fingerprint, whole: bool) {
        let mut files = self.files();
        let key = key(reader, path);
        let before = files.remove(&key).is_some_and(|seen| seen.whole);
        files.insert(key, Seen { whole: whole || before, ..Seen::new(content) });
    }

    /// Records that the model was shown a part of a content it did not know.
    pub(crate) fn record_shown_part(&self, reader: &str, path: &Path, content: Fingerprint) {
        self.files().insert(key(reader, path), Seen::new(content));
    }

    /// Whether a reader has seen a file.
    pub(crate) fn has_seen(&self, reader: &str, path: &Path) -> bool {
        self.files().contains_key(&key(reader, path))
    }

    /// Compares a file's current `content` with the reader's knowledge.
    pub(crate) fn known(&self, reader: &str, path: &Path, content: Fingerprint) -> Known {
        let parents = self.parents(reader);
        let files = self.files();
        let of = |reader: &str| files.get(&key(reader, path));
        // A parent's older reading does not make an unread file a changed one.
        let of_parents =
            || parents.iter().find_map(|parent| of(parent).filter(|seen| seen.content == content));
        match of(reader).or_else(of_parents) {
            None => Known::Never,
            Some(seen) if seen.content != content => Known::Changed,
            Some(seen) if seen.whole => Known::Whole,
            Some(seen) => Known::Part(seen.flaw),
        }
    }

    /// Variant of [`known`](Self::known) for a change of the whole file, for which the reader must have seen it itself.
    pub(crate) fn known_from_own_read(&self, reader: &str, path: &Path, content: Fingerprint) -> Known {
        match self.known(reader, path, content) {
            Known::Whole if !self.has_seen(reader, path) => Known::Never,
            known => known,
        }
    }

    /// Lock for reading, changing and writing a file, so that agents take turns.
    pub(crate) fn lock(&self, path: &Path) -> Arc<Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Mutex::new(()));
        locks.insert(path.to_owned(), Arc::downgrade(&lock));
        lock
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Key, Seen>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(reader: &str, path: &Path) -> Key {
    (reader.to_owned(), path.to_owned())
}

impl Seen {
    fn new(content: Fingerprint) -> Self {
        Self { content, upto: 0, whole: false, flaw: None, shown: HashSet::new() }
    }
}
