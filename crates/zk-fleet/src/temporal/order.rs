//! Payloads of the engine: ids, names and numbers alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    EngineError, EngineName, HandoverCause, Job, LegEnd, LegFailure, RunPhase, Schedule, Wait,
};
use zk_engine::{MAX_LEG_DEATHS, Settlement, count_losses, settle_leg};

/// Type names of the workflow and the activities, as the server lists them.
pub(super) const RUN_TYPE: &str = "zk-run";
pub(super) const LEG_TYPE: &str = "zk-leg";
pub(super) const CHILDREN_TYPE: &str = "zk-children-ended";
pub(super) const TELL_TYPE: &str = "zk-tell-parent";
pub(super) const WORKER_TYPE: &str = "zk-worker";
pub(super) const SESSION_TYPE: &str = "zk-session";
pub(super) const CLOCK_TYPE: &str = "zk-clock";

/// Names of the signals to a run's workflow.
pub(super) const WAKE_SIGNAL: &str = "wake";
pub(super) const CHILD_SIGNAL: &str = "child-ended";

/// Keys of the memo of a run's workflow.
pub(super) const JOB_MEMO: &str = "job";
pub(super) const PROGRESS_MEMO: &str = "progress";

/// Prefix of the ids and task queues in the namespace, which other programs may share.
const PREFIX: &str = "zk:";

/// Suffix of the task queue for short activities, which need no place among the legs of a worker.
const NOTES_SUFFIX: &str = ":notes";

pub(super) fn workflow_id(run: &RunId) -> String {
    format!("{PREFIX}{run}")
}

pub(super) fn run_of_workflow(id: &str) -> Option<RunId> {
    id.strip_prefix(PREFIX).map(RunId::from)
}

pub(super) fn task_queue(queue: &str) -> String {
    format!("{PREFIX}{queue}")
}

pub(super) fn notes_queue(task_queue: &str) -> String {
    format!("{task_queue}{NOTES_SUFFIX}")
}

/// Returns the queue of a run's task queue.
pub(super) fn queue_of(task_queue: &str) -> Option<EngineName> {
    EngineName::new(task_queue.strip_prefix(PREFIX)?).ok()
}

pub(super) fn worker_id(worker: &EngineName) -> String {
    format!("{PREFIX}worker:{worker}")
}

pub(super) fn worker_of_id(id: &str) -> Option<EngineName> {
    EngineName::new(id.strip_prefix(PREFIX)?.strip_prefix("worker:")?).ok()
}

pub(super) fn session_id(session: &SessionId) -> String {
    format!("{PREFIX}session:{session}")
}

/// Returns the task queue of holds, which nobody polls.
pub(super) fn session_queue() -> String {
    format!("{PREFIX}session:")
}

pub(super) fn schedule_id(name: &EngineName) -> String {
    format!("{PREFIX}{name}")
}

pub(super) fn name_of_schedule(id: &str) -> Option<String> {
    id.strip_prefix(PREFIX).map(str::to_owned)
}

/// Returns the beginning of the ids of schedules that exist for a moment. No name of a schedule begins with it.
pub(super) fn schedule_probe() -> String {
    format!("{PREFIX}/probe")
}

/// Work of a run's workflow: a submitted job, or a schedule whose runs are named by the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    Job(Job),
    Schedule(Schedule),
}

impl Work {
    /// Returns the job of the run with this workflow id.
    pub(super) fn job(&self, workflow_id: &str) -> Result<Job, EngineError> {
        match self {
            Self::Job(job) => Ok(job.clone()),
            Self::Schedule(plan) => scheduled_job(plan, workflow_id),
        }
    }
}

/// Returns the workflow id that the server completes with the time of each run.
pub(super) fn scheduled_id(plan: &Schedule) -> String {
    workflow_id(&format!("r_{}:", plan.name).as_str().into())
}

/// Creates the job of a scheduled run from its workflow id, which ends with the time of the run.
pub(super) fn scheduled_job(plan: &Schedule, workflow_id: &str) -> Result<Job, EngineError> {
    // The key of an id of another form is no name, and is refused.
    plan.job_named(workflow_id.strip_prefix(&scheduled_id(plan)).unwrap_or("/"))
}

/// Returns the scheduled run whose session this would be.
pub(super) fn scheduled_run_of(session: &SessionId) -> Option<RunId> {
    let (name, key) = session.as_str().strip_prefix("s_")?.rsplit_once('_')?;
    Some(RunId::from(format!("r_{name}:{key}")))
}

/// Input of a run's workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(unreachable_pub, reason = "the macro of workflows needs a public input")]
pub struct Order {
    pub(super) work: Work,
    /// Time within which the worker of a leg must report to the server.
    pub(super) lease_ms: u64,
    /// Number of legs after which the workflow continues as a new execution, with an empty history.
    pub(super) legs_per_execution: u64,
    #[serde(default)]
    pub(super) progress: Progress,
}

/// Lease and length of the executions of new runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTerms {
    pub(super) lease: Duration,
    pub(super) legs_per_execution: u64,
}

impl RunTerms {
    /// Creates the input of the workflow of a run that has no leg yet.
    pub(super) fn order(self, work: Work) -> Order {
        Order {
            work,
            lease_ms: u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX),
            legs_per_execution: self.legs_per_execution,
            progress: Progress::default(),
        }
    }
}

/// State of a run: in its memo for lists, and in the input of its next execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) token: u64,
    pub(super) legs: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) deaths: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) worker: Option<EngineName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wait: Option<Wait>,
    /// Last phase of a run that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<RunPhase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<LegFailure>,
    /// Begin of the first execution, in those after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since_ms: Option<u64>,
    pub(super) changed_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Input of the activity of a leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LegOrder {
    pub(super) job: Job,
    pub(super) token: u64,
    /// Number of the leg in its run, from 1.
    pub(super) attempt: u64,
}

/// Result of the activity of a leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LegReport {
    pub(super) worker: EngineName,
    pub(super) end: ReportedEnd,
}

/// End of a leg whose store failed.
const LOST_STORE: LegEnd = LegEnd::Handover(HandoverCause::StoreFailed);

/// Effect of a leg's end on its run, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "then", rename_all = "snake_case")]
pub(super) enum ReportedEnd {
    End {
        phase: RunPhase,
        failure: Option<LegFailure>,
    },
    Queue,
    Pause {
        millis: u64,
    },
    /// The leg lost its store.
    Retry,
    Park {
        wait: Wait,
    },
}

impl From<&LegEnd> for ReportedEnd {
    fn from(end: &LegEnd) -> Self {
        // The workflow knows the legs before this one.
        if *end == LOST_STORE { Self::Retry } else { settle_leg(end, 0).into() }
    }
}

impl From<Settlement> for ReportedEnd {
    fn from(settlement: Settlement) -> Self {
        match settlement {
            Settlement::End(phase, failure) => Self::End { phase, failure },
            Settlement::Queue => Self::Queue,
            Settlement::Pause(pause) => {
                Self::Pause { millis: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX) }
            }
            Settlement::Park(wait) => Self::Park { wait },
        }
    }
}

/// Step of a run after a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Leg,
    Wait(Wait),
    Over,
}

impl Progress {
    /// Begins a leg. Its token is the server's time, or the next number: tokens of a session grow over all its runs,
    /// and exceed those of an engine on the submitter's machine, which counts the same way.
    pub(super) fn begin_leg(&mut self, now: SystemTime) -> u64 {
        self.changed_ms = date_ms(now);
        self.token = self.changed_ms.max(self.token + 1);
        self.legs += 1;
        self.wait = None;
        self.token
    }

    /// Ends a leg, and returns the next step. Without a report, the worker died.
    pub(super) fn end_leg(
        &mut self,
        report: Option<LegReport>,
        is_cancelled: bool,
        is_woken: bool,
        now: SystemTime,
    ) -> Step {
        self.changed_ms = date_ms(now);
        let Some(LegReport { worker, end }) = report else {
            self.deaths += 1;
            return if is_cancelled {
                self.end_run(RunPhase::Cancelled, None)
            } else if self.deaths >= MAX_LEG_DEATHS {
                self.end_run(RunPhase::Failed, Some(LegFailure::Deaths(self.deaths)))
            } else {
                Step::Leg
            };
        };
        self.worker = Some(worker);
        let end = match end {
            ReportedEnd::Retry => {
                self.deaths = count_losses(&LOST_STORE, self.deaths);
                settle_leg(&LOST_STORE, self.deaths).into()
            }
            // A leg that could not begin for now leaves the number of lost legs.
            ReportedEnd::Park { wait: Wait::Until(_) } => end,
            end => {
                self.deaths = 0;
                end
            }
        };
        match end {
            // A wake of a run that was about to end is for one more leg.
            ReportedEnd::End { phase: RunPhase::Done, .. } if is_woken && !is_cancelled => Step::Leg,
            ReportedEnd::End { phase, failure } => self.end_run(phase, failure),
            ReportedEnd::Queue
            | ReportedEnd::Pause { .. }
            | ReportedEnd::Retry
            | ReportedEnd::Park { .. }
                if is_cancelled =>
            {
                self.end_run(RunPhase::Cancelled, None)
            }
            ReportedEnd::Queue | ReportedEnd::Retry => Step::Leg,
            ReportedEnd::Pause { millis } => self.park(Wait::Until(now + Duration::from_millis(millis))),
            ReportedEnd::Park { .. } if is_woken => Step::Leg,
            ReportedEnd::Park { wait } => self.park(wait),
        }
    }

    fn park(&mut self, wait: Wait) -> Step {
        self.wait = Some(wait.clone());
        Step::Wait(wait)
    }

    /// Ends the run.
    pub(super) fn end_run(&mut self, phase: RunPhase, failure: Option<LegFailure>) -> Step {
        self.phase = Some(phase);
        self.failure = failure;
        self.wait = None;
        Step::Over
    }
}

pub(super) fn date_ms(date: SystemTime) -> u64 {
    let millis = date.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(millis).unwrap_or(u64::MAX)
}

pub(super) fn date_of(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use zk_core::service::{RunStatus, ScheduleTimes, ScheduledJob};

    use super::*;

    fn report(end: &LegEnd) -> Option<LegReport> {
        Some(LegReport { worker: EngineName::new("w").unwrap(), end: ReportedEnd::from(end) })
    }

    #[test]
    fn tokens_grow_though_the_clock_does_not() {
        let (mut progress, noon) = (Progress::default(), date_of(1_800_000_000_000));
        let first = progress.begin_leg(noon);
        let second = progress.begin_leg(noon - Duration::from_secs(3600));
        assert_eq!((first, second, progress.legs), (1_800_000_000_000, 1_800_000_000_001, 2));
        assert!(progress.begin_leg(noon + Duration::from_secs(1)) > second);
    }

    #[test]
    fn the_end_of_a_leg_leads_to_the_next_step() {
        let (park, pause) = (LegEnd::Parked(Wait::Mail), LegEnd::Handover(HandoverCause::Fenced));
        let until = Wait::Until(date_of(10_000));
        let failed = LegEnd::Failed(LegFailure::NoSession);
        // End of the leg, whether the run is cancelled, whether it was woken, next step, last phase.
        let table = [
            (report(&LegEnd::Done(RunStatus::Completed)), true, false, Step::Over, Some(RunPhase::Done)),
            (report(&LegEnd::Done(RunStatus::Completed)), false, true, Step::Leg, None),
            (report(&failed), false, true, Step::Over, Some(RunPhase::Failed)),
            (report(&LegEnd::Handover(HandoverCause::Draining)), false, false, Step::Leg, None),
            (report(&pause), false, true, Step::Wait(until), None),
            (report(&park), false, false, Step::Wait(Wait::Mail), None),
            (report(&park), false, true, Step::Leg, None),
            (report(&park), true, true, Step::Over, Some(RunPhase::Cancelled)),
            (None, false, false, Step::Leg, None),
            (None, true, false, Step::Over, Some(RunPhase::Cancelled)),
        ];
        for (end, is_cancelled, is_woken, step, phase) in table {
            let mut progress = Progress::default();
            let found = progress.end_leg(end.clone(), is_cancelled, is_woken, UNIX_EPOCH);
            assert_eq!((found, progress.phase), (step, phase), "{end:?}");
        }
    }

    #[test]
    fn deaths_in_a_row_fail_a_run() {
        let mut progress = Progress::default();
        for _ in 1..MAX_LEG_DEATHS {
            assert_eq!(progress.end_leg(None, false, false, UNIX_EPOCH), Step::Leg);
        }
        let mut healed = progress.clone();
        healed.end_leg(report(&LegEnd::Handover(HandoverCause::Draining)), false, false, UNIX_EPOCH);
        assert_eq!(healed.end_leg(None, false, false, UNIX_EPOCH), Step::Leg);
        let mut without_store = progress.clone();
        assert_eq!(without_store.end_leg(report(&LOST_STORE), false, false, UNIX_EPOCH), Step::Over);
        assert_eq!(without_store.failure, Some(LegFailure::Store(MAX_LEG_DEATHS)));
        assert_eq!(progress.end_leg(None, false, false, UNIX_EPOCH), Step::Over);
        assert_eq!(progress.failure, Some(LegFailure::Deaths(MAX_LEG_DEATHS)));
    }

    #[test]
    fn a_scheduled_run_has_ids_of_its_time() {
        let job = ScheduledJob { template: "s_t".into(), preset: None, workspace: None, queue: None };
        let plan =
            Schedule { name: EngineName::new("night_ly").unwrap(), times: ScheduleTimes::DailyAt(210), job };
        let id = format!("{}-2026-11-28T03:30:00Z", scheduled_id(&plan));
        let work = Work::Schedule(plan);
        let job = work.job(&id).unwrap();
        assert_eq!(job.run().as_str(), "r_night_ly:-2026-11-28T03:30:00Z");
        assert_eq!(job.session().as_str(), "s_night_ly_-2026-11-28T03:30:00Z");
        assert_eq!(workflow_id(job.run()), id);
        assert_eq!(scheduled_run_of(job.session()).as_ref(), Some(job.run()));
        assert!(work.job("zk:r_other:-2026-11-28T03:30:00Z").is_err());
    }
}
