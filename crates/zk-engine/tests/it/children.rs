//! Runs that a run starts: their results, cancellation and budgets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_agent::SpawnOptions;
use zk_core::model::{Budget, RunId, SessionId, Spent, Usage};
use zk_core::service::{
    ChildBudget, EngineName, EngineRun, EntryVisitor, Job, Lease, LegEnd, Legs, Mail, NewSession,
    OpenSession, RunBudget, RunFilter, RunPhase, SessionFilter, SessionInfo, SessionScan, SessionSnapshot,
    SessionStore, StoreError, Take, Wait, spent_in,
};
use zk_engine::Placement;
use zk_testkit::{Asked, Turn};

use super::desk::Desk;

/// Text of the prompt, the results and the messages of a request.
fn text_of(asked: &Asked) -> String {
    format!("{:?}", asked.messages)
}

fn delegate(tasks: &[&str]) -> Turn {
    tasks.iter().fold(Turn::new(), |turn, task| turn.call("spawn", json!({"task": task, "background": true})))
}

async fn children_of(desk: &Desk, parent: &Job) -> Vec<EngineRun> {
    let filter = RunFilter { parent: Some(parent.run().clone()), ..RunFilter::default() };
    desk.runs.engine().list(&filter).await.unwrap()
}

async fn found(desk: &Desk, job: &Job) -> EngineRun {
    desk.runs.find(job.run().as_str()).await.unwrap()
}

/// Answers of a parent that delegates both halves, and of its children.
fn halves(asked: &Asked) -> Turn {
    let text = text_of(asked);
    if text.contains("Do all.") {
        return match (text.contains("left is done"), text.contains("right is done")) {
            _ if !text.contains("as a run of its own") => delegate(&["Do left.", "Do right."]),
            (true, true) => Turn::new().text("all is done"),
            (false, false) => Turn::new().text("I wait."),
            halves => Turn::new().text(format!("only one half: {halves:?}")),
        };
    }
    Turn::new().text(if text.contains("Do left.") { "left is done" } else { "right is done" })
}

#[tokio::test]
async fn results_of_children_come_once() {
    let desk = Desk::answering(halves);
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    desk.serve_once().await;
    let parent = found(&desk, &job).await;
    assert_eq!(parent.phase, RunPhase::Done, "{parent:?}");
    let children = children_of(&desk, &job).await;
    assert_eq!(children.len(), 2);
    let calls: BTreeSet<_> = children.iter().map(|run| run.job.parent().unwrap().call.clone()).collect();
    assert_eq!(calls.len(), 2, "each child answers a call of its own");
    for child in &children {
        assert_eq!(child.phase, RunPhase::Done);
        assert!(desk.stored(&child.job).await.contains("is done"), "a child has a session of its own");
    }
    let stored = desk.stored(&job).await;
    assert!(stored.contains("all is done"), "{stored}");
    for half in ["left", "right"] {
        assert_eq!(stored.matches(&format!("is done. Its answer:\\n{half} is done")).count(), 1, "{stored}");
    }
    // Two turns of the parent before it parks, at most one for each result, and one of each child.
    let run_ends = stored.matches("\"run_end\"").count();
    assert!(run_ends <= 1, "{run_ends} ends of one run: {stored}");
}

/// The memory of a run is not redacted.
#[tokio::test]
async fn a_child_that_begins_with_messages_of_its_parent_keeps_no_secret() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        match (text.contains("Do all."), text.contains("as a run of its own"), text.contains("Do right.")) {
            (true, false, _) => delegate(&["Do left."]).text("I found https://me:hunter2@host/v1."),
            (true, true, false) => {
                let args = json!({"task": "Do right.", "background": true, "context": "last_turns"});
                Turn::new().call("spawn", args)
            }
            (false, ..) | (true, true, true) => Turn::new().text("it is done"),
        }
    });
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let children = children_of(&desk, &job).await;
    let [_, child] = children.as_slice() else { panic!("{children:?}") };
    let stored = desk.stored(&child.job).await;
    assert!(stored.contains("https://me:[redacted]@host/v1") && !stored.contains("hunter2"), "{stored}");
}

/// A parent parks without a worker until the last child has ended, also if its worker dies between the two.
#[tokio::test]
async fn a_parent_parks_on_its_children_and_a_repeated_call_starts_no_second_run() {
    let desk = Desk::answering(halves);
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    // The leg is driven without the engine, as if its worker died before it could say how the leg ended.
    let end = desk.legs.leg(&job, Lease::new(1)).await;
    let children: Vec<RunId> =
        children_of(&desk, &job).await.iter().map(|run| run.job.run().clone()).collect();
    assert_eq!(end, LegEnd::Parked(Wait::Children(children.clone())));
    let again = desk.legs.leg(&job, Lease::new(2)).await;
    assert_eq!(again, LegEnd::Parked(Wait::Children(children)));
    assert_eq!(children_of(&desk, &job).await.len(), 2);
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    // The children run once.
    assert!(children_of(&desk, &job).await.iter().all(|run| run.legs == 1));
}

#[tokio::test]
async fn a_child_that_fails_or_is_cancelled_is_told_too() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        if text.contains("Do all.") {
            return match text.contains("as a run of its own") {
                false => delegate(&["Do left."]),
                true => Turn::new().text(if text.contains("was cancelled") {
                    "it was cancelled"
                } else {
                    "I wait."
                }),
            };
        }
        Turn::new().hang()
    });
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    let end = desk.legs.leg(&job, Lease::new(1)).await;
    assert!(matches!(end, LegEnd::Parked(Wait::Children(_))), "{end:?}");
    let child = children_of(&desk, &job).await.remove(0);
    desk.runs.engine().cancel(child.job.run()).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    assert!(desk.stored(&job).await.contains("it was cancelled"));
}

/// Store whose first `failures` reads fail.
struct Stalling {
    inner: Arc<dyn SessionStore>,
    failures: AtomicUsize,
}

#[async_trait]
impl SessionStore for Stalling {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.inner.create(new).await
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.inner.open(id).await
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        self.inner.post_mail(id, mail).await
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err(StoreError::Failed("the server does not answer".to_owned()));
        }
        self.inner.read(id).await
    }

    async fn scan(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.inner.scan(id, visit).await
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.inner.list(filter).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

/// A result is told once, so that it has to be the right one.
#[tokio::test]
async fn a_child_whose_session_cannot_be_read_now_is_told_later() {
    let mut desk = Desk::answering(halves);
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    // Each child reads its session when it ends, and the parent when it collects their results.
    let store = Stalling { inner: desk.runs.store().clone(), failures: AtomicUsize::new(3) };
    desk.use_runs(desk.runs.engine().clone(), Arc::new(store));
    desk.serve_once().await;
    let parent = found(&desk, &job).await;
    assert!(matches!(parent.wait, Some(Wait::Until(_))), "{parent:?}");
    desk.runs.engine().wake(job.run()).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let stored = desk.stored(&job).await;
    assert!(!stored.contains("cannot be read"), "{stored}");
    for half in ["left", "right"] {
        assert_eq!(stored.matches(&format!("is done. Its answer:\\n{half} is done")).count(), 1, "{stored}");
    }
}

/// A session that is gone is not waited for.
#[tokio::test]
async fn a_child_without_its_session_is_told_too() {
    let desk = Desk::answering(halves);
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    desk.legs.leg(&job, Lease::new(1)).await;
    for child in children_of(&desk, &job).await {
        desk.runs.store().delete(child.job.session()).await.unwrap();
    }
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let stored = desk.stored(&job).await;
    assert_eq!(stored.matches("is failed; its session cannot be read").count(), 2, "{stored}");
}

/// The whole tree: a parent that waits, a child that waits, and a grandchild that runs.
#[tokio::test]
async fn a_cancellation_reaches_all_descendants() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        match (text.contains("Do all."), text.contains("Do left."), text.contains("as a run of its own")) {
            (true, _, false) => delegate(&["Do left."]),
            (_, true, false) => delegate(&["Do the corner."]),
            (_, _, true) => Turn::new().text("I wait."),
            (false, false, false) => Turn::new().hang(),
        }
    });
    let job = desk.runs.submit("/project", "Do all.", Placement::default()).await.unwrap();
    let (engine, legs, stop) = (desk.runs.engine().clone(), desk.legs.clone(), CancellationToken::new());
    let (take, stopped) = (Take::new(EngineName::new("w").unwrap()), stop.clone());
    let serving = tokio::spawn(async move { engine.serve(take, legs, stopped).await });
    let all = async || desk.runs.engine().list(&RunFilter::default()).await.unwrap();
    loop {
        let phases: Vec<RunPhase> = all().await.iter().map(|run| run.phase).collect();
        if phases == [RunPhase::Parked, RunPhase::Parked, RunPhase::Running] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk.runs.engine().cancel(job.run()).await.unwrap();
    while !all().await.iter().all(|run| run.phase == RunPhase::Cancelled) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn runs_are_as_deep_as_they_may_be() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        if text.contains("deep at most") {
            return Turn::new().text("the bottom");
        }
        match text.contains("as a run of its own") {
            false => delegate(&["Go deeper."]),
            true => Turn::new().text("I wait."),
        }
    });
    let placement = Placement { budget: Some(Budget::tokens(10_000_000)), ..Placement::default() };
    desk.runs.submit("/project", "Go deep.", placement).await.unwrap();
    desk.serve_once().await;
    let runs = desk.runs.engine().list(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 4, "the first one and three below: {runs:?}");
    assert!(runs.iter().all(|run| run.phase == RunPhase::Done), "{runs:?}");
    // The part of a refused child is free again.
    let mut parts = 0;
    for run in &runs {
        parts += budget_of(&desk, &run.job).await.children.len();
    }
    assert_eq!(parts, 3);
}

async fn budget_of(desk: &Desk, job: &Job) -> RunBudget {
    let entries = desk.runs.store().read(job.session()).await.unwrap().entries;
    RunBudget::last_of(job.run(), &entries).unwrap_or_default()
}

/// The parent, its child and the child's own child each have a turn that spends.
#[tokio::test]
async fn a_child_returns_what_its_own_children_have_left() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        let is_waiting = text.contains("as a run of its own");
        let turn = match (text.contains("Do all."), text.contains("Do left.")) {
            (true, _) if !is_waiting => delegate(&["Do left."]),
            (_, true) if !is_waiting => delegate(&["Do the corner."]),
            _ => Turn::new().text("done"),
        };
        spending(turn, 3_000)
    });
    let placement = Placement { budget: Some(Budget::tokens(10_000_000)), ..Placement::default() };
    let job = desk.runs.submit("/project", "Do all.", placement).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    let child = children_of(&desk, &job).await.remove(0).job;
    let grandchild = children_of(&desk, &child).await.remove(0).job;
    let mut spent = Spent::default();
    for job in [&child, &grandchild] {
        let own = spent_in(&desk.runs.store().read(job.session()).await.unwrap().entries);
        assert!(own.tokens >= 3_000, "{own:?}");
        spent += own;
    }
    assert_eq!(budget_of(&desk, &job).await.children[child.run()], ChildBudget::Returned(spent));
}

#[tokio::test]
async fn a_run_has_as_many_children_as_a_session_may_have_sub_agents() {
    let desk = Desk::with_spawn(SpawnOptions { max_total: 1, ..SpawnOptions::default() }, |asked| {
        let text = text_of(asked);
        match text.contains("Do all.") && !text.contains("as a run of its own") {
            true => delegate(&["Do left.", "Do right."]),
            false => Turn::new().text("done"),
        }
    });
    let placement = Placement { budget: Some(Budget::tokens(10_000_000)), ..Placement::default() };
    let job = desk.runs.submit("/project", "Do all.", placement).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    assert_eq!(children_of(&desk, &job).await.len(), 1);
    assert!(desk.stored(&job).await.contains("a run may have 1 child runs at most"));
    // The part of the refused one is free again.
    assert_eq!(budget_of(&desk, &job).await.children.len(), 1);
}

fn spending(turn: Turn, tokens: u64) -> Turn {
    turn.usage(Usage { input: tokens - 100, output: 100, ..Usage::default() })
}

/// A child has half of the rest, its parent gets back what it has left, and what is used up parks.
#[tokio::test]
async fn a_child_spends_a_part_of_its_parents_budget_and_an_empty_one_parks() {
    let desk = Desk::answering(|asked| {
        let text = text_of(asked);
        if !text.contains("Do all.") {
            return spending(Turn::new().text("left is done"), 3_000);
        }
        let turn = match (text.contains("left is done"), text.contains("too little of the budget")) {
            (false, _) if !text.contains("as a run of its own") => delegate(&["Do left."]),
            (false, _) => Turn::new().text("I wait."),
            (true, false) => delegate(&["Do right."]),
            (true, true) => Turn::new().text("all is done"),
        };
        spending(turn, 20_000)
    });
    let placement = Placement { budget: Some(Budget::tokens(44_000)), ..Placement::default() };
    let job = desk.runs.submit("/project", "Do all.", placement).await.unwrap();
    desk.serve_once().await;
    // Two turns of the parent and one of the child leave nothing for another child or turn.
    let parent = found(&desk, &job).await;
    assert_eq!((parent.phase, &parent.wait), (RunPhase::Parked, &Some(Wait::Budget)), "{parent:?}");
    let stored = desk.stored(&job).await;
    assert!(stored.contains("\"limit\":{\"tokens\":44000}") && stored.contains("\"returned\""), "{stored}");
    assert!(stored.contains("\"tokens\":3000"), "the child returned the rest: {stored}");
    assert!(stored.contains("too little of the budget"), "{stored}");
    let children = children_of(&desk, &job).await;
    let [child] = children.as_slice() else { panic!("{children:?}") };
    assert!(desk.stored(&child.job).await.contains("\"tokens\":12000"), "half of what the first turn left");
    desk.runs.set_budget(&parent, Budget::tokens(100_000)).await.unwrap();
    desk.serve_once().await;
    assert_eq!(desk.phase_of(&job).await, RunPhase::Done);
    assert!(desk.stored(&job).await.contains("all is done"));
}
