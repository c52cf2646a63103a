//! Whatever closes while an entry is being stored: the session gets every block of a sub-agent once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::json;
use zk_core::events::{
    AgentDone, MessagesCause, SessionBeforeEnd, SessionEnd, SessionMessages, SessionOpenTurn, SessionStart,
    SpawnComplete, StreamStart, StreamText, ToolResultsAfter,
};
use zk_core::kernel::{Bus, Event, Origin, Scope, Source};
use zk_core::model::{Block, EntryId, Message, ModelRef, Stats, ToolCall, ToolResult, TurnUsage, Usage};
use zk_core::service::{
    CustomEntry, Durability, EntryKind, NewEntry, NewSession, Question, Questions, RunStatus, SessionLog,
    SessionStore, StoreError,
};
use zk_session::MemoryStore;
use zk_view::{Engine, EngineInput, Kept, ObservedEvent, ViewDriver, rebuild};

const CHILDREN: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A sub-agent's answer grows.
    Grow(usize),
    /// Complete answer.
    Say(usize),
    /// Answer that breaks off and is retried.
    Again(usize),
    /// Call of a sub-agent starts or ends.
    Call(usize),
    /// Answer of the main agent, shown with other texts than stored.
    Answer,
    /// An append of an entry begins.
    Append { turns: bool },
    /// The append ends.
    Appended { stored: bool },
}

fn act() -> impl Strategy<Value = Act> {
    let child = || 0..CHILDREN;
    prop_oneof![
        3 => child().prop_map(Act::Grow),
        3 => child().prop_map(Act::Say),
        1 => child().prop_map(Act::Again),
        3 => child().prop_map(Act::Call),
        1 => Just(Act::Answer),
        3 => any::<bool>().prop_map(|turns| Act::Append { turns }),
        4 => prop::bool::weighted(0.8).prop_map(|stored| Act::Appended { stored }),
    ]
}

fn usage() -> TurnUsage {
    TurnUsage { turn_id: "t".into(), model: ModelRef::new("p", "m"), usage: Usage::default(), cost: None }
}

#[derive(Default)]
struct Rig {
    engine: Engine,
    entries: Vec<EntryKind>,
    storing: Option<(NewEntry, Kept)>,
    calls: [Option<Arc<Message>>; CHILDREN],
    number: usize,
}

impl Rig {
    fn tell(&mut self, event: &impl Event, origin: &Origin) {
        self.engine.apply(0, EngineInput::Event(ObservedEvent { event, origin }));
    }

    fn origin(child: usize) -> Origin {
        Origin { agent: format!("child-{child}").into(), depth: 1 }
    }

    fn text(&mut self, delta: &str, origin: &Origin) {
        self.tell(&StreamText { turn_id: "t".into(), delta: delta.into() }, origin);
    }

    fn say(&mut self, text: &str, origin: &Origin) -> Arc<Message> {
        let message = Message::assistant(vec![Block::text(text)]).shared();
        let messages = vec![message.clone()];
        let cause = MessagesCause::Answer;
        self.tell(&SessionMessages { run_id: "r".into(), messages, usage: None, cause }, origin);
        message
    }

    fn call(&mut self, child: usize) {
        self.number += 1;
        let origin = Self::origin(child);
        let (run_id, turn_id) = (|| "r".into(), || "t".into());
        match self.calls[child].take() {
            None => {
                let call = ToolCall::new(format!("call-{}", self.number), "look", json!({}));
                let content = vec![Block::text(format!("look {}", self.number)), Block::ToolCall(call)];
                let message = Message::assistant(content).shared();
                self.calls[child] = Some(message.clone());
                let (run_id, turn_id) = (run_id(), turn_id());
                self.tell(&SessionOpenTurn { run_id, turn_id, message, usage: usage() }, &origin);
            }
            Some(assistant) => {
                let call_id = assistant.calls().next().unwrap().id.clone();
                let result = ToolResult { call_id, content: "found".into(), is_error: false };
                let results = Message::user(vec![Block::ToolResult(result)]).shared();
                let (run_id, turn_id) = (run_id(), turn_id());
                let event = ToolResultsAfter { run_id, turn_id, assistant, results, usage: usage() };
                self.tell(&event, &origin);
            }
        }
    }

    fn appended(&mut self, stored: bool) {
        let Some((entry, kept)) = self.storing.take() else { return };
        if stored {
            self.entries.push(EntryKind::Custom(entry.by(&Source::new("zk-view"))));
            self.engine.entry_is_stored(kept);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            // A sub-agent with a running call writes no text meanwhile.
            Act::Grow(child) | Act::Say(child) | Act::Again(child) if self.calls[child].is_some() => {}
            Act::Grow(child) => self.text("more ", &Self::origin(child)),
            Act::Say(child) => {
                self.number += 1;
                let text = format!("answer {}", self.number);
                self.say(&text, &Self::origin(child));
            }
            Act::Again(child) => {
                let start = StreamStart { turn_id: "t".into(), model: None, request_id: None };
                self.tell(&start, &Self::origin(child));
            }
            Act::Call(child) => self.call(child),
            Act::Answer => {
                self.text("My key is ***.", &Origin::default());
                let message = self.say("My key is K.", &Origin::default());
                self.entries.push(EntryKind::Message { message, usage: None });
            }
            Act::Append { turns } if self.storing.is_none() => {
                let engine = &self.engine;
                self.storing = if turns { engine.turn_entry() } else { engine.agents_entry() };
            }
            Act::Append { .. } => {}
            Act::Appended { stored } => self.appended(stored),
        }
    }

    fn end(&mut self) {
        for child in 0..CHILDREN {
            if self.calls[child].is_some() {
                self.call(child);
            }
        }
        self.appended(true);
        let done = AgentDone {
            run_id: "r".into(),
            status: RunStatus::Completed,
            error: None,
            text: String::new(),
            stats: Stats::default(),
        };
        self.tell(&done, &Origin::default());
        self.storing = self.engine.run_entry();
        assert!(self.storing.is_some());
        self.appended(true);
        self.entries.push(EntryKind::RunEnd { run_id: "r".into(), status: RunStatus::Completed });
    }

    /// The ids of sub-agents' blocks in the entries, in the order of their ids.
    fn stored_ids(&self) -> Vec<String> {
        let ids = |entry: &EntryKind| match entry {
            EntryKind::Custom(CustomEntry { data, .. }) => {
                let agents = data.value()["agents"].as_array().cloned().unwrap_or_default();
                agents.iter().map(|agent| agent["block"]["id"].as_str().unwrap().to_owned()).collect()
            }
            _ => Vec::new(),
        };
        let mut ids: Vec<String> = self.entries.iter().flat_map(ids).collect();
        ids.sort();
        ids
    }

    async fn rebuilt(&self) -> Vec<Arc<zk_view::Block>> {
        let new = NewSession { id: None, cwd: "/".into(), parent: None };
        let session = MemoryStore::new().create(new).await.unwrap();
        session.append(self.entries.clone(), Durability::Process).await.unwrap();
        rebuild(&session.entries().await.unwrap())
    }
}

proptest! {
    #[test]
    fn each_block_that_closes_is_stored_once(acts in prop::collection::vec(act(), 0..60)) {
        let mut rig = Rig::default();
        let start = SessionStart { session_id: None, run_id: "r".into(), messages: 0 };
        rig.tell(&start, &Origin::default());
        rig.entries.push(EntryKind::RunStart { run_id: "r".into() });
        rig.act(Act::Answer);
        acts.into_iter().for_each(|act| rig.act(act));
        rig.end();

        let live: Vec<_> = rig.engine.view().blocks.iter().filter(|block| block.is_stored()).cloned().collect();
        prop_assert!(live.iter().all(|block| block.closed), "{live:#?}");
        let of_children = live.iter().filter(|block| block.agent.is_some());
        let mut ids: Vec<String> = of_children.map(|block| block.id.to_string()).collect();
        ids.sort();
        prop_assert_eq!(rig.stored_ids(), ids);

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        prop_assert_eq!(runtime.block_on(rig.rebuilt()), live.clone());

        // An append with an unknown outcome stores existing data again.
        let twice = rig.entries.iter().rposition(|entry| matches!(entry, EntryKind::Custom(_))).unwrap();
        rig.entries.insert(twice, rig.entries[twice].clone());
        prop_assert_eq!(runtime.block_on(rig.rebuilt()), live);
    }
}

fn begun() -> Rig {
    let mut rig = Rig::default();
    let start = SessionStart { session_id: None, run_id: "r".into(), messages: 0 };
    rig.tell(&start, &Origin::default());
    rig.entries.push(EntryKind::RunStart { run_id: "r".into() });
    rig.act(Act::Answer);
    rig
}

#[tokio::test]
async fn a_block_of_a_sub_agent_that_is_stored_stays_when_its_turn_breaks_off() {
    let mut rig = begun();
    rig.act(Act::Call(0));
    rig.act(Act::Append { turns: false });
    rig.act(Act::Appended { stored: true });
    let ids = rig.stored_ids();
    assert_eq!(ids.len(), 1, "the text before the call is closed: {ids:?}");
    rig.calls[0] = None;
    rig.act(Act::Again(0));
    rig.act(Act::Say(0));
    rig.end();
    let live: Vec<_> = rig.engine.view().blocks.iter().filter(|block| block.is_stored()).cloned().collect();
    assert!(live.iter().any(|block| block.id.to_string() == ids[0]), "{live:#?}");
    assert_eq!(rig.rebuilt().await, live);
}

/// A session log that only remembers.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, _: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        self.0.lock().unwrap().push(entry.data.to_string());
        Ok(EntryId::fresh())
    }

    async fn entries(&self, _: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_sub_agent_that_ends_while_the_end_of_its_run_is_stored_is_stored_once() {
    let (bus, driver, log) = (Bus::new(), ViewDriver::new(), Arc::new(Log::default()));
    bus.install(&driver).unwrap();
    let cx = bus.cx().with_service::<dyn SessionLog>(log.clone());
    let said = |text: &str| SessionMessages {
        run_id: "r".into(),
        messages: vec![Message::assistant(vec![Block::text(text)]).shared()],
        usage: None,
        cause: MessagesCause::Answer,
    };
    cx.emit(SessionStart { session_id: None, run_id: "r".into(), messages: 0 }).await.unwrap();
    cx.emit(said("of the agent")).await.unwrap();
    let child = bus.child("child-1").cx();
    child.emit(said("of the first")).await.unwrap();
    let (run_id, status) = ("r".into(), RunStatus::Completed);
    let before = SessionBeforeEnd { session_id: None, run_id, status, entries: Vec::new() };
    let entries = cx.emit(before).await.unwrap().entries;
    let ending: String = entries.iter().map(|entry| entry.data.as_json().to_owned()).collect();
    // Between the entry and its storing.
    bus.child("child-2").cx().emit(said("of the second")).await.unwrap();
    for number in [1, 2] {
        let (child, stats) = (format!("child-{number}"), Stats::default());
        cx.emit(SpawnComplete { child, depth: 1, stats }).await.unwrap();
    }
    let (run_id, session_id) = ("r".into(), None);
    cx.emit(SessionEnd { session_id, run_id, status, from: 0, to: 1, entries }).await.unwrap();
    let stored = log.0.lock().unwrap().concat() + &ending;
    for text in ["of the first", "of the second"] {
        assert_eq!(stored.matches(text).count(), 1, "{text}: {stored}");
    }
    bus.close().await;
}

#[tokio::test]
async fn questions_are_shown_by_whoever_follows_after_one_that_is_aborted() {
    let questions = Arc::new(Questions::new());
    let driver = ViewDriver::answering(&questions);
    let following = driver.clone();
    let first = tokio::spawn(async move { following.follow_questions().await });
    tokio::task::yield_now().await;
    first.abort();
    let (asking, bus) = (questions.clone(), Bus::new());
    let asked = tokio::spawn(async move {
        let question = Question::Confirm { text: "Go on?".into() };
        asking.ask(question, &bus.cx(), Duration::from_secs(60)).await
    });
    let waiting = async {
        while driver.view().cards.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    // The runtime may not have dropped the earlier one yet.
    tokio::select! {
        biased;
        () = driver.follow_questions() => panic!("nobody follows the questions"),
        waited = tokio::time::timeout(Duration::from_secs(20), waiting) => waited.expect("the question is shown"),
    }
    asked.abort();
}
