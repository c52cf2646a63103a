use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::BoxError;
use zk_core::model::SessionId;
use zk_core::service::{Entry, LeftSession, OpenSession, SessionFilter, SessionInfo, StoreError};

/// Session that is stored nowhere, as its factory goes on with it; nobody else looks into it.
#[derive(Clone)]
pub struct UnsavedSession(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for UnsavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsavedSession").finish_non_exhaustive()
    }
}

/// Sessions of a conversation: the present one, those that were left, and those that it may go on with.
#[async_trait]
pub trait ConversationSessions: Send + Sync {
    /// The present session; nothing where none is kept.
    fn open_session(&self) -> Option<Arc<dyn OpenSession>>;

    /// Whether the present session was there before.
    fn is_resumed(&self) -> bool;

    /// Says what of the present session is not shown, because it was not read.
    fn not_shown(&self) -> Option<String>;

    /// The entries that the view was made of, as they are now.
    async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// Prints what there is to say about the session's files that was not printed before.
    fn print_notices(&self);

    /// Takes what is stored of the sessions that were left since this was last asked.
    fn take_left(&self) -> Vec<Result<LeftSession, StoreError>>;

    /// Makes the present session leave its large results to the one that goes on with it.
    fn keep_outputs(&self);

    /// The present session for a conversation that goes on with it although it is stored nowhere.
    fn unsaved(&self) -> UnsavedSession;

    /// Stored sessions, the newest first.
    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, BoxError>;

    /// The stored session whose id begins so.
    async fn find(&self, id: &str) -> Result<SessionId, BoxError>;

    /// The last `most` entries of a stored session, oldest first.
    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, BoxError> {
        let _ = (id, most);
        Ok(Vec::new())
    }

    /// Gives a stored session another title.
    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), BoxError> {
        let _ = title;
        Err(format!("the session {id} has no title that could be changed").into())
    }

    /// Removes a stored session.
    async fn delete(&self, id: &SessionId) -> Result<(), BoxError> {
        Err(format!("the session {id} cannot be removed here").into())
    }
}

/// Sessions of a conversation that is kept nowhere.
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
