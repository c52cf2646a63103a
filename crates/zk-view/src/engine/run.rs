use zk_core::events::UsageUpdate;

use super::Engine;
use super::core::MINUTE_MS;
use super::subagent_runs::estimated_tokens;
use crate::{Activity, AgentRow, AgentState, ContextGauge, JobRow, Patch, Status, Text};

/// Present run of the main agent.
#[derive(Debug)]
pub(super) struct Run {
    began: u64,
    activity: Activity,
    since: u64,
    /// End of the wait before a retry.
    retry_at: Option<u64>,
    tokens_read: u64,
    tokens_written: u64,
    /// Number of bytes of the arriving response.
    pub(super) arriving: u64,
    cost: Option<f64>,
    context_tokens: Option<u64>,
    /// Running calls, each with its summary.
    pub(super) calls: Vec<(zk_core::model::CallId, Text)>,
}

/// Compaction between two runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compaction {
    began: u64,
    /// Estimated tokens of the next request without the compaction.
    before: u64,
}

impl Run {
    /// Whether the person has stopped it.
    pub(super) fn is_stopping(&self) -> bool {
        self.activity == Activity::Stopping
    }
}

impl Engine {
    /// Shows a compaction requested between two runs.
    pub(super) fn begin_compaction(&mut self, before: u64) {
        self.compaction = Some(Compaction { began: self.core.now, before });
        self.show_status();
    }

    pub(super) fn end_compaction(&mut self) {
        if self.compaction.take().is_some() {
            self.show_idle();
        }
    }

    pub(super) fn begin_run(&mut self) {
        if self.run.is_some() {
            return;
        }
        self.compaction = None;
        let now = self.core.now;
        self.run = Some(Run {
            began: now,
            activity: Activity::Starting,
            since: now,
            retry_at: None,
            tokens_read: 0,
            tokens_written: 0,
            arriving: 0,
            cost: None,
            context_tokens: None,
            calls: Vec::new(),
        });
        self.change_agents(|agents| agents.retain(AgentRow::goes_on));
        self.show_status();
    }

    /// Sets the activity of the main agent.
    pub(super) fn set_activity(&mut self, activity: Activity) {
        let now = self.core.now;
        let Some(run) = &mut self.run else { return };
        if run.activity == Activity::Stopping || run.activity == activity {
            return;
        }
        // A silence or countdown that goes on is the same activity.
        let goes_on = matches!(
            (&run.activity, &activity),
            (Activity::Silent { .. } | Activity::Waiting { .. }, Activity::Silent { .. })
                | (Activity::Running { .. }, Activity::Running { .. })
        );
        if !goes_on {
            run.since = now;
        }
        run.retry_at = match &activity {
            Activity::Retrying { left_ms, .. } => Some(now + left_ms),
            Activity::Idle
            | Activity::Starting
            | Activity::Compacting { .. }
            | Activity::Waiting { .. }
            | Activity::Silent { .. }
            | Activity::Thinking
            | Activity::Answering
            | Activity::Writing { .. }
            | Activity::Running { .. }
            | Activity::Asking
            | Activity::Stopping => None,
        };
        run.activity = activity;
        self.show_status();
    }

    pub(super) fn show_stopping(&mut self) {
        self.set_activity(Activity::Stopping);
    }

    /// Updates the list of running calls.
    pub(super) fn show_running_calls(&mut self) {
        let Some(run) = &self.run else { return };
        let calls: Vec<Text> = run.calls.iter().map(|(_, summary)| summary.clone()).collect();
        if !calls.is_empty() {
            let batch = self.own.turn.counts();
            self.set_activity(Activity::Running { calls, batch });
        }
    }

    pub(super) fn set_usage(&mut self, usage: &UsageUpdate) {
        if let Some(run) = &mut self.run {
            run.tokens_read = usage.total.read();
            run.tokens_written = usage.total.output;
            run.arriving = 0;
            run.cost = usage.cost;
            run.context_tokens = Some(usage.turn.usage.context() + usage.turn.usage.output);
        }
        self.show_status();
    }

    pub(super) fn end_run(&mut self) {
        self.run = None;
        self.show_idle();
    }

    fn show_idle(&mut self) {
        let Status { context_tokens, gauge, .. } = self.core.view.status;
        self.core.set_status(Status { context_tokens, gauge, ..Status::default() });
    }

    /// Clears the fill level of the context, which is unknown now.
    pub(super) fn clear_context_fill(&mut self) {
        let status = self.core.view.status.clone();
        self.core.set_status(Status { gauge: None, context_tokens: None, ..status });
    }

    /// Sets the fill level of the context.
    pub(super) fn set_gauge(&mut self, gauge: Option<ContextGauge>) {
        let status = self.core.view.status.clone();
        self.core.set_status(Status { gauge, ..status });
    }

    pub(super) fn tick(&mut self) {
        self.show_status();
        self.show_agent_times();
    }

    /// Milliseconds until the next full second of an activity; `None` while idle.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        let until_whole = |since: u64| 1000 - self.core.now.saturating_sub(since) % 1000;
        let rest = match (&self.run, &self.compaction) {
            (Some(run), _) => match run.retry_at {
                Some(at) if at > self.core.now => (at - self.core.now) % 1000,
                Some(_) | None => until_whole(run.since),
            },
            (None, Some(compaction)) => until_whole(compaction.began),
            (None, None) => {
                let running = self.core.view.agents.iter().filter(|row| row.goes_on());
                let began = running.filter_map(|row| self.subagents.get(row.name.as_str()));
                let next = began.map(|run| until_whole(run.began)).min();
                let rest = next.into_iter().chain(self.until_compaction_age_changes()).min();
                return rest.map(|rest| rest.max(10));
            }
        };
        Some(rest.max(10))
    }

    /// Milliseconds until the age of the last compaction reads otherwise: minutes in its first hour, hours after
    /// that. `None` if no age is shown.
    fn until_compaction_age_changes(&self) -> Option<u64> {
        let age = self.core.compaction_age()?;
        let step = if age < 60 * MINUTE_MS { MINUTE_MS } else { 60 * MINUTE_MS };
        Some(step - age % step)
    }

    /// Emits the status if it changed. Times count in whole seconds.
    pub(super) fn show_status(&mut self) {
        let now = self.core.now;
        let whole = |since: u64| now.saturating_sub(since) / 1000 * 1000;
        let Some(run) = &self.run else {
            let Some(Compaction { began, before }) = self.compaction else {
                // Between runs, only the age of the last compaction changes.
                return self.core.set_status(self.core.view.status.clone());
            };
            let Status { context_tokens, gauge, .. } = self.core.view.status;
            let (activity, activity_ms) = (Activity::Compacting { before }, whole(began));
            self.core.set_status(Status {
                activity,
                activity_ms,
                context_tokens,
                gauge,
                ..Status::default()
            });
            return;
        };
        let mut activity = match &self.core.view.cards[..] {
            [] => run.activity.clone(),
            [..] => Activity::Asking,
        };
        if let (Activity::Retrying { left_ms, .. }, Some(at)) = (&mut activity, run.retry_at) {
            *left_ms = at.saturating_sub(now).div_ceil(1000) * 1000;
        }
        self.core.set_status(Status {
            activity,
            activity_ms: whole(run.since),
            run_ms: Some(whole(run.began)),
            tokens_read: run.tokens_read,
            tokens_written: run.tokens_written + estimated_tokens(run.arriving),
            cost: run.cost,
            context_tokens: run.context_tokens,
            gauge: self.core.view.status.gauge,
        });
    }

    /// Replaces the list of background commands.
    pub(super) fn set_jobs(&mut self, jobs: &[JobRow]) {
        if jobs != self.core.view.jobs {
            self.core.emit(Patch::Jobs { jobs: jobs.to_vec() });
        }
    }

    /// Counts a finished call of a sub-agent.
    pub(super) fn count_agent_call(&mut self, name: &str) {
        let name = Text::line(name);
        self.change_agents(|agents| {
            if let Some(row) = agents.iter_mut().rev().find(|row| row.name == name) {
                row.calls += 1;
            }
        });
    }

    /// Updates the working times of sub-agents, in whole seconds.
    pub(super) fn show_agent_times(&mut self) {
        let (now, runs) = (self.core.now, std::mem::take(&mut self.subagents));
        self.change_agents(|agents| {
            for row in agents.iter_mut().filter(|row| row.state == AgentState::Running) {
                if let Some(run) = runs.get(row.name.as_str()) {
                    row.elapsed_ms = now.saturating_sub(run.began) / 1000 * 1000;
                }
            }
        });
        self.subagents = runs;
    }

    pub(super) fn change_agents(&mut self, change: impl FnOnce(&mut Vec<AgentRow>)) {
        let mut agents = self.core.view.agents.clone();
        change(&mut agents);
        if agents != self.core.view.agents {
            self.core.emit(Patch::Agents { agents });
        }
    }
}
