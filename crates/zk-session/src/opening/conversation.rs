use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Entry, EntryKind, LeftSession, LiveEntries, OpenSession, StoreError, UnfinishedRun, make_private_dir,
};

use super::{NoticeSink, OpeningError, SessionNotice, SessionPlace, SharedStore};
use crate::{Loaded, Recorder, Saved, discard_unanswered};

/// Session of a conversation: its storage, and the history from which the conversation continues.
#[derive(Default)]
pub struct ConversationSession {
    /// Open session; `None` if the conversation is not saved.
    pub open: Option<Arc<dyn OpenSession>>,
    /// Plugin that records the conversation in the session.
    pub recorder: Option<Recorder>,
    /// History from which the conversation continues.
    pub loaded: Loaded,
    /// Whether the session existed before.
    pub resumed: bool,
    /// Run whose next leg this is, with the turn that an earlier leg left open.
    pub unfinished: Option<UnfinishedRun>,
    /// Directory for the session's large results; it exists.
    pub outputs: Option<PathBuf>,
    /// Stored entries of a resumed conversation, from the first one to the leaf, until an agent takes them.
    restored: Mutex<Option<Arc<[Entry]>>>,
    /// First loaded entry, if the beginning of the conversation was not loaded.
    begins_at: Option<EntryId>,
    store: Option<SharedStore>,
    /// Directory for the large results of an unsaved conversation.
    temporary: Option<Arc<TemporaryDir>>,
    /// Whether another session took over the temporary directory.
    is_continued: AtomicBool,
    /// Whether another conversation continues in the same session of the store.
    is_handed_over: AtomicBool,
    notices: NoticeSink,
    /// Number of the store's notices that were already reported.
    told: AtomicUsize,
}

/// Directory that is removed on drop.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Makes a new private directory.
    fn new(place: &SessionPlace) -> std::io::Result<Self> {
        let dir = place.temporary.join(format!("zk-{}", SessionId::fresh()));
        std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl ConversationSession {
    /// Session that is not saved. Its large results are kept until it is closed.
    pub(super) fn unsaved(place: &SessionPlace) -> Self {
        let temporary = TemporaryDir::new(place).ok().map(Arc::new);
        let outputs = temporary.as_ref().map(|dir| dir.0.clone());
        Self { outputs, temporary, notices: place.notices.clone(), ..Self::default() }
    }

    pub(super) fn of(place: &SessionPlace, store: SharedStore, open: Arc<dyn OpenSession>) -> Self {
        // Without the directory, large results stay in the history, within each tool's own limit.
        let outputs = place.outputs_of(open.id()).filter(|dir| make_private_dir(dir).is_ok());
        let notices = place.notices.clone();
        let recorder = Recorder::new(open.clone()).or_without(move |error| {
            notices.send(SessionNotice::NotSaved { reason: error.to_string() });
        });
        let recorder = place.noting_branch(recorder, &*open);
        Self {
            recorder: Some(recorder),
            open: Some(open),
            outputs,
            store: Some(store),
            notices: place.notices.clone(),
            ..Self::default()
        }
    }

    pub(super) fn resuming(self, recorder: Recorder, loaded: Loaded, live: LiveEntries) -> Self {
        let session = Self {
            recorder: Some(recorder),
            loaded,
            begins_at: live.begins_at().cloned(),
            restored: Mutex::new(Some(live.entries.into())),
            resumed: true,
            ..self
        };
        session.tell_notices();
        session
    }

    /// Unsaved session that continues with `messages` and with the large results of this unsaved session.
    #[must_use]
    pub fn continued(&self, messages: Vec<Arc<Message>>) -> Self {
        // Plugins read their state from the conversation's entries.
        let mut parent = None;
        let entry = |message: &Arc<Message>| {
            let id = EntryId::fresh();
            let parent = parent.replace(id.clone());
            Entry {
                id,
                parent,
                time_ms: 0,
                kind: EntryKind::Message { message: message.clone(), usage: None },
            }
        };
        let entries: Arc<[Entry]> = messages.iter().map(entry).collect();
        let loaded = Loaded { messages, ..Loaded::default() };
        let restored = Mutex::new(Some(entries).filter(|entries| !entries.is_empty()));
        let (outputs, temporary) = (self.outputs.clone(), self.temporary.clone());
        let notices = self.notices.clone();
        Self { loaded, restored, outputs, temporary, notices, ..Self::default() }
    }

    /// Stored entries of a resumed conversation, until an agent takes them.
    pub fn restored(&self) -> Option<Arc<[Entry]>> {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the entries of [`Self::restored`] out, to free their memory.
    pub fn take_restored(&self) -> Option<Arc<[Entry]>> {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves the store's session and the large results to a session that continues on another branch.
    pub(super) fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::Relaxed);
    }

    /// Takes over again what [`Self::hand_over`] left to another session.
    pub(super) fn take_back(&self) {
        self.is_handed_over.store(false, Ordering::Relaxed);
    }

    /// Leaves the large results to a session that [continues](Self::continued) this one.
    pub fn keep_outputs(&self) {
        self.is_continued.store(true, Ordering::Relaxed);
    }

    /// Stores a new session in `place` with this session's entries up to `entry`, and returns its id.
    ///
    /// # Errors
    /// [`OpeningError::NotSaved`]; else as [`SessionPlace::copy`].
    pub async fn copy_up_to(&self, place: &SessionPlace, entry: &EntryId) -> Result<SessionId, OpeningError> {
        let open = self.open.as_ref().ok_or(OpeningError::NotSaved)?;
        place.copy(open.id(), place.cwd.clone(), Some(entry)).await.map(|copy| copy.id)
    }

    /// Current entries of the session, from the first entry on that the view shows.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError> {
        let Some(open) = &self.open else { return Ok(Vec::new()) };
        let Some(begin) = self.begins_at.clone() else { return open.entries().await };
        let entries: Arc<Mutex<Vec<Entry>>> = Arc::default();
        let kept = entries.clone();
        let visit = Box::new(move |entry: Entry, _: usize| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if !kept.is_empty() || entry.id == begin {
                kept.push(entry);
            }
            ControlFlow::Continue(())
        });
        open.scan(visit).await?;
        Ok(std::mem::take(&mut *entries.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reports the store's notices about the session's files that were not reported yet.
    pub fn tell_notices(&self) {
        let notices = self.open.as_ref().map(|open| open.notices()).unwrap_or_default();
        let told = self.told.swap(notices.len(), Ordering::Relaxed);
        for notice in notices.iter().skip(told) {
            self.notices.send(SessionNotice::Files(notice));
        }
    }

    /// Closes the session after all entries are written, and removes it if it is new and has no answer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn close(&self) -> Result<LeftSession, StoreError> {
        if self.is_handed_over.load(Ordering::Relaxed) {
            return Ok(LeftSession::Nothing);
        }
        if self.is_continued.load(Ordering::Relaxed) {
            // The results belong to another session now.
        } else if let Some(dir) = &self.temporary {
            // Removed here, since the program may exit without a drop.
            let _ = std::fs::remove_dir_all(&dir.0);
        } else if let Some(outputs) = &self.outputs {
            // A directory with content stays.
            let _ = std::fs::remove_dir(outputs);
        }
        let (Some(open), Some(recorder)) = (&self.open, &self.recorder) else {
            return Ok(LeftSession::Nothing);
        };
        let saved = recorder.saved().await;
        let closed = open.close().await;
        self.tell_notices();
        closed?;
        let id = open.id().clone();
        if let (Some(store), false) = (&self.store, self.resumed)
            && recorder.stored_only_prompts().await
            && discard_unanswered(&**store, &id).await?
        {
            if let Some(outputs) = &self.outputs {
                // Most sessions have no large results.
                let _ = std::fs::remove_dir_all(outputs);
            }
            return Ok(LeftSession::Nothing);
        }
        Ok(match saved {
            Saved::All => LeftSession::All(id),
            Saved::Part { missing } => LeftSession::Part { id, missing },
            Saved::Nothing if self.resumed => LeftSession::All(id),
            Saved::Nothing => LeftSession::Nothing,
        })
    }
}

impl fmt::Debug for ConversationSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.open.as_ref().map(|open| open.id());
        f.debug_struct("ConversationSession").field("id", &id).finish_non_exhaustive()
    }
}
