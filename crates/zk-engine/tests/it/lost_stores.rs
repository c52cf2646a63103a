//! Runs whose store is out of reach for a while, or has what only a newer zk reads.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use zk_core::service::{HandoverCause, Lease, LegEnd, LegFailure, Legs, RunPhase};
use zk_engine::{MAX_LEG_DEATHS, Placement};
use zk_session::{MemoryStore, SqliteStore};
use zk_testkit::{FailingStore, TracedWork};

use super::desk::Desk;

/// Work without a store that fails, and the number of times that it uses its store.
async fn count_uses() -> usize {
    let dir = tempfile::tempdir().unwrap();
    let work = TracedWork::new(dir.path(), || Duration::ZERO);
    let store = FailingStore::new(Arc::new(MemoryStore::new()));
    let desk = Desk::tracing(&work, Arc::new(store.clone()));
    desk.runs.submit("/project", "r_1", Placement::default()).await.unwrap();
    desk.serve_once().await;
    store.uses()
}

/// Promise: wherever a leg loses its store, and for however long, its run goes on, no effect is repeated, and no stored answer
/// is asked for again.
#[tokio::test]
async fn a_run_goes_on_wherever_its_leg_loses_the_store() {
    let uses = count_uses().await;
    assert!(uses >= 25, "{uses} uses of the store");
    let mut lost_legs = 0;
    for at in 0..uses {
        for length in [1, 2, 5] {
            let dir = tempfile::tempdir().unwrap();
            let work = TracedWork::new(dir.path(), || Duration::ZERO);
            let store = FailingStore::new(Arc::new(MemoryStore::new()));
            let desk = Desk::tracing(&work, Arc::new(store.clone()));
            let job = desk.runs.submit("/project", "r_1", Placement::default()).await.unwrap();
            store.fail_during(at..at + length);
            let over = loop {
                desk.serve_once().await;
                let run = desk.runs.find(job.run().as_str()).await.unwrap();
                match run.phase {
                    RunPhase::Parked => desk.runs.engine().wake(job.run()).await.unwrap(),
                    _ => break run,
                }
            };
            assert_eq!(over.phase, RunPhase::Done, "use {at}, {length} in a row: {over:?}");
            lost_legs += over.legs - 1;
            let entries = desk.runs.store().read(job.session()).await.unwrap().entries;
            work.check("r_1", &entries).unwrap_or_else(|broken| panic!("use {at}, {length}: {broken}"));
        }
    }
    assert!(lost_legs >= u64::try_from(uses).unwrap(), "{lost_legs} legs were lost");
}

#[tokio::test]
async fn a_store_that_never_comes_back_fails_the_run_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let work = TracedWork::new(dir.path(), || Duration::ZERO);
    let store = FailingStore::new(Arc::new(MemoryStore::new()));
    let desk = Desk::tracing(&work, Arc::new(store.clone()));
    let job = desk.runs.submit("/project", "r_1", Placement::default()).await.unwrap();
    for loss in 1..=MAX_LEG_DEATHS {
        // The session opens, and fails after that.
        let uses = store.uses();
        store.fail_during(uses + 3..usize::MAX);
        desk.serve_once().await;
        let run = desk.runs.find(job.run().as_str()).await.unwrap();
        if loss < MAX_LEG_DEATHS {
            assert_eq!(run.phase, RunPhase::Parked, "{run:?}");
            desk.runs.engine().wake(job.run()).await.unwrap();
        } else {
            assert_eq!(run.failure, Some(LegFailure::Store(MAX_LEG_DEATHS)), "{run:?}");
        }
    }
    // A failure is no end in its session: the run goes on once the store works again.
    store.fail_during(0..0);
    let failed = desk.runs.find(job.run().as_str()).await.unwrap();
    let again = desk.runs.retry(&failed).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&again).await, RunPhase::Done);
}

/// A worker of the newer zk goes on with it.
#[tokio::test]
async fn a_log_of_a_newer_zk_is_left_to_newer_workers() {
    let dir = tempfile::tempdir().unwrap();
    let work = TracedWork::new(dir.path(), || Duration::ZERO);
    let sessions = dir.path().join("sessions");
    let desk = Desk::tracing(&work, Arc::new(SqliteStore::new(sessions.clone())));
    let job = desk.runs.submit("/project", "r_1", Placement::default()).await.unwrap();
    let projects = std::fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path());
    let log = projects.map(|dir| dir.join(format!("{}.db", job.session()))).find(|log| log.exists()).unwrap();
    Connection::open(&log).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(desk.legs.leg(&job, Lease::new(1)).await, LegEnd::Handover(HandoverCause::TooNew));
    desk.serve_once().await;
    let paused = desk.runs.find(job.run().as_str()).await.unwrap();
    assert_eq!((paused.phase, paused.failure), (RunPhase::Parked, None));
}
