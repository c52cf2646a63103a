use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::oneshot;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Durability, Entry, EntryKind, OpenSession, StoreError};

use super::writer::Command;

/// Notices for the person about a session's files.
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

/// A handle on the thread that owns the session.
pub(super) struct SqliteSession {
    pub(super) id: SessionId,
    pub(super) cwd: Option<PathBuf>,
    pub(super) notices: Notices,
    /// Always there, until the handle is dropped.
    pub(super) commands: Option<Sender<Command>>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl SqliteSession {
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Command,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Failed(format!("session `{}` is closed; open it again", self.id));
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or_else(closed)?;
        commands.send(command(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
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
            // A thread that is gone says so at the append.
            let _ = commands.send(Command::Prepare);
        }
    }

    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.ask(|reply| Command::Append(entries, durability, reply)).await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.ask(Command::Read).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        match self.ask(Command::Close).await {
            // Closed before: nothing is left to be written.
            Err(StoreError::Failed(_)) => Ok(()),
            other => other,
        }
    }
}

impl Drop for SqliteSession {
    /// Waits for what is queued: when the handle is gone the session is free for the next one.
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
