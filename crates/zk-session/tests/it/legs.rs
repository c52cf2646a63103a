//! Runs that outlive their worker: an agent, a store with leases, and workers that die at every step.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use zk_agent::{Agent, RunOptions, RunOutcome};
use zk_core::events::{Ruling, ToolEnd, ToolGate};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{
    AgentError, Approved, Effects, EntryId, MailId, Message, RunId, SessionId, ToolError, ToolOutput,
    ToolSpec,
};
use zk_core::service::{
    ANSWER_ENTRY, Audience, CallPlace, CustomEntry, Durability, Entry, EntryKind, Lease, LegAnswer,
    LiveEntries, Mail, MailKind, NewSession, OpenSession, QUESTION_ENTRY, SessionStore, StoreError,
    StoredQuestion, Tool, ToolCx, UiAnswer,
};
use zk_permission::{Mode, PermissionGate};
use zk_session::{
    AnswerRefused, MemoryStore, SqliteStore, answer_question, load_history, open_questions, resume_leg,
};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

/// A worker that dies at its n-th step: it goes no further, and everything it runs is dropped.
#[derive(Clone, Default)]
pub(crate) struct Death {
    pub(crate) steps_left: Arc<Mutex<Option<usize>>>,
    pub(crate) died: Arc<Notify>,
}

impl Death {
    pub(crate) async fn step(&self) {
        let dies = match &mut *self.steps_left.lock().unwrap() {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        };
        if dies {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// A session whose worker may die before and after each append.
pub(crate) struct Mortal {
    pub(crate) inner: Arc<dyn OpenSession>,
    pub(crate) death: Death,
}

#[async_trait]
impl OpenSession for Mortal {
    fn id(&self) -> &SessionId {
        self.inner.id()
    }

    async fn append(&self, kinds: Vec<EntryKind>, to: Durability) -> Result<Vec<EntryId>, StoreError> {
        self.append_taking(kinds, Vec::new(), to).await
    }

    async fn append_taking(
        &self,
        kinds: Vec<EntryKind>,
        mail: Vec<MailId>,
        to: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.death.step().await;
        let appended = self.inner.append_taking(kinds, mail, to).await;
        self.death.step().await;
        appended
    }

    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        self.inner.mail().await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries().await
    }

    async fn live(&self) -> Result<LiveEntries, StoreError> {
        self.inner.live().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

/// A tool that leaves its name in a list, and whose worker may die around that.
struct Acting {
    spec: Arc<ToolSpec>,
    effects: Effects,
    done: Arc<Mutex<Vec<String>>>,
    death: Death,
    has_key: bool,
}

#[async_trait]
impl Tool for Acting {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        self.effects.clone()
    }

    fn idempotency(&self, args: &Value) -> Option<String> {
        self.has_key.then(|| args.to_string())
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.death.step().await;
        self.done.lock().unwrap().push(self.spec.name.clone());
        self.death.step().await;
        Ok(ToolOutput::text(format!("did {}", self.spec.name)))
    }
}

/// World outside of all workers: the store, the effects, and the count of requests.
struct World {
    store: Arc<dyn SessionStore>,
    session: SessionId,
    run: RunId,
    done: Arc<Mutex<Vec<String>>>,
    /// Requests that asked for the calls, and those that asked for the last words.
    asked: Arc<Mutex<(usize, usize)>>,
    has_key: bool,
    asks: bool,
    _dir: Option<tempfile::TempDir>,
}

impl World {
    async fn new(store: Arc<dyn SessionStore>, dir: Option<tempfile::TempDir>) -> Self {
        let new = NewSession { id: None, cwd: PathBuf::from("/project"), parent: None };
        let session = store.create(new).await.unwrap();
        let model = EntryKind::Model { model: zk_core::model::ModelRef::new("scripted", "scripted-1") };
        session.append(vec![model], Durability::Process).await.unwrap();
        session.close().await.unwrap();
        let id = session.id().clone();
        let go = Mail::new(MailKind::FollowUp { text: "go".to_owned() });
        store.post_mail(&id, &go).await.unwrap();
        Self {
            store,
            session: id,
            run: RunId::fresh(),
            done: Arc::default(),
            asked: Arc::default(),
            has_key: false,
            asks: false,
            _dir: dir,
        }
    }

    async fn on_disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::new(Arc::new(SqliteStore::new(dir.path().to_path_buf())), Some(dir)).await
    }

    async fn in_memory() -> Self {
        Self::new(Arc::new(MemoryStore::new()), None).await
    }

    async fn entries(&self) -> Vec<Entry> {
        self.store.read(&self.session).await.unwrap().entries
    }

    fn effect_count(&self, name: &str) -> usize {
        self.done.lock().unwrap().iter().filter(|done| *done == name).count()
    }

    async fn agent(&self, token: u64, death: Death) -> Agent {
        let lease = Lease::new(token);
        let inner = self.store.open_leased(&self.session, &lease).await.unwrap();
        let stored = resume_leg(Arc::new(Mortal { inner, death: death.clone() }), &self.run).await.unwrap();
        let asked = self.asked.clone();
        let script = Script::answering(move |request: &Asked| {
            let mut asked = asked.lock().unwrap();
            if request.results().is_empty() {
                asked.0 += 1;
                let calls = Turn::new().text("three calls");
                let calls = calls.call_as("c1", "read", json!({})).call_as("c2", "write", json!({}));
                return calls.call_as("c3", "shell", json!({}));
            }
            asked.1 += 1;
            Turn::new().text("done")
        });
        let tool = |name: &str, effects: Effects| {
            Arc::new(Acting {
                spec: ToolSpec::new(name, "Acts.", json!({"type": "object", "properties": {}})),
                effects,
                done: self.done.clone(),
                death: death.clone(),
                has_key: self.has_key,
            })
        };
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(script)))
            .tool(tool("read", Effects::reads(["a"])))
            .tool(tool("write", Effects::writes(["b"])))
            .tool(tool("shell", Effects::executes("true")));
        let builder = match self.asks {
            true => builder.plugin(PermissionGate::new(Mode::Ask)),
            false => builder.unguarded(),
        };
        builder.resume(stored).build().unwrap()
    }

    async fn leg(&self, token: u64) -> (RunOutcome, Agent) {
        let agent = self.agent(token, Death::default()).await;
        let outcome = agent.run(RunOptions::resume().drive_leg(self.run.clone())).unwrap().wait().await;
        (outcome, agent)
    }

    /// Runs a leg whose worker dies at its `at`-th step; `None` if it did.
    fn leg_dying_at(&self, token: u64, at: usize) -> Option<(RunOutcome, Vec<Arc<Message>>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let death = Death { steps_left: Arc::new(Mutex::new(Some(at))), ..Death::default() };
        let ended = runtime.block_on(async {
            let work = async {
                let agent = self.agent(token, death.clone()).await;
                let run = agent.run(RunOptions::resume().drive_leg(self.run.clone())).unwrap();
                (run.wait().await, agent.history())
            };
            tokio::select! {
                biased;
                () = death.died.notified() => None,
                ended = work => Some(ended),
            }
        });
        // Everything that the worker ran ends here, in the middle.
        runtime.shutdown_background();
        ended
    }

    /// Checks the log and the effects of the finished run.
    async fn assert_sound(&self, history: &[Arc<Message>]) {
        let entries = self.entries().await;
        let count =
            |wanted: fn(&EntryKind) -> bool| entries.iter().filter(|entry| wanted(&entry.kind)).count();
        assert_eq!(count(|kind| matches!(kind, EntryKind::RunStart { .. })), 1);
        assert_eq!(count(|kind| matches!(kind, EntryKind::RunEnd { .. })), 1);
        let loaded = load_history(&entries);
        assert_eq!(loaded.interrupted, None);
        assert_eq!(loaded.messages, history, "the log tells what the agent knows");
        let prompts = history.iter().filter(|message| message.text() == "go").count();
        assert_eq!(prompts, 1, "the mail was taken once");
        let results: Vec<String> = history
            .iter()
            .flat_map(|message| message.results())
            .map(|result| result.content.to_text())
            .collect();
        assert_eq!(results.len(), 3, "{results:?}");
        for (name, result) in ["read", "write", "shell"].into_iter().zip(&results) {
            let is_unknown = result.starts_with("Outcome unknown");
            match name {
                "read" => assert_eq!(result, "did read"),
                _ if is_unknown => assert!(self.effect_count(name) <= 1, "{name} was repeated"),
                _ => assert_eq!((result.as_str(), self.effect_count(name)), (&*format!("did {name}"), 1)),
            }
        }
    }
}

/// Calls of the first turn that have such an entry.
fn calls(entries: &[Entry], wanted: fn(&EntryKind) -> Option<String>) -> BTreeSet<String> {
    entries.iter().filter_map(|entry| wanted(&entry.kind)).collect()
}

fn begun_calls(entries: &[Entry]) -> BTreeSet<String> {
    calls(entries, |kind| match kind {
        EntryKind::CallBegin { call_id, .. } => Some(call_id.to_string()),
        _ => None,
    })
}

fn ended_calls(entries: &[Entry]) -> BTreeSet<String> {
    calls(entries, |kind| match kind {
        EntryKind::CallEnd { call_id, .. } => Some(call_id.to_string()),
        _ => None,
    })
}

fn has_open_turn(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry.kind, EntryKind::OpenTurn { .. }))
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Promise: however a worker dies in a turn with three calls, no stored answer is asked for again, no effect is repeated, and
/// a call whose outcome is not known is told as such.
#[test]
fn a_worker_that_dies_at_any_step_of_a_turn_repeats_nothing() {
    for at in 0.. {
        let world = block_on(World::in_memory());
        if world.leg_dying_at(1, at).is_some() {
            assert!(at > 15, "a turn has more steps than {at}");
            return;
        }
        let left = block_on(world.entries());
        let asked = world.asked.lock().unwrap().0;
        let (outcome, agent) = block_on(world.leg(2));
        outcome.result.unwrap_or_else(|error| panic!("step {at}: {error}"));
        block_on(world.assert_sound(&agent.history()));
        if has_open_turn(&left) {
            assert_eq!(
                world.asked.lock().unwrap().0,
                asked,
                "step {at}: the stored answer was asked for again"
            );
        }
        let unknown: BTreeSet<String> = agent
            .history()
            .iter()
            .flat_map(|message| message.results())
            .filter(|result| result.content.to_text().starts_with("Outcome unknown"))
            .map(|result| result.call_id.to_string())
            .collect();
        let is_closed = left.iter().any(|entry| {
            matches!(&entry.kind, EntryKind::Message { message, .. } if message.calls().next().is_some())
        });
        let expected = if is_closed { BTreeSet::new() } else { &begun_calls(&left) - &ended_calls(&left) };
        assert_eq!(unknown, expected, "step {at}");
    }
}

/// The case above over a real file, with several workers that die at random steps.
#[test]
fn workers_that_die_at_random_repeat_nothing() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = block_on(World::on_disk());
        let mut token = 0;
        let history = loop {
            token += 1;
            let (was_open, asked) =
                (has_open_turn(&block_on(world.entries())), world.asked.lock().unwrap().0);
            let ended = world.leg_dying_at(token, random.usize(..24));
            if was_open {
                assert_eq!(world.asked.lock().unwrap().0, asked, "seed {seed}: asked for again");
            }
            if let Some((outcome, history)) = ended {
                outcome.result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                break history;
            }
        };
        block_on(world.assert_sound(&history));
    }
}

/// A tool that names a key is asked again: its target does the work once.
#[test]
fn a_call_with_an_idempotency_key_runs_again_after_its_worker_died_in_it() {
    for at in 0.. {
        let world = World { has_key: true, ..block_on(World::in_memory()) };
        if world.leg_dying_at(1, at).is_some() {
            return;
        }
        let (outcome, agent) = block_on(world.leg(2));
        outcome.result.unwrap();
        let results: Vec<String> = agent
            .history()
            .iter()
            .flat_map(|message| message.results())
            .map(|result| result.content.to_text())
            .collect();
        assert_eq!(results, ["did read", "did write", "did shell"], "step {at}");
    }
}

/// Two legs have one session: the older one writes nothing more, runs nothing more and says so.
#[tokio::test]
async fn a_leg_whose_session_was_taken_over_ends_at_once() {
    let world = World::on_disk().await;
    let stale = world.agent(1, Death::default()).await;
    let before = world.entries().await.len();
    let (outcome, agent) = world.leg(2).await;
    outcome.result.unwrap();
    world.assert_sound(&agent.history()).await;
    let after = world.entries().await.len();
    assert!(after > before);
    let late = stale.run(RunOptions::resume().drive_leg(world.run.clone())).unwrap().wait().await;
    assert!(matches!(late.result, Err(AgentError::Fenced)), "{:?}", late.result);
    assert_eq!(world.entries().await.len(), after, "a fenced leg wrote");
    assert_eq!((world.effect_count("write"), world.effect_count("shell")), (1, 1));
}

/// The session is taken over while the older leg works on a turn: its next call does not run.
#[tokio::test]
async fn a_leg_that_is_taken_over_in_a_turn_runs_no_further_call() {
    struct Taker {
        store: Arc<dyn SessionStore>,
        session: SessionId,
        held: Mutex<Option<Arc<dyn OpenSession>>>,
    }
    let world = World::on_disk().await;
    let agent = world.agent(1, Death::default()).await;
    let taker = Taker { store: world.store.clone(), session: world.session.clone(), held: Mutex::default() };
    agent.bus().scope("elsewhere").on_async_with(taker, async |taker: &Taker, gate: &ToolGate, _: &Cx| {
        if gate.call.name == "write" {
            let held = taker.store.open_leased(&taker.session, &Lease::new(2)).await?;
            *taker.held.lock().unwrap() = Some(held);
        }
        Ok::<Option<Ruling>, BoxError>(None)
    });
    let outcome = agent.run(RunOptions::resume().drive_leg(world.run.clone())).unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Fenced)), "{:?}", outcome.result);
    assert_eq!(
        (world.effect_count("read"), world.effect_count("write"), world.effect_count("shell")),
        (1, 0, 0)
    );
    let entries = world.entries().await;
    assert!(has_open_turn(&entries) && begun_calls(&entries).is_empty(), "{entries:?}");
    agent.close().await;
    drop(agent);
    let (outcome, agent) = world.leg(3).await;
    outcome.result.unwrap();
    world.assert_sound(&agent.history()).await;
    assert_eq!(
        (*world.asked.lock().unwrap(), world.effect_count("write"), world.effect_count("shell")),
        ((1, 1), 1, 1)
    );
}

/// A call that nobody is here to approve ends the leg; the answer of the next morning lets exactly it run.
#[tokio::test]
async fn a_parked_run_waits_in_its_session_and_goes_on_with_the_answer() {
    let world = World { asks: true, ..World::on_disk().await };
    let (outcome, agent) = world.leg(1).await;
    let Err(AgentError::Parked { tool, question: Some(question), .. }) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(tool, "write");
    agent.close().await;
    drop(agent);
    let waiting = open_questions(&world.entries().await);
    assert_eq!(waiting.iter().map(|(entry, _)| entry).collect::<Vec<_>>(), [&question]);

    // Neither the answer to a question of another run nor one that the question does not offer approves the call.
    let asked = &waiting[0].1;
    let custom = |kind: &str, data: &Value| {
        EntryKind::Custom(CustomEntry {
            source: "zk-agent".to_owned(),
            kind: kind.to_owned(),
            version: 1,
            data: serde_json::from_value(data.clone()).unwrap(),
            audience: Audience::default(),
        })
    };
    let open = world.store.open_leased(&world.session, &Lease::new(1)).await.unwrap();
    let other = StoredQuestion { run_id: "r_other".into(), ..asked.clone() };
    let other = custom(QUESTION_ENTRY, &serde_json::to_value(&other).unwrap());
    let other = open.append(vec![other], Durability::Disk).await.unwrap().remove(0);
    for (question, answer) in [
        (&other, UiAnswer::Once),
        (&other, UiAnswer::Session),
        (&question, UiAnswer::Contained),
        (&"e_none".into(), UiAnswer::Once),
    ] {
        let forged = LegAnswer { question: question.clone(), answer };
        let forged = custom(ANSWER_ENTRY, &serde_json::to_value(&forged).unwrap());
        open.append(vec![forged], Durability::Disk).await.unwrap();
    }
    open.close().await.unwrap();
    drop(open);

    // Woken without an answer, it waits for the same question.
    let (outcome, agent) = world.leg(2).await;
    let Err(AgentError::Parked { question: Some(again), .. }) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(again, question);
    agent.close().await;
    drop(agent);

    let answer = async |question: &EntryId, answer| {
        answer_question(&*world.store, &world.session, question, answer).await
    };
    let wrong = answer(&question, UiAnswer::Text { text: "maybe".to_owned() }).await.unwrap_err();
    assert!(matches!(wrong, AnswerRefused::NotOffered { .. }), "{wrong}");
    let unknown = answer(&"e_unknown".into(), UiAnswer::Once).await.unwrap_err();
    assert!(matches!(unknown, AnswerRefused::Unknown { .. }), "{unknown}");
    answer(&question, UiAnswer::Once).await.unwrap();
    let twice = answer(&question, UiAnswer::No { message: None }).await.unwrap_err();
    assert!(matches!(twice, AnswerRefused::Answered { .. }), "{twice}");

    let (outcome, agent) = world.leg(3).await;
    let Err(AgentError::Parked { tool, question: Some(next), .. }) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!((tool.as_str(), world.effect_count("write"), world.effect_count("shell")), ("shell", 1, 0));
    agent.close().await;
    drop(agent);
    let late = answer(&question, UiAnswer::Once).await.unwrap_err();
    assert!(matches!(late, AnswerRefused::Answered { .. }), "an answer that was taken: {late}");
    answer(&next, UiAnswer::No { message: Some("not today".to_owned()) }).await.unwrap();

    let (outcome, agent) = world.leg(4).await;
    outcome.result.unwrap();
    assert_eq!((world.effect_count("write"), world.effect_count("shell")), (1, 0));
    let told: Vec<String> = agent
        .history()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.content.to_text())
        .collect();
    assert!(told[1] == "did write" && told[2].contains("not today"), "{told:?}");
    assert_eq!(*world.asked.lock().unwrap(), (1, 1), "the answer was bought once");
    assert!(open_questions(&world.entries().await).is_empty());
}

/// Mail from another process is taken by the run at its next turn, once; an abort stops it.
#[tokio::test]
async fn mail_reaches_a_run_elsewhere_once() {
    let world = World::on_disk().await;
    let post = async |kind| world.store.post_mail(&world.session, &Mail::new(kind)).await.unwrap();
    post(MailKind::Steer { text: "be brief".to_owned() }).await;
    let (outcome, agent) = world.leg(1).await;
    outcome.result.unwrap();
    let said = |agent: &Agent, text: &str| agent.history().iter().filter(|one| one.text() == text).count();
    assert_eq!((said(&agent, "be brief"), said(&agent, "go")), (1, 1));
    agent.close().await;
    drop(agent);
    let next = World { run: RunId::fresh(), ..world };
    next.store
        .post_mail(&next.session, &Mail::new(MailKind::Abort { reason: Some("enough".to_owned()) }))
        .await
        .unwrap();
    let (outcome, agent) = next.leg(2).await;
    assert!(matches!(outcome.result, Err(AgentError::Aborted)), "{:?}", outcome.result);
    assert_eq!(outcome.abort_reason.as_deref(), Some("enough"));
    assert_eq!(said(&agent, "be brief"), 1);
    agent.close().await;
    drop(agent);
    let session = next.store.open(&next.session).await.unwrap();
    assert_eq!(session.mail().await.unwrap(), [], "all mail was taken");
}

/// A worker that is to end leaves the run before its next call, and another one goes on.
#[tokio::test]
async fn a_run_is_handed_over_between_its_calls() {
    let world = World::on_disk().await;
    let agent = world.agent(1, Death::default()).await;
    let run = agent.run(RunOptions::resume().drive_leg(world.run.clone())).unwrap();
    let handle = run.handle();
    agent.bus().scope("worker").on_sync(move |end: &ToolEnd, _: &Cx| {
        if end.call.name == "write" {
            handle.hand_over();
        }
    });
    let outcome = run.wait().await;
    assert!(matches!(outcome.result, Err(AgentError::HandedOver)), "{:?}", outcome.result);
    assert_eq!((world.effect_count("write"), world.effect_count("shell")), (1, 0));
    agent.close().await;
    drop(agent);
    let (outcome, agent) = world.leg(2).await;
    outcome.result.unwrap();
    world.assert_sound(&agent.history()).await;
    assert_eq!((world.effect_count("write"), world.effect_count("shell")), (1, 1));
}
