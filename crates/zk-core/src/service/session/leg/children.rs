use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::{Budget, CallId, Message, RunId, Spent, TurnId};

/// Starter of runs on behalf of a run: `cx.service::<dyn ChildRuns>()`, only in a leg whose worker can submit runs.
///
/// A child has its own session, and outlives the leg that starts it. Its result comes as mail for the call that started
/// it ([`MailKind::Result`](super::MailKind::Result)), once.
#[async_trait]
pub trait ChildRuns: Send + Sync {
    /// Returns the id of the run that a call starts: equal calls give equal ids, so that a leg that makes the call again
    /// starts no second run.
    fn run_of(&self, turn: &TurnId, call: &CallId) -> RunId;

    /// Submits the run of a call, unless it exists.
    ///
    /// # Errors
    /// [`ChildRunsError`]; nothing runs then.
    async fn start(&self, child: ChildRun) -> Result<RunId, ChildRunsError>;

    /// Posts the results of children that have ended, once each, and returns the state of all children.
    ///
    /// # Errors
    /// [`ChildRunsError`] when the engine or the store cannot be used.
    async fn collect(&self) -> Result<Vec<ChildState>, ChildRunsError>;
}

/// Run to start with [`ChildRuns::start`].
#[derive(Clone, Debug)]
pub struct ChildRun {
    /// Turn of the call.
    pub turn: TurnId,
    /// Call that the result answers.
    pub call: CallId,
    /// Prompt of the run.
    pub task: String,
    /// Messages that its conversation begins with, before the prompt.
    pub begins_with: Vec<Arc<Message>>,
    /// Directory of its session.
    pub cwd: PathBuf,
    /// Maximum number of runs below the first one, in a line.
    pub max_depth: u32,
    /// Maximum number of runs that the parent may have started, this one included.
    pub max_children: u32,
    /// Budget of the run, reserved from that of its parent; without a limit if that has none.
    pub allotment: Budget,
}

/// State of a child run.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildState {
    /// Id of the child.
    pub run: RunId,
    /// Amount that it has spent, if it has ended.
    pub ended: Option<Spent>,
}

/// Error of [`ChildRuns`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChildRunsError {
    /// The run is as deep below the first one as runs may be.
    #[error("runs may be {most} deep at most; do this task yourself")]
    TooDeep {
        /// Maximum depth.
        most: u32,
    },
    /// The run has as many children as it may have.
    #[error("a run may have {most} child runs at most; do this task yourself")]
    TooMany {
        /// Maximum number of children.
        most: usize,
    },
    /// The engine or the store failed.
    #[error("{0}")]
    Failed(String),
}
