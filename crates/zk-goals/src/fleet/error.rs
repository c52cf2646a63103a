use std::io;
use std::path::PathBuf;

use zk_core::service::StateFileError;

/// Error of the registry of conversations.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// No entry has this id.
    #[error("no conversation is listed as `{0}`; `zk fleet` lists them")]
    Unknown(String),
    /// Several entries begin with this id.
    #[error("several conversations begin with `{0}`: type more of the id")]
    Ambiguous(String),
    /// The process of the conversation is alive.
    #[error("the conversation {id} lives in process {pid}")]
    Alive {
        /// Id of the entry.
        id: String,
        /// Process of the conversation.
        pid: u32,
    },
    /// The process of the conversation is gone.
    #[error("the conversation {id} has no process any more: `zk fleet attach {id}` goes on with its session")]
    Gone {
        /// Id of the entry.
        id: String,
    },
    /// The conversation has no such question.
    #[error("the conversation {0} waits for no answer")]
    NoQuestion(String),
    /// Another process cannot give this answer.
    #[error("{0}")]
    Answer(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The directory cannot be read.
    #[error("cannot read {}: {source}", dir.display())]
    Dir {
        /// Directory of the registry.
        dir: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}
