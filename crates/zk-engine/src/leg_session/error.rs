use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use zk_core::service::{EngineName, HandoverCause, LegEnd, LegFailure, StoreError, Wait, WorkspaceError};

/// Pause before the next leg of a run whose session cannot be opened now, such as one that a person has attached to.
pub(crate) const STORE_PAUSE: Duration = Duration::from_secs(10);

/// Reason for which a leg has no session to go on with, for the log of the worker.
#[derive(Debug, thiserror::Error)]
pub enum LegSessionError {
    /// The session cannot be opened.
    #[error("{}", of_store(.0))]
    Store(#[from] StoreError),
    /// The worker has no such workspace.
    #[error("there is no workspace `{0}`")]
    NoWorkspace(EngineName),
    /// The worker has no store of workspaces.
    #[error("the files of the run are in a store of workspaces, and this worker has none")]
    NoStore,
    /// The session names no stored files.
    #[error("its session names no stored files; submit it with `--keep`")]
    NoFiles,
    /// The files cannot be brought here.
    #[error("{0}")]
    Files(#[from] WorkspaceError),
    /// The files are on the disk of another host.
    #[error("its files are on `{0}`: a worker there has to serve its queue; this one hands it back")]
    OtherHost(EngineName),
    /// The directory of the session is not on this machine.
    #[error("the directory {0} of its session is not here")]
    NoDirectory(PathBuf),
}

fn of_store(error: &StoreError) -> String {
    match (error, end_of_store(error)) {
        (StoreError::Fenced { .. }, _) => "another worker has it under a newer lease".to_owned(),
        (_, LegEnd::Parked(_)) => format!("{error}; it is tried again in {} s", STORE_PAUSE.as_secs()),
        _ => error.to_string(),
    }
}

fn end_of_store(error: &StoreError) -> LegEnd {
    match error {
        StoreError::Fenced { .. } => LegEnd::Handover(HandoverCause::Fenced),
        StoreError::TooNew { .. } => LegEnd::Handover(HandoverCause::TooNew),
        StoreError::InUse { .. } | StoreError::Io { .. } | StoreError::Failed(_) => {
            LegEnd::Parked(Wait::Until(SystemTime::now() + STORE_PAUSE))
        }
        StoreError::NotFound { .. } => LegEnd::Failed(LegFailure::NoSession),
        StoreError::Damaged { .. }
        | StoreError::NoEntry { .. }
        | StoreError::PostedBefore { .. }
        | StoreError::Refused(_) => LegEnd::Failed(LegFailure::Session),
    }
}

impl LegSessionError {
    /// Returns the end of the leg.
    #[must_use]
    pub fn end(&self) -> LegEnd {
        match self {
            Self::Store(error) => end_of_store(error),
            Self::NoWorkspace(workspace) => LegEnd::Failed(LegFailure::NoWorkspace(workspace.clone())),
            Self::NoDirectory(_) => LegEnd::Failed(LegFailure::NoDirectory),
            Self::NoStore | Self::NoFiles => LegEnd::Failed(LegFailure::NoFiles),
            Self::Files(error) if error.is_temporary() => {
                LegEnd::Parked(Wait::Until(SystemTime::now() + STORE_PAUSE))
            }
            Self::Files(_) => LegEnd::Failed(LegFailure::NoFiles),
            Self::OtherHost(_) => LegEnd::Handover(HandoverCause::OtherHost),
        }
    }
}
