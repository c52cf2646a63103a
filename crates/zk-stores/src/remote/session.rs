use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Durability, Entry, EntryKind, EntryVisitor, LiveEntries, OpenSession, StoreError};

use super::call::{Api, CallError};
use crate::shared::closed_error;
use crate::wire::{
    AppendReply, AppendRequest, CreateRequest, Done, HandleRequest, OpenReply, OpenRequest, ReadRequest,
    StreamEnd, WireError, operation,
};

/// Pauses before a lost request is sent again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_000),
    Duration::from_millis(3_000),
];

/// Session that is open on a server.
pub(super) struct RemoteSession(Arc<Shared>);

/// State that the session shares with the task that renews its lease.
struct Shared {
    api: Arc<Api>,
    id: SessionId,
    cwd: Option<PathBuf>,
    lease: Lease,
    is_closed: AtomicBool,
    notices: SyncMutex<Vec<String>>,
    /// Branch of version control to store with the next entries.
    branch: SyncMutex<Option<String>>,
}

/// Lease, and the state of the session as this client knows it.
struct Lease {
    handle: SyncMutex<String>,
    log: Mutex<Log>,
}

struct Log {
    leaf: Option<EntryId>,
    /// Request that created the session, until it has an entry.
    created: Option<CreateRequest>,
    /// Whether the outcome of an append is unknown.
    is_in_doubt: bool,
}

impl RemoteSession {
    pub(super) fn start(
        api: Arc<Api>,
        opened: OpenReply,
        created: Option<CreateRequest>,
    ) -> Arc<dyn OpenSession> {
        let OpenReply { handle, id, cwd, notices, leaf, lease_ms } = opened;
        let created = created.map(|request| CreateRequest { id: Some(id.clone()), ..request });
        let shared = Arc::new(Shared {
            api,
            id,
            cwd,
            lease: Lease {
                handle: SyncMutex::new(handle),
                log: Mutex::new(Log { leaf, created, is_in_doubt: false }),
            },
            is_closed: AtomicBool::new(false),
            notices: SyncMutex::new(notices),
            branch: SyncMutex::default(),
        });
        let pause = Duration::from_millis(lease_ms / 3).max(Duration::from_millis(10));
        tokio::spawn(renew(Arc::downgrade(&shared), pause));
        Arc::new(Self(shared))
    }
}

/// Renews a lease while its session is open.
async fn renew(session: Weak<Shared>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(session) = session.upgrade() else { return };
        if session.is_closed.load(Ordering::Acquire) {
            return;
        }
        // A lost lease is noticed, and taken again, with the next request.
        let _ = session.api.call::<Done>(operation::RENEW, &session.request()).await;
    }
}

impl Shared {
    fn handle(&self) -> String {
        self.lease.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn request(&self) -> HandleRequest {
        HandleRequest { handle: self.handle() }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::Acquire) { Err(closed_error(&self.id)) } else { Ok(()) }
    }

    fn in_doubt_error(&self) -> StoreError {
        StoreError::Failed(format!(
            "the connection to the session server at {} was lost in the middle of an append to `{}`, so it may or may not be \
             stored; open the session again to see",
            self.api.address(),
            self.id
        ))
    }

    /// Takes the lease again after it ended, if nobody else has written since. Returns the ids of `kinds` if
    /// they are stored already.
    async fn reopen(&self, log: &Log, kinds: &[EntryKind]) -> Result<Option<Vec<EntryId>>, CallError> {
        let request = OpenRequest { id: self.id.clone(), pid: std::process::id() };
        let fenced = || CallError::Refused(WireError::Fenced { id: self.id.clone() });
        let opened: OpenReply = match (self.api.call(operation::OPEN, &request).await, &log.created) {
            (Err(CallError::Refused(WireError::NotFound { .. })), Some(created)) => {
                self.api.call(operation::CREATE, created).await?
            }
            (Err(CallError::Refused(WireError::InUse { .. } | WireError::NotFound { .. })), _) => {
                return Err(fenced());
            }
            (opened, _) => opened?,
        };
        let take = |handle| *self.lease.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
        if opened.leaf == log.leaf {
            take(opened.handle);
            return Ok(None);
        }
        // One entry more than the append has, for the one that it follows.
        let last = ReadRequest { id: self.id.clone(), most: kinds.len() + 1 };
        let mut stored = Vec::new();
        self.api.visit(operation::LAST_ENTRIES, &last, |entry| stored.push(entry)).await?;
        let from = stored.len().saturating_sub(kinds.len());
        let (before, new) = stored.split_at_checked(from).unwrap_or_default();
        let expected = match kinds.first() {
            Some(EntryKind::Leaf { to, .. }) => to.as_ref(),
            _ => log.leaf.as_ref(),
        };
        let is_same =
            before.last().map(|entry| &entry.id) == expected && new.iter().map(|entry| &entry.kind).eq(kinds);
        if is_same && !kinds.is_empty() {
            take(opened.handle);
            return Ok(Some(new.iter().map(|entry| entry.id.clone()).collect()));
        }
        let close = HandleRequest { handle: opened.handle };
        let _ = self.api.call::<Done>(operation::CLOSE, &close).await;
        Err(fenced())
    }

    /// Sends an append until its outcome is known, or the attempts are used up.
    async fn append(
        &self,
        log: &mut Log,
        kinds: &[EntryKind],
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        let branch = self.branch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let append = EntryId::fresh().to_string();
        // If an append is cancelled or lost after it was sent, its outcome stays unknown.
        log.is_in_doubt = true;
        let mut may_be_stored = false;
        let mut pauses = PAUSES.into_iter();
        let error = loop {
            let request = AppendRequest {
                handle: self.handle(),
                append: append.clone(),
                branch: branch.clone(),
                disk: durability == Durability::Disk,
                kinds: kinds.to_vec(),
            };
            let error = match self.api.call(operation::APPEND, &request).await {
                Ok(AppendReply { ids, notices }) => {
                    *self.notices.lock().unwrap_or_else(PoisonError::into_inner) = notices;
                    return Ok(self.record_stored(log, ids, branch.as_ref()));
                }
                Err(CallError::Refused(WireError::NoHandle)) => match self.reopen(log, kinds).await {
                    Ok(Some(ids)) => return Ok(self.record_stored(log, ids, branch.as_ref())),
                    Ok(None) => CallError::NotSent("the lease had ended".to_owned()),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match &error {
                CallError::Lost(_) => may_be_stored = true,
                CallError::NotSent(_) => {}
                CallError::Refused(_) | CallError::Foreign(_) => break error,
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break error,
            }
        };
        match error {
            CallError::Lost(_) | CallError::NotSent(_) if may_be_stored => Err(self.in_doubt_error()),
            CallError::Foreign(_) => Err(self.in_doubt_error()),
            error => {
                log.is_in_doubt = false;
                Err(self.api.explain(error))
            }
        }
    }

    fn record_stored(&self, log: &mut Log, ids: Vec<EntryId>, branch: Option<&String>) -> Vec<EntryId> {
        log.is_in_doubt = false;
        if let Some(last) = ids.last() {
            log.leaf = Some(last.clone());
            log.created = None;
            let mut noted = self.branch.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.as_ref() == branch {
                *noted = None;
            }
        }
        ids
    }

    /// Reads entries of the session, and takes the lease again if it ended.
    async fn read(&self, what: &str) -> Result<(Vec<Entry>, StreamEnd), StoreError> {
        let log = self.lease.log.lock().await;
        self.check_open()?;
        let mut is_new_lease = false;
        loop {
            let mut entries = Vec::new();
            match self.api.visit(what, &self.request(), |entry| entries.push(entry)).await {
                Ok(end) => return Ok((entries, end)),
                Err(CallError::Refused(WireError::NoHandle)) if !is_new_lease && !log.is_in_doubt => {
                    self.reopen(&log, &[]).await.map_err(|error| self.api.explain(error))?;
                    is_new_lease = true;
                }
                Err(error) => return Err(self.api.explain(error)),
            }
        }
    }
}

#[async_trait]
impl OpenSession for RemoteSession {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn cwd(&self) -> Option<PathBuf> {
        self.0.cwd.clone()
    }

    fn notices(&self) -> Vec<String> {
        self.0.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_branch(&self, branch: String) {
        *self.0.branch.lock().unwrap_or_else(PoisonError::into_inner) = Some(branch);
    }

    async fn append(
        &self,
        kinds: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        let mut log = self.0.lease.log.lock().await;
        self.0.check_open()?;
        if log.is_in_doubt {
            return Err(self.0.in_doubt_error());
        }
        if kinds.is_empty() && (durability == Durability::Process || log.created.is_some()) {
            return Ok(Vec::new());
        }
        self.0.append(&mut log, &kinds, durability).await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(self.0.read(operation::ENTRIES).await?.0)
    }

    async fn live(&self) -> Result<LiveEntries, StoreError> {
        let (entries, end) = self.0.read(operation::LIVE).await?;
        Ok(LiveEntries { entries, tail: end.tail, earlier: end.earlier })
    }

    async fn scan_tree(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        let (entries, end) = self.0.read(operation::TREE).await?;
        let _ = entries.into_iter().try_for_each(|entry| {
            let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
            visit(entry, bytes)
        });
        Ok(end.notices)
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Waits for appends in flight.
        let _log = self.0.lease.log.lock().await;
        if self.0.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        match self.0.api.call::<Done>(operation::CLOSE, &self.0.request()).await {
            Ok(_) | Err(CallError::Refused(WireError::NoHandle)) => Ok(()),
            Err(error) => Err(self.0.api.explain(error)),
        }
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        if let Ok(runtime) = Handle::try_current()
            && !self.0.is_closed.swap(true, Ordering::AcqRel)
        {
            let session = self.0.clone();
            // The lease ends by itself if this does not arrive.
            runtime.spawn(async move {
                session.api.call::<Done>(operation::CLOSE, &session.request()).await.ok()
            });
        }
    }
}
