use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, HandoverCause, Job, LegEnd, RunPhase, RunStatus, Take};

use super::legs::FnLegs;
use super::{EngineCase, Outcome, Serving, ensure, ensure_equal, failed, job, name, wait_until};

pub(super) async fn check_queues(case: EngineCase) -> Outcome {
    let (mine, other) = (job("r_mine")?.with_queue(name("mine")?), case.submit("r_other").await?);
    case.engine.submit(mine.clone()).await.map_err(failed("submit a run"))?;
    let take = |queue| Ok::<_, String>(Take { once: true, queues: vec![name(queue)?], ..case.take("w")? });
    let legs = FnLegs::completing();
    let serve = |take| case.engine.serve(take, legs.clone(), CancellationToken::new());
    serve(take("mine")?).await.map_err(failed("serve"))?;
    ensure_equal("the run of the queue", &case.listed_run(mine.run()).await?.phase, &RunPhase::Done)?;
    ensure_equal("the run of another queue", &case.listed_run(other.run()).await?.phase, &RunPhase::Queued)?;
    serve(take(Take::DEFAULT_QUEUE)?).await.map_err(failed("serve"))?;
    ensure_equal("the run of the default queue", &case.listed_run(other.run()).await?.phase, &RunPhase::Done)
}

pub(super) async fn check_parallel_legs(case: EngineCase) -> Outcome {
    for index in 0..6 {
        case.submit(&format!("r_{index}")).await?;
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, highest) = (now.clone(), most.clone());
    let legs = FnLegs::new(move |_, _| {
        let (running, highest) = (running.clone(), highest.clone());
        async move {
            let count = running.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(count, Ordering::SeqCst);
            // The third leg never begins while two run.
            wait_until(|| highest.load(Ordering::SeqCst) >= 2).await;
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            LegEnd::Done(RunStatus::Completed)
        }
    });
    let take = Take { max_legs: 2, once: true, ..case.take("w")? };
    case.engine.serve(take, legs, CancellationToken::new()).await.map_err(failed("serve"))?;
    ensure_equal("legs at a time", &most.load(Ordering::SeqCst), &2)?;
    ensure_equal("legs at the end", &now.load(Ordering::SeqCst), &0)
}

pub(super) async fn check_worker_names(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let first = case.start(case.take("w")?, FnLegs::endless());
    case.wait_for_phase(job.run(), RunPhase::Running).await?;
    let second = case.other.serve(case.take("w")?, FnLegs::completing(), CancellationToken::new()).await;
    match second {
        Err(EngineError::NameTaken(taken)) => ensure_equal("the name of the error", &taken, &name("w")?)?,
        other => return Err(format!("a second worker of one name is not NameTaken, but {other:?}")),
    }
    drop(first);
    // The name is free again, and the run with it.
    loop {
        let take = Take { once: true, ..case.take("w")? };
        match case.other.serve(take, FnLegs::completing(), CancellationToken::new()).await {
            Ok(()) => break,
            Err(EngineError::NameTaken(_)) => tokio::time::sleep(super::LOOK_PAUSE).await,
            Err(error) => return Err(failed("serve")(error)),
        }
    }
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Done)
}

pub(super) async fn check_lease_renewal(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let length = case.options.lease * 3;
    let legs = FnLegs::new(move |_, lease| async move {
        tokio::select! {
            () = lease.lost().cancelled() => LegEnd::Handover(HandoverCause::Fenced),
            () = tokio::time::sleep(length) => LegEnd::Done(RunStatus::Completed),
        }
    });
    let (first, second) =
        (case.start(case.take("a")?, legs.clone()), case.start_other(case.take("b")?, legs.clone()));
    case.wait_for_phase(job.run(), RunPhase::Done).await?;
    ensure_equal("legs", &legs.begun().len(), &1)?;
    first.stop().await?;
    second.stop().await
}

pub(super) async fn check_dead_worker(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let mut token = 0;
    for round in 0..3 {
        let (endless, worker) = (FnLegs::endless(), format!("w{round}"));
        let dying = case.start(case.take(&worker)?, endless.clone());
        wait_until(|| !endless.begun().is_empty()).await;
        let begun = endless.begun().first().map_or(0, |leg| leg.token);
        ensure(begun > token, format_args!("token {begun} follows {token}"))?;
        token = begun;
        drop(dying);
    }
    let legs = FnLegs::completing();
    let last = case.start_other(case.take("last")?, legs.clone());
    let found = case.wait_for_phase(job.run(), RunPhase::Done).await?;
    ensure(found.token > token, format_args!("token {} follows {token}", found.token))?;
    ensure_equal("legs", &found.legs, &4)?;
    ensure_equal("the worker", &found.worker, &Some(name("last")?))?;
    last.stop().await
}

pub(super) async fn check_tokens_of_session(case: EngineCase) -> Outcome {
    let mut token = 0;
    for run in ["r_1", "r_2"] {
        let job = Job::new(run.into(), "s_shared".into()).map_err(failed("make a job"))?;
        case.engine.submit(job.clone()).await.map_err(failed("submit a run"))?;
        case.serve_once("w", FnLegs::completing()).await?;
        let next = case.listed_run(job.run()).await?.token;
        ensure(next > token, format_args!("token {next} follows {token} in one session"))?;
        token = next;
    }
    Ok(())
}

pub(super) async fn check_thawed_worker(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let (thaw, frozen) = mpsc::channel::<()>();
    let (told, heard) = mpsc::channel();
    let frozen = Arc::new(std::sync::Mutex::new(frozen));
    let stuck = FnLegs::new(move |_, lease: zk_core::service::Lease| {
        let (frozen, told) = (frozen.clone(), told.clone());
        async move {
            // Nothing else of this worker runs meanwhile: its runtime has one thread.
            let _ = frozen.lock().map(|frozen| frozen.recv());
            lease.lost().cancelled().await;
            let _ = told.send(lease.token());
            LegEnd::Done(RunStatus::Error)
        }
    });
    let (engine, take, legs) = (case.other.clone(), case.take("stuck")?, stuck.clone());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime
            .map_err(|error| error.to_string())
            .and_then(|runtime| runtime.block_on(engine.serve(take, legs, stopped)).map_err(failed("serve")))
    });
    wait_until(|| !stuck.begun().is_empty()).await;
    let legs = FnLegs::new(|_, lease| async move {
        lease.cancelled().cancelled().await;
        LegEnd::Done(RunStatus::Aborted)
    });
    let successor = case.start(case.take("successor")?, legs.clone());
    wait_until(|| !legs.begun().is_empty()).await;
    let held = case.listed_run(job.run()).await?;
    let old = stuck.begun().first().map_or(0, |leg| leg.token);
    ensure(held.token > old, format_args!("token {} follows {old}", held.token))?;
    let _ = thaw.send(());
    let lost = tokio::task::spawn_blocking(move || heard.recv());
    let lost = lost.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    ensure_equal("the token of the lost lease", &lost, &old)?;
    stop.cancel();
    let ended = tokio::task::spawn_blocking(move || thread.join());
    let ended = ended.await.map_err(|error| error.to_string())?;
    ended.map_err(|_| "the thawed worker broke off".to_owned())??;
    let now = case.listed_run(job.run()).await?;
    ensure_equal("the phase behind the thawed leg", &now.phase, &RunPhase::Running)?;
    ensure_equal("the token", &now.token, &held.token)?;
    ensure_equal("legs of the thawed worker", &stuck.begun().len(), &1)?;
    case.engine.cancel(job.run()).await.map_err(failed("cancel"))?;
    case.wait_for_phase(job.run(), RunPhase::Cancelled).await?;
    successor.stop().await
}

/// Legs that run until their worker drains, and are then handed over.
fn legs_until_drain() -> Arc<FnLegs> {
    FnLegs::new(|_, lease| async move {
        lease.draining().cancelled().await;
        LegEnd::Handover(HandoverCause::Draining)
    })
}

pub(super) async fn check_stopped_worker(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let first = case.start(case.take("a")?, legs_until_drain());
    case.wait_for_phase(job.run(), RunPhase::Running).await?;
    let second = Serving::start(case.other.clone(), case.take("b")?, FnLegs::completing());
    first.stop().await?;
    let found = case.wait_for_phase(job.run(), RunPhase::Done).await?;
    ensure_equal("the worker", &found.worker, &Some(name("b")?))?;
    second.stop().await
}

pub(super) async fn check_drained_worker(case: EngineCase) -> Outcome {
    let job = case.submit("r_1").await?;
    let worker = case.start(case.take("a")?, legs_until_drain());
    case.wait_for_phase(job.run(), RunPhase::Running).await?;
    let nobody = case.other.drain(Some(&name("b")?)).await.map_err(failed("drain"))?;
    ensure_equal("workers of another name", &nobody, &Vec::new())?;
    let asked = case.other.drain(None).await.map_err(failed("drain"))?;
    ensure_equal("workers that were asked", &asked, &vec![name("a")?])?;
    worker.wait_for_end().await?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Queued)?;
    ensure_equal("workers behind it", &case.other.drain(None).await.map_err(failed("drain"))?, &Vec::new())?;
    case.serve_once("a", FnLegs::completing()).await?;
    ensure_equal("the phase", &case.listed_run(job.run()).await?.phase, &RunPhase::Done)
}
