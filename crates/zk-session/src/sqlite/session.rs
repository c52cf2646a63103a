use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::oneshot;
use zk_core::model::{EntryId, MailId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, LiveEntries, Mail, OpenSession, StoreError,
};

use super::check::Branches;
use super::writer::{Command, NewEntries};
use super::{offload, snapshot};

/// Notices about a session's files, for the person.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    pub(super) fn of(all: Vec<String>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }

    pub(super) fn add(&self, notice: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Handle on the thread that owns the session.
pub(super) struct SqliteSession {
    pub(super) id: SessionId,
    pub(super) cwd: Option<PathBuf>,
    pub(super) notices: Notices,
    /// Root folder of the store.
    pub(super) root: PathBuf,
    /// Command queue; `None` only during the drop.
    pub(super) commands: Option<Sender<Command>>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl SqliteSession {
    async fn send_command<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Command,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Failed(format!("session `{}` is closed; open it again", self.id));
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or_else(closed)?;
        commands.send(command(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn scan_rows(&self, visit: EntryVisitor, branches: Branches) -> Result<Vec<String>, StoreError> {
        let (root, id) = (self.root.clone(), self.id.clone());
        let visit = Arc::new(Mutex::new((visit, false)));
        let own = visit.clone();
        let scanned = offload(move || {
            snapshot::visit(&root, &id, branches, &mut |entry, bytes| {
                let (visit, has_begun) = &mut *own.lock().unwrap_or_else(PoisonError::into_inner);
                *has_begun = true;
                visit(entry, bytes)
            })
        })
        .await;
        match scanned {
            Ok(scan) => Ok(scan.notices),
            // The session has no file yet, or the file was removed.
            Err(_) if !visit.lock().unwrap_or_else(PoisonError::into_inner).1 => {
                let entries = self.entries().await?;
                let (visit, _) = &mut *visit.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = entries.into_iter().try_for_each(|entry| visit(entry, 0));
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }
}

impl SqliteSession {
    /// Adds the entries of another session, section by section: each section but the first begins with a move of the leaf.
    pub(super) async fn restore(&self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let mut section = Vec::new();
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            section.push(entry);
            if entries.peek().is_none_or(|next| matches!(next.kind, EntryKind::Leaf { .. })) {
                let section = std::mem::take(&mut section);
                self.send_command(|reply| Command::Restore(section, reply)).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl OpenSession for SqliteSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn cwd(&self) -> Option<PathBuf> {
        self.cwd.clone()
    }

    fn notices(&self) -> Vec<String> {
        self.notices.all()
    }

    fn prepare(&self) {
        if let Some(commands) = &self.commands {
            // If the thread has ended, the next append reports it.
            let _ = commands.send(Command::Prepare);
        }
    }

    fn note_branch(&self, branch: String) {
        if let Some(commands) = &self.commands {
            // If the thread has ended, the next append reports it.
            let _ = commands.send(Command::NoteBranch(branch));
        }
    }

    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.append_taking(entries, Vec::new(), durability).await
    }

    async fn append_taking(
        &self,
        kinds: Vec<EntryKind>,
        mail: Vec<MailId>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.send_command(|reply| Command::Append(NewEntries { kinds, mail }, durability, reply)).await
    }

    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        self.send_command(Command::Mail).await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.send_command(Command::Read).await
    }

    async fn live(&self) -> Result<LiveEntries, StoreError> {
        self.send_command(Command::ReadLive).await
    }

    async fn scan(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.scan_rows(visit, Branches::Present).await
    }

    async fn scan_tree(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.scan_rows(visit, Branches::All).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        match self.send_command(Command::Close).await {
            // The session was closed before, so no entries are pending.
            Err(StoreError::Failed(_)) => Ok(()),
            other => other,
        }
    }
}

impl Drop for SqliteSession {
    /// Waits for queued commands, so that the session is free once the handle is dropped.
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
