mod conversation;
mod copy;
mod error;
mod notice;
mod preview;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{
    Entry, NewSession, OpenSession, SessionFilter, SessionInfo, SessionStore, StoreError,
};

pub use self::conversation::{ConversationSession, Kept};
pub use self::copy::SessionCopy;
pub use self::error::OpeningError;
pub use self::notice::{NoticeSink, SessionNotice};
pub use self::preview::last_run;
use crate::private_dir::make_private_dir;
use crate::{
    Loaded, Recorder, SqliteStore, find_matching, latest, load_live, open_matching, store_interrupted,
};

/// Session that a conversation begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStart {
    /// A new one.
    New,
    /// The newest of the directory worked in.
    Latest,
    /// The one of this id, or the only one whose id begins like this.
    Matching(String),
}

/// Place of the sessions of a program, and of their large results.
#[derive(Clone, Debug, Default)]
pub struct SessionPlace {
    /// Directory of the store; absent where nobody said one.
    pub root: Option<PathBuf>,
    /// Whether new conversations are saved.
    pub saves: bool,
    /// Directory of the large results of all sessions, a directory for each.
    pub outputs: Option<PathBuf>,
    /// Directory for the large results of conversations that are not saved.
    pub temporary: PathBuf,
    /// The directory worked in.
    pub cwd: PathBuf,
    /// Receiver of notices.
    pub notices: NoticeSink,
    /// Adds to the results of interrupted calls what entries tell of them.
    pub explain: Option<fn(&mut Loaded, &[Entry])>,
}

impl SessionPlace {
    /// The store of this place.
    ///
    /// # Errors
    /// [`OpeningError::NoPlace`].
    pub fn store(&self) -> Result<SqliteStore, OpeningError> {
        self.root.clone().map(SqliteStore::new).ok_or(OpeningError::NoPlace)
    }

    /// Directory for results of a session that are too large for its history.
    #[must_use]
    pub fn outputs_of(&self, id: &SessionId) -> Option<PathBuf> {
        Some(self.outputs.as_ref()?.join(id.as_str()))
    }

    /// Opens the session asked for, or a new one. A place that cannot be written costs the session, not the run,
    /// unless a session was asked for.
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
    /// [`OpeningError`], if a session was asked for.
    pub async fn begin(&self, start: &SessionStart) -> Result<ConversationSession, OpeningError> {
        match start {
            SessionStart::New if !self.saves => Ok(ConversationSession::unsaved(self)),
            SessionStart::New => {
                let Ok(store) = self.store() else {
                    self.notices.tell(SessionNotice::NoPlace);
                    return Ok(ConversationSession::unsaved(self));
                };
                match self.create(&store).await {
                    Ok(open) => Ok(ConversationSession::of(self, store, open)),
                    Err(reason) => {
                        self.notices.tell(SessionNotice::NotSaved { reason });
                        Ok(ConversationSession::unsaved(self))
                    }
                }
            }
            SessionStart::Latest => {
                let store = self.store()?;
                let newest = latest(&store, &self.cwd).await?;
                self.warn_of_newer(&store, newest.as_ref()).await?;
                let newest =
                    newest.ok_or_else(|| OpeningError::NothingToContinue { cwd: self.cwd.clone() })?;
                let open = store.open(&newest.id).await?;
                self.reopen(store, open).await
            }
            SessionStart::Matching(id) => {
                let store = self.store()?;
                let open = open_matching(&store, id).await?;
                self.reopen(store, open).await
            }
        }
    }

    /// Entries of the last run of the session that is asked for; nothing of one that cannot be read, about which opening it
    /// tells.
    pub async fn preview(&self, start: &SessionStart) -> Vec<Entry> {
        let Ok(store) = self.store() else { return Vec::new() };
        let id = match start {
            SessionStart::New => None,
            SessionStart::Latest => latest(&store, &self.cwd).await.ok().flatten().map(|info| info.id),
            SessionStart::Matching(id) => find_matching(&store, id).await.ok(),
        };
        match id {
            Some(id) => last_run(&store, &id).await,
            None => Vec::new(),
        }
    }

    /// Asks whether files can be made in the store's directory, which is made where it is absent.
    ///
    /// # Errors
    /// Nothing can be made there.
    pub fn check_writable(&self) -> io::Result<()> {
        let root = self.root.as_deref().unwrap_or(Path::new(""));
        make_private_dir(root)?;
        Ok(rustix::fs::access(root, rustix::fs::Access::WRITE_OK)?)
    }

    async fn create(&self, store: &SqliteStore) -> Result<Arc<dyn OpenSession>, String> {
        // A read-only home is found before the first request, not when its answer cannot be stored.
        let root = self.root.clone().unwrap_or_default();
        self.check_writable().map_err(|error| format!("cannot write to {}: {error}", root.display()))?;
        let new = NewSession { id: None, cwd: self.cwd.clone(), parent: None };
        store.create(new).await.map_err(|error| error.to_string())
    }

    /// Says that the newest session is not the one that is continued, because it cannot be read.
    async fn warn_of_newer(
        &self,
        store: &SqliteStore,
        taken: Option<&SessionInfo>,
    ) -> Result<(), StoreError> {
        let newest = SessionFilter { cwd: Some(self.cwd.clone()), limit: Some(1), unanswered: true };
        for SessionInfo { id, unreadable, .. } in store.list(&newest).await? {
            if let Some(state) = unreadable {
                let taken = taken.map(|info| info.id.clone());
                self.notices.tell(SessionNotice::Unreadable { id, state, taken });
            }
        }
        Ok(())
    }

    async fn reopen(
        &self,
        store: SqliteStore,
        open: Arc<dyn OpenSession>,
    ) -> Result<ConversationSession, OpeningError> {
        let mut live = open.live().await?;
        let mut loaded = load_live(&live);
        if let Some(explain) = self.explain {
            explain(&mut loaded, &live.entries);
        }
        // Said before it is stored: a process that is killed in between leaves it to be said again.
        match (&loaded.interrupted, &loaded.unfinished) {
            (Some(turn), _) => self.notices.tell(SessionNotice::Interrupted { calls: &turn.calls }),
            (None, Some(_)) => self.notices.tell(SessionNotice::Interrupted { calls: &[] }),
            (None, None) => {}
        }
        store_interrupted(&*open, &loaded).await?;
        if loaded.interrupted.is_some() {
            live = open.live().await?;
        }
        let recorder = Recorder::resuming(open.clone(), &loaded);
        Ok(ConversationSession::of(self, store, open).resuming(recorder, loaded, live))
    }
}
