//! Unattended run towards a goal: its start, further runs after failures, and its exit code.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, RunOptions, RunOutcome};
use zk_core::events::GoalState;
use zk_core::model::{AgentError, Message};
use zk_goals::{Goal, GoalSpec, GoalSpecError, Goals};

use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::settings::Settings;

impl Explain for GoalSpecError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

/// Goal of an unattended run.
pub(super) struct GoalRun(Arc<Goals>);

impl GoalRun {
    /// Sets the goal of the command line, or finds that of the session that is resumed. `None` if the run has no
    /// autonomous goal.
    pub(super) async fn begin(
        agent: &Agent,
        settings: &Settings,
        text: Option<&str>,
        is_resumed_alone: bool,
    ) -> Outcome<Option<Self>> {
        let bus = agent.bus();
        let Some(goals) = bus.service::<Goals>() else { return Ok(None) };
        let cx = bus.cx();
        if let Some(text) = text {
            let spec = GoalSpec::new(text)?;
            if !settings.goals.autonomous {
                return Err(Failure::usage(
                    "--goal is refused: the settings of an administrator have `autonomous = false` under [goals]",
                ));
            }
            let (turns, budget) = (settings.run.max_turns, settings.run.max_budget_usd);
            let spec = spec.autonomous(turns, budget);
            goals.begin(spec, &cx).await.map_err(|error| {
                Failure::usage(format!("--goal: {error}; `zk -p --resume ID` without --goal goes on with it"))
            })?;
        } else if is_resumed_alone {
            goals.load(&cx).await.map_err(Failure::failed)?;
            goals.reactivate(&cx).await.map_err(Failure::failed)?;
        }
        let is_driven = goals.goal().is_some_and(|goal| goal.is_driven());
        Ok((is_driven || text.is_some()).then_some(Self(goals)))
    }

    /// Options of a run without a prompt: the model goes on with the goal.
    pub(super) fn resumed(&self, agent: &Agent) -> Outcome<RunOptions> {
        if let Some(message) = self.0.next_message() {
            inject(agent, message)?;
        }
        Ok(RunOptions::resume())
    }

    /// Waits, and returns the options of the run after a failed one; `None` if no run follows.
    pub(super) async fn next(
        &self,
        outcome: &RunOutcome,
        agent: &Agent,
        stop: &CancellationToken,
    ) -> Outcome<Option<RunOptions>> {
        // A later run would end with the same error; the goal waits in the session.
        let is_final = |error: &AgentError| matches!(Exit::of(error), Exit::Usage | Exit::Auth);
        if outcome.result.as_ref().is_err_and(is_final) {
            return Ok(None);
        }
        let Some(retry) = self.0.take_retry() else { return Ok(None) };
        if stop.run_until_cancelled(tokio::time::sleep(retry.pause)).await.is_none() {
            // The stop leaves the goal as it is for the next process.
            let _ = self.0.pause("the run was stopped", &agent.bus().cx()).await;
            return Ok(None);
        }
        inject(agent, retry.message)?;
        Ok(Some(RunOptions::resume()))
    }

    /// Exit code and message for the state of the goal; `None` if the run's own outcome counts.
    pub(super) fn ending(&self) -> Option<(Exit, Option<String>)> {
        let goal = self.0.goal()?;
        let told = |goal: &Goal| {
            let reason = goal.reason.clone().unwrap_or_default();
            Some(format!("the goal is not reached: {}: {reason}", goal.state))
        };
        match goal.state {
            GoalState::Completed => Some((Exit::Done, None)),
            GoalState::Stuck => Some((Exit::Failed, told(&goal))),
            GoalState::Capped => Some((Exit::Limit, told(&goal))),
            // The outcome of the run tells more than the state of the goal.
            GoalState::Active | GoalState::Paused | GoalState::Cleared => None,
        }
    }
}

fn inject(agent: &Agent, message: String) -> Outcome<()> {
    agent.inject(Message::injected(message, "goals")).map_err(Failure::failed)
}

/// Adds what an earlier run of the goal did to the outcome of a later one.
pub(super) fn join(earlier: RunOutcome, later: RunOutcome) -> RunOutcome {
    let mut stats = earlier.stats;
    stats.add_run(later.stats);
    RunOutcome { stats, ..later }
}
