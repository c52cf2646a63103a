use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use zk_agent::{Agent, RunOptions};
use zk_core::model::AgentError;
use zk_core::service::{ChildRuns, HandoverCause, Job, Lease, LegEnd, LegFailure, Legs, RunStatus, Wait};

use crate::leg_session::error::STORE_PAUSE;
use crate::relay::LegRelay;
use crate::runs::{LegChildren, Runs, tell_parent};
use crate::workspaces::WorkspaceName;

/// Time that the running calls of a drained leg get to end.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// Longest time for which an aborted leg waits until its engine has cancelled the run and its children.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// Reason of a run that ends because it was cancelled.
const CANCELLED: &str = "the run was cancelled";

/// Executor of legs for agents: opens the agent of a job, and drives its run until it is done, parked, or
/// goes to another worker.
pub struct AgentLegs {
    opener: Arc<dyn LegOpener>,
    runs: Option<Runs>,
}

impl fmt::Debug for AgentLegs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLegs").finish_non_exhaustive()
    }
}

/// Opener of the agent for a leg: resolves the names in the job, and opens its session under the lease.
#[async_trait]
pub trait LegOpener: Send + Sync {
    /// Opens the agent of a job, and its session with `SessionStore::open_leased`.
    ///
    /// # Errors
    /// [`LegEnd`], with which the leg ends instead.
    async fn open(&self, job: &Job, lease: &Lease) -> Result<Box<dyn LegAgent>, LegEnd>;
}

/// Agent of one leg, until it is closed.
#[async_trait]
pub trait LegAgent: Send + Sync {
    /// Returns the agent.
    fn agent(&self) -> &Agent;

    /// Reports the end of the run to the worker's log.
    fn report(&self, _job: &Job, _ended: &Result<(), AgentError>) {}

    /// Closes the agent and its session.
    async fn close(self: Box<Self>);
}

impl AgentLegs {
    /// Creates an executor for agents that `opener` opens.
    #[must_use]
    pub fn new(opener: Arc<dyn LegOpener>) -> Self {
        Self { opener, runs: None }
    }

    /// Lets the runs of legs start runs of their own, in these.
    #[must_use]
    pub fn with_runs(self, runs: Runs) -> Self {
        Self { runs: Some(runs), ..self }
    }
}

/// Drives a run to the end of its leg, and tells it what becomes of the lease.
async fn drive_run(
    agent: &Agent,
    job: &Job,
    lease: &Lease,
    relay: Option<&LegRelay>,
) -> Result<(), AgentError> {
    let run = agent.run(RunOptions::resume().drive_leg(job.run().clone()))?;
    let handle = run.handle();
    let lost = async {
        lease.lost().cancelled().await;
        handle.lose_session();
    };
    let drained = async {
        lease.draining().cancelled().await;
        handle.hand_over();
        tokio::time::sleep(DRAIN_GRACE).await;
        handle.hand_over_now();
    };
    let aborted = async {
        match relay {
            Some(relay) => relay.aborted().await,
            None => std::future::pending().await,
        }
    };
    let stopped = async {
        tokio::select! {
            () = drained => {}
            () = lease.cancelled().cancelled() => handle.abort_because(CANCELLED),
            () = aborted => handle.abort_because(CANCELLED),
        }
    };
    // A run that is told to end may lose its lease, too.
    let told = async {
        tokio::join!(lost, stopped);
        std::future::pending().await
    };
    tokio::select! {
        outcome = run.wait() => outcome.result,
        never = told => never,
    }
}

#[async_trait]
impl Legs for AgentLegs {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let end = match self.opener.open(job, &lease).await {
            Ok(opened) => {
                // A run that carries its files has no children: each would have files of its own, and give none back.
                let runs = self.runs.as_ref().filter(|_| WorkspaceName::of(job) != WorkspaceName::Kept);
                if let Some(runs) = runs {
                    let children = LegChildren::new(runs.clone(), job.clone());
                    opened.agent().bus().scope("runs").provide_service::<dyn ChildRuns>(Arc::new(children));
                }
                let relay = self.runs.as_ref();
                let relay = relay.and_then(|runs| LegRelay::start(runs, job, opened.agent().bus()));
                let ended = drive_run(opened.agent(), job, &lease, relay.as_ref()).await;
                if let Some(relay) = relay {
                    if let Some(runs) = self.runs.as_ref().filter(|_| relay.is_aborted()) {
                        // The sender of the abort may not have reached the engine, which cancels child runs.
                        let cancelled = runs.engine().cancel(job.run());
                        let _ = tokio::time::timeout(CANCEL_LIMIT, cancelled).await;
                    }
                    relay.close().await;
                }
                opened.report(job, &ended);
                opened.close().await;
                leg_end_of(&ended)
            }
            Err(end) => end,
        };
        if let Some(runs) = &self.runs {
            tell_parent(runs, job, &end).await;
        }
        end
    }
}

/// Returns the end of a leg whose run ended so.
pub(crate) fn leg_end_of(ended: &Result<(), AgentError>) -> LegEnd {
    match ended {
        Ok(()) => LegEnd::Done(RunStatus::Completed),
        Err(AgentError::HandedOver) => LegEnd::Handover(HandoverCause::Draining),
        Err(AgentError::Fenced) => LegEnd::Handover(HandoverCause::Fenced),
        Err(AgentError::StoreFailed { .. }) => LegEnd::Handover(HandoverCause::StoreFailed),
        // The engine or the store could not be asked about the children.
        Err(AgentError::AwaitsChildren { children }) if children.is_empty() => {
            LegEnd::Parked(Wait::Until(SystemTime::now() + STORE_PAUSE))
        }
        Err(AgentError::AwaitsChildren { children }) => LegEnd::Parked(Wait::Children(children.clone())),
        Err(AgentError::Budget { .. }) => LegEnd::Parked(Wait::Budget),
        Err(AgentError::AwaitsTime { until, .. }) => LegEnd::Parked(Wait::Until(*until)),
        Err(AgentError::Aborted) => LegEnd::Done(RunStatus::Aborted),
        Err(AgentError::Parked { question: Some(question), .. }) => {
            LegEnd::Parked(Wait::Answer(question.clone()))
        }
        Err(_) => LegEnd::Failed(LegFailure::Agent),
    }
}
