//! Submissions to an engine behind a link that fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::model::{Budget, RunId};
use zk_core::service::{
    Engine, EngineError, EngineName, EngineRun, Job, Legs, RunFilter, RunPhase, Schedule, ScheduleTimes,
    SessionFilter, Take,
};
use zk_engine::{LocalEngine, Placement, RunsError};
use zk_exec::LocalStateFiles;
use zk_testkit::Turn;

use super::desk::Desk;

/// Fault of a link to an engine during one change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The change does not arrive.
    NoChange,
    /// The change is made, and its answer is lost.
    NoAnswer,
    /// The change is made, its answer is lost, and the engine is out of reach from then on.
    Gone,
}

/// Local engine behind a link with faults, one for each of its first changes.
struct Faulty {
    engine: LocalEngine,
    faults: Mutex<VecDeque<Fault>>,
    is_gone: Mutex<bool>,
}

fn failed() -> EngineError {
    EngineError::Failed { doing: "submit a run", why: "the server does not answer".into() }
}

impl Faulty {
    async fn change(&self, change: impl Future<Output = Result<(), EngineError>>) -> Result<(), EngineError> {
        let fault = self.faults.lock().unwrap().pop_front();
        if fault != Some(Fault::NoChange) {
            change.await?;
        }
        *self.is_gone.lock().unwrap() = fault == Some(Fault::Gone);
        if fault.is_some() { Err(failed()) } else { Ok(()) }
    }

    fn check_link(&self) -> Result<(), EngineError> {
        if *self.is_gone.lock().unwrap() { Err(failed()) } else { Ok(()) }
    }
}

#[async_trait]
impl Engine for Faulty {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        self.change(self.engine.submit(job)).await
    }

    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError> {
        self.change(self.engine.schedule(plan)).await
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        self.check_link()?;
        self.engine.list(filter).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        self.check_link()?;
        self.engine.schedules().await
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        self.engine.wake(run).await
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        self.engine.cancel(run).await
    }

    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError> {
        self.engine.unschedule(name).await
    }

    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        self.engine.drain(worker).await
    }

    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        self.engine.serve(take, legs, stop).await
    }
}

fn new_desk() -> Desk {
    Desk::answering(|_| Turn::new().text("done it"))
}

/// Moves a desk to an empty engine behind a link with a fault.
fn move_behind(desk: &mut Desk, fault: Fault) {
    let engine = LocalEngine::new(desk.dir.path().join("behind"), Arc::new(LocalStateFiles::default()));
    desk.move_to(Faulty { engine, faults: Mutex::new([fault].into()), is_gone: Mutex::default() });
}

async fn count_sessions(desk: &Desk) -> usize {
    let filter = SessionFilter { unanswered: true, ..SessionFilter::default() };
    desk.runs.store().list(&filter).await.unwrap().len()
}

/// A run whose session was deleted would fail.
#[tokio::test]
async fn a_session_is_deleted_only_if_the_engine_has_no_run_of_it() {
    for (fault, passes, sessions) in
        [(Fault::NoChange, false, 0), (Fault::NoAnswer, true, 1), (Fault::Gone, false, 1)]
    {
        let mut desk = new_desk();
        move_behind(&mut desk, fault);
        let submitted = desk.runs.submit("/project", "Do it.", Placement::default()).await;
        assert_eq!(submitted.is_ok(), passes, "{fault:?}: {submitted:?}");
        assert_eq!(count_sessions(&desk).await, sessions, "{fault:?}");
        if let Ok(job) = submitted {
            desk.serve_once().await;
            assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
        }

        let mut desk = new_desk();
        move_behind(&mut desk, fault);
        let (name, times) =
            (EngineName::new("nightly").unwrap(), ScheduleTimes::Every(Duration::from_secs(3600)));
        let placement = Placement::default();
        let planned = desk.runs.schedule(name, times, ("/project".into(), "Do it."), placement).await;
        assert_eq!(planned.is_ok(), passes, "{fault:?}: {planned:?}");
        assert_eq!(count_sessions(&desk).await, sessions, "{fault:?}");
    }
}

#[tokio::test]
async fn a_hand_off_with_a_budget_is_repeated_after_a_failure() {
    let mut desk = new_desk();
    let stored = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    move_behind(&mut desk, Fault::NoChange);
    let budget = Some(Budget::tokens(44_000));
    let placement = Placement { run: Some("r_again".into()), budget, ..Placement::default() };
    let failed = desk.runs.hand_off(stored.session(), None, placement.clone()).await;
    assert!(matches!(failed, Err(RunsError::Engine(EngineError::Failed { .. }))), "{failed:?}");
    let job = desk.runs.hand_off(stored.session(), None, placement).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    assert!(desk.stored(&job).await.contains("\"tokens\":44000"));
}
