use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zk_core::model::{EntryId, MailId, SessionId};
use zk_core::service::{Clock, Durability, Entry, EntryKind, LiveEntries, Mail, StoreError, check_leaf};

use super::check;
use super::db::{Draft, read_mail};
use super::error::{WriteError, copy_error, store_error, write_error};
use super::files::Files;
use super::open::{self, Opened, Plan};
use super::recovery::restore;
use super::session::Notices;
use crate::memory::millis;

/// Request to the thread that owns a session.
pub(super) enum Command {
    Prepare,
    Append(NewEntries, Durability, Reply<Vec<EntryId>>),
    /// Entries of another session, of which only the first may move the leaf.
    Restore(Vec<Entry>, Reply<()>),
    NoteBranch(String),
    Mail(Reply<Vec<Mail>>),
    Read(Reply<Vec<Entry>>),
    ReadLive(Reply<LiveEntries>),
    Close(Reply<()>),
}

/// Entries to append, and mail to take with them.
#[derive(Default)]
pub(super) struct NewEntries {
    pub(super) kinds: Vec<EntryKind>,
    pub(super) mail: Vec<MailId>,
}

/// Queued append: its entries, and the reply with their ids.
type Waiting = (NewEntries, Reply<Vec<EntryId>>);

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Body of the thread that owns a session's database and does all of its I/O.
pub(super) struct Writer {
    id: SessionId,
    state: State,
    clock: Arc<dyn Clock>,
    /// Whether a run has ended since the last sync.
    unsynced: bool,
    /// Whether the folder has a new file since its last sync.
    new_file: bool,
    /// Parameters of the session while its open file has no entry, so that the file may be removed again.
    empty: Option<Plan>,
    notices: Notices,
    /// Bytes of the compacted beginning that are loaded at an open.
    back: u64,
    /// Branch of version control to store with the next entries.
    branch: Option<String>,
}

enum State {
    /// The session has no file yet.
    Planned(Plan),
    /// The file is open. Entries read at opening are kept until a caller takes them or they are outdated.
    Open(Box<Opened>),
}

impl Writer {
    pub(super) fn planned(plan: Plan, back: u64, clock: Arc<dyn Clock>, notices: Notices) -> Self {
        let (id, state) = (plan.id.clone(), State::Planned(plan));
        Self { id, state, clock, unsynced: false, new_file: false, empty: None, notices, back, branch: None }
    }

    pub(super) fn opened(opened: Opened, back: u64, clock: Arc<dyn Clock>, notices: Notices) -> Self {
        let (id, state) = (opened.files.id().clone(), State::Open(Box::new(opened)));
        Self { id, state, clock, unsynced: false, new_file: false, empty: None, notices, back, branch: None }
    }

    /// Executes commands until the session is closed or all handles are dropped.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut next = None;
        loop {
            let command = match next.take() {
                Some(command) => command,
                None => match self.next_command(commands) {
                    Some(command) => command,
                    None => {
                        let _ = self.finish_files();
                        return;
                    }
                },
            };
            match command {
                // A failure is reported by the next append, which tries again.
                Command::Prepare => drop(self.make_file()),
                Command::Append(new, mut durability, reply) => {
                    let mut batch = vec![(new, reply)];
                    // Queued appends go into the same transaction, except for those that move the leaf.
                    while !batch.iter().any(|(new, _)| moves_leaf(&new.kinds))
                        && let Ok(command) = commands.try_recv()
                    {
                        match command {
                            Command::Append(new, own, reply) if !moves_leaf(&new.kinds) => {
                                batch.push((new, reply));
                                durability = stronger_durability(durability, own);
                            }
                            command => {
                                next = Some(command);
                                break;
                            }
                        }
                    }
                    self.append(batch, durability);
                }
                Command::Restore(entries, reply) => {
                    let _ = reply.send(self.restore(entries));
                }
                Command::NoteBranch(branch) => self.branch = Some(branch),
                Command::Mail(reply) => {
                    let _ = reply.send(self.mail());
                }
                Command::Read(reply) => {
                    let _ = reply.send(self.entries());
                }
                Command::ReadLive(reply) => {
                    let _ = reply.send(self.live());
                }
                Command::Close(reply) => {
                    let kept = self.finish_files();
                    // Closes the database and releases the lock before the reply.
                    drop(self);
                    let _ = reply.send(kept);
                    return;
                }
            }
        }
    }

    /// Waits for the next command, and syncs a finished run while the queue is empty.
    fn next_command(&mut self, commands: &Receiver<Command>) -> Option<Command> {
        match commands.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                let _ = self.sync();
                commands.recv().ok()
            }
        }
    }

    /// Syncs a finished run. A failure breaks no guarantee of an append; the sync is retried after the next
    /// command, and the error is reported on close.
    fn sync(&mut self) -> Result<(), StoreError> {
        let State::Open(open) = &self.state else { return Ok(()) };
        if self.unsynced {
            let path = open.files.db();
            open.db.checkpoint().map_err(|error| store_error(&error, "sync", &path, &self.id))?;
            if self.new_file {
                sync_names(&open.files).map_err(|source| StoreError::Io { doing: "sync", path, source })?;
                self.new_file = false;
            }
            self.unsynced = false;
        }
        Ok(())
    }

    /// Syncs the folder of a new file, which [`Durability::Disk`] needs besides the log.
    fn sync_new_file(&mut self) -> Result<(), StoreError> {
        let State::Open(open) = &self.state else { return Ok(()) };
        if self.new_file {
            let path = open.files.db();
            open.db.checkpoint().map_err(|error| store_error(&error, "sync", &path, &self.id))?;
            sync_names(&open.files).map_err(|source| StoreError::Io { doing: "sync", path, source })?;
            self.new_file = false;
        }
        Ok(())
    }

    /// Creates the file of a session that has none yet.
    fn make_file(&mut self) -> Result<(), StoreError> {
        let State::Planned(plan) = &self.state else { return Ok(()) };
        let opened = Box::new(open::create(plan)?);
        if let State::Planned(plan) = std::mem::replace(&mut self.state, State::Open(opened)) {
            self.empty = Some(plan);
        }
        self.new_file = true;
        Ok(())
    }

    /// Removes the file of a session without entries, and keeps its parameters.
    fn remove_empty(&mut self) {
        if let (Some(plan), State::Open(open)) = (self.empty.take(), &self.state) {
            open::discard(&open.files);
            self.state = State::Planned(plan);
            self.new_file = false;
        }
    }

    /// Prepares the files for the close: removes those of a session without entries, restores missing ones and syncs.
    fn finish_files(&mut self) -> Result<(), StoreError> {
        self.remove_empty();
        self.restore_missing_files()?;
        self.sync()
    }

    /// Restores the files of an open session if they were removed.
    fn restore_missing_files(&mut self) -> Result<(), StoreError> {
        let State::Open(open) = &mut self.state else { return Ok(()) };
        if let Some(notice) = restore::restore_missing(open)? {
            self.notices.add(notice);
            self.new_file = true;
        }
        Ok(())
    }

    fn append(&mut self, batch: Vec<Waiting>, durability: Durability) {
        let (mut drafts, mut taken) = (Vec::new(), Vec::new());
        let mut replies = Vec::with_capacity(batch.len());
        for (NewEntries { kinds, mail }, reply) in batch {
            if let Err(error) = self.check_leaf(&kinds) {
                let _ = reply.send(Err(error));
                continue;
            }
            self.unsynced |= kinds.iter().any(|kind| matches!(kind, EntryKind::RunEnd { .. }));
            match kinds.into_iter().map(Draft::new).collect::<Result<Vec<_>, _>>() {
                Ok(own) => {
                    replies.push((own.iter().map(|draft| draft.id.clone()).collect(), reply));
                    drafts.extend(own);
                    taken.extend(mail);
                }
                Err(error) => {
                    let why = format!("an entry of session `{}` does not serialise: {error}", self.id);
                    let _ = reply.send(Err(StoreError::Failed(why)));
                }
            }
        }
        let written = match (drafts.is_empty() && taken.is_empty(), durability) {
            (true, Durability::Process) => Ok(()),
            (true, Durability::Disk) => self.sync_all(),
            (false, _) => self.write(&drafts, &taken, durability),
        };
        match written {
            Ok(()) => {
                for (ids, reply) in replies {
                    let _ = reply.send(Ok(ids));
                }
            }
            Err(error) => {
                for (_, reply) in replies {
                    let _ = reply.send(Err(copy_error(&error)));
                }
            }
        }
    }

    /// Adds entries of another session with their ids and times, synced to disk.
    fn restore(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        if let Some(first) = entries.first() {
            self.check_leaf(std::slice::from_ref(&first.kind))?;
        }
        let drafts = entries.into_iter().map(Draft::restored).collect::<Result<Vec<_>, _>>();
        let drafts = drafts.map_err(|error| {
            StoreError::Failed(format!("an entry of session `{}` does not serialise: {error}", self.id))
        })?;
        self.write(&drafts, &[], Durability::Disk)
    }

    /// Checks the place and the target of a move of the leaf.
    fn check_leaf(&self, kinds: &[EntryKind]) -> Result<(), StoreError> {
        if !moves_leaf(kinds) {
            return Ok(());
        }
        let mut found = Ok(false);
        let checked = check_leaf(&self.id, kinds, |entry| {
            if let State::Open(open) = &self.state {
                let fail = |error: rusqlite::Error| store_error(&error, "read", &open.files.db(), &self.id);
                found = open.db.contains(entry).map_err(fail);
            }
            !matches!(found, Ok(false))
        });
        found.and(checked)
    }

    /// Syncs all earlier appends.
    fn sync_all(&mut self) -> Result<(), StoreError> {
        self.restore_missing_files()?;
        let State::Open(open) = &self.state else { return Ok(()) };
        let path = open.files.db();
        open.db.checkpoint().map_err(|error| store_error(&error, "sync", &path, &self.id))?;
        self.sync_new_file()
    }

    fn write(&mut self, drafts: &[Draft], mail: &[MailId], durability: Durability) -> Result<(), StoreError> {
        self.restore_missing_files()?;
        let now = millis(self.clock.now());
        self.make_file()?;
        let State::Open(open) = &mut self.state else {
            return Err(StoreError::Failed(format!("session `{}` is not open", self.id)));
        };
        open.live = None;
        // Synced before the write if possible, since written entries count as stored.
        let early = durability == Durability::Disk && open.db.has_tables();
        let mut written = if early { self.sync_new_file() } else { Ok(()) };
        if let (Ok(()), State::Open(open)) = (&written, &mut self.state) {
            let path = open.files.db();
            let fail = |error: WriteError| write_error(error, &path, &self.id);
            open.db.note_branch(self.branch.as_ref());
            written = open.db.write(drafts, mail, now, durability).map_err(fail);
        }
        if let (Ok(()), Durability::Disk) = (&written, durability) {
            written = self.sync_new_file();
        }
        if let (Ok(()), State::Open(open)) = (&written, &mut self.state) {
            open.lock.record_entries(open.db.entries());
            self.empty = None;
        } else {
            // The next append creates the file again.
            self.remove_empty();
        }
        written
    }

    fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        match &self.state {
            State::Open(open) if open.db.has_tables() => read_mail(open.db.connection(), &open.files),
            State::Open(_) | State::Planned(_) => Ok(Vec::new()),
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, StoreError> {
        let State::Open(open) = &mut self.state else { return Ok(Vec::new()) };
        if !open.db.has_tables() {
            return Ok(Vec::new());
        }
        if let Some(live) = open.live.take_if(|live| live.is_whole()) {
            return Ok(live.entries);
        }
        check::read_branch(open.db.connection(), open.db.index().moves(), 1)
            .map_err(|error| store_error(&error, "read", &open.files.db(), &self.id))
    }

    fn live(&mut self) -> Result<LiveEntries, StoreError> {
        let State::Open(open) = &mut self.state else { return Ok(LiveEntries::default()) };
        if !open.db.has_tables() {
            return Ok(LiveEntries::default());
        }
        if let Some(live) = open.live.take() {
            return Ok(live);
        }
        check::read_live(open.db.connection(), open.db.index(), self.back)
            .map_err(|error| store_error(&error, "read", &open.files.db(), &self.id))
    }
}

/// Whether any of the entries moves the leaf.
fn moves_leaf(kinds: &[EntryKind]) -> bool {
    kinds.iter().any(|kind| matches!(kind, EntryKind::Leaf { .. }))
}

fn stronger_durability(one: Durability, other: Durability) -> Durability {
    match (one, other) {
        (Durability::Process, Durability::Process) => Durability::Process,
        (Durability::Disk, _) | (_, Durability::Disk) => Durability::Disk,
    }
}

/// Syncs a session's folder and the folder's parent, so that the file names survive a power cut.
#[expect(clippy::disallowed_methods, reason = "a session has a thread of its own")]
fn sync_names(files: &Files) -> io::Result<()> {
    let dir = files.dir();
    File::open(dir)?.sync_all()?;
    dir.parent().map_or(Ok(()), |root| File::open(root)?.sync_all())
}

/// Starts the thread that owns a session, with a queue for its commands.
///
/// # Errors
/// [`StoreError::Failed`] when the thread cannot be started.
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
