//! Calls that park a run at a question of the model or until a time, and answers that last, on workers that die.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, RunOptions, RunOutcome};
use zk_core::events::{Ruling, ToolEnd, ToolGate};
use zk_core::kernel::Cx;
use zk_core::model::{
    AgentError, Approved, Effects, EntryId, RunId, SessionId, ToolError, ToolOutput, ToolSpec,
};
use zk_core::service::{
    ANSWER_ENTRY, CallPlace, Clock, Durability, EntryKind, Lease, Mail, MailKind, NewSession, ParkedCall,
    QUESTION_ENTRY, Question, SessionStore, Tool, ToolCx, UiAnswer, WAIT_ENTRY,
};
use zk_permission::{Mode, PermissionGate};
use zk_session::{AnswerRefused, MemoryStore, answer_question, open_questions, resume_leg};
use zk_testkit::{Asked, Script, ScriptedProvider, SimClock, Turn};
use zk_tools::{AskUser, Wait};

use super::legs::{Death, Mortal, block_on};

const MINUTE: Duration = Duration::from_secs(60);

/// A tool that leaves its arguments in a list.
struct Writing {
    spec: Arc<ToolSpec>,
    done: Arc<Mutex<Vec<Value>>>,
}

#[async_trait]
impl Tool for Writing {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        Effects::writes([args["path"].as_str().unwrap_or_default()])
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.done.lock().unwrap().push(call.args()["path"].clone());
        Ok(ToolOutput::text("written"))
    }
}

/// A run whose model makes these calls, one in a turn, and then says what it was told last.
struct World {
    store: Arc<MemoryStore>,
    session: SessionId,
    run: RunId,
    clock: SimClock,
    calls: Vec<(&'static str, Value)>,
    asks: Arc<Mutex<usize>>,
    done: Arc<Mutex<Vec<Value>>>,
}

impl World {
    async fn new(calls: Vec<(&'static str, Value)>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let new = NewSession { id: None, cwd: PathBuf::from("/project"), parent: None };
        let session = store.create(new).await.unwrap();
        let model = EntryKind::Model { model: zk_core::model::ModelRef::new("scripted", "scripted-1") };
        session.append(vec![model], Durability::Process).await.unwrap();
        session.close().await.unwrap();
        let id = session.id().clone();
        store.post_mail(&id, &Mail::new(MailKind::FollowUp { text: "go".to_owned() })).await.unwrap();
        let (clock, run) = (SimClock::new(), RunId::fresh());
        Self { store, session: id, run, clock, calls, asks: Arc::default(), done: Arc::default() }
    }

    async fn agent(&self, token: u64, death: Death) -> Agent {
        let inner = self.store.open_leased(&self.session, &Lease::new(token)).await.unwrap();
        let stored = resume_leg(Arc::new(Mortal { inner, death }), &self.run).await.unwrap();
        let (asks, calls) = (self.asks.clone(), self.calls.clone());
        let script = Script::answering(move |asked: &Asked| {
            *asks.lock().unwrap() += 1;
            let results = asked.messages.iter().map(|message| message.results().count()).sum();
            match calls.get::<usize>(results) {
                Some((name, args)) => Turn::new().call(*name, args.clone()),
                None => Turn::new().text("done"),
            }
        });
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let spec = ToolSpec::new("write", "Writes.", schema);
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
            .tool(Arc::new(AskUser::new()))
            .tool(Arc::new(Wait::new()))
            .tool(Arc::new(Writing { spec, done: self.done.clone() }))
            .plugin(PermissionGate::new(Mode::Ask))
            .resume(stored)
            .build()
            .unwrap();
        agent.bus().scope("clock").provide_service::<dyn Clock>(Arc::new(self.clock.clone()));
        agent
    }

    /// Runs a leg, after `prepare` has changed its agent.
    async fn leg_with(&self, token: u64, prepare: impl FnOnce(&Agent)) -> RunOutcome {
        let agent = self.agent(token, Death::default()).await;
        prepare(&agent);
        let run = agent.run(RunOptions::resume().drive_leg(self.run.clone())).unwrap();
        let outcome = run.wait().await;
        agent.close().await;
        outcome
    }

    async fn leg(&self, token: u64) -> RunOutcome {
        self.leg_with(token, |_| ()).await
    }

    /// Runs a leg whose worker dies at its `at`-th step; `None` if it did.
    fn leg_dying_at(&self, token: u64, at: usize) -> Option<RunOutcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let death = Death { steps_left: Arc::new(Mutex::new(Some(at))), ..Death::default() };
        let ended = runtime.block_on(async {
            let work = async {
                let agent = self.agent(token, death.clone()).await;
                agent.run(RunOptions::resume().drive_leg(self.run.clone())).unwrap().wait().await
            };
            tokio::select! {
                biased;
                () = death.died.notified() => None,
                outcome = work => Some(outcome),
            }
        });
        runtime.shutdown_background();
        ended
    }

    async fn answer(&self, question: &EntryId, answer: UiAnswer) -> Result<(), AnswerRefused> {
        answer_question(&*self.store, &self.session, question, answer).await
    }

    /// Returns the results in the conversation, in order.
    async fn results(&self) -> Vec<String> {
        let entries = self.store.read(&self.session).await.unwrap().entries;
        let messages = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Message { message, .. } => Some(message.clone()),
            _ => None,
        });
        messages
            .flat_map(|message| message.results().map(|one| one.content.to_text()).collect::<Vec<_>>())
            .collect()
    }

    /// Counts the plugin entries of a kind.
    async fn count(&self, kind: &str) -> usize {
        let entries = self.store.read(&self.session).await.unwrap().entries;
        let is_one = |entry: &&zk_core::service::Entry| matches!(&entry.kind, EntryKind::Custom(own) if own.kind == kind);
        entries.iter().filter(is_one).count()
    }
}

fn parked_at(outcome: RunOutcome) -> EntryId {
    match outcome.result {
        Err(AgentError::Parked { question: Some(question), .. }) => question,
        other => panic!("{other:?}"),
    }
}

fn waits_until(outcome: RunOutcome) -> SystemTime {
    match outcome.result {
        Err(AgentError::AwaitsTime { until, .. }) => until,
        other => panic!("{other:?}"),
    }
}

fn rounding() -> Vec<(&'static str, Value)> {
    let options = json!([{"label": "Half up", "description": "like a till"}, "Truncate"]);
    vec![("ask_user", json!({"question": "Which rounding?", "options": options}))]
}

/// Promise: the model's question reaches the person once and its answer the model once, however the workers die.
#[test]
fn a_question_of_the_model_is_answered_once_on_workers_that_die_at_any_step() {
    for at in 0.. {
        let world = block_on(World::new(rounding()));
        let died_asking = world.leg_dying_at(1, at).is_none();
        let question = parked_at(block_on(world.leg(2)));
        let entries = block_on(world.store.read(&world.session)).unwrap().entries;
        let open = open_questions(&entries);
        let [(entry, asked)] = open.as_slice() else { panic!("step {at}: {open:?}") };
        let Question::Select(selection) = &asked.question else { panic!("{asked:?}") };
        assert_eq!((entry, selection.text.as_str()), (&question, "Which rounding?"));
        assert_eq!(selection.descriptions, ["like a till"]);
        let wrong = block_on(world.answer(&question, UiAnswer::Choice { index: 2 })).unwrap_err();
        assert!(wrong.to_string().contains("from 1 to 2, a text, or no"), "{wrong}");
        block_on(world.answer(&question, UiAnswer::Choice { index: 1 })).unwrap();
        let twice = block_on(world.answer(&question, UiAnswer::Choice { index: 0 })).unwrap_err();
        assert!(matches!(twice, AnswerRefused::Answered { .. }), "{twice}");
        let asks = *world.asks.lock().unwrap();
        let died_answering = match world.leg_dying_at(3, at) {
            Some(outcome) => {
                outcome.result.unwrap_or_else(|error| panic!("step {at}: {error}"));
                false
            }
            None => {
                block_on(world.leg(4)).result.unwrap_or_else(|error| panic!("step {at}: {error}"));
                true
            }
        };
        assert_eq!(block_on(world.results()), ["The user answers: Truncate"], "step {at}");
        let counts = (block_on(world.count(QUESTION_ENTRY)), block_on(world.count(ANSWER_ENTRY)));
        assert_eq!(counts, (1, 1), "step {at}");
        assert!(*world.asks.lock().unwrap() <= asks + 2, "step {at}: the stored answer was asked for again");
        if !died_asking && !died_answering {
            assert!(at > 6, "a leg has more steps than {at}");
            return;
        }
    }
}

#[tokio::test]
async fn a_question_is_answered_in_words_or_declined_or_set_aside_by_a_message() {
    for (answer, result) in [
        (Some(UiAnswer::Text { text: "Bankers'".to_owned() }), "The user answers: Bankers'"),
        (Some(UiAnswer::No { message: None }), "The user does not want to answer"),
        (None, "Skipped: the user sent a message instead of the answer"),
    ] {
        let world = World::new(rounding()).await;
        let question = parked_at(world.leg(1).await);
        match answer {
            Some(answer) => world.answer(&question, answer).await.unwrap(),
            None => {
                let steer = Mail::new(MailKind::Steer { text: "Never mind.".to_owned() });
                world.store.post_mail(&world.session, &steer).await.unwrap();
            }
        }
        world.leg(2).await.result.unwrap();
        let results = world.results().await;
        assert!(results.len() == 1 && results[0].starts_with(result), "{result}: {results:?}");
    }
}

/// Promise: a wait ends at the time of its first leg, however often the run is woken and its workers die.
#[test]
fn a_wait_ends_at_its_time_on_workers_that_die_at_any_step() {
    for at in 0.. {
        let world = block_on(World::new(vec![("wait", json!({"minutes": 10, "reason": "the build"}))]));
        let died_waiting = world.leg_dying_at(1, at).is_none();
        let first = waits_until(block_on(world.leg(2)));
        assert_eq!(first, world.clock.now() + 10 * MINUTE);
        world.clock.advance(4 * MINUTE);
        assert_eq!(waits_until(block_on(world.leg(3))), first, "woken early, it waits for the same time");
        assert_eq!(block_on(world.count(WAIT_ENTRY)), 1, "step {at}");
        world.clock.advance(6 * MINUTE);
        let died_going_on = world.leg_dying_at(4, at).is_none();
        if died_going_on {
            block_on(world.leg(5)).result.unwrap_or_else(|error| panic!("step {at}: {error}"));
        }
        assert_eq!(block_on(world.results()), ["Waited until 2026-01-01 00:10:00 UTC."], "step {at}");
        if !died_waiting && !died_going_on {
            return;
        }
    }
}

#[tokio::test]
async fn a_message_ends_a_wait_early_and_the_result_says_so() {
    let world = World::new(vec![("wait", json!({"hours": 1})), ("wait", json!({"minutes": 1}))]).await;
    waits_until(world.leg(1).await);
    let steer = Mail::new(MailKind::Steer { text: "It is done.".to_owned() });
    world.store.post_mail(&world.session, &steer).await.unwrap();
    let second = waits_until(world.leg(2).await);
    assert_eq!(second, world.clock.now() + MINUTE, "another call has a wait of its own");
    let results = world.results().await;
    assert!(
        results[0].starts_with("Ended early: the user sent a message") && results[0].contains("01:00:00 UTC"),
        "{results:?}"
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_wait_for_nothing() {
    for args in [json!({}), json!({"minutes": 0}), json!({"hours": 169}), json!({"hours": 4_294_967_295_u32})]
    {
        let world = World::new(vec![("wait", args.clone())]).await;
        world.leg(1).await.result.unwrap();
        let results = world.results().await;
        assert!(results[0].contains("minutes") || results[0].contains("at most"), "{args}: {results:?}");
        assert_eq!(world.count(WAIT_ENTRY).await, 0);
    }
}

/// A gate parks a call until a time, and lets it through then.
#[tokio::test]
async fn a_gate_parks_a_call_until_a_time() {
    let world = World::new(vec![("write", json!({"path": "a"}))]).await;
    let opens = world.clock.now() + 10 * MINUTE;
    let office = |agent: &Agent| {
        let clock = world.clock.clone();
        agent.bus().scope("office").on_sync(move |gate: &ToolGate, _: &Cx| {
            let is_closed = gate.call.name == "write" && clock.now() < opens;
            Some(if is_closed {
                Ruling::Park(ParkedCall::until(opens, "the office opens"))
            } else {
                Ruling::Substitute(ToolOutput::text("the office wrote it"))
            })
        });
    };
    assert_eq!(waits_until(world.leg_with(1, office).await), opens);
    world.clock.advance(10 * MINUTE);
    world.leg_with(2, office).await.result.unwrap();
    assert_eq!(world.results().await, ["the office wrote it"]);
}

/// A time that is past keeps no worker busy.
#[tokio::test]
async fn a_call_that_is_parked_into_the_past_is_looked_at_again_after_a_pause() {
    let world = World::new(vec![("write", json!({"path": "a"}))]).await;
    let past = world.clock.now() - MINUTE;
    let parking = |agent: &Agent| {
        agent
            .bus()
            .scope("odd")
            .on_sync(move |_: &ToolGate, _: &Cx| Some(Ruling::Park(ParkedCall::until(past, "odd"))));
    };
    assert!(waits_until(world.leg_with(1, parking).await) > world.clock.now());
}

/// Promise: an answer for the session holds for equal calls on each later worker, and for no others.
#[tokio::test]
async fn an_answer_for_the_session_holds_on_every_later_worker() {
    let write = |path: &str| ("write", json!({ "path": path }));
    let world = World::new(vec![write("a"), write("a"), write("b")]).await;
    let question = parked_at(world.leg(1).await);
    let entries = world.store.read(&world.session).await.unwrap().entries;
    let asked = open_questions(&entries).remove(0).1.question;
    assert_eq!(asked.granted_by(&UiAnswer::Session), Some("exactly this call"));
    let refused = world.answer(&question, UiAnswer::Always).await.unwrap_err();
    assert!(refused.to_string().contains("yes, yes for the session, or no"), "{refused}");
    world.answer(&question, UiAnswer::Session).await.unwrap();
    // The worker that takes the answer leaves after the call, with its own memory of what was allowed.
    let leaving = |agent: &Agent, run: zk_agent::RunHandle| {
        agent.bus().scope("worker").on_sync(move |_: &ToolEnd, _: &Cx| run.hand_over());
    };
    let agent = world.agent(2, Death::default()).await;
    let run = agent.run(RunOptions::resume().drive_leg(world.run.clone())).unwrap();
    leaving(&agent, run.handle());
    let left = run.wait().await;
    assert!(matches!(left.result, Err(AgentError::HandedOver)), "{:?}", left.result);
    agent.close().await;
    drop(agent);
    assert_eq!(*world.done.lock().unwrap(), ["a"]);
    let next = parked_at(world.leg(3).await);
    assert_ne!(next, question);
    assert_eq!(*world.done.lock().unwrap(), ["a", "a"], "the equal call ran, the other one asks");
    world.answer(&next, UiAnswer::No { message: None }).await.unwrap();
    world.leg(4).await.result.unwrap();
    assert_eq!(*world.done.lock().unwrap(), ["a", "a"]);
}
