use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zk_core::kernel::Cx;
use zk_core::model::{Block, CallId, ToolContent};
use zk_core::service::ContextId;

use crate::files::fingerprint::Fingerprint;

/// The most results that are waited for at a time.
const AWAITED: usize = 1_024;

/// Record of what each agent's model has seen of which file. One for a whole tree of agents: they take turns
/// at a file, and a change by one of them is noticed by all others that saw the file before.
///
/// | question | answer |
/// |---|---|
/// | is this read a repetition? | the same lines of the same content are in the same conversation already |
/// | has the file changed under the model? | its content is not the one last read, written or edited |
/// | does the model know the whole file? | its reads, from line 1 on, left no gap, and no byte was unreadable |
///
/// Files are told apart by their resolved path, contents by a hash (above 64 MiB by size and date), agents by what
/// their model has before it.
#[derive(Debug, Default)]
pub struct ReadState {
    files: Mutex<HashMap<Key, Seen>>,
    awaited: Mutex<HashMap<CallId, Awaited>>,
    locks: Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>,
}

/// A reader and a file.
type Key = (String, PathBuf);

#[derive(Debug)]
struct Seen {
    content: Fingerprint,
    /// The last line such that all lines up to it were shown.
    upto: u64,
    whole: bool,
    /// Reason why a read did not show it as it is.
    flaw: Option<Flaw>,
    /// Slices of this very content that the conversation contains.
    shown: HashSet<Slice>,
}

/// A read whose result may still be cut before the model gets it.
#[derive(Debug)]
pub(crate) struct ReadNote {
    /// Whether it repeats an earlier read.
    pub(crate) repeats: bool,
    key: Key,
    content: Fingerprint,
    slice: Slice,
    /// Last line that was known before this read, and whether the whole file was.
    upto: u64,
    whole: bool,
}

/// A result on its way to the model.
#[derive(Debug)]
struct Awaited {
    note: ReadNote,
    text: Fingerprint,
    bytes: usize,
}

/// Returns the name of the reader and writer in this context: what the model of one agent has before it.
pub(crate) fn reader(cx: &Cx) -> String {
    // Outside a run there is no context to lose: the agent's name will do.
    cx.service::<ContextId>().map_or_else(|| cx.origin().agent.to_string(), |id| id.to_string())
}

/// Part of a file that a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slice {
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    pub(crate) max_bytes: u64,
    pub(crate) raw: bool,
}

/// Reason why what a read showed is not what is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Some of its bytes are not text.
    Bytes,
    /// A secret, or characters that nobody sees.
    Hidden,
    /// Text in another encoding than UTF-8.
    Encoding,
    /// The cells of a notebook, or an image.
    Form,
}

/// Extent of what a read showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// The first and the last line; nothing of an empty file.
    pub(crate) lines: Option<(u64, u64)>,
    /// Whether the last line shown is the last of the file, and whole.
    pub(crate) to_the_end: bool,
    /// Reason why what was shown is not exactly what is in the file.
    pub(crate) flaw: Option<Flaw>,
}

/// Relation of a file to what the model saw of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing was read or written.
    Never,
    /// Unchanged file, and the model knows all of it.
    Whole,
    /// Unchanged file, and the model knows a part of it, or not all of it as it is.
    Part(Option<Flaw>),
    /// Changed file.
    Changed,
}

impl ReadState {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets which reads were shown, because the conversation no longer holds them. What is known about
    /// changes stays.
    pub fn forget_shown(&self) {
        for seen in self.files().values_mut() {
            seen.shown.clear();
        }
    }

    /// Forgets everything, because another conversation takes the place of the one that saw it.
    pub fn forget(&self) {
        self.files().clear();
    }

    /// Forgets what one agent saw, because it ended.
    pub(crate) fn forget_reader(&self, reader: &str) {
        self.files().retain(|(of, _), _| of != reader);
    }

    /// Notes a read. Once its result is made, [`await_result`](Self::await_result) takes the note.
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

    /// Waits for the result of a read to come to the model as `text`.
    pub(crate) fn await_result(&self, call: &CallId, note: ReadNote, text: &str) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls outside of any agent, whose results nobody tells of.
        if awaited.len() >= AWAITED {
            awaited.clear();
        }
        let text = (Fingerprint::of(text.as_bytes()), text.len());
        awaited.insert(call.clone(), Awaited { note, text: text.0, bytes: text.1 });
    }

    /// Takes a result as the model gets it: what was cut from it, the model did not see.
    pub(crate) fn take_result(&self, call: &CallId, content: &ToolContent) {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(call);
        let Some(Awaited { note, text, bytes }) = awaited else { return };
        let parts = match content {
            ToolContent::Text(text) => Some(text.as_str()),
            ToolContent::Blocks(blocks) => blocks.first().and_then(Block::as_text),
        };
        // Notes may follow it.
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

    /// Notes what the model wrote, or was shown in a message; `whole` if it now knows all of it.
    pub(crate) fn note_content(&self, reader: &str, path: &Path, content: Fingerprint, whole: bool) {
        let mut files = self.files();
        let key = key(reader, path);
        let before = files.remove(&key).is_some_and(|seen| seen.whole);
        files.insert(key, Seen { whole: whole || before, ..Seen::new(content) });
    }

    /// Notes that the model was shown a part of a content it did not know.
    pub(crate) fn note_part(&self, reader: &str, path: &Path, content: Fingerprint) {
        self.files().insert(key(reader, path), Seen::new(content));
    }

    /// Whether anything is known of what a reader saw of a file.
    pub(crate) fn has_seen(&self, reader: &str, path: &Path) -> bool {
        self.files().contains_key(&key(reader, path))
    }

    /// Compares a file whose content is `content` now to what the reader saw of it.
    pub(crate) fn known(&self, reader: &str, path: &Path, content: Fingerprint) -> Known {
        match self.files().get(&key(reader, path)) {
            None => Known::Never,
            Some(seen) if seen.content != content => Known::Changed,
            Some(seen) if seen.whole => Known::Whole,
            Some(seen) => Known::Part(seen.flaw),
        }
    }

    /// The lock under which a file is read, changed and written: two agents editing one file take turns.
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
