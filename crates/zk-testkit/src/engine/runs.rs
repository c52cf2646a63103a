use zk_core::model::{CallId, RunId, SessionId};
use zk_core::service::{
    EngineError, EngineName, Job, JobParent, LegEnd, LegFailure, MAX_ENGINE_NAME_BYTES, RunFilter, RunPhase,
    RunStatus, Take,
};

use super::legs::FnLegs;
use super::{EngineCase, Outcome, ensure, ensure_equal, failed, job, name};

/// Text that must not be in the data of an engine.
const CANARY: &str = "canary-Zz81kLw0";

pub(super) async fn check_single_submission(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    case.other.submit(job.clone()).await.map_err(failed("submit a run again"))?;
    let listed = case.engine.list(&RunFilter::default()).await.map_err(failed("list"))?;
    ensure_equal("listed runs", &listed.len(), &1)?;
    ensure_equal("the job", &listed.first().map(|run| &run.job), &Some(&job))?;
    let another = job.clone().with_queue(name("another")?);
    match case.engine.submit(another).await {
        Err(EngineError::OtherJob(run)) => ensure_equal("the run of the error", &run, job.run())?,
        other => return Err(format!("another job with the id of a run is not OtherJob, but {other:?}")),
    }
    let legs = FnLegs::completing();
    case.serve_once("w", legs.clone()).await?;
    case.engine.submit(job.clone()).await.map_err(failed("submit a finished run again"))?;
    case.serve_once("w", legs.clone()).await?;
    ensure_equal("legs", &legs.begun().len(), &1)?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Done)
}

pub(super) async fn check_one_run_of_session(case: EngineCase) -> Outcome {
    let of_session = |run: &str| Job::new(run.into(), "s_shared".into()).map_err(failed("make a job"));
    let (first, second) = (of_session("r_1")?, of_session("r_2")?);
    // Both processes submit at the same moment: exactly one run has the session.
    let both = tokio::join!(case.engine.submit(first.clone()), case.other.submit(second.clone()));
    let (winner, loser) = match both {
        (Ok(()), Err(EngineError::SessionTaken { run, .. })) => ((first, run), second),
        (Err(EngineError::SessionTaken { run, .. }), Ok(())) => ((second, run), first),
        other => return Err(format!("two runs of a session at once: {other:?}")),
    };
    let (winner, named) = winner;
    ensure_equal("the run of the error", &named, winner.run())?;
    case.other.submit(winner.clone()).await.map_err(failed("submit the same run again"))?;
    let filter = RunFilter { session: Some("s_shared".into()), ..RunFilter::default() };
    let found = case.other.list(&filter).await.map_err(failed("list"))?;
    ensure_equal("runs of the session", &found.len(), &1)?;
    case.serve_once("w", FnLegs::completing()).await?;
    case.other.submit(loser.clone()).await.map_err(failed("submit a run of a session that is free"))?;
    let filter = RunFilter { session: Some("s_other".into()), ..RunFilter::default() };
    ensure_equal(
        "runs of another session",
        &case.other.list(&filter).await.map_err(failed("list"))?.len(),
        &0,
    )
}

pub(super) async fn check_start_order(case: EngineCase) -> Outcome {
    for (run, priority) in [("r_1", 0), ("r_2", 0), ("r_3", 5), ("r_4", -5), ("r_5", 0)] {
        let job = job(run)?.with_priority(priority);
        case.engine.submit(job).await.map_err(failed("submit a run"))?;
    }
    let (legs, take) = (FnLegs::completing(), Take { max_legs: 1, once: true, ..case.take("w")? });
    let stop = tokio_util::sync::CancellationToken::new();
    case.engine.serve(take, legs.clone(), stop).await.map_err(failed("serve"))?;
    let begun: Vec<String> = legs.begun().iter().map(|leg| leg.run.to_string()).collect();
    ensure_equal(
        "order of the legs",
        &begun,
        &["r_3", "r_1", "r_2", "r_5", "r_4"].map(str::to_owned).to_vec(),
    )
}

pub(super) async fn check_filters(case: EngineCase) -> Outcome {
    let parent = JobParent { run: RunId::from("r_a1"), call: CallId::from("call|/+=1") };
    let jobs = [
        job("r_a1")?.with_queue(name("q")?),
        job("r_a2")?.with_tenant(name("t")?),
        job("r_b1")?.with_parent(parent).map_err(failed("set a parent"))?,
    ];
    for job in jobs {
        case.engine.submit(job).await.map_err(failed("submit a run"))?;
    }
    let filters = [
        (RunFilter::default(), "r_a1 r_a2 r_b1"),
        (RunFilter { run_prefix: Some("r_a".to_owned()), ..RunFilter::default() }, "r_a1 r_a2"),
        (RunFilter { queue: Some(name("q")?), ..RunFilter::default() }, "r_a1"),
        (RunFilter { tenant: Some(name("t")?), ..RunFilter::default() }, "r_a2"),
        (RunFilter { parent: Some(RunId::from("r_a1")), ..RunFilter::default() }, "r_b1"),
        (RunFilter::phases([RunPhase::Queued]), "r_a1 r_a2 r_b1"),
        (RunFilter::phases([RunPhase::Done, RunPhase::Parked]), ""),
        (RunFilter { limit: Some(2), ..RunFilter::default() }, "r_a2 r_b1"),
    ];
    for (filter, expected) in filters {
        let runs = case.other.list(&filter).await.map_err(failed("list"))?;
        let found: Vec<&str> = runs.iter().map(|run| run.job.run().as_str()).collect();
        ensure_equal(&format!("runs of {filter:?}"), &found.join(" "), &expected.to_owned())?;
    }
    Ok(())
}

pub(super) async fn check_unknown_run(case: EngineCase) -> Outcome {
    let run = RunId::from("r_none");
    for (doing, done) in
        [("waking", case.engine.wake(&run).await), ("cancelling", case.engine.cancel(&run).await)]
    {
        match done {
            Err(EngineError::UnknownRun(named)) => ensure_equal("the run of the error", &named, &run)?,
            other => return Err(format!("{doing} an unknown run is not UnknownRun, but {other:?}")),
        }
    }
    Ok(())
}

pub(super) async fn check_finished_run(case: EngineCase) -> Outcome {
    let ends = [
        ("r_done", LegEnd::Done(RunStatus::Completed), RunPhase::Done),
        ("r_stopped", LegEnd::Done(RunStatus::Aborted), RunPhase::Cancelled),
        ("r_failed", LegEnd::Done(RunStatus::Error), RunPhase::Failed),
    ];
    for (run, end, phase) in ends {
        let job = case.submit(run).await?;
        case.serve_once("w", FnLegs::ending_with([end])).await?;
        match case.other.wake(job.run()).await {
            Err(EngineError::Finished { run, phase: found }) => {
                ensure_equal("the run of the error", &run, job.run())?;
                ensure_equal("the phase of the error", &found, &phase)?;
            }
            other => return Err(format!("waking a finished run is not Finished, but {other:?}")),
        }
        case.other.cancel(job.run()).await.map_err(failed("cancel a finished run"))?;
        ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &phase)?;
    }
    Ok(())
}

pub(super) async fn check_failed_run(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let failure = LegFailure::NoPreset(name("reviewer")?);
    case.serve_once("w", FnLegs::ending_with([LegEnd::Failed(failure.clone())])).await?;
    let found = case.listed_run(job.run()).await?;
    ensure_equal("the phase", &found.phase, &RunPhase::Failed)?;
    ensure_equal("the reason", &found.failure, &Some(failure))
}

pub(super) async fn check_panicking_leg(case: EngineCase) -> Outcome {
    let (bad, good) = (case.submit("r_bad").await?, case.submit("r_good").await?);
    let legs = FnLegs::new(|job: Job, _| async move {
        if job.run().as_str() == "r_bad" {
            std::panic::resume_unwind(Box::new(CANARY));
        }
        LegEnd::Done(RunStatus::Completed)
    });
    case.serve_once("w", legs).await?;
    let found = case.listed_run(bad.run()).await?;
    ensure_equal("the phase", &found.phase, &RunPhase::Failed)?;
    ensure_equal("the reason", &found.failure, &Some(LegFailure::Panicked))?;
    ensure_equal("the phase of another run", &case.listed_run(good.run()).await?.phase, &RunPhase::Done)?;
    check_no_canary(&case)
}

pub(super) async fn check_stored_texts(case: EngineCase) -> Outcome {
    let prompt = format!("{CANARY} fix the test");
    let path = format!("/home/{CANARY}");
    let long = CANARY.repeat(4096 / CANARY.len() + 1);
    for text in [&*prompt, &*path, &*long] {
        ensure(EngineName::new(text).is_err(), format_args!("`{text:.40}` is a name"))?;
        ensure(Job::new(text.into(), SessionId::fresh()).is_err(), "a text is the id of a run")?;
        ensure(Job::new(RunId::fresh(), text.into()).is_err(), "a text is the id of a session")?;
    }
    let largest = "x".repeat(MAX_ENGINE_NAME_BYTES);
    let job = Job::new(RunId::from(&*largest), SessionId::from(&*largest)).map_err(failed("make a job"))?;
    let job = job.with_preset(name(&largest)?).with_workspace(name(&largest)?).with_queue(name(&largest)?);
    case.engine.submit(job.clone()).await.map_err(failed("submit the largest job"))?;
    ensure_equal("the largest job", &case.listed_run(job.run()).await?.job, &job)?;
    let children = (0..4096).map(|_| RunId::fresh()).collect();
    let parked = LegEnd::Parked(zk_core::service::Wait::Children(children));
    case.serve_once("w", FnLegs::ending_with([parked])).await?;
    ensure_equal("the reason", &case.listed_run(job.run()).await?.failure, &Some(LegFailure::TooLarge))?;
    check_no_canary(&case)
}

fn check_no_canary(case: &EngineCase) -> Outcome {
    let Some(stored) = &case.options.stored else { return Ok(()) };
    let bytes = stored(case.place);
    ensure(!bytes.is_empty(), "nothing is stored")?;
    let has_canary = bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
    ensure(!has_canary, "a text of the session is in the data of the engine")
}
