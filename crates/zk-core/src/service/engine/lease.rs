use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::EngineName;

/// Exclusive right of one worker to execute a run, for the time of one leg.
///
/// ```
/// use zk_core::service::Lease;
///
/// let lease = Lease::new(7);
/// assert!(lease.token() == 7 && !lease.lost().is_cancelled());
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    token: u64,
    attempt: u64,
    lost: CancellationToken,
    cancelled: CancellationToken,
    draining: CancellationToken,
}

impl Lease {
    /// Creates the lease of a leg. Tokens only grow over all legs of a session, whichever run they are of.
    #[must_use]
    pub fn new(token: u64) -> Self {
        Self {
            token,
            attempt: 1,
            lost: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            draining: CancellationToken::new(),
        }
    }

    /// Sets the token that is cancelled when the worker drains.
    #[must_use]
    pub fn with_draining(self, draining: CancellationToken) -> Self {
        Self { draining, ..self }
    }

    /// Sets the number of the leg in its run, from 1.
    #[must_use]
    pub fn with_attempt(self, attempt: u64) -> Self {
        Self { attempt, ..self }
    }

    /// Returns the number of the leg in its run, 1 unless the engine counts them.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Returns the fencing token: a store refuses the writes of a leg with a smaller one.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the token that is cancelled once the lease could not be renewed: another worker may have the run.
    #[must_use]
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Returns the token that is cancelled when the run is cancelled.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Returns the token that is cancelled when the worker drains: the leg ends with
    /// [`LegEnd::Handover`](super::LegEnd::Handover).
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }
}

/// Options of a worker: its name, and the runs that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// Name of the worker, unique among those that serve.
    pub worker: EngineName,
    /// Queues to take runs from; empty for all.
    pub queues: Vec<EngineName>,
    /// Maximum number of concurrent legs.
    pub max_legs: usize,
    /// Time for which a lease holds without renewal.
    pub lease: Duration,
    /// Whether to return once no run is ready and no leg runs.
    pub once: bool,
}

impl Take {
    /// Queue of jobs without a queue name.
    pub const DEFAULT_QUEUE: &'static str = "default";

    /// Time for which a lease holds without renewal, unless set.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(10);

    /// Creates the options of a worker for all queues, with up to 16 legs at a time.
    #[must_use]
    pub fn new(worker: EngineName) -> Self {
        Self { worker, queues: Vec::new(), max_legs: 16, lease: Self::DEFAULT_LEASE, once: false }
    }
}
