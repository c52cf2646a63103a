//! Client of `zk serve-sessions`.

mod call;
mod session;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use zk_auth::Http;
use zk_core::model::SessionId;
use zk_core::service::{
    Entry, EntryVisitor, LiveEntries, NewSession, OpenSession, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot, SessionStore, StoreError,
};

use self::call::Api;
use self::session::RemoteSession;
use crate::shared::{check_id, check_requested_id, check_same_id, with_valid_ids};
use crate::wire::{
    CreateRequest, Done, ListReply, ListRequest, OpenReply, OpenRequest, ReadRequest, RenameRequest,
    StreamEnd, operation,
};

/// Sessions on a server, `zk serve-sessions`.
///
/// An open session has a lease that is renewed in the background. An append that the network lost is sent
/// again and stored once, also when the server was restarted meanwhile.
///
/// ```no_run
/// # async fn list() -> Result<(), zk_core::service::StoreError> {
/// use zk_core::service::{SessionFilter, SessionStore};
/// use zk_stores::RemoteStore;
///
/// let token = Some("the token of the server".to_owned());
/// let store = RemoteStore::new("http://127.0.0.1:7070", token, zk_auth::Http::new())?;
/// let sessions = store.list(&SessionFilter::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RemoteStore {
    api: Arc<Api>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore").field("address", &self.api.address()).finish_non_exhaustive()
    }
}

impl RemoteStore {
    /// Store of the server at `address`, such as `http://127.0.0.1:7070`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for an address that cannot be used: one of another machine needs HTTPS, so that
    /// nobody on the way reads the token.
    pub fn new(address: &str, token: Option<String>, http: Http) -> Result<Self, StoreError> {
        Ok(Self { api: Arc::new(Api::new(address, token, http)?) })
    }

    async fn read_entries(
        &self,
        request: &ReadRequest,
        what: &str,
    ) -> Result<(Vec<Entry>, StreamEnd), StoreError> {
        self.api.collect_entries(what, request).await
    }

    async fn visit_entries(
        &self,
        what: &str,
        id: &SessionId,
        mut visit: EntryVisitor,
    ) -> Result<SessionScan, StoreError> {
        check_requested_id(id)?;
        let mut is_over = false;
        let request = read_request(id);
        let visited = self.api.visit_explained(what, &request, |entry| {
            // The summary comes last, so all entries are read, and dropped after the visitor has stopped.
            if !is_over {
                let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
                is_over = visit(entry, bytes) == ControlFlow::Break(());
            }
        });
        let mut end = visited.await?;
        Ok(SessionScan { info: info_of(id, &mut end)?, notices: end.notices })
    }
}

fn read_request(id: &SessionId) -> ReadRequest {
    ReadRequest { id: id.clone(), most: 0 }
}

fn info_of(id: &SessionId, end: &mut StreamEnd) -> Result<SessionInfo, StoreError> {
    let missing = || StoreError::Failed("the server sent a session without its summary".to_owned());
    let info = end.info.take().ok_or_else(missing)?;
    check_same_id(id, &info.id)?;
    with_valid_ids(info).ok_or_else(missing)
}

#[async_trait]
impl SessionStore for RemoteStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        let pid = std::process::id();
        let asked = new.id.clone();
        asked.as_ref().map_or(Ok(()), check_id)?;
        let request = CreateRequest { id: new.id, cwd: new.cwd, parent: new.parent, pid };
        let opened: OpenReply = self.api.call_explained(operation::CREATE, &request).await?;
        check_id(&opened.id)?;
        check_same_id(asked.as_ref().unwrap_or(&opened.id), &opened.id)?;
        Ok(RemoteSession::start(self.api.clone(), opened, Some(request)))
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        check_requested_id(id)?;
        let request = OpenRequest { id: id.clone(), pid: std::process::id() };
        let opened: OpenReply = self.api.call_explained(operation::OPEN, &request).await?;
        check_same_id(id, &opened.id)?;
        Ok(RemoteSession::start(self.api.clone(), opened, None))
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        check_requested_id(id)?;
        let (entries, mut end) = self.read_entries(&read_request(id), operation::SCAN).await?;
        Ok(SessionSnapshot { info: info_of(id, &mut end)?, entries, notices: end.notices })
    }

    async fn scan(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.visit_entries(operation::SCAN, id, visit).await
    }

    async fn scan_tree(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.visit_entries(operation::SCAN_TREE, id, visit).await
    }

    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        check_requested_id(id)?;
        let (entries, end) = self.read_entries(&read_request(id), operation::READ_LIVE).await?;
        Ok(LiveEntries { entries, tail: end.tail, earlier: end.earlier })
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        check_requested_id(id)?;
        let request = ReadRequest { id: id.clone(), most };
        Ok(self.read_entries(&request, operation::LAST_ENTRIES).await?.0)
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let SessionFilter { cwd, limit, unanswered } = filter.clone();
        let reply: ListReply =
            self.api.call_explained(operation::LIST, &ListRequest { cwd, limit, unanswered }).await?;
        Ok(reply.sessions.into_iter().filter_map(with_valid_ids).collect())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let Done {} = self.api.call_explained(operation::DELETE, &read_request(id)).await?;
        Ok(())
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let request = RenameRequest { id: id.clone(), title: title.to_owned() };
        let Done {} = self.api.call_explained(operation::RENAME, &request).await?;
        Ok(())
    }
}
