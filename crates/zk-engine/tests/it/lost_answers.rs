//! Changes to an engine behind a link that fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::model::{Budget, EntryId, RunId, SessionId};
use zk_core::service::{
    Durability, Engine, EngineError, EngineName, EngineRun, EntryKind, Job, Lease, LegEnd, Legs, NewEntry,
    QUESTION_ENTRY, Question, RunFilter, RunPhase, Schedule, ScheduleTimes, SessionFilter, StoredQuestion,
    Take, UiAnswer, Wait,
};
use zk_engine::{LiveUpdate, LocalEngine, Placement, RunWatch, RunsError};
use zk_exec::LocalStateFiles;
use zk_session::AnswerRefused;
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
    /// Whether a cancellation never gets an answer, and does not arrive.
    loses_cancels: bool,
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
        self.change(self.engine.wake(run)).await
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        if self.loses_cancels {
            std::future::pending::<()>().await;
        }
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
    let (faults, is_gone) = (Mutex::new([fault].into()), Mutex::default());
    desk.move_to(Faulty { engine, faults, is_gone, loses_cancels: false });
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

/// Legs that park on a question.
struct Asking(EntryId);

#[async_trait]
impl Legs for Asking {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        LegEnd::Parked(Wait::Answer(self.0.clone()))
    }
}

/// Stores a question of a run in its session.
async fn ask(desk: &Desk, job: &Job) -> EntryId {
    let asked = StoredQuestion {
        run_id: job.run().clone(),
        turn_id: "t_1".into(),
        call_id: "c_1".into(),
        tool: "shell".to_owned(),
        reason: "nobody is here".to_owned(),
        digest: "9f86d081".to_owned(),
        question: Question::Approve(Box::default()),
    };
    let entry = NewEntry::hidden(QUESTION_ENTRY, 1, serde_json::to_value(asked).unwrap());
    let entry = EntryKind::Custom(entry.by(Bus::new().scope("zk-agent").source()));
    let open = desk.runs.store().open(job.session()).await.unwrap();
    let ids = open.append(vec![entry], Durability::Process).await.unwrap();
    open.close().await.unwrap();
    ids[0].clone()
}

/// The first to answer may have died before the run was woken.
#[tokio::test]
async fn an_answer_that_is_given_again_wakes_the_run() {
    for fault in [Fault::NoChange, Fault::NoAnswer] {
        let mut desk = new_desk();
        let engine = LocalEngine::new(desk.dir.path().join("behind"), Arc::new(LocalStateFiles::default()));
        let (faults, is_gone) = (Mutex::default(), Mutex::default());
        let link = Arc::new(Faulty { engine, faults, is_gone, loses_cancels: false });
        desk.use_runs(link.clone(), desk.runs.store().clone());
        let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
        let legs = Arc::new(Asking(ask(&desk, &job).await));
        let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
        desk.runs.engine().serve(take, legs, CancellationToken::new()).await.unwrap();
        let parked = desk.runs.find(job.run().as_str()).await.unwrap();
        assert_eq!(parked.phase, RunPhase::Parked);
        link.faults.lock().unwrap().push_back(fault);
        let failed = desk.runs.answer(&parked, UiAnswer::Once).await;
        assert!(matches!(failed, Err(RunsError::Engine(EngineError::Failed { .. }))), "{failed:?}");
        let again = desk.runs.answer(&parked, UiAnswer::Once).await;
        assert!(matches!(again, Err(RunsError::Answer(AnswerRefused::Answered { .. }))), "{again:?}");
        assert_eq!(desk.phase_of(&job).await, RunPhase::Queued);
        desk.serve_once().await;
        assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    }
}

/// Waits until the model of a run has said something.
async fn hear(desk: &Desk, session: &SessionId) {
    let mut watch = RunWatch::new(&**desk.runs.store(), session.clone());
    while !matches!(watch.next(Duration::from_millis(50)).await, LiveUpdate::Piece(_)) {}
}

/// The relay of the store reaches the legs.
#[tokio::test]
async fn a_cancellation_that_the_engine_does_not_hear_ends_the_legs_of_a_run_and_its_children() {
    let mut desk = Desk::answering(|asked| {
        let text = format!("{:?}", asked.messages);
        match (text.contains("Do all."), text.contains("as a run of its own")) {
            (true, false) => Turn::new().call("spawn", json!({"task": "Do left.", "background": true})),
            (true, true) => Turn::new().text("I wait here.").hang(),
            (false, _) => Turn::new().text("I work here.").hang(),
        }
    });
    let engine = LocalEngine::new(desk.dir.path().join("behind"), Arc::new(LocalStateFiles::default()));
    let (faults, is_gone) = (Mutex::default(), Mutex::default());
    desk.move_to(Faulty { engine, faults, is_gone, loses_cancels: true });
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    let serving = desk.serve();
    let children = RunFilter { parent: Some(job.run().clone()), ..RunFilter::default() };
    let child = loop {
        if let Some(child) = desk.runs.engine().list(&children).await.unwrap().pop() {
            break child.job;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    hear(&desk, job.session()).await;
    hear(&desk, child.session()).await;
    let run = desk.runs.find(job.run().as_str()).await.unwrap();
    let runs = desk.runs.clone();
    let cancelling = tokio::spawn(async move { runs.cancel(&run).await });
    desk.wait_for(&job, RunPhase::Cancelled).await;
    desk.wait_for(&child, RunPhase::Cancelled).await;
    assert!(!cancelling.is_finished(), "the engine has not answered");
    cancelling.abort();
    serving.stop().await;
}
