use std::path::PathBuf;

use zk_core::service::IsolationError;

/// Failure to copy a repository, or to take or apply the changes of a copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorktreeError {
    /// The directory is in no repository.
    #[error(
        "{} is in no git repository with a work tree ({why}); delegate without `isolation`, or run `git init` and commit first",
        dir.display()
    )]
    NoRepository {
        /// Directory that was to be copied.
        dir: PathBuf,
        /// Description of git.
        why: String,
    },
    /// The repository has something that a copy cannot have.
    #[error("{} has {what}, which a copy of it cannot have; delegate without `isolation`", root.display())]
    Unsupported {
        /// Root of the repository.
        root: PathBuf,
        /// Description of that part.
        what: String,
    },
    /// The work tree of the repository lies outside of what the agent may reach.
    #[error(
        "git names {} as the work tree, which {} may not reach; unset `core.worktree`, start zk there, or delegate without `isolation`",
        root.display(), dir.display()
    )]
    Elsewhere {
        /// Root of the work tree, as git reports it.
        root: PathBuf,
        /// Directory of the agent.
        dir: PathBuf,
    },
    /// A copy would be larger than zk makes it.
    #[error("{what} of {} exceed {most}, the limit of a copy; delegate without `isolation`", path.display())]
    TooLarge {
        /// Part that is too large.
        what: &'static str,
        /// Root of the repository.
        path: PathBuf,
        /// Limit, with its unit.
        most: String,
    },
    /// Failure of a git command.
    #[error("`git {doing}` failed: {why}")]
    Git {
        /// Command of git.
        doing: String,
        /// Description of the failure.
        why: String,
    },
    /// A file cannot be read or written.
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

impl WorktreeError {
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over an error that they do not need")]
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::Io { doing, path: path.into(), why: why.to_string() }
    }
}

impl From<WorktreeError> for IsolationError {
    fn from(error: WorktreeError) -> Self {
        Self::new(error.to_string())
    }
}
