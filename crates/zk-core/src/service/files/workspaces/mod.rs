//! Files of runs that outlive their worker.

mod reference;

pub use reference::{MAX_WORKSPACE_REF_BYTES, WorkspaceRef};

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::model::RunId;

/// Store of the files of runs, which every worker reaches: a run that loses its worker goes on elsewhere with the files
/// of the last checkpoint.
///
/// Carried are regular files with their execute permission, symbolic links, and names of any bytes. Left out is
/// what `.gitignore` files ignore, the repository of the directory itself, and files that are neither regular nor links.
///
/// ```
/// use std::path::Path;
/// use zk_core::service::{CheckpointOf, WorkspaceError, Workspaces};
///
/// async fn carry(store: &dyn Workspaces, from: &Path, to: &Path) -> Result<(), WorkspaceError> {
///     let of = CheckpointOf { run: "r_1".into(), moment: "start".to_owned(), base: None };
///     let kept = store.checkpoint(from, &of).await?;
///     store.materialise(&kept.reference, to).await
/// }
/// ```
#[async_trait]
pub trait Workspaces: Send + Sync {
    /// Returns the kind of the references that this store makes and reads, such as `git`.
    fn kind(&self) -> &'static str;

    /// Stores the files of a directory, and returns once other workers can materialise them. Changes nothing in the
    /// directory. Unchanged files since `of.base` give that reference again.
    ///
    /// # Errors
    /// [`WorkspaceError`]; the files are not kept then.
    async fn checkpoint(&self, dir: &Path, of: &CheckpointOf) -> Result<Checkpoint, WorkspaceError>;

    /// Makes the files of a directory those of a reference. A missing directory is created; files that the store would
    /// not carry may stay, and all others are replaced or removed.
    ///
    /// # Errors
    /// [`WorkspaceError`]; the directory may have some of the files then.
    async fn materialise(&self, reference: &WorkspaceRef, dir: &Path) -> Result<(), WorkspaceError>;

    /// Removes what this machine keeps beside a materialised directory that is no longer used. The directory and the
    /// stored references stay.
    async fn forget(&self, _dir: &Path) {}
}

/// Subject of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOf {
    /// Run that the files belong to.
    pub run: RunId,
    /// Moment in the run, such as the id of its turn.
    pub moment: String,
    /// Checkpoint before this one.
    pub base: Option<WorkspaceRef>,
}

/// Stored files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Reference by which the files are materialised.
    pub reference: WorkspaceRef,
    /// Descriptions of files that are not carried although nothing ignores them, each with the reason.
    pub left_out: Vec<String>,
}

/// Failure to store or materialise the files of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// A text is no reference.
    #[error("`{0}` is no reference of a workspace: a store wrote it otherwise, or the session is damaged")]
    InvalidReference(String),
    /// A reference is of another kind of store.
    #[error(
        "the files are kept as `{reference}`, which a store of kind `{kind}` cannot read; give this worker the setting \
         `fleet.workspaces` of the others"
    )]
    OtherKind {
        /// Reference of the files.
        reference: WorkspaceRef,
        /// Kind of the store that was asked.
        kind: &'static str,
    },
    /// The store has no such reference.
    #[error("{place} has no files `{reference}`; workers and submitters need one store of workspaces")]
    NotFound {
        /// Reference that was asked for.
        reference: WorkspaceRef,
        /// Place of the store.
        place: String,
    },
    /// The store has other bytes than the reference names.
    #[error(
        "the files `{reference}` are damaged in their store: {why}; restore the store, or go on from an older reference"
    )]
    Damaged {
        /// Reference of the files.
        reference: WorkspaceRef,
        /// Difference that was found.
        why: String,
    },
    /// The directory cannot be carried by this store.
    #[error("{} cannot be carried to other machines: {why}", dir.display())]
    Unsuitable {
        /// The directory.
        dir: PathBuf,
        /// Reason, with what to do instead.
        why: String,
    },
    /// The store cannot be used now.
    #[error("the store of workspaces at {place} cannot be used: {why}")]
    Unreachable {
        /// Place of the store, without credentials.
        place: String,
        /// Description of the failure.
        why: String,
    },
    /// A file of this machine cannot be read or written.
    #[error("cannot {doing} {}: {why}", path.display())]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Description of the failure.
        why: String,
    },
}

impl WorkspaceError {
    /// Creates the error of a file of this machine.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over an error that they do not need")]
    pub fn io(doing: &'static str, path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::Io { doing, path: path.into(), why: why.to_string() }
    }

    /// Whether the same operation may succeed later without a change of settings or files.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Io { .. } => true,
            Self::InvalidReference(_)
            | Self::OtherKind { .. }
            | Self::NotFound { .. }
            | Self::Damaged { .. }
            | Self::Unsuitable { .. } => false,
        }
    }
}
