use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use crate::plain::OnChange;
use crate::term::redacted;

/// Time after the last key until a draft is stored.
pub const DRAFT_PAUSE: Duration = Duration::from_millis(500);

/// Store of drafts, with a file for each process.
pub trait DraftFiles: Send + fmt::Debug {
    /// Takes a draft of this directory that a crashed process left, and deletes its file.
    fn take_lost(&self) -> Option<LostDraft>;

    /// Stores `text` in place of the earlier one; an empty one deletes the file. A failed store only matters
    /// in a crash.
    fn store(&self, text: &str);
}

/// Draft of a closed window or a crashed process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostDraft {
    /// The text.
    pub text: String,
    /// Age, if known.
    pub age: Option<Duration>,
}

impl LostDraft {
    /// Note for the person.
    #[must_use]
    pub fn note(&self) -> String {
        let age = match self.age.map(|age| age.as_secs()) {
            None => "of another window".to_owned(),
            Some(..60) => "of a moment ago".to_owned(),
            Some(seconds @ 60..3600) => format!("of {} min ago", seconds / 60),
            Some(seconds @ 3600..86400) => format!("of {} h ago", seconds / 3600),
            Some(seconds) => format!("of {} d ago", seconds / 86400),
        };
        format!("draft {age} · Enter sends, Ctrl-C clears, typing puts it aside")
    }
}

/// Draft in a file of this process, which survives a crash and is deleted at the end.
#[derive(Debug)]
pub struct Drafts {
    files: Option<Box<dyn DraftFiles>>,
    after: Duration,
    text: String,
    /// Time at which the draft is stored next.
    due: Option<Instant>,
}

impl Drafts {
    /// Drafts of this process in `files`, stored some time `after` the last change.
    pub fn new(files: Option<Box<dyn DraftFiles>>, after: Duration) -> Self {
        Self { files, after, text: String::new(), due: None }
    }

    /// Continues with a file in which the earlier screen stored `text`.
    pub fn holding(self, text: String) -> Self {
        Self { text, ..self }
    }

    /// Takes a draft of this directory that a crashed process left, and deletes its file.
    pub fn take_lost(&self) -> Option<LostDraft> {
        self.files.as_ref()?.take_lost()
    }

    /// Records the draft, which is stored after a pause.
    pub fn note(&mut self, draft: impl FnOnce() -> String) {
        let draft = draft();
        if draft != self.text {
            self.text = draft;
            self.due.get_or_insert_with(|| Instant::now() + self.after);
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.store();
        }
    }

    /// Time at which the draft is stored next, if it changed.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Ends the conversation: unsent text is stored for the next one in this directory.
    pub fn close(&self) {
        self.store();
    }

    /// Stores the text until another screen takes over the draft.
    pub fn store_for_next_screen(self, text: String) {
        self.holding(text).store();
    }

    fn store(&self) {
        if let Some(files) = &self.files {
            files.store(&redacted(&self.text));
        }
    }
}

/// Drafts that a separate thread stores, for a screen that blocks on keys. The thread sleeps while nothing
/// changes.
#[derive(Debug)]
pub struct KeptDrafts {
    shared: Arc<(Mutex<Kept>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    lost: Option<LostDraft>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Draft, if it changed since it was stored.
    changed: Option<String>,
    is_over: bool,
}

impl KeptDrafts {
    /// Starts the thread, which stores the last change when dropped.
    pub fn new(files: Option<Box<dyn DraftFiles>>, after: Duration) -> Self {
        let mut drafts = Drafts::new(files, after);
        let lost = drafts.take_lost();
        let shared = Arc::<(Mutex<Kept>, Condvar)>::default();
        let theirs = shared.clone();
        let storing = move || {
            let (kept, changes) = &*theirs;
            let idle = |kept: &mut Kept| kept.changed.is_none() && !kept.is_over;
            let mut kept = changes.wait_while(lock(kept), idle).unwrap_or_else(PoisonError::into_inner);
            loop {
                let pausing = changes.wait_timeout_while(kept, after, |kept| !kept.is_over);
                kept = pausing.unwrap_or_else(PoisonError::into_inner).0;
                if let Some(text) = kept.changed.take() {
                    drafts.text = text;
                    drafts.store();
                }
                if kept.is_over {
                    return;
                }
                kept = changes.wait_while(kept, idle).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // If no thread can be started, a draft is lost in a crash, but only then.
        let thread = std::thread::Builder::new().name("drafts".to_owned()).spawn(storing).ok();
        Self { shared, thread, lost }
    }

    /// Takes a draft of this directory that a crashed process left.
    pub fn take_lost(&mut self) -> Option<LostDraft> {
        self.lost.take()
    }

    /// Callback for changes of the draft.
    pub fn noting(&self) -> OnChange {
        let shared = self.shared.clone();
        Box::new(move |draft| {
            lock(&shared.0).changed = Some(draft.to_owned());
            shared.1.notify_all();
        })
    }
}

impl Drop for KeptDrafts {
    fn drop(&mut self) {
        lock(&self.shared.0).is_over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
