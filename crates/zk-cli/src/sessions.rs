use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Entry, EntryKind, NewSession, OpenSession, SessionFilter, SessionInfo, SessionStore, StoreError,
    Unreadable,
};
use zk_exec::LocalStateFiles;
use zk_session::{
    CallState, InterruptedCall, Loaded, Recorder, Saved, SqliteStore, discard_unanswered, find_matching,
    latest, load_live, open_matching, store_interrupted,
};
use zk_tui::plain::lines::shorten;
use zk_tui::term::print_stderr;
use zk_view::{Block, rebuild};

use crate::app::AppContext;
use crate::args::Resume;
use crate::exit::{Failure, Outcome};
use crate::subagent_output::append_subagent_output;

mod copy;

pub(crate) use copy::{Copied, store_copy};

/// The session of a run: what it is written into, and what it goes on from.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) open: Option<Arc<dyn OpenSession>>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) loaded: Loaded,
    /// Stored entries of a resumed conversation, from the first one to the leaf, until an agent has it.
    restored: Mutex<Option<Arc<[Entry]>>>,
    pub(crate) resumed: bool,
    /// The first entry that was read, where the beginning of the conversation was not.
    begins_at: Option<EntryId>,
    /// Directory of the session's large results, which exists.
    pub(crate) outputs: Option<PathBuf>,
    store: Option<SqliteStore>,
    /// The place of large results of a session that is not saved.
    temporary: Option<Arc<TemporaryDir>>,
    /// Another session goes on with that place.
    is_continued: AtomicBool,
    /// Number of notices that have been printed.
    printed: AtomicUsize,
}

/// Last entries of a session that are looked through for the beginning of its last run: most runs are short.
const LAST_ENTRIES: [usize; 2] = [32, 400];

/// Part of a finished run that a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Everything.
    All(SessionId),
    /// Everything but the last entries.
    Part { id: SessionId, missing: usize },
    /// Nothing: there is no session, or nothing in it that is worth one.
    Nothing,
}

/// A directory that goes with what uses it.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// A new directory that only its owner can look into.
    fn new(app: &AppContext) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = app.env.path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        let dir = parent.join(format!("zk-{}", SessionId::fresh()));
        std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Session {
    /// One that is not saved. Its large results are kept until it is closed.
    fn unsaved(app: &AppContext) -> Self {
        let temporary = TemporaryDir::new(app).ok().map(Arc::new);
        let outputs = temporary.as_ref().map(|dir| dir.0.clone());
        Self { outputs, temporary, ..Self::default() }
    }

    /// One that is not saved either, and goes on with `messages` and with the large results of this one.
    pub(crate) fn continued(&self, messages: Vec<Arc<Message>>) -> Self {
        // Plugins read what they have to know of a conversation in its entries.
        let mut parent = None;
        let entry = |message: &Arc<Message>| {
            let id = EntryId::fresh();
            let parent = parent.replace(id.clone());
            Entry {
                id,
                parent,
                time_ms: 0,
                kind: EntryKind::Message { message: message.clone(), usage: None },
            }
        };
        let entries: Arc<[Entry]> = messages.iter().map(entry).collect();
        let loaded = Loaded { messages, ..Loaded::default() };
        let restored = Mutex::new(Some(entries).filter(|entries| !entries.is_empty()));
        let (outputs, temporary) = (self.outputs.clone(), self.temporary.clone());
        Self { loaded, restored, outputs, temporary, ..Self::default() }
    }

    /// Returns the stored entries of a resumed conversation, until an agent has it.
    pub(crate) fn restored(&self) -> Option<Arc<[Entry]>> {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As [`Session::restored`], and keeps it no longer: it is as large as all of the conversation.
    pub(crate) fn take_restored(&self) -> Option<Arc<[Entry]>> {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves its large results to a session that [continues](Self::continued) it.
    pub(crate) fn keep_outputs(&self) {
        self.is_continued.store(true, Ordering::Relaxed);
    }

    fn new(app: &AppContext, store: SqliteStore, open: Arc<dyn OpenSession>) -> Self {
        // Without it large results stay in the history, cut by each tool's own limit.
        let outputs =
            app.dirs.outputs(open.id()).filter(|dir| LocalStateFiles::make_private_dir(dir).is_ok());
        let recorder = Recorder::new(open.clone()).or_without(|error| {
            print_stderr(&format!("zk: session not saved: {error} (--no-session does without on purpose)"));
        });
        Self { recorder: Some(recorder), open: Some(open), outputs, store: Some(store), ..Self::default() }
    }

    /// Stores a new session with what this one has up to an entry, and gives its id.
    pub(crate) async fn copy_up_to(&self, app: &AppContext, entry: &EntryId) -> Outcome<SessionId> {
        let unsaved = || Failure::failed("this conversation is not saved, so there is nothing to go back to");
        let open = self.open.as_ref().ok_or_else(unsaved)?;
        store_copy(app, open.id(), app.cwd.clone(), Some(entry)).await.map(|copy| copy.id)
    }

    /// Says what of the conversation is not shown, because it was not read.
    pub(crate) fn not_shown(&self) -> Option<String> {
        let (earlier, open) = (self.loaded.earlier.as_ref()?, self.open.as_ref()?);
        Some(format!(
            "{} earlier messages were compacted and are not shown; `zk sessions show {}` prints them",
            earlier.messages,
            open.id()
        ))
    }

    /// The entries of the session that its view was made of, as they are now.
    pub(crate) async fn shown_entries(&self) -> Result<Vec<Entry>, StoreError> {
        let Some(open) = &self.open else { return Ok(Vec::new()) };
        let Some(begin) = self.begins_at.clone() else { return open.entries().await };
        let entries: Arc<Mutex<Vec<Entry>>> = Arc::default();
        let kept = entries.clone();
        let visit = Box::new(move |entry: Entry, _: usize| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if !kept.is_empty() || entry.id == begin {
                kept.push(entry);
            }
            ControlFlow::Continue(())
        });
        open.scan(visit).await?;
        Ok(std::mem::take(&mut *entries.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Prints what there is to say about the session's files that was not printed before.
    pub(crate) fn print_notices(&self) {
        let notices = self.open.as_ref().map(|open| open.notices()).unwrap_or_default();
        let printed = self.printed.swap(notices.len(), Ordering::Relaxed);
        for notice in notices.iter().skip(printed) {
            print_stderr(&format!("zk: {notice}"));
        }
    }

    /// Lets go of the session after everything is written, and removes a new one that nobody answered in.
    pub(crate) async fn close(&self) -> Result<Kept, StoreError> {
        if self.is_continued.load(Ordering::Relaxed) {
            // Results that were kept belong to another session now.
        } else if let Some(dir) = &self.temporary {
            // The program may end without dropping it.
            let _ = std::fs::remove_dir_all(&dir.0);
        } else if let Some(outputs) = &self.outputs {
            // The directory stays when there is something in it.
            let _ = std::fs::remove_dir(outputs);
        }
        let (Some(open), Some(recorder)) = (&self.open, &self.recorder) else { return Ok(Kept::Nothing) };
        let saved = recorder.saved().await;
        let closed = open.close().await;
        self.print_notices();
        closed?;
        let id = open.id().clone();
        if let (Some(store), false) = (&self.store, self.resumed)
            && recorder.stored_only_prompts().await
            && discard_unanswered(store, &id).await?
        {
            if let Some(outputs) = &self.outputs {
                // Most have none.
                let _ = std::fs::remove_dir_all(outputs);
            }
            return Ok(Kept::Nothing);
        }
        Ok(match saved {
            Saved::All => Kept::All(id),
            Saved::Part { missing } => Kept::Part { id, missing },
            Saved::Nothing if self.resumed => Kept::All(id),
            Saved::Nothing => Kept::Nothing,
        })
    }
}

/// A store's error as the program ends with it.
pub(crate) fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::NotFound { .. } => Failure::usage(format!("{error}; `zk sessions` lists them")),
        StoreError::InUse { ref id, .. } => Failure::failed(format!(
            "{error}; `zk sessions show {id}` prints it, and `zk sessions copy {id}` makes a copy to go on with"
        )),
        StoreError::Damaged { .. }
        | StoreError::TooNew { .. }
        | StoreError::Io { .. }
        | StoreError::Failed(_) => Failure::failed(error),
    }
}

/// The store of this user.
pub(crate) fn store(app: &AppContext) -> Outcome<SqliteStore> {
    app.dirs.sessions().map(SqliteStore::new).ok_or_else(|| {
        Failure::usage("there is no place for sessions: set HOME or ZK_HOME, or use --no-session")
    })
}

/// Opens the session asked for, or a new one. A place that cannot be written costs the session, not the run,
/// unless a session was asked for.
pub(crate) async fn begin(app: &AppContext, resume: Option<&Resume>) -> Outcome<Session> {
    match resume {
        None | Some(Resume::Choose) if !app.settings.program.sessions => Ok(Session::unsaved(app)),
        None | Some(Resume::Choose) => {
            let created = match store(app).map_err(|failure| failure.message).and_then(writable(app)) {
                Ok(store) => {
                    let new = NewSession { id: None, cwd: app.cwd.clone(), parent: None };
                    let created = store.create(new).await.map_err(|error| error.to_string());
                    created.map(|open| (store, open))
                }
                Err(why) => Err(why),
            };
            match created {
                Ok((store, open)) => Ok(Session::new(app, store, open)),
                Err(why) => {
                    print_stderr(&format!(
                        "zk: session not saved: {why} (--no-session does without on purpose)"
                    ));
                    Ok(Session::unsaved(app))
                }
            }
        }
        Some(Resume::Latest) => {
            let store = store(app)?;
            let newest = latest(&store, &app.cwd).await.map_err(refused)?;
            warn_of_newer(app, &store, newest.as_ref()).await.map_err(refused)?;
            let newest = newest.ok_or_else(|| {
                Failure::usage(format!(
                    "there is no session of {} to continue; `zk sessions list --all` lists those of other \
                     directories",
                    app.cwd.display()
                ))
            })?;
            let open = store.open(&newest.id).await.map_err(refused)?;
            reopen(app, store, open).await
        }
        Some(Resume::Id(id)) => {
            let store = store(app)?;
            let open = open_matching(&store, given(id, "--resume")?).await.map_err(refused)?;
            reopen(app, store, open).await
        }
    }
}

/// The last run of the session that is asked for, as it is shown: its end is there before all of it is read and checked.
/// Nothing of a session without one among its last entries, and of one that cannot be read, about which opening it tells.
pub(crate) async fn end_of(app: &AppContext, resume: &Resume) -> Vec<Arc<Block>> {
    let Ok(store) = store(app) else { return Vec::new() };
    let id = match resume {
        Resume::Choose => None,
        Resume::Latest => latest(&store, &app.cwd).await.ok().flatten().map(|info| info.id),
        Resume::Id(id) => find_matching(&store, id.trim()).await.ok(),
    };
    let Some(id) = id else { return Vec::new() };
    for most in LAST_ENTRIES {
        let entries = store.last_entries(&id, most).await.unwrap_or_default();
        let begin = entries.iter().rposition(|entry| matches!(entry.kind, EntryKind::RunStart { .. }));
        if let Some(of_run) = begin.and_then(|begin| entries.get(begin..)) {
            return rebuild(of_run);
        }
    }
    Vec::new()
}

/// The id that was given to `what`.
pub(crate) fn given<'a>(id: &'a str, what: &str) -> Outcome<&'a str> {
    match id.trim() {
        "" => Err(Failure::usage(format!("{what} needs an ID; `zk sessions` lists them"))),
        id => Ok(id),
    }
}

/// Says that the newest session is not the one that is continued, because it cannot be read.
async fn warn_of_newer(
    app: &AppContext,
    store: &SqliteStore,
    taken: Option<&SessionInfo>,
) -> Result<(), StoreError> {
    let newest = SessionFilter { cwd: Some(app.cwd.clone()), limit: Some(1), unanswered: true };
    for SessionInfo { id, unreadable, .. } in store.list(&newest).await? {
        let instead = taken.map(|info| format!("; going on with {}", info.id)).unwrap_or_default();
        if let Some(why) = unreadable {
            let next = match &why {
                Unreadable::Damaged(_) => format!("; `zk --resume {id}` tries to read what is left of it"),
                Unreadable::TooNew { .. } | Unreadable::OutOfReach(_) => String::new(),
            };
            print_stderr(&format!("zk: warning: the newest session {id} is {why}{next}{instead}"));
        }
    }
    Ok(())
}

async fn reopen(app: &AppContext, store: SqliteStore, open: Arc<dyn OpenSession>) -> Outcome<Session> {
    let mut live = open.live().await.map_err(refused)?;
    let mut loaded = load_live(&live);
    append_subagent_output(&mut loaded, &live.entries);
    // Said before it is stored: a process that is killed in between leaves it to be said again.
    for line in interruption(&loaded) {
        print_stderr(&line);
    }
    store_interrupted(&*open, &loaded).await.map_err(refused)?;
    if loaded.interrupted.is_some() {
        live = open.live().await.map_err(refused)?;
    }
    let recorder = Recorder::resuming(open.clone(), &loaded);
    let session = Session {
        recorder: Some(recorder),
        loaded,
        begins_at: live.begins_at().cloned(),
        restored: Mutex::new(Some(live.entries.into())),
        resumed: true,
        ..Session::new(app, store, open)
    };
    session.print_notices();
    Ok(session)
}

/// Describes the last run of a session that was cut off, in lines for a person.
fn interruption(loaded: &Loaded) -> Vec<String> {
    let Some(turn) = &loaded.interrupted else {
        let cut_off = loaded.unfinished.as_ref().map(|_| "zk: the last run of this session was interrupted");
        return cut_off.map(str::to_owned).into_iter().collect();
    };
    let head = "zk: the last run was interrupted while its calls ran; none of them is run again by itself:";
    let line = |call: &InterruptedCall| {
        let state = match &call.state {
            CallState::Ended { result, .. } if result.is_error => "failed before that",
            CallState::Ended { .. } => "done",
            CallState::OutcomeUnknown => "outcome unknown: it may or may not have taken effect",
            CallState::NotRun => "not run",
        };
        format!("zk:   {}: {state}", shorten(&format!("{} {}", call.name, call.args)))
    };
    std::iter::once(head.to_owned()).chain(turn.calls.iter().map(line)).collect()
}

/// Makes the store's directory and asks whether it can be written: a read-only home is found before the first
/// request, not when its answer cannot be stored.
fn writable(app: &AppContext) -> impl FnOnce(SqliteStore) -> Result<SqliteStore, String> {
    let root = app.dirs.sessions().unwrap_or_default();
    move |store| {
        LocalStateFiles::make_private_dir(&root)
            .and_then(|()| {
                rustix::fs::access(&root, rustix::fs::Access::WRITE_OK).map_err(std::io::Error::from)
            })
            .map_err(|error| format!("cannot write to {}: {error}", root.display()))?;
        Ok(store)
    }
}
