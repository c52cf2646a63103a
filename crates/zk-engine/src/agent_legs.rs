use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_agent::{Agent, RunOptions};
use zk_core::model::AgentError;
use zk_core::service::{HandoverCause, Job, Lease, LegEnd, LegFailure, Legs, RunStatus, Wait};

/// Time that the running calls of a drained leg get to end.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// Executor of legs for agents: opens the agent of a job, and drives its run until it is done, parked, or
/// goes to another worker.
pub struct AgentLegs {
    opener: Arc<dyn LegOpener>,
    drain_grace: Duration,
}

impl fmt::Debug for AgentLegs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLegs").field("drain_grace", &self.drain_grace).finish_non_exhaustive()
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
        Self { opener, drain_grace: DRAIN_GRACE }
    }

    /// Sets the time that the running calls of a drained leg get to end; half a second by default.
    #[must_use]
    pub fn with_drain_grace(self, drain_grace: Duration) -> Self {
        Self { drain_grace, ..self }
    }

    async fn drive_run(&self, agent: &Agent, job: &Job, lease: &Lease) -> Result<(), AgentError> {
        let run = agent.run(RunOptions::resume().drive_leg(job.run().clone()))?;
        let handle = run.handle();
        let mut wait = std::pin::pin!(run.wait());
        tokio::select! {
            outcome = &mut wait => return outcome.result,
            () = lease.lost().cancelled() => handle.lose_session(),
            () = lease.cancelled().cancelled() => handle.abort_because("the run was cancelled"),
            () = lease.draining().cancelled() => {
                handle.hand_over();
                tokio::select! {
                    outcome = &mut wait => return outcome.result,
                    () = tokio::time::sleep(self.drain_grace) => handle.hand_over_now(),
                    () = lease.lost().cancelled() => handle.lose_session(),
                    () = lease.cancelled().cancelled() => handle.abort_because("the run was cancelled"),
                }
            }
        }
        // A run that is ending can still lose its lease.
        tokio::select! {
            outcome = &mut wait => return outcome.result,
            () = lease.lost().cancelled() => handle.lose_session(),
        }
        wait.await.result
    }
}

#[async_trait]
impl Legs for AgentLegs {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let opened = match self.opener.open(job, &lease).await {
            Ok(opened) => opened,
            Err(end) => return end,
        };
        let ended = self.drive_run(opened.agent(), job, &lease).await;
        opened.report(job, &ended);
        opened.close().await;
        leg_end_of(&ended, &lease)
    }
}

fn leg_end_of(ended: &Result<(), AgentError>, lease: &Lease) -> LegEnd {
    match ended {
        Ok(()) => LegEnd::Done(RunStatus::Completed),
        Err(AgentError::HandedOver) => LegEnd::Handover(HandoverCause::Draining),
        Err(AgentError::Fenced) => LegEnd::Handover(HandoverCause::Fenced),
        Err(AgentError::Aborted) if lease.lost().is_cancelled() => LegEnd::Handover(HandoverCause::Fenced),
        Err(AgentError::Aborted) => LegEnd::Done(RunStatus::Aborted),
        Err(AgentError::Parked { question: Some(question), .. }) => {
            LegEnd::Parked(Wait::Answer(question.clone()))
        }
        Err(_) => LegEnd::Failed(LegFailure::Agent),
    }
}
