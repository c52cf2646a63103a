use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use zk_core::model::{CallId, RunId, SessionId};
use zk_core::service::{
    HandoverCause, Job, JobParent, Lease, LegEnd, LegFailure, RunFilter, RunPhase, RunStatus, Schedule,
    ScheduleTimes, ScheduledJob, Take, Wait,
};

use super::legs::FnLegs;
use super::{EngineCase, Outcome, ensure, ensure_equal, failed, job, name, wait_until};

fn question() -> Wait {
    Wait::Answer("e_question".into())
}

pub(super) async fn check_waking(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let legs = FnLegs::ending_with([LegEnd::Parked(question()), LegEnd::Parked(Wait::Mail)]);
    case.serve_once("w", legs.clone()).await?;
    let found = case.listed_run(job.run()).await?;
    ensure_equal("the phase", &found.phase, &RunPhase::Parked)?;
    ensure_equal("the wait", &found.wait, &Some(question()))?;
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("legs before it is woken", &legs.begun().len(), &1)?;
    case.other.wake(job.run()).await.map_err(failed("wake"))?;
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("the wait", &case.listed_run(job.run()).await?.wait, &Some(Wait::Mail))?;
    case.other.wake(job.run()).await.map_err(failed("wake"))?;
    case.serve_once("another", legs.clone()).await?;
    let found = case.listed_run(job.run()).await?;
    ensure_equal("the phase", &found.phase, &RunPhase::Done)?;
    ensure_equal("the wait", &found.wait, &None)?;
    let tokens: Vec<u64> = legs.begun().iter().map(|leg| leg.token).collect();
    ensure(tokens.is_sorted_by(|one, next| one < next), format_args!("tokens {tokens:?} grow"))
}

pub(super) async fn check_parked_beside(case: EngineCase) -> Outcome {
    let parked = case.submit("r_1").await?;
    let legs = FnLegs::new(|job: Job, lease: Lease| async move {
        match job.run().as_str() {
            "r_1" => return LegEnd::Parked(question()),
            "r_2" => lease.draining().cancelled().await,
            _ => {}
        }
        LegEnd::Done(RunStatus::Completed)
    });
    let worker = case.start(case.take("w")?, legs.clone());
    case.wait_for_phase(parked.run(), RunPhase::Parked).await?;
    let working = case.submit("r_2").await?;
    case.wait_for_phase(working.run(), RunPhase::Running).await?;
    // The worker looks for runs again, also among those that wait.
    let last = case.submit("r_3").await?;
    case.wait_for_phase(last.run(), RunPhase::Done).await?;
    worker.stop().await?;
    let found = case.listed_run(parked.run()).await?;
    ensure_equal("the phase", &found.phase, &RunPhase::Parked)?;
    ensure_equal("legs of the parked run", &found.legs, &1)?;
    ensure_equal("legs of all runs", &legs.begun().len(), &3)
}

pub(super) async fn check_double_wake(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let legs = FnLegs::ending_with([LegEnd::Parked(question()), LegEnd::Parked(question())]);
    case.serve_once("w", legs.clone()).await?;
    case.engine.wake(job.run()).await.map_err(failed("wake"))?;
    case.other.wake(job.run()).await.map_err(failed("wake again"))?;
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("legs", &legs.begun().len(), &2)?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Parked)
}

pub(super) async fn check_early_wake(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let (other, is_first) = (case.other.clone(), AtomicBool::new(true));
    let legs = FnLegs::new(move |job: Job, _| {
        let is_first = is_first.swap(false, Ordering::SeqCst);
        let other = other.clone();
        async move {
            if !is_first {
                return LegEnd::Done(RunStatus::Completed);
            }
            // The answer comes while the leg is about to park.
            let _ = other.wake(job.run()).await;
            LegEnd::Parked(question())
        }
    });
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("legs", &legs.begun().len(), &2)?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Done)
}

pub(super) async fn check_late_wake(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let (other, is_first) = (case.other.clone(), AtomicBool::new(true));
    let legs = FnLegs::new(move |job: Job, _| {
        let is_first = is_first.swap(false, Ordering::SeqCst);
        let other = other.clone();
        async move {
            if is_first {
                // Mail comes after the leg has read its last.
                let _ = other.wake(job.run()).await;
            }
            LegEnd::Done(RunStatus::Completed)
        }
    });
    case.serve_once("w", legs.clone()).await?;
    case.wait_for_phase(job.run(), RunPhase::Done).await?;
    ensure_equal("legs", &legs.begun().len(), &2)?;
    // A failure is the end of a run, whatever woke it.
    let job = case.submit("r_2").await?;
    let other = case.other.clone();
    let legs = FnLegs::new(move |job: Job, _| {
        let other = other.clone();
        async move {
            let _ = other.wake(job.run()).await;
            LegEnd::Failed(LegFailure::Agent)
        }
    });
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Failed)?;
    ensure_equal("legs of a failed run", &legs.begun().len(), &1)
}

pub(super) async fn check_lost_store(case: EngineCase) -> Outcome {
    let lost = || LegEnd::Handover(HandoverCause::StoreFailed);
    let (passing, lasting) = (case.submit("r_1").await?, case.submit("r_2").await?);
    let is_first = AtomicBool::new(true);
    let legs = FnLegs::new(move |job: Job, _| {
        let is_lost = job.run().as_str() == "r_2" || is_first.swap(false, Ordering::SeqCst);
        let end = if is_lost { lost() } else { LegEnd::Done(RunStatus::Completed) };
        async move { end }
    });
    let worker = case.start(case.take("w")?, legs);
    // The run goes on by itself after a pause.
    case.wait_for_phase(passing.run(), RunPhase::Done).await?;
    let found = loop {
        let found = case.listed_run(lasting.run()).await?;
        match found.phase {
            // The pauses grow; being woken ends them.
            RunPhase::Parked => case.other.wake(lasting.run()).await.map_err(failed("wake"))?,
            RunPhase::Queued | RunPhase::Running => tokio::time::sleep(super::LOOK_PAUSE).await,
            RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => break found,
        }
    };
    worker.stop().await?;
    let is_named = matches!(found.failure, Some(LegFailure::Store(_)));
    ensure(found.phase == RunPhase::Failed && is_named, format_args!("a run without a store: {found:?}"))
}

pub(super) async fn check_parking_until_time(case: EngineCase) -> Outcome {
    let time = SystemTime::now() + Duration::from_millis(1_200);
    let job = case.submit("r_1").await?;
    let worker = case.start(case.take("w")?, FnLegs::ending_with([LegEnd::Parked(Wait::Until(time))]));
    case.wait_for_phase(job.run(), RunPhase::Done).await?;
    ensure(SystemTime::now() >= time, "the run went on before its time")?;
    worker.stop().await
}

pub(super) async fn check_cancelled_parked_run(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let legs = FnLegs::ending_with([LegEnd::Parked(question())]);
    case.serve_once("w", legs.clone()).await?;
    case.other.cancel(job.run()).await.map_err(failed("cancel"))?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Cancelled)?;
    case.other.cancel(job.run()).await.map_err(failed("cancel again"))?;
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("legs", &legs.begun().len(), &1)
}

pub(super) async fn check_cancelled_leg(case: EngineCase) -> Outcome {
    // One leg ends as it should, the other parks regardless.
    for (run, end) in [("r_1", LegEnd::Done(RunStatus::Aborted)), ("r_2", LegEnd::Parked(question()))] {
        let job = case.submit(run).await?;
        let legs = FnLegs::new(move |_, lease| {
            let end = end.clone();
            async move {
                lease.cancelled().cancelled().await;
                end
            }
        });
        let worker = case.start(case.take("w")?, legs);
        case.wait_for_phase(job.run(), RunPhase::Running).await?;
        case.other.cancel(job.run()).await.map_err(failed("cancel"))?;
        case.wait_for_phase(job.run(), RunPhase::Cancelled).await?;
        worker.stop().await?;
    }
    Ok(())
}

fn child(run: &str, parent: &RunId) -> Result<Job, String> {
    let parent = JobParent { run: parent.clone(), call: CallId::from("call_1") };
    job(run)?.with_parent(parent).map_err(failed("set a parent"))
}

pub(super) async fn check_wait_for_children(case: EngineCase) -> Outcome {
    let parent = case.submit("r_parent").await?;
    let (first, second) = (RunId::from("r_child1"), RunId::from("r_child2"));
    let names = [first, second.clone()];
    let waits = LegEnd::Parked(Wait::Children(names.to_vec()));
    for name in &names {
        let child = child(name.as_str(), parent.run())?.with_queue(super::name("children")?);
        case.engine.submit(child).await.map_err(failed("submit a child"))?;
    }
    let take = |queue| Ok::<_, String>(Take { once: true, queues: vec![name(queue)?], ..case.take("w")? });
    let serve = |take, legs| case.engine.serve(take, legs, CancellationToken::new());
    serve(take("default")?, FnLegs::ending_with([waits.clone()])).await.map_err(failed("serve"))?;
    ensure_equal("the parent", &case.listed_run(parent.run()).await?.phase, &RunPhase::Parked)?;
    let one = Take { max_legs: 1, ..take("children")? };
    let ends = [LegEnd::Done(RunStatus::Completed), LegEnd::Parked(Wait::Mail)];
    serve(one, FnLegs::ending_with(ends)).await.map_err(failed("serve"))?;
    ensure_equal(
        "the parent of one that is parked",
        &case.listed_run(parent.run()).await?.phase,
        &RunPhase::Parked,
    )?;
    case.engine.cancel(&second).await.map_err(failed("cancel a child"))?;
    ensure_equal(
        "the parent of ended children",
        &case.listed_run(parent.run()).await?.phase,
        &RunPhase::Queued,
    )?;
    // Children that have ended are no reason to wait.
    serve(take("default")?, FnLegs::ending_with([waits])).await.map_err(failed("serve"))?;
    ensure_equal("the parent", &case.listed_run(parent.run()).await?.phase, &RunPhase::Done)
}

pub(super) async fn check_cancelled_descendants(case: EngineCase) -> Outcome {
    let top = case.submit("r_top").await?;
    let mut parent = top.run().clone();
    for name in ["r_child", "r_grandchild"] {
        let child = child(name, &parent)?;
        parent = child.run().clone();
        case.engine.submit(child).await.map_err(failed("submit a child"))?;
    }
    let legs = FnLegs::new(|job: Job, lease| async move {
        if job.run().as_str() != "r_grandchild" {
            return LegEnd::Parked(Wait::Mail);
        }
        lease.cancelled().cancelled().await;
        LegEnd::Done(RunStatus::Aborted)
    });
    let worker = case.start(case.take("w")?, legs);
    case.wait_for_phase(top.run(), RunPhase::Parked).await?;
    case.wait_for_phase(&RunId::from("r_child"), RunPhase::Parked).await?;
    case.wait_for_phase(&parent, RunPhase::Running).await?;
    case.other.cancel(top.run()).await.map_err(failed("cancel"))?;
    for run in [top.run(), &RunId::from("r_child"), &parent] {
        case.wait_for_phase(run, RunPhase::Cancelled).await?;
    }
    let late = child("r_late", top.run())?;
    case.engine.submit(late.clone()).await.map_err(failed("submit a child"))?;
    ensure_equal(
        "a child of a cancelled run",
        &case.listed_run(late.run()).await?.phase,
        &RunPhase::Cancelled,
    )?;
    worker.stop().await
}

pub(super) async fn check_schedule(case: EngineCase) -> Outcome {
    let template = SessionId::from("s_template");
    let plan = Schedule {
        name: name("nightly")?,
        times: ScheduleTimes::Every(Duration::from_secs(1)),
        job: ScheduledJob {
            template: template.clone(),
            preset: Some(name("review")?),
            workspace: None,
            queue: None,
        },
    };
    case.engine.schedule(plan.clone()).await.map_err(failed("add a schedule"))?;
    case.engine.schedule(plan.clone()).await.map_err(failed("add a schedule again"))?;
    ensure_equal(
        "schedules",
        &case.other.schedules().await.map_err(failed("list schedules"))?,
        &vec![plan.clone()],
    )?;
    let legs = FnLegs::completing();
    // Two workers submit each run once.
    let workers =
        [case.start(case.take("a")?, legs.clone()), case.start_other(case.take("b")?, legs.clone())];
    wait_until(|| legs.begun().len() >= 2).await;
    let is_there = case.other.unschedule(&plan.name).await.map_err(failed("remove a schedule"))?;
    ensure(is_there, "the schedule is not there")?;
    for worker in workers {
        worker.stop().await?;
    }
    ensure_equal("schedules", &case.other.schedules().await.map_err(failed("list schedules"))?, &Vec::new())?;
    ensure(
        !case.other.unschedule(&plan.name).await.map_err(failed("remove a schedule"))?,
        "a removed schedule is removed",
    )?;
    let runs = case.other.list(&RunFilter::default()).await.map_err(failed("list"))?;
    for run in &runs {
        ensure_equal("the template", &run.job.template(), &Some(&template))?;
        ensure_equal("the preset", &run.job.preset(), &Some(&name("review")?))?;
        ensure_equal("legs", &run.legs, &1)?;
    }
    let mut sessions: Vec<&SessionId> = runs.iter().map(|run| run.job.session()).collect();
    sessions.dedup();
    ensure_equal("sessions of the runs", &sessions.len(), &runs.len())
}
