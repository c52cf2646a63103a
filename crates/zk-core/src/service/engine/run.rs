use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{EngineName, Job, RunPhase, unix_ms};
use crate::model::{EntryId, RunId, SessionId, utc_time};
use crate::service::RunStatus;

/// Maximum number of child runs that a parked run can wait for in [`Wait::Children`].
pub const MAX_WAITED_CHILDREN: usize = 32;

/// End of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegEnd {
    /// The run is finished.
    Done(RunStatus),
    /// The run waits for an event, without a worker.
    Parked(Wait),
    /// The run goes on with another leg: at once if the worker drains, or else after a pause. It fails after too many legs in a
    /// row whose store failed.
    Handover(HandoverCause),
    /// The run cannot go on; it stays listed.
    Failed(LegFailure),
}

/// Event that a parked run waits for. [`Engine::wake`](super::Engine::wake) ends every wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", content = "of", rename_all = "snake_case")]
pub enum Wait {
    /// An answer to the question in this entry of the session.
    Answer(EntryId),
    /// Mail in the session's store.
    Mail,
    /// A time, serialised as milliseconds since 1970.
    Until(#[serde(with = "unix_ms")] SystemTime),
    /// The end of all these runs, at most [`MAX_WAITED_CHILDREN`].
    Children(Vec<RunId>),
    /// A larger budget, by mail in the session's store: the run has used up its own.
    Budget,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(_) => f.write_str("an answer"),
            Self::Mail => f.write_str("a message"),
            Self::Until(time) => f.write_str(&utc_time(*time)),
            Self::Budget => f.write_str("a larger budget"),
            Self::Children(runs) if runs.len() == 1 => f.write_str("a child run"),
            Self::Children(runs) => write!(f, "{} child runs", runs.len()),
        }
    }
}

/// Cause of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoverCause {
    /// The worker drains.
    Draining,
    /// The lease was lost, or the store refused its token.
    Fenced,
    /// A newer version of zk wrote the session: another worker may know its format.
    TooNew,
    /// The workspace of the run is on another host.
    OtherHost,
    /// The store of the session failed in the middle of the leg, for a cause that may pass.
    StoreFailed,
}

/// Reason for which a run cannot go on. Details are in the session and in the log of the worker: no text of a
/// model or store reaches an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", content = "of", rename_all = "snake_case")]
pub enum LegFailure {
    /// The worker has no such preset.
    #[error("the worker has no preset `{0}`; add it there, and submit the run anew")]
    NoPreset(EngineName),
    /// The worker has no such workspace.
    #[error("the worker has no workspace `{0}`; name its directory there, and submit the run anew")]
    NoWorkspace(EngineName),
    /// The directory of the session does not exist on the worker.
    #[error("the directory of the session is not on the worker; submit the run with a workspace that is")]
    NoDirectory,
    /// The files of the run cannot be brought to the worker.
    #[error("the files of the run cannot be brought to the worker; its log says why")]
    NoFiles,
    /// The store of the worker has no such session.
    #[error("the worker's store has no such session; workers and submitters need one store")]
    NoSession,
    /// The session cannot be used.
    #[error("the session cannot be opened; the worker's log says why")]
    Session,
    /// The agent could not be put together, for example without a key.
    #[error("the agent cannot start on the worker; the worker's log says why")]
    Start,
    /// The run ended with an error.
    #[error("the agent failed; the session says why")]
    Agent,
    /// The leg panicked.
    #[error("the leg broke off by a defect of zk; the worker's log says where")]
    Panicked,
    /// The engine's entry of the run cannot be read.
    #[error("the engine's entry of the run cannot be read; submit its session anew")]
    Unreadable,
    /// The worker died in each of this many legs.
    #[error("{0} legs in a row died with their workers")]
    Deaths(u32),
    /// The store of the session failed in the last of this many lost legs in a row.
    #[error(
        "{0} legs in a row were lost, the last one by its store of sessions; the worker's log says why: repair it, and try the run again"
    )]
    Store(u32),
    /// The state of the run exceeds what an engine stores.
    #[error("the run waits for more than an engine stores")]
    TooLarge,
}

/// State of a run in an engine's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineRun {
    /// Job that the run executes.
    pub job: Job,
    /// Phase of the run.
    pub phase: RunPhase,
    /// Event that a parked run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Worker of the present or last leg, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<EngineName>,
    /// Token of the present or last leg; 0 before the first.
    pub token: u64,
    /// Number of legs that were begun.
    pub legs: u64,
    /// Reason for the failure, if the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<LegFailure>,
    /// Whether a cancellation of the running leg is under way.
    pub is_cancelling: bool,
    /// Time of the submission, serialised as milliseconds since 1970.
    #[serde(rename = "submitted_ms", serialize_with = "unix_ms::serialize")]
    pub submitted: SystemTime,
    /// Time of the last change, serialised as milliseconds since 1970.
    #[serde(rename = "changed_ms", serialize_with = "unix_ms::serialize")]
    pub changed: SystemTime,
}

/// Entry of an engine that this version of zk cannot read, because a newer one wrote it or it is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableEntry {
    /// Kind of the entry.
    pub kind: UnreadableKind,
    /// Id of the run, or name of the schedule.
    pub id: String,
    /// Reason for which it cannot be read.
    pub why: String,
}

/// Kind of an [`UnreadableEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreadableKind {
    /// A run.
    Run,
    /// A schedule.
    Schedule,
}

impl fmt::Display for UnreadableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Schedule => "schedule",
        })
    }
}

/// Filter for listing runs. The default lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Id of the only run to list.
    pub run: Option<RunId>,
    /// Prefix of the ids of the runs to list.
    pub run_prefix: Option<String>,
    /// Queue of the runs to list.
    pub queue: Option<EngineName>,
    /// Tenant of the runs to list.
    pub tenant: Option<EngineName>,
    /// Session of the runs to list.
    pub session: Option<SessionId>,
    /// Parent run of the runs to list.
    pub parent: Option<RunId>,
    /// Phases of the runs to list; empty for all.
    pub phases: Vec<RunPhase>,
    /// Maximum number of runs to list; the newest are kept.
    pub limit: Option<usize>,
}

impl RunFilter {
    /// Filter for one run.
    #[must_use]
    pub fn run(run: RunId) -> Self {
        Self { run: Some(run), ..Self::default() }
    }

    /// Filter for runs that are not over.
    #[must_use]
    pub fn unfinished() -> Self {
        Self::phases([RunPhase::Queued, RunPhase::Running, RunPhase::Parked])
    }

    /// Filter for runs in one of these phases.
    #[must_use]
    pub fn phases(phases: impl IntoIterator<Item = RunPhase>) -> Self {
        Self { phases: phases.into_iter().collect(), ..Self::default() }
    }
}
