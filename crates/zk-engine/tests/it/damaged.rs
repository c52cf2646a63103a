//! Entries of the engine's file that this version cannot read, and files of earlier versions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, EngineError, EngineName, Job, Lease, LegEnd, LegFailure, Legs, RunFilter, RunPhase, RunStatus,
    Schedule, ScheduleTimes, ScheduledJob, Take, UnreadableKind,
};
use zk_engine::LocalEngine;
use zk_exec::LocalStateFiles;

struct Completing;

#[async_trait]
impl Legs for Completing {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        LegEnd::Done(RunStatus::Completed)
    }
}

fn engine(dir: &Path) -> LocalEngine {
    LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default()))
}

fn job(run: &str) -> Job {
    Job::new(RunId::from(run), SessionId::from(format!("s_{run}"))).unwrap()
}

fn change(engine: &LocalEngine, sql: &str) {
    Connection::open(engine.path()).unwrap().execute_batch(sql).unwrap();
}

async fn serve_once(engine: &LocalEngine) {
    let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
    engine.serve(take, Arc::new(Completing), CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_run_hides_no_other_and_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    for run in ["r_good", "r_broken", "r_newer", "r_wait", "r_last"] {
        engine.submit(job(run)).await.unwrap();
    }
    change(
        &engine,
        "UPDATE runs SET job = '{' WHERE run = 'r_broken';
         UPDATE runs SET format = 99, job = json_set(job, '$.format', 99) WHERE run = 'r_newer';
         UPDATE runs SET phase = 'parked', wait = '{\"for\":\"a moon\"}' WHERE run = 'r_wait';",
    );
    let listed = engine.list(&RunFilter::default()).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|run| run.job.run().as_str()).collect();
    assert_eq!(ids, ["r_good", "r_last"]);
    let unreadable = engine.unreadable().await.unwrap();
    let ids: Vec<&str> = unreadable.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["r_broken", "r_newer", "r_wait"]);
    assert!(unreadable[1].why.contains("newer zk"), "{unreadable:?}");

    serve_once(&engine).await;
    let listed = engine.list(&RunFilter::default()).await.unwrap();
    assert!(listed.iter().all(|run| run.phase == RunPhase::Done), "{listed:?}");
    let failure: String = Connection::open(engine.path())
        .unwrap()
        .query_row("SELECT phase || failure FROM runs WHERE run = 'r_broken'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(failure, format!("failed{}", serde_json::to_string(&LegFailure::Unreadable).unwrap()));
    // A newer worker takes this one.
    assert_eq!(engine.unreadable().await.unwrap().iter().filter(|entry| entry.id == "r_newer").count(), 1);
    // The session of a run that cannot be read is taken all the same.
    let same = Job::new("r_other".into(), "s_r_newer".into()).unwrap();
    assert!(
        matches!(engine.submit(same).await, Err(EngineError::SessionTaken { run, .. }) if run.as_str() == "r_newer")
    );
}

#[tokio::test]
async fn an_unreadable_or_refused_schedule_keeps_no_other_from_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    // Another job has the run of one schedule, and another run the session of another.
    engine.submit(job("r_known:1")).await.unwrap();
    engine.submit(Job::new("r_holder".into(), "s_taken_1".into()).unwrap()).await.unwrap();
    for name in ["known", "nameless", "odd", "plain", "taken"] {
        let job = ScheduledJob { template: "s_t".into(), preset: None, workspace: None, queue: None };
        let times = ScheduleTimes::Every(Duration::from_secs(3600));
        engine.schedule(Schedule { name: EngineName::new(name).unwrap(), times, job }).await.unwrap();
    }
    change(
        &engine,
        "UPDATE schedules SET plan = json_set(plan, '$.times', 'at full moon') WHERE name = 'odd';
         UPDATE schedules SET plan = json_set(plan, '$.job.template', 'no name') WHERE name = 'nameless';
         UPDATE schedules SET next_ms = 1;",
    );
    assert_eq!(engine.schedules().await.unwrap().len(), 4);
    let unreadable = engine.unreadable().await.unwrap();
    assert_eq!((unreadable[0].kind, &*unreadable[0].id), (UnreadableKind::Schedule, "odd"));
    serve_once(&engine).await;
    let runs = engine.list(&RunFilter::default()).await.unwrap();
    let runs: Vec<_> = runs.iter().map(|run| run.job.run().as_str()).collect();
    assert_eq!(runs, ["r_known:1", "r_holder", "r_plain:1"]);
}

/// The tables of the version before, which knew no sessions of runs.
#[tokio::test]
async fn a_file_of_the_version_before_is_used_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    engine.submit(job("r_1")).await.unwrap();
    change(&engine, "DROP INDEX runs_by_session; ALTER TABLE runs DROP COLUMN session;");
    let engine = self::engine(dir.path());
    let same = Job::new("r_2".into(), "s_r_1".into()).unwrap();
    assert!(matches!(engine.submit(same).await, Err(EngineError::SessionTaken { .. })));
    let filter = RunFilter { session: Some("s_r_1".into()), ..RunFilter::default() };
    assert_eq!(engine.list(&filter).await.unwrap().len(), 1);
}
