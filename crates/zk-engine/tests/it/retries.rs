//! Runs that are tried again after an answer that broke off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::model::ErrorKind;
use zk_core::service::RunPhase;
use zk_engine::{LiveUpdate, Placement, RunWatch};
use zk_testkit::Turn;

use super::desk::Desk;

/// A model that breaks off after some text, once.
fn breaking_once(first: fn() -> Turn) -> Desk {
    let asked = AtomicUsize::new(0);
    Desk::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => first(),
        _ => Turn::new().text("all of it"),
    })
}

#[tokio::test]
async fn a_run_whose_answer_broke_off_is_tried_again() {
    let desk = breaking_once(|| Turn::new().text("The first half").error(ErrorKind::Malformed, "cut off"));
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    desk.serve_once().await;
    let failed = desk.runs.find(job.run().as_str()).await.unwrap();
    assert_eq!(failed.phase, RunPhase::Failed);
    assert!(desk.stored(&job).await.contains("The first half"));
    let again = desk.runs.retry(&failed).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&again).await, RunPhase::Done);
    assert!(desk.stored(&job).await.contains("all of it"));
}

#[tokio::test]
async fn a_run_that_was_aborted_while_it_answered_is_tried_again() {
    let desk = breaking_once(|| Turn::new().text("The first half").hang());
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let serving = desk.serve();
    let mut watch = RunWatch::new(&**desk.runs.store(), job.session().clone());
    while !matches!(watch.next(Duration::from_millis(50)).await, LiveUpdate::Piece(_)) {}
    desk.runs.cancel(&desk.runs.find(job.run().as_str()).await.unwrap()).await.unwrap();
    desk.wait_for(&job, RunPhase::Cancelled).await;
    assert!(desk.stored(&job).await.contains("The first"));
    let cancelled = desk.runs.find(job.run().as_str()).await.unwrap();
    let again = desk.runs.retry(&cancelled).await.unwrap();
    desk.wait_for(&again, RunPhase::Done).await;
    assert!(desk.stored(&job).await.contains("all of it"));
    serving.stop().await;
}
