use std::path::PathBuf;

use super::{EngineName, MAX_ENGINE_NAME_BYTES, RunPhase};
use crate::model::{RunId, SessionId};

/// Error of an [`Engine`](super::Engine).
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The text is not valid as a name or id.
    #[error(
        "`{}` ({bytes} bytes) is no name: use 1 to {MAX_ENGINE_NAME_BYTES} letters, digits, `-`, `_`, `.` or `:`",
        start.escape_default()
    )]
    InvalidName {
        /// Beginning of the invalid text.
        start: String,
        /// Length of the invalid text.
        bytes: usize,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    UnknownRun(RunId),
    /// The run exists already, with another job.
    #[error("run `{0}` exists with another job; a new run needs a new id")]
    OtherJob(RunId),
    /// The run is over.
    #[error("run `{run}` is over ({phase}): it cannot go on")]
    Finished {
        /// Id of the run.
        run: RunId,
        /// Last phase of the run.
        phase: RunPhase,
    },
    /// Another unfinished run has the session: two runs would write into each other's turns.
    #[error(
        "session `{session}` has a run already: `{run}` is {phase}; end it first, or tell it what to do next"
    )]
    SessionTaken {
        /// Id of the session.
        session: SessionId,
        /// Id of the run that has it.
        run: RunId,
        /// Phase of that run.
        phase: RunPhase,
    },
    /// Another worker of this name is serving.
    #[error("a worker named `{0}` serves already; give this one another name")]
    NameTaken(EngineName),
    /// A newer version of zk wrote the job or the engine's data.
    #[error("it was written by a newer zk (format {found}, this zk reads up to {known}); use that one")]
    TooNew {
        /// Format that was found.
        found: u32,
        /// Newest format that this version knows.
        known: u32,
    },
    /// No space is left for the engine's data. Nothing was changed.
    #[error("the disk with {} is full; nothing was changed: free some space, and try again", path.display())]
    Full {
        /// File of the engine.
        path: PathBuf,
    },
    /// The file of the engine was removed or replaced while it was in use.
    #[error("{} was removed or replaced while it was in use; start again to use what is there now", path.display())]
    Lost {
        /// File of the engine.
        path: PathBuf,
    },
    /// The data of the engine cannot be read.
    #[error("{} is no file of runs, or damaged ({why}); move it away to begin with an empty one", path.display())]
    Damaged {
        /// File of the engine.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The engine cannot be reached, or failed.
    #[error("cannot {doing}: {why}")]
    Failed {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Description of the failure.
        why: String,
    },
}
