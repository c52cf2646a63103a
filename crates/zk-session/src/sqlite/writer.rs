use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Clock, Entry, EntryKind, StoreError};

use super::db::Draft;
use super::error::{again, store_error};
use super::open::{self, Opened, Plan};
use super::row::{self, COLUMNS};
use crate::memory::millis;

/// What the thread that owns a session is asked.
pub(super) enum Command {
    Append(Vec<EntryKind>, Reply<Vec<EntryId>>),
    Read(Reply<Vec<Entry>>),
    Close(Reply<()>),
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// The one thread that touches a session's database. Nothing else waits for its disk.
pub(super) struct Writer {
    id: SessionId,
    state: State,
    clock: Arc<dyn Clock>,
    /// A run has ended since the file was last synced.
    unsynced: bool,
    /// The folder has a new file since it was last synced.
    new_file: bool,
}

enum State {
    /// Nothing is on the disk yet.
    Planned(Plan),
    /// The file is open. The entries read at opening are kept until they are asked for or stale.
    Open(Box<Opened>),
}

impl Writer {
    pub(super) fn planned(plan: Plan, clock: Arc<dyn Clock>) -> Self {
        Self { id: plan.id.clone(), state: State::Planned(plan), clock, unsynced: false, new_file: false }
    }

    pub(super) fn opened(opened: Opened, clock: Arc<dyn Clock>) -> Self {
        let id = opened.files.id().clone();
        Self { id, state: State::Open(Box::new(opened)), clock, unsynced: false, new_file: false }
    }

    /// Serves commands until the session is closed or every handle is gone.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut next = None;
        loop {
            let command = match next.take() {
                Some(command) => command,
                None => match self.wait(commands) {
                    Some(command) => command,
                    None => return,
                },
            };
            match command {
                Command::Append(kinds, reply) => {
                    let mut batch = vec![(kinds, reply)];
                    // What has queued up meanwhile goes into the same transaction.
                    while let Ok(command) = commands.try_recv() {
                        if let Command::Append(kinds, reply) = command {
                            batch.push((kinds, reply));
                        } else {
                            next = Some(command);
                            break;
                        }
                    }
                    self.append(batch);
                }
                Command::Read(reply) => {
                    let _ = reply.send(self.entries());
                }
                Command::Close(reply) => {
                    // Closing the database and releasing the lock come first, so they are done when this is
                    // acknowledged.
                    drop(self);
                    let _ = reply.send(Ok(()));
                    return;
                }
            }
        }
    }

    /// The next command. Syncing is done while there is none.
    fn wait(&mut self, commands: &Receiver<Command>) -> Option<Command> {
        match commands.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.sync();
                commands.recv().ok()
            }
        }
    }

    /// Makes a finished run survive a power cut, too. Failing that costs nothing an append promised.
    fn sync(&mut self) {
        if !std::mem::take(&mut self.unsynced) {
            return;
        }
        if let State::Open(open) = &self.state {
            let _ = open.db.checkpoint();
            if std::mem::take(&mut self.new_file) {
                let _ = File::open(open.files.dir()).and_then(|dir| dir.sync_all());
            }
        }
    }

    fn append(&mut self, batch: Vec<(Vec<EntryKind>, Reply<Vec<EntryId>>)>) {
        let mut drafts = Vec::new();
        let mut replies = Vec::with_capacity(batch.len());
        for (kinds, reply) in batch {
            self.unsynced |= kinds.iter().any(|kind| matches!(kind, EntryKind::RunEnd { .. }));
            match kinds.into_iter().map(Draft::new).collect::<Result<Vec<_>, _>>() {
                Ok(own) => {
                    replies.push((own.iter().map(|draft| draft.id.clone()).collect(), reply));
                    drafts.extend(own);
                }
                Err(error) => {
                    let why = format!("an entry of session `{}` does not serialise: {error}", self.id);
                    let _ = reply.send(Err(StoreError::Failed(why)));
                }
            }
        }
        if drafts.is_empty() {
            for (ids, reply) in replies {
                let _ = reply.send(Ok(ids));
            }
            return;
        }
        match self.write(&drafts) {
            Ok(()) => {
                for (ids, reply) in replies {
                    let _ = reply.send(Ok(ids));
                }
            }
            Err(error) => {
                for (_, reply) in replies {
                    let _ = reply.send(Err(again(&error)));
                }
            }
        }
    }

    fn write(&mut self, drafts: &[Draft]) -> Result<(), StoreError> {
        let now = millis(self.clock.now());
        let plan = match &self.state {
            State::Open(_) => None,
            State::Planned(plan) => {
                let plan = plan.clone();
                self.state = State::Open(Box::new(open::create(&plan)?));
                self.new_file = true;
                Some(plan)
            }
        };
        let State::Open(open) = &mut self.state else {
            return Err(StoreError::Failed(format!("session `{}` is not open", self.id)));
        };
        open.entries = Vec::new();
        let Err(error) = open.db.write(drafts, now) else { return Ok(()) };
        let error = store_error(&error, "write", &open.files.db(), &self.id);
        if let Some(plan) = plan {
            // Nobody was told of the file; the next append begins anew.
            let files = open.files.clone();
            open::discard(&files);
            self.state = State::Planned(plan);
            self.new_file = false;
        }
        Err(error)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, StoreError> {
        let State::Open(open) = &mut self.state else { return Ok(Vec::new()) };
        if !open.db.is_born() {
            return Ok(Vec::new());
        }
        if !open.entries.is_empty() {
            return Ok(std::mem::take(&mut open.entries));
        }
        let read = || {
            let mut entries = Vec::new();
            let mut select =
                open.db.connection().prepare(&format!("SELECT {COLUMNS} FROM entries ORDER BY seq"))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                // An unreadable one was reported when the session was opened.
                if let (_, Ok(entry)) = row::read(row)? {
                    entries.push(entry);
                }
            }
            Ok(entries)
        };
        read().map_err(|error| store_error(&error, "read", &open.files.db(), &self.id))
    }
}

/// Starts a thread and the queue it serves.
///
/// # Errors
/// [`StoreError::Failed`] when the system has no thread to give.
pub(super) fn spawn(
    body: impl FnOnce(Receiver<Command>) + Send + 'static,
) -> Result<(Sender<Command>, JoinHandle<()>), StoreError> {
    let (commands, queue) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("zk-session".to_owned())
        .spawn(move || body(queue))
        .map_err(|error| StoreError::Failed(format!("cannot start a thread for a session: {error}")))?;
    Ok((commands, thread))
}
