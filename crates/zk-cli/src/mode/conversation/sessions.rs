use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::BoxError;
use zk_core::model::SessionId;
use zk_core::service::{
    Entry, LeftSession, OpenSession, SessionFilter, SessionInfo, SessionStore, StoreError,
};
use zk_session::{SearchFilter, SearchHit, SessionHits, find_matching};

use crate::app::AppContext;
use crate::session_switch::SessionSwitch;
use crate::sessions::{not_shown, place, sqlite_store, store};
use zk_chat::{ConversationSessions, FoundSession, UnsavedSession};

/// Maximum number of sessions that a search lists.
const MAX_FOUND: usize = 10;

/// Maximum number of excerpts of one session.
const MAX_EXCERPTS: usize = 3;

/// Sessions of a conversation in the store of this user.
pub(super) struct ChatSessions {
    pub(super) app: AppContext,
    pub(super) switch: Arc<SessionSwitch>,
}

#[async_trait]
impl ConversationSessions for ChatSessions {
    fn open_session(&self) -> Option<Arc<dyn OpenSession>> {
        self.switch.current().open.clone()
    }

    fn is_resumed(&self) -> bool {
        self.switch.current().resumed
    }

    fn not_shown(&self) -> Option<String> {
        not_shown(&self.switch.current())
    }

    async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.switch.current().shown_entries().await
    }

    fn print_notices(&self) {
        self.switch.current().tell_notices();
    }

    fn take_left(&self) -> Vec<Result<LeftSession, StoreError>> {
        self.switch.take_left()
    }

    fn keep_outputs(&self) {
        self.switch.current().keep_outputs();
    }

    fn unsaved(&self) -> UnsavedSession {
        UnsavedSession(self.switch.current())
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, BoxError> {
        Ok(store(&self.app.work.machine)?.list(filter).await?)
    }

    async fn search(&self, words: &str, cwd: Option<PathBuf>) -> Result<Vec<FoundSession>, BoxError> {
        let filter = SearchFilter { project: cwd, limit: Some(MAX_FOUND), ..SearchFilter::default() };
        let found = sqlite_store(&self.app.work.machine)?.search(words, &filter).await?;
        let session = |SessionHits { id, title, updated, hits, .. }: SessionHits| FoundSession {
            id,
            title,
            updated,
            excerpts: hits.iter().take(MAX_EXCERPTS).map(SearchHit::excerpt).collect(),
        };
        Ok(found.sessions.into_iter().map(session).collect())
    }

    async fn find(&self, id: &str) -> Result<SessionId, BoxError> {
        Ok(find_matching(&store(&self.app.work.machine)?, id).await?)
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, BoxError> {
        Ok(store(&self.app.work.machine)?.last_entries(id, most).await?)
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), BoxError> {
        Ok(store(&self.app.work.machine)?.rename(id, title).await?)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), BoxError> {
        if let Some(store) = self.app.work.machine.stores.chosen() {
            return Ok(store.delete(id).await?);
        }
        place(&self.app.work, &self.app.settings).trash()?.put(id).await?;
        Ok(())
    }
}
