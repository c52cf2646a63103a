use std::time::Duration;

use async_trait::async_trait;
use zk_core::model::RunId;
use zk_core::service::{EngineError, Job, LegEnd, Take};

/// Source of a worker's legs: the stored runs of an engine, as [`serve_legs`](crate::serve_legs) uses them.
#[async_trait]
pub trait LegSource: Send + Sync {
    /// Looks at the stored runs without a change.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn look(&self, take: &Take) -> Result<Looked, EngineError>;

    /// Takes up to `most` runs for legs of this worker, each under a token greater than all before.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn take_legs(&self, take: &Take, most: usize) -> Result<Vec<TakenLeg>, EngineError>;

    /// Renews the leases of running legs.
    ///
    /// # Errors
    /// When the engine cannot be used. The worker tries again before the leases end.
    async fn renew_leases(
        &self,
        legs: Vec<LegId>,
        lease: Duration,
    ) -> Result<Vec<(LegId, Renewal)>, EngineError>;

    /// Records the end of a leg. Changes nothing if another worker has the run by then.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn end_leg(&self, leg: &LegId, end: &LegEnd) -> Result<(), EngineError>;

    /// Waits until there may be something new for the worker, at most about a second.
    async fn wait(&self);
}

/// Run and token of a leg.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LegId {
    /// Id of the run.
    pub run: RunId,
    /// Token of the leg's lease.
    pub token: u64,
}

/// Result of looking for work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Whether the worker was asked to drain.
    pub is_draining: bool,
    /// Whether [`LegSource::take_legs`] would change anything.
    pub is_due: bool,
    /// Running legs of the worker whose runs are being cancelled.
    pub cancelled: Vec<LegId>,
}

/// Run that was taken for a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenLeg {
    /// Job of the run.
    pub job: Job,
    /// Token of the leg's lease.
    pub token: u64,
    /// Number of the leg in its run, from 1.
    pub attempt: u64,
}

/// Outcome of the renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease holds for its whole length again.
    Held,
    /// The lease holds, and the run is being cancelled.
    Cancelled,
    /// Another worker has the run, or it is over.
    Lost,
}
