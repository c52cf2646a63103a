mod branch;
mod conversation;
mod copy;
mod error;
mod leg;
mod notice;
mod preview;
mod shared_store;
mod switch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{
    Entry, NewSession, OpenSession, SessionFilter, SessionInfo, SessionStore, StoreError, make_private_dir,
};

pub use self::conversation::ConversationSession;
pub use self::copy::SessionCopy;
pub use self::error::OpeningError;
pub use self::notice::{NoticeSink, SessionNotice};
pub use self::preview::last_run;
pub use self::shared_store::SharedStore;
pub use self::switch::{SessionSwitch, SwitchHost};
use crate::{
    Loaded, Recorder, SqliteStore, find_matching, is_valid_id, latest, load_live, open_matching,
    store_interrupted,
};

/// Session with which a conversation starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStart {
    /// A new session.
    New,
    /// A new session with this id.
    Named(SessionId),
    /// The newest session of the working directory.
    Latest,
    /// The session with this id or unique prefix.
    Matching(String),
}

/// Places where a program stores its sessions and their large results.
#[derive(Clone, Debug, Default)]
pub struct SessionPlace {
    /// Root directory of the SQLite files; `None` if there is none.
    pub root: Option<PathBuf>,
    /// Store in place of the SQLite files.
    pub store: Option<SharedStore>,
    /// Whether new conversations are saved.
    pub saves: bool,
    /// Parent directory of all sessions' directories for large results.
    pub outputs: Option<PathBuf>,
    /// Parent directory for the large results of unsaved conversations.
    pub temporary: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// Receiver of notices for the person.
    pub notices: NoticeSink,
    /// Adds details from the entries to the results of interrupted calls.
    pub explain: Option<fn(&mut Loaded, &[Entry])>,
    /// Reads the branch of version control of a directory, which listings show; may read files.
    pub branch: Option<fn(&Path) -> Option<String>>,
}

impl SessionPlace {
    /// Opens the store of this place.
    ///
    /// # Errors
    /// [`OpeningError::NoPlace`].
    pub fn store(&self) -> Result<SharedStore, OpeningError> {
        let sqlite = || Some(SharedStore::new(Arc::new(SqliteStore::new(self.root.clone()?))));
        self.store.clone().or_else(sqlite).ok_or(OpeningError::NoPlace)
    }

    /// Directory for large results of a session; `None` for an id of a foreign store that could lead elsewhere.
    #[must_use]
    pub fn outputs_of(&self, id: &SessionId) -> Option<PathBuf> {
        is_valid_id(id).then(|| Some(self.outputs.as_ref()?.join(id.as_str()))).flatten()
    }

    /// Opens the requested session, or a new one. If a new session cannot be stored, the conversation
    /// continues unsaved.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let root = dir.path().join("sessions");
    /// use zk_session::{SessionPlace, SessionStart};
    ///
    /// let place = SessionPlace { root: Some(root), saves: true, cwd: "/project".into(), ..SessionPlace::default() };
    /// let session = place.begin(&SessionStart::New).await.unwrap();
    /// assert!(session.open.is_some() && !session.resumed);
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`OpeningError`] for a requested session.
    pub async fn begin(&self, start: &SessionStart) -> Result<ConversationSession, OpeningError> {
        match start {
            SessionStart::New | SessionStart::Named(_) if !self.saves => {
                Ok(ConversationSession::unsaved(self))
            }
            SessionStart::New | SessionStart::Named(_) => {
                let Ok(store) = self.store() else {
                    self.notices.send(SessionNotice::NoPlace);
                    return Ok(ConversationSession::unsaved(self));
                };
                let id = match start {
                    SessionStart::Named(id) => Some(id.clone()),
                    SessionStart::New | SessionStart::Latest | SessionStart::Matching(_) => None,
                };
                match self.create(&*store, id).await {
                    Ok(open) => Ok(ConversationSession::of(self, store, open)),
                    Err(reason) => {
                        self.notices.send(SessionNotice::NotSaved { reason });
                        Ok(ConversationSession::unsaved(self))
                    }
                }
            }
            SessionStart::Latest => {
                let store = self.store()?;
                let newest = latest(&*store, &self.cwd).await?;
                self.warn_of_newer(&*store, newest.as_ref()).await?;
                let newest =
                    newest.ok_or_else(|| OpeningError::NothingToContinue { cwd: self.cwd.clone() })?;
                let open = store.open(&newest.id).await?;
                self.reopen(store, open).await
            }
            SessionStart::Matching(id) => {
                let store = self.store()?;
                let open = open_matching(&*store, id).await?;
                self.reopen(store, open).await
            }
        }
    }

    /// Entries of the requested session's last run; empty for an unreadable session, whose error
    /// [`Self::begin`] reports.
    pub async fn preview(&self, start: &SessionStart) -> Vec<Entry> {
        let Ok(store) = self.store() else { return Vec::new() };
        let id = match start {
            SessionStart::New | SessionStart::Named(_) => None,
            SessionStart::Latest => latest(&*store, &self.cwd).await.ok().flatten().map(|info| info.id),
            SessionStart::Matching(id) => find_matching(&*store, id).await.ok(),
        };
        match id {
            Some(id) => last_run(&*store, &id).await,
            None => Vec::new(),
        }
    }

    /// Checks that files can be created in the directory of SQLite files, which is created if needed. Another store is not
    /// checked.
    ///
    /// # Errors
    /// The system's error when no file can be created.
    pub fn check_writable(&self) -> io::Result<()> {
        if self.store.is_some() {
            return Ok(());
        }
        let root = self.root.as_deref().unwrap_or(Path::new(""));
        make_private_dir(root)?;
        Ok(rustix::fs::access(root, rustix::fs::Access::WRITE_OK)?)
    }

    async fn create(
        &self,
        store: &dyn SessionStore,
        id: Option<SessionId>,
    ) -> Result<Arc<dyn OpenSession>, String> {
        let new = NewSession { id, cwd: self.cwd.clone(), parent: None };
        if self.store.is_some() {
            return store.create(new).await.map_err(|error| error.to_string());
        }
        // Checked here, so that a read-only home directory is reported before the first request.
        let root = self.root.clone().unwrap_or_default();
        self.check_writable().map_err(|error| format!("cannot write to {}: {error}", root.display()))?;
        store.create(new).await.map_err(|error| error.to_string())
    }

    /// Warns that a newer session exists, which cannot be read.
    async fn warn_of_newer(
        &self,
        store: &dyn SessionStore,
        taken: Option<&SessionInfo>,
    ) -> Result<(), StoreError> {
        let newest = SessionFilter { cwd: Some(self.cwd.clone()), limit: Some(1), unanswered: true };
        for SessionInfo { id, unreadable, .. } in store.list(&newest).await? {
            if let Some(state) = unreadable {
                let taken = taken.map(|info| info.id.clone());
                self.notices.send(SessionNotice::Unreadable { id, state, taken });
            }
        }
        Ok(())
    }

    pub(super) fn noting_branch(&self, recorder: Recorder, open: &dyn OpenSession) -> Recorder {
        let Some(read) = self.branch else { return recorder };
        let cwd = open.cwd().unwrap_or_else(|| self.cwd.clone());
        recorder.noting_branch(move || read(&cwd))
    }

    pub(super) async fn reopen(
        &self,
        store: SharedStore,
        open: Arc<dyn OpenSession>,
    ) -> Result<ConversationSession, OpeningError> {
        let mut live = open.live().await?;
        let mut loaded = load_live(&live);
        if let Some(explain) = self.explain {
            explain(&mut loaded, &live.entries);
        }
        // Reported before it is stored: if the process is killed in between, the next resume reports it
        // again.
        match (&loaded.interrupted, &loaded.unfinished) {
            (Some(turn), _) => self.notices.send(SessionNotice::Interrupted { calls: &turn.calls }),
            (None, Some(_)) => self.notices.send(SessionNotice::Interrupted { calls: &[] }),
            (None, None) => {}
        }
        store_interrupted(&*open, &loaded).await?;
        if loaded.interrupted.is_some() {
            live = open.live().await?;
        }
        let recorder = self.noting_branch(Recorder::resuming(open.clone(), &loaded), &*open);
        Ok(ConversationSession::of(self, store, open).resuming(recorder, loaded, live))
    }
}
