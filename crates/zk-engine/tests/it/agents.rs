//! Legs of agents with a scripted model: parking, handover, and continuation in another leg.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{
    EngineError, EngineName, HandoverCause, Job, Lease, LegEnd, LegFailure, RelaySignal, RunFilter, RunPhase,
    Take,
};
use zk_engine::{LiveUpdate, LocalEngine, Placement, RunWatch, RunsError};
use zk_exec::LocalStateFiles;
use zk_testkit::Turn;

use super::desk::Desk;

#[tokio::test]
async fn a_submitted_prompt_is_answered_once() {
    let desk = Desk::answering(|_| Turn::new().text("done it"));
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    assert_eq!(desk.phase_of(&job).await, RunPhase::Queued);
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let stored =
        serde_json::to_string(&desk.runs.store().read(job.session()).await.unwrap().entries).unwrap();
    assert!(stored.contains("Do it.") && stored.contains("done it"), "{stored}");
    assert_eq!(desk.asks.load(Ordering::SeqCst), 1);
    let over = desk.runs.find(job.run().as_str()).await.unwrap();
    assert!(matches!(desk.runs.steer(&over, "more").await, Err(RunsError::Engine(_))));
    let nothing = desk.runs.hand_off(job.session(), None, Placement::default()).await;
    assert!(matches!(nothing, Err(RunsError::NothingToDo(_))), "{nothing:?}");
    let again = desk.runs.hand_off(job.session(), Some("Again."), Placement::default()).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&again).await, RunPhase::Done);
    assert_eq!(desk.asks.load(Ordering::SeqCst), 2);
}

/// A store knows the tokens of a file of runs that was lost, and takes those of the next file.
#[tokio::test]
async fn a_session_goes_on_though_the_file_of_runs_was_lost() {
    let mut desk = Desk::answering(|_| Turn::new().text("done it"));
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    desk.serve_once().await;
    let before = desk.runs.find(job.run().as_str()).await.unwrap().token;
    let (dir, lost) = (desk.dir.path().join("engine"), desk.dir.path().join("lost"));
    std::fs::rename(&dir, lost).unwrap();
    desk.move_to(LocalEngine::new(dir, Arc::new(LocalStateFiles::default())));
    let again = desk.runs.hand_off(job.session(), Some("Again."), Placement::default()).await.unwrap();
    desk.serve_once().await;
    let after = desk.runs.find(again.run().as_str()).await.unwrap();
    assert_eq!(after.phase, RunPhase::Done);
    assert!(after.token > before, "{} follows {before}", after.token);
}

/// Two runs of one session would write into each other's turns.
#[tokio::test]
async fn a_session_has_one_unfinished_run() {
    let desk = Desk::answering(|_| Turn::new().text("done it"));
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let entries = async || desk.runs.store().read(job.session()).await.unwrap().entries.len();
    let before = entries().await;
    let refused = desk.runs.hand_off(job.session(), Some("More."), Placement::default()).await;
    assert!(
        matches!(&refused, Err(RunsError::Engine(EngineError::SessionTaken { run, .. })) if run == job.run()),
        "{refused:?}"
    );
    assert_eq!(entries().await, before, "a refused prompt is not stored");
    let same = Placement { run: Some(job.run().clone()), ..Placement::default() };
    assert_eq!(desk.runs.hand_off(job.session(), Some("More."), same.clone()).await.unwrap(), job);
    assert_eq!(entries().await, before);
    desk.serve_once().await;
    let ended = entries().await;
    assert_eq!(desk.runs.hand_off(job.session(), Some("More."), same).await.unwrap(), job);
    assert_eq!(entries().await, ended, "a run is submitted once, so its prompt is not stored again");
}

/// Both see a session without a run before either has submitted one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hand_offs_at_the_same_moment_one_passes() {
    let desk = Desk::answering(|_| Turn::new().text("done it"));
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    desk.serve_once().await;
    for round in 0..10 {
        let start = Arc::new(tokio::sync::Barrier::new(2));
        let hand_off = |text: &'static str| {
            let (runs, session, start) = (desk.runs.clone(), job.session().clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                runs.hand_off(&session, Some(text), Placement::default()).await
            })
        };
        let (one, other) = (hand_off("One."), hand_off("Other."));
        let both = [one.await.unwrap(), other.await.unwrap()];
        let passed = both.iter().filter(|handed| handed.is_ok()).count();
        assert_eq!(passed, 1, "round {round}: {both:?}");
        let unfinished = desk.runs.engine().list(&RunFilter::unfinished()).await.unwrap();
        assert_eq!(unfinished.len(), 1, "round {round}: {both:?}");
        desk.serve_once().await;
    }
}

#[tokio::test]
async fn a_message_to_a_queued_run_is_in_its_first_request() {
    let desk = Desk::answering(|asked| {
        let is_told = format!("{:?}", asked.messages).contains("say plum");
        Turn::new().text(if is_told { "plum" } else { "nothing" })
    });
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let queued = desk.runs.find(job.run().as_str()).await.unwrap();
    desk.runs.steer(&queued, "say plum").await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let stored =
        serde_json::to_string(&desk.runs.store().read(job.session()).await.unwrap().entries).unwrap();
    assert!(stored.contains("\"plum\""), "{stored}");
}

#[tokio::test]
async fn a_drained_leg_is_handed_over_and_a_cancelled_one_ends() {
    let desk = Desk::answering(|asked| {
        if asked.messages.iter().any(|message| message.results().next().is_some()) {
            return Turn::new().text("done it");
        }
        Turn::new().hang()
    });
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let (stop, engine) = (CancellationToken::new(), desk.runs.engine().clone());
    let take = Take::new(EngineName::new("first").unwrap());
    let (legs, stopped) = (desk.legs.clone(), stop.clone());
    let serving = tokio::spawn(async move { engine.serve(take, legs, stopped).await });
    while desk.asks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
    assert_eq!(desk.phase_of(&job).await, RunPhase::Queued);

    let (engine, legs, stop) = (desk.runs.engine().clone(), desk.legs.clone(), CancellationToken::new());
    let (take, stopped) = (Take::new(EngineName::new("second").unwrap()), stop.clone());
    let serving = tokio::spawn(async move { engine.serve(take, legs, stopped).await });
    while desk.asks.load(Ordering::SeqCst) == 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk.runs.engine().cancel(job.run()).await.unwrap();
    while desk.phase_of(&job).await != RunPhase::Cancelled {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}

/// A leg that loses its lease in a turn appends nothing more, also while it is drained; the next leg goes on.
#[tokio::test]
async fn a_leg_that_loses_its_lease_leaves_its_run_to_the_next() {
    let asks = Arc::new(AtomicUsize::new(0));
    let counted = asks.clone();
    let desk = Desk::answering(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Turn::new().hang(),
        _ => Turn::new().text("done it"),
    });
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    for (token, drains) in [(1, false), (2, true)] {
        let lease = Lease::new(token);
        let (legs, driven, held) = (desk.legs.clone(), job.clone(), lease.clone());
        let leg = tokio::spawn(async move { zk_core::service::Legs::leg(&*legs, &driven, held).await });
        while asks.load(Ordering::SeqCst) < usize::try_from(token).unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let before = desk.runs.store().read(job.session()).await.unwrap().entries.len();
        if drains {
            lease.draining().cancel();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        lease.lost().cancel();
        let end = leg.await.unwrap();
        assert_eq!(end, LegEnd::Handover(HandoverCause::Fenced));
        let after = desk.runs.store().read(job.session()).await.unwrap().entries;
        assert_eq!(after.len(), before, "{after:?}");
    }
    let end = zk_core::service::Legs::leg(&*desk.legs, &job, Lease::new(3)).await;
    assert_eq!(end, LegEnd::Done(zk_core::service::RunStatus::Completed));
}

#[tokio::test]
async fn a_run_without_its_session_fails_with_the_reason() {
    let desk = Desk::answering(|_| Turn::new().text("never"));
    let job = Job::new("r_1".into(), "s_none".into()).unwrap();
    desk.runs.engine().submit(job.clone()).await.unwrap();
    desk.serve_once().await;
    let listed = desk.runs.find("r_1").await.unwrap();
    assert_eq!((listed.phase, listed.failure), (RunPhase::Failed, Some(LegFailure::NoSession)));
}

/// Watchers read the answer on its way; the end of a run reaches its leg past an engine that is slow to tell it.
#[tokio::test]
async fn a_watcher_reads_along_and_an_abort_comes_by_the_relay() {
    let desk = Desk::answering(|_| Turn::new().thinking("let me see, ").text("It is plum, I think").hang());
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let mut watch = RunWatch::new(&**desk.runs.store(), job.session().clone());
    let (engine, legs, stop) = (desk.runs.engine().clone(), desk.legs.clone(), CancellationToken::new());
    let (take, stopped) = (Take::new(EngineName::new("w").unwrap()), stop.clone());
    let serving = tokio::spawn(async move { engine.serve(take, legs, stopped).await });
    while desk.asks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Somebody who comes in the middle of an answer reads it from its beginning.
    let mut read = String::new();
    while !read.contains("plum") {
        match watch.next(Duration::from_millis(100)).await {
            LiveUpdate::Look => {}
            LiveUpdate::Piece(piece) => {
                if piece.number == 0 {
                    read.clear();
                }
                read.push_str(&piece.text);
            }
        }
    }
    assert_eq!(read, "let me see, It is plum, I ");
    desk.runs.store().relay().unwrap().send(job.session(), &RelaySignal::Abort).await.unwrap();
    while desk.phase_of(&job).await != RunPhase::Cancelled {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(desk.stored(&job).await.contains("aborted"));
    stop.cancel();
    serving.await.unwrap().unwrap();
}
