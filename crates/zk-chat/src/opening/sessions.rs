use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use zk_core::kernel::BoxError;
use zk_core::model::SessionId;
use zk_core::service::{Entry, LeftSession, OpenSession, SessionFilter, SessionInfo, StoreError};

/// Session that is not stored, in a form private to its factory.
#[derive(Clone)]
pub struct UnsavedSession(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for UnsavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsavedSession").finish_non_exhaustive()
    }
}

/// Stored session that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// Id of the session.
    pub id: SessionId,
    /// Title of the session.
    pub title: String,
    /// Time of the last entry.
    pub updated: SystemTime,
    /// Excerpts, in one line each, with the matching words marked.
    pub excerpts: Vec<String>,
}

/// Sessions of a conversation: the present one, earlier ones, and stored ones to switch to.
#[async_trait]
pub trait ConversationSessions: Send + Sync {
    /// Present session; `None` if it is not stored.
    fn open_session(&self) -> Option<Arc<dyn OpenSession>>;

    /// Whether the present session was resumed.
    fn is_resumed(&self) -> bool;

    /// Note on the part of the present session that is not shown, because it was not read.
    fn not_shown(&self) -> Option<String>;

    /// Stored entries of the view, in their present state.
    async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// Prints new notices about the session's files.
    fn print_notices(&self);

    /// Takes the storage results of the sessions that were left since the last call.
    fn take_left(&self) -> Vec<Result<LeftSession, StoreError>>;

    /// Leaves the large results of the present session to its successor.
    fn keep_outputs(&self);

    /// Present session, for a successor that continues with it unstored.
    fn unsaved(&self) -> UnsavedSession;

    /// Stored sessions, the newest first.
    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, BoxError>;

    /// Searches the text of stored sessions, of one directory or of all; the newest session first.
    async fn search(&self, words: &str, cwd: Option<PathBuf>) -> Result<Vec<FoundSession>, BoxError> {
        let _ = (words, cwd);
        Err("the text of these sessions cannot be searched here".into())
    }

    /// Finds the stored session with an id prefix.
    async fn find(&self, id: &str) -> Result<SessionId, BoxError>;

    /// Last `most` entries of a stored session, oldest first.
    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, BoxError> {
        let _ = (id, most);
        Ok(Vec::new())
    }

    /// Renames a stored session.
    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), BoxError> {
        let _ = title;
        Err(format!("the session {id} has no title that could be changed").into())
    }

    /// Removes a stored session.
    async fn delete(&self, id: &SessionId) -> Result<(), BoxError> {
        Err(format!("the session {id} cannot be removed here").into())
    }
}

/// Sessions of a conversation without a store.
#[derive(Clone, Copy, Debug)]
pub struct NoSessions;

#[async_trait]
impl ConversationSessions for NoSessions {
    fn open_session(&self) -> Option<Arc<dyn OpenSession>> {
        None
    }

    fn is_resumed(&self) -> bool {
        false
    }

    fn not_shown(&self) -> Option<String> {
        None
    }

    async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    fn print_notices(&self) {}

    fn take_left(&self) -> Vec<Result<LeftSession, StoreError>> {
        Vec::new()
    }

    fn keep_outputs(&self) {}

    fn unsaved(&self) -> UnsavedSession {
        UnsavedSession(Arc::new(()))
    }

    async fn list(&self, _: &SessionFilter) -> Result<Vec<SessionInfo>, BoxError> {
        Ok(Vec::new())
    }

    async fn find(&self, id: &str) -> Result<SessionId, BoxError> {
        Err(format!("there is no session {id}: this program keeps none").into())
    }
}
