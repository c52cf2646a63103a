//! Schedules of runs, which the server keeps.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::protos::temporal::api::common::v1::Memo;
use temporalio_common::protos::temporal::api::enums::v1::ScheduleOverlapPolicy;
use temporalio_common::protos::temporal::api::schedule::v1::{
    IntervalSpec, Range, Schedule as StoredSchedule, ScheduleAction, SchedulePolicies, ScheduleSpec,
    ScheduleState, StructuredCalendarSpec, schedule_action::Action,
};
use temporalio_common::protos::temporal::api::workflow::v1::NewWorkflowExecutionInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    CreateScheduleRequest, DeleteScheduleRequest, DescribeScheduleRequest, DescribeScheduleResponse,
    ListSchedulesRequest, UpdateScheduleRequest,
};
use zk_core::service::{
    CronLine, EngineError, EngineName, MIN_SCHEDULE_INTERVAL, Schedule, ScheduleTimes, Take,
};

use super::changes::STEP_LIMIT;
use super::order::{
    JOB_MEMO, Order, RUN_TYPE, RunTerms, Work, name_of_schedule, schedule_id, schedule_probe, scheduled_id,
    scheduled_job, task_queue,
};
use super::server::{
    Server, fresh_id, from_payloads, from_wire, is_missing, named_queue, to_payload, to_payloads,
    workflow_type,
};

/// Time of a run as the server appends it to the id; all are of this length.
const TIME_SUFFIX: &str = "-2026-01-01T00:00:00Z";

/// Shortest time for which the server makes up for times at which it was down.
const MIN_CATCH_UP: Duration = Duration::from_secs(10);

/// Time for which the server makes up for times of a cron line, and of a daily time.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Number of fields of a cron line before its time zone.
const CRON_FIELDS: usize = 5;

/// Number of schedules on a page of the server's list.
const PAGE_SCHEDULES: i32 = 100;

/// Adds or replaces a schedule.
pub(super) async fn put(server: &Server, terms: RunTerms, plan: &Schedule) -> Result<(), EngineError> {
    let schedule = stored(terms, plan)?;
    if let ScheduleTimes::Cron(line) = &plan.times {
        check_cron(server, &schedule, line).await?;
    }
    let request = CreateScheduleRequest {
        namespace: server.namespace(),
        schedule_id: schedule_id(&plan.name),
        schedule: Some(schedule.clone()),
        identity: server.identity(),
        request_id: fresh_id(),
        ..CreateScheduleRequest::default()
    };
    match server.calls().create_schedule(request.into_request()).await {
        Ok(_) => return Ok(()),
        Err(status) if status.code() == Code::AlreadyExists => {}
        Err(status) => return Err(server.error("store the schedule", &status)),
    }
    let request = UpdateScheduleRequest {
        namespace: server.namespace(),
        schedule_id: schedule_id(&plan.name),
        schedule: Some(schedule),
        identity: server.identity(),
        request_id: fresh_id(),
        ..UpdateScheduleRequest::default()
    };
    let updated = server.calls().update_schedule(request.into_request()).await;
    updated.map(drop).map_err(|status| server.error("store the schedule", &status))
}

fn stored(terms: RunTerms, plan: &Schedule) -> Result<StoredSchedule, EngineError> {
    // A schedule whose name leaves no room for ids is refused here, not when a run is due.
    let id = scheduled_id(plan);
    scheduled_job(plan, &format!("{id}{TIME_SUFFIX}"))?;
    let work = Work::Schedule(plan.clone());
    let order = terms.order(work.clone());
    let queue = plan.job.queue.as_ref().map_or(Take::DEFAULT_QUEUE, EngineName::as_str);
    let run = NewWorkflowExecutionInfo {
        workflow_id: id,
        workflow_type: workflow_type(RUN_TYPE),
        task_queue: named_queue(&task_queue(queue)),
        input: to_payloads(&order)?,
        workflow_task_timeout: STEP_LIMIT.try_into().ok(),
        memo: Some(Memo { fields: HashMap::from([(JOB_MEMO.to_owned(), to_payload(&work)?)]) }),
        ..NewWorkflowExecutionInfo::default()
    };
    let (spec, catch_up) = spec_of(&plan.times);
    Ok(StoredSchedule {
        spec: Some(spec),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(run)) }),
        policies: Some(SchedulePolicies {
            // One run makes up for all times that passed while no worker was there for it.
            overlap_policy: ScheduleOverlapPolicy::Skip.into(),
            catchup_window: catch_up.max(MIN_CATCH_UP).try_into().ok(),
            ..SchedulePolicies::default()
        }),
        ..StoredSchedule::default()
    })
}

/// Returns the times as the server describes them, and the time for which it makes up for those that passed while it was
/// down.
fn spec_of(times: &ScheduleTimes) -> (ScheduleSpec, Duration) {
    match times {
        ScheduleTimes::Every(pause) => {
            let pause = (*pause).max(MIN_SCHEDULE_INTERVAL);
            let interval = IntervalSpec { interval: pause.try_into().ok(), ..IntervalSpec::default() };
            (ScheduleSpec { interval: vec![interval], ..ScheduleSpec::default() }, pause)
        }
        ScheduleTimes::Cron(line) => {
            let fields: Vec<&str> = line.as_str().split_whitespace().collect();
            let (times, zone) = fields.split_at(fields.len().min(CRON_FIELDS));
            let spec = ScheduleSpec {
                cron_string: vec![times.join(" ")],
                timezone_name: zone.first().map_or("UTC", |zone| *zone).to_owned(),
                ..ScheduleSpec::default()
            };
            (spec, DAY)
        }
        ScheduleTimes::DailyAt(minute) => {
            let at = |start: u16| vec![Range { start: start.into(), ..Range::default() }];
            let all = |start, end| vec![Range { start, end, step: 1 }];
            let calendar = StructuredCalendarSpec {
                second: at(0),
                minute: at(*minute % 60),
                hour: at(*minute / 60 % 24),
                day_of_month: all(1, 31),
                month: all(1, 12),
                day_of_week: all(0, 6),
                ..StructuredCalendarSpec::default()
            };
            let spec = ScheduleSpec { structured_calendar: vec![calendar], ..ScheduleSpec::default() };
            (spec, DAY)
        }
    }
}

/// Removes a schedule; returns whether there was one.
pub(super) async fn remove(server: &Server, name: &EngineName) -> Result<bool, EngineError> {
    let request = DeleteScheduleRequest {
        namespace: server.namespace(),
        schedule_id: schedule_id(name),
        identity: server.identity(),
    };
    match server.calls().delete_schedule(request.into_request()).await {
        Ok(_) => Ok(true),
        Err(status) if is_missing(status.code()) => Ok(false),
        Err(status) => Err(server.error("remove the schedule", &status)),
    }
}

/// Lists the schedules by name.
pub(super) async fn list(server: &Server) -> Result<Vec<Schedule>, EngineError> {
    let mut found: Vec<Schedule> = list_all(server).await?.into_iter().filter_map(Result::ok).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Lists the schedules, and the names of those that cannot be read.
pub(super) async fn list_all(server: &Server) -> Result<Vec<Result<Schedule, String>>, EngineError> {
    let (mut found, mut page) = (Vec::new(), Vec::new());
    loop {
        let request = ListSchedulesRequest {
            namespace: server.namespace(),
            maximum_page_size: PAGE_SCHEDULES,
            next_page_token: page,
            ..ListSchedulesRequest::default()
        };
        let listed = server.calls().list_schedules(request.into_request()).await;
        let listed = listed.map_err(|status| server.error("list the schedules", &status))?.into_inner();
        for entry in listed.schedules {
            found.extend(find(server, entry.schedule_id).await?);
        }
        page = listed.next_page_token;
        if page.is_empty() {
            return Ok(found);
        }
    }
}

/// Finds a schedule, or its name if it cannot be read; `None` for one that is gone, or another program's.
async fn find(server: &Server, id: String) -> Result<Option<Result<Schedule, String>>, EngineError> {
    let Some(described) = describe(server, id.clone()).await? else { return Ok(None) };
    let action = described.schedule.and_then(|schedule| schedule.action).and_then(|action| action.action);
    Ok(action.and_then(|action| plan_of(&id, action)))
}

/// Reads the schedule with this id, or its name.
fn plan_of(id: &str, action: Action) -> Option<Result<Schedule, String>> {
    let Action::StartWorkflow(run) = action;
    if run.workflow_type.is_none_or(|kind| kind.name != RUN_TYPE) {
        return None;
    }
    match from_payloads::<Order>(run.input.as_ref()).map(|order| order.work) {
        // A probe of a cron line has the plan, too, under an id of its own, and may have been left behind.
        Some(Work::Schedule(plan)) => (id == schedule_id(&plan.name)).then_some(Ok(plan)),
        Some(Work::Job(_)) | None => name_of_schedule(id).map(Err),
    }
}

async fn describe(server: &Server, id: String) -> Result<Option<DescribeScheduleResponse>, EngineError> {
    let request = DescribeScheduleRequest { namespace: server.namespace(), schedule_id: id };
    match server.calls().describe_schedule(request.into_request()).await {
        Ok(described) => Ok(Some(described.into_inner())),
        Err(status) if is_missing(status.code()) => Ok(None),
        Err(status) => Err(server.error("look at the schedule", &status)),
    }
}

/// Checks that the server reads a cron line as zk does, by the times of a paused schedule. Notations of cron differ.
async fn check_cron(server: &Server, schedule: &StoredSchedule, line: &CronLine) -> Result<(), EngineError> {
    let id = format!("{}:{}", schedule_probe(), fresh_id());
    let paused = StoredSchedule {
        state: Some(ScheduleState { paused: true, ..ScheduleState::default() }),
        ..schedule.clone()
    };
    let request = CreateScheduleRequest {
        namespace: server.namespace(),
        schedule_id: id.clone(),
        schedule: Some(paused),
        identity: server.identity(),
        request_id: fresh_id(),
        ..CreateScheduleRequest::default()
    };
    let created = server.calls().create_schedule(request.into_request()).await;
    created.map_err(|status| server.error("store the schedule", &status))?;
    let described = describe(server, id.clone()).await;
    let request =
        DeleteScheduleRequest { namespace: server.namespace(), schedule_id: id, identity: server.identity() };
    let deleted = server.calls().delete_schedule(request.into_request()).await;
    let info = described?.and_then(|described| described.info).unwrap_or_default();
    deleted.map_err(|status| server.error("store the schedule", &status))?;
    let times: Vec<SystemTime> =
        info.future_action_times.into_iter().map(|time| from_wire(Some(time), UNIX_EPOCH)).collect();
    // Each time is compared with the one before it, so that no clock but the server's counts.
    let is_same = |(before, time): (&SystemTime, &SystemTime)| line.next(*before) == Some(*time);
    let first = times.first().is_some_and(|time| line.next(*time - Duration::from_secs(1)) == Some(*time));
    if first && times.iter().zip(times.iter().skip(1)).all(is_same) {
        return Ok(());
    }
    Err(EngineError::Failed {
        doing: "store the schedule",
        why: format!(
            "Temporal reads the cron line `{line}` in another way; use plain fields, or a daily time"
        ),
    })
}

#[cfg(test)]
mod tests {
    use zk_core::service::ScheduledJob;

    use super::*;

    fn plan(times: ScheduleTimes) -> Schedule {
        let job = ScheduledJob { template: "s_t".into(), preset: None, workspace: None, queue: None };
        Schedule { name: EngineName::new("nightly").unwrap(), times, job }
    }

    fn terms() -> RunTerms {
        RunTerms { lease: Duration::from_secs(10), legs_per_execution: 500 }
    }

    #[test]
    fn a_probe_of_a_cron_line_is_no_schedule() {
        let plan = plan(ScheduleTimes::DailyAt(210));
        let action = stored(terms(), &plan).unwrap().action.unwrap().action.unwrap();
        let probe = format!("{}:1", schedule_probe());
        assert_eq!(plan_of(&schedule_id(&plan.name), action.clone()), Some(Ok(plan)));
        assert_eq!(plan_of(&probe, action), None);
    }

    #[test]
    fn times_at_which_the_server_is_down_are_made_up_for() {
        let table = [
            (ScheduleTimes::Cron("0 3 * * 1".parse().unwrap()), 86_400),
            (ScheduleTimes::DailyAt(210), 86_400),
            (ScheduleTimes::Every(Duration::from_secs(600)), 600),
        ];
        for (times, seconds) in table {
            let policies = stored(terms(), &plan(times.clone())).unwrap().policies.unwrap();
            assert_eq!(policies.catchup_window.unwrap().seconds, seconds, "{times:?}");
        }
    }
}
