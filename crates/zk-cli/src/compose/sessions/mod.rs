//! Sessions of this user: their place, and the messages about their errors and notices.

pub(crate) mod goals;
pub(crate) mod memory;
pub(crate) mod parts;
pub(crate) mod undo;

use std::path::PathBuf;
use std::sync::Arc;

use zk_chat::git_branch;
use zk_core::service::{Entry, EntryKind, StoreError, SubAgentTexts, Unreadable};
use zk_exec::LocalHostFiles;
use zk_session::{
    CallState, InterruptedCall, Loaded, NoticeSink, OpeningError, SessionNotice, SessionPlace, SessionStart,
    SharedStore, SqliteStore,
};
use zk_tui::plain::Notices;
use zk_tui::plain::lines::shorten;
use zk_tui::term::print_stderr;
use zk_view::{Block, SubagentWords, rebuild};

use crate::app::{Machine, Workplace};
use crate::args::Resume;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::settings::Settings;

pub(crate) use zk_session::ConversationSession as Session;

/// Maximum length of a sub-agent's text for the model, in characters.
const MAX_OUTPUT_CHARS: usize = 2000;

/// Returns the place of this user's sessions, for a conversation in the working directory.
pub(crate) fn place(work: &Workplace, settings: &Settings) -> SessionPlace {
    let notices = work.machine.notices.clone();
    SessionPlace {
        root: work.machine.dirs.sessions(),
        store: work.machine.stores.chosen().map(SharedStore::new),
        saves: settings.program.sessions,
        outputs: outputs(&work.machine),
        temporary: work.machine.env.path("TMPDIR").unwrap_or_else(|| "/tmp".into()),
        cwd: work.cwd.clone(),
        notices: NoticeSink::new(move |notice| show_notice(&notice, &notices)),
        explain: Some(append_subagent_output),
        branch: Some(|cwd| git_branch(cwd, &LocalHostFiles::default())),
    }
}

/// Directory of the sessions' large results. Other stores have their own directory, since leftovers are found by the
/// sessions in the SQLite files.
pub(crate) fn outputs(machine: &Machine) -> Option<PathBuf> {
    let outputs = machine.dirs.outputs()?;
    Some(if machine.stores.name().is_some() { outputs.join(".other-stores") } else { outputs })
}

/// The store of this user.
pub(crate) fn store(machine: &Machine) -> Outcome<SharedStore> {
    if let Some(store) = machine.stores.chosen() {
        return Ok(SharedStore::new(store));
    }
    Ok(SharedStore::new(Arc::new(sqlite_store(machine)?)))
}

/// The SQLite store of this user, for operations that other stores lack.
///
/// # Errors
/// When another store was chosen.
pub(crate) fn sqlite_store(machine: &Machine) -> Outcome<SqliteStore> {
    if let Some(name) = machine.stores.name() {
        return Err(Failure::usage(format!(
            "this works on sessions in SQLite files, and the store of the settings is {name}: add --session-store sqlite"
        )));
    }
    Ok(SqliteStore::new(machine.dirs.sessions().ok_or(OpeningError::NoPlace)?))
}

/// Opens the requested session, or a new one. If the store cannot be written, a new session is not stored,
/// but a requested one is an error.
pub(crate) async fn begin(
    work: &Workplace,
    settings: &Settings,
    resume: Option<&Resume>,
) -> Outcome<Session> {
    let place = place(work, settings);
    let start = match resume {
        None | Some(Resume::Choose) => SessionStart::New,
        Some(Resume::Named(id)) => SessionStart::Named(id.as_str().into()),
        Some(Resume::Latest) => SessionStart::Latest,
        Some(Resume::Id(id)) => {
            place.store()?;
            SessionStart::Matching(require_id(id, "--resume")?.to_owned())
        }
    };
    Ok(place.begin(&start).await?)
}

/// Returns the last run of the requested session as blocks, as a preview before the whole session is read and
/// checked.
pub(crate) async fn last_run_blocks(
    work: &Workplace,
    settings: &Settings,
    resume: &Resume,
) -> Vec<Arc<Block>> {
    let start = match resume {
        Resume::Choose | Resume::Named(_) => SessionStart::New,
        Resume::Latest => SessionStart::Latest,
        Resume::Id(id) => SessionStart::Matching(id.trim().to_owned()),
    };
    rebuild(&place(work, settings).preview(&start).await)
}

/// Returns a non-empty id; `what` names its argument in the error.
pub(crate) fn require_id<'a>(id: &'a str, what: &str) -> Outcome<&'a str> {
    match id.trim() {
        "" => Err(Failure::usage(format!("{what} needs an ID; `zk sessions` lists them"))),
        id => Ok(id),
    }
}

/// Converts an error of the store to a failure of the program.
pub(crate) fn store_failure(error: StoreError) -> Failure {
    OpeningError::Store(error).into()
}

impl Explain for OpeningError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoPlace
            | Self::NothingToContinue { .. }
            | Self::NoEntry(_)
            | Self::Store(StoreError::NotFound { .. } | StoreError::Refused(_)) => Exit::Usage,
            Self::NotSaved | Self::Store(_) => Exit::Failed,
        }
    }

    fn explain(&self) -> String {
        match self {
            Self::NoPlace => format!("{self}: set HOME or ZK_HOME, or use --no-session"),
            Self::NothingToContinue { .. } => {
                format!("{self}; `zk sessions list --all` lists those of other directories")
            }
            Self::Store(StoreError::NotFound { .. }) => format!("{self}; `zk sessions` lists them"),
            Self::Store(StoreError::InUse { id, .. }) => format!(
                "{self}; `zk sessions show {id}` prints it, and `zk sessions copy {id}` makes a copy to go on with"
            ),
            Self::NotSaved | Self::NoEntry(_) | Self::Store(_) => self.to_string(),
        }
    }
}

/// Returns a note on the part of a conversation that is not shown, since it was not read.
pub(crate) fn not_shown(session: &Session) -> Option<String> {
    let (earlier, open) = (session.loaded.earlier.as_ref()?, session.open.as_ref()?);
    Some(format!(
        "{} earlier messages were compacted and are not shown; `zk sessions show {}` prints them",
        earlier.messages,
        open.id()
    ))
}

fn show_notice(notice: &SessionNotice<'_>, notices: &Notices) {
    match notice {
        SessionNotice::NotSaved { reason } => warn_not_saved(reason),
        SessionNotice::NoPlace => warn_not_saved(&OpeningError::NoPlace.explain()),
        SessionNotice::Unreadable { id, state, taken } => {
            let instead = taken.as_ref().map(|id| format!("; going on with {id}")).unwrap_or_default();
            let next = match state {
                Unreadable::Damaged(_) => format!("; `zk --resume {id}` tries to read what is left of it"),
                Unreadable::TooNew { .. } | Unreadable::OutOfReach(_) => String::new(),
            };
            print_stderr(&format!("zk: warning: the newest session {id} is {state}{next}{instead}"));
        }
        SessionNotice::Interrupted { calls } => {
            describe_interruption(calls).iter().for_each(|line| print_stderr(&format!("zk: {line}")));
        }
        SessionNotice::OutputsNotCopied { from, error } => {
            let place = from.display();
            notices.show(&format!("warning: not all large results are in the copy, see {place}: {error}"));
        }
        SessionNotice::Files(text) => print_stderr(&format!("zk: {text}")),
    }
}

fn warn_not_saved(why: &str) {
    print_stderr(&format!("zk: session not saved: {why} (--no-session does without on purpose)"));
}

/// Describes the last run of a session that was cut off, in lines for a person.
fn describe_interruption(calls: &[InterruptedCall]) -> Vec<String> {
    if calls.is_empty() {
        return vec!["the last run of this session was interrupted".to_owned()];
    }
    let head = "the last run was interrupted while its calls ran; none of them is run again by itself:";
    let line = |call: &InterruptedCall| {
        let state = match &call.state {
            CallState::Ended { result, .. } if result.is_error => "failed before that",
            CallState::Ended { .. } => "done",
            CallState::OutcomeUnknown => "outcome unknown: it may or may not have taken effect",
            CallState::NotRun => "not run",
        };
        format!("  {}: {state}", shorten(&format!("{} {}", call.name, call.args)))
    };
    std::iter::once(head.to_owned()).chain(calls.iter().map(line)).collect()
}

/// Appends a sub-agent's last visible text to its interrupted call.
fn append_subagent_output(loaded: &mut Loaded, entries: &[Entry]) {
    let is_delegating = |call: &InterruptedCall| {
        call.state == CallState::OutcomeUnknown && call.args.get("task").is_some_and(|task| task.is_string())
    };
    let Some(turn) = &loaded.interrupted else { return };
    let Some(first) = turn.calls.first().filter(|_| turn.calls.iter().any(is_delegating)) else { return };
    // Ids of calls are unique in a turn, not in a session.
    let of_turn = entries.iter().rposition(|entry| matches!(entry.kind, EntryKind::OpenTurn { .. }));
    let texts = SubAgentTexts::read(entries.get(of_turn.unwrap_or_default()..).unwrap_or_default());
    // Older versions of zk stored only the blocks of a view.
    let words = SubagentWords::of_turn(entries, &first.call_id);
    loaded.explain_unknown(|call| {
        let of_view = || {
            let (name, said) = words.of_task(call.args.get("task")?.as_str()?)?;
            Some((name, said.to_owned()))
        };
        let (name, said) = texts.of_call(&call.call_id).or_else(of_view)?;
        let end = said.char_indices().nth(MAX_OUTPUT_CHARS).map(|(at, _)| at);
        let (said, cut) = (said.get(..end.unwrap_or(said.len())).unwrap_or_default(), end.map_or("", |_| "…"));
        Some(format!(
            "It was the sub-agent `{name}`, which was cut off and is gone. The last that is known of what it said, which is \
             no result:\n{said}{cut}"
        ))
    });
}
