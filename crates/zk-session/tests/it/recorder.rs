use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Semaphore;
use zk_core::events::{
    AgentStart, CallRef, Cause, MessagesCause, ModelSelect, SessionEnd, SessionMessages, SessionStart,
    ThinkingSelect, ToolGate, ToolResultsAfter,
};
use zk_core::kernel::{Bus, Cx, EmitError};
use zk_core::model::{
    Block, EntryId, Message, ModelRef, SessionId, ThinkingLevel, ToolCall, TurnUsage, Usage,
};
use zk_core::service::{CallPlace, Entry, EntryKind, OpenSession, RunStatus, SessionStore, StoreError};
use zk_session::{MemoryStore, Recorder, SqliteStore, load_history};

use crate::support::{at, kinds};

/// A session whose disk can be slow or full.
struct Moody {
    inner: Arc<dyn OpenSession>,
    /// One permit lets one append through.
    disk: Semaphore,
    /// So many appends fail from now on.
    full: AtomicU32,
    appends: AtomicUsize,
}

impl Moody {
    async fn new(permits: usize) -> Arc<Self> {
        let inner = MemoryStore::new().create(at("/project".as_ref())).await.unwrap();
        let disk = Semaphore::new(permits);
        Arc::new(Self { inner, disk, full: AtomicU32::new(0), appends: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl OpenSession for Moody {
    fn id(&self) -> &SessionId {
        self.inner.id()
    }

    async fn append(&self, entries: Vec<EntryKind>) -> Result<Vec<EntryId>, StoreError> {
        self.appends.fetch_add(1, Ordering::SeqCst);
        self.disk.acquire().await.unwrap().forget();
        if self.full.load(Ordering::SeqCst) > 0 {
            self.full.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreError::Failed("the disk is full".into()));
        }
        self.inner.append(entries).await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

const ENOUGH: usize = 1000;

async fn recording(permits: usize) -> (Arc<Moody>, Arc<dyn OpenSession>, Cx) {
    let moody = Moody::new(permits).await;
    let bus = Bus::new();
    bus.install(&Recorder::new(moody.clone())).unwrap();
    let session: Arc<dyn OpenSession> = moody.clone();
    (moody, session, bus.cx())
}

fn start() -> SessionStart {
    SessionStart { session_id: None, run_id: "r_1".into(), messages: 0 }
}

fn end() -> SessionEnd {
    let (run_id, status) = ("r_1".into(), RunStatus::Completed);
    SessionEnd { session_id: None, run_id, status, from: 0, to: 0, entries: Vec::new() }
}

fn turns(cause: MessagesCause, message: Message) -> SessionMessages {
    SessionMessages { run_id: "r_1".into(), messages: vec![message.shared()], usage: None, cause }
}

fn prompt() -> SessionMessages {
    turns(MessagesCause::Prompt, Message::user_text("hello"))
}

fn model(name: &str) -> ModelRef {
    ModelRef::new("p", name)
}

fn usage() -> TurnUsage {
    TurnUsage { turn_id: "t_1".into(), model: model("m"), usage: Usage::default(), cost: None }
}

fn results() -> ToolResultsAfter {
    let call = Block::ToolCall(ToolCall::new("c", "shell", json!({})));
    ToolResultsAfter {
        run_id: "r_1".into(),
        turn_id: "t_1".into(),
        assistant: Message::assistant(vec![call]).shared(),
        results: Message::user(vec![Block::result("c", "done", false)]).shared(),
        usage: usage(),
    }
}

fn gate() -> ToolGate {
    let call = CallRef {
        turn_id: "t_1".into(),
        call_id: "c".into(),
        name: "shell".into(),
        display_name: "shell".into(),
    };
    let place = CallPlace { cx: Bus::new().cx(), cwd: ".".into() };
    ToolGate::new(Arc::new(call), json!({}), None, place)
}

/// The entries by a word each.
fn words(kinds: &[EntryKind]) -> Vec<String> {
    let word = |kind: &EntryKind| match kind {
        EntryKind::Message { message, .. } if message.calls().count() > 0 => "call".to_owned(),
        EntryKind::Message { message, .. } if message.text().is_empty() => "result".to_owned(),
        EntryKind::Message { message, .. } => message.text(),
        EntryKind::Model { model } => format!("model {}", model.model),
        EntryKind::Thinking { level } => format!("thinking {}", level.as_str()),
        EntryKind::RunStart { .. } => "start".to_owned(),
        EntryKind::RunEnd { .. } => "end".to_owned(),
        EntryKind::Custom { .. } => "custom".to_owned(),
    };
    kinds.iter().map(word).collect()
}

#[tokio::test]
async fn a_run_is_recorded_in_the_order_it_happened() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    cx.emit(results()).await.unwrap();
    assert_eq!(moody.appends.load(Ordering::SeqCst), 3, "the pair is one append");
    let answer = Message { origin: Some(model("m")), ..Message::assistant(vec![Block::text("answer")]) };
    cx.emit(SessionMessages { usage: Some(usage()), ..turns(MessagesCause::Answer, answer) }).await.unwrap();
    cx.emit(turns(MessagesCause::Steer, Message::user_text("but"))).await.unwrap();
    cx.emit(end()).await.unwrap();
    let kinds = kinds(&session).await;
    assert_eq!(words(&kinds), ["start", "hello", "call", "result", "answer", "but", "end"]);
    let with_usage = kinds.iter().map(|kind| matches!(kind, EntryKind::Message { usage: Some(_), .. }));
    assert_eq!(with_usage.collect::<Vec<_>>(), [false, false, true, false, true, false, false]);
    let loaded = load_history(&session.entries().await.unwrap());
    assert_eq!((loaded.messages.len(), loaded.model, loaded.unfinished), (5, Some(model("m")), None));
}

#[tokio::test]
async fn the_prompt_does_not_wait_for_the_disk_and_the_first_call_does() {
    let (moody, session, cx) = recording(0).await;
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    assert_eq!(moody.appends.load(Ordering::SeqCst), 2, "both are on their way");
    assert!(kinds(&session).await.is_empty());
    let gated = tokio::spawn({
        let cx = cx.clone();
        async move { cx.emit(gate()).await.map(|gate| gate.is_decided()) }
    });
    tokio::task::yield_now().await;
    assert!(!gated.is_finished());
    moody.disk.add_permits(ENOUGH);
    assert!(!gated.await.unwrap().unwrap());
    assert_eq!(words(&kinds(&session).await), ["start", "hello"]);
}

#[tokio::test]
async fn a_prompt_that_cannot_be_stored_stops_the_run_before_a_tool_does_anything() {
    let (moody, session, cx) = recording(0).await;
    moody.full.store(2, Ordering::SeqCst);
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    moody.disk.add_permits(ENOUGH);
    let refused = cx.emit(gate()).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    assert!(matches!(cx.emit(gate()).await, Err(EmitError::Hook(_))), "the call beside it is refused, too");
    assert!(kinds(&session).await.is_empty());
    // Once there is room, everything is stored in its order.
    cx.emit(results()).await.unwrap();
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["start", "hello", "call", "result", "end"]);
}

#[tokio::test]
async fn a_failing_append_is_an_error_of_its_event_and_is_made_up_for() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(prompt()).await.unwrap();
    moody.full.store(1, Ordering::SeqCst);
    let error = cx.emit(results()).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(words(&kinds(&session).await), ["hello"]);
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "call", "result", "end"]);
}

#[tokio::test]
async fn a_message_that_is_announced_again_after_a_failure_is_stored_once() {
    let (moody, session, cx) = recording(ENOUGH).await;
    let (prompt, pair) = (prompt(), results());
    cx.emit(prompt.clone()).await.unwrap();
    moody.full.store(2, Ordering::SeqCst);
    cx.emit(pair.clone()).await.unwrap_err();
    cx.emit(pair.clone()).await.unwrap_err();
    cx.emit(pair).await.unwrap();
    cx.emit(prompt).await.unwrap();
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "call", "result", "end"]);
}

#[tokio::test]
async fn a_run_dropped_while_it_waits_neither_loses_nor_repeats_an_append() {
    let (moody, session, cx) = recording(0).await;
    let waiting = tokio::spawn({
        let cx = cx.clone();
        async move { cx.emit(results()).await }
    });
    while moody.appends.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    moody.disk.add_permits(ENOUGH);
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["call", "result", "end"]);
}

#[tokio::test]
async fn model_and_thinking_are_recorded_when_they_change() {
    let (_, session, cx) = recording(ENOUGH).await;
    let begin =
        |thinking| AgentStart { run_id: "r_1".into(), model: model("a"), thinking, tools: Vec::new() };
    let select = |to: &str, cause| ModelSelect { from: None, to: model(to), cause };
    let think = |to| ThinkingSelect { from: ThinkingLevel::Off, to, cause: Cause::Set };
    cx.emit(begin(ThinkingLevel::Off)).await.unwrap();
    cx.emit(begin(ThinkingLevel::Off)).await.unwrap();
    cx.emit(select("a", Cause::Set)).await.unwrap();
    cx.emit(select("b", Cause::Set)).await.unwrap();
    cx.emit(select("c", Cause::Restore)).await.unwrap();
    cx.emit(think(ThinkingLevel::High)).await.unwrap();
    cx.emit(think(ThinkingLevel::High)).await.unwrap();
    cx.emit(think(ThinkingLevel::Off)).await.unwrap();
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["model a", "model b", "thinking high", "thinking off", "end"]);

    let loaded = load_history(&session.entries().await.unwrap());
    let bus = Bus::new();
    bus.install(&Recorder::resuming(session.clone(), &loaded)).unwrap();
    let again = AgentStart { model: model("b"), ..begin(ThinkingLevel::Off) };
    bus.cx().emit(again).await.unwrap();
    assert_eq!(kinds(&session).await.len(), 5, "what the log says already is not written again");
}

#[tokio::test]
async fn a_child_agent_is_not_recorded_with_its_parent() {
    let bus = Bus::new();
    let session = MemoryStore::new().create(at("/project".as_ref())).await.unwrap();
    bus.install(&Recorder::new(session.clone())).unwrap();
    let child = bus.child("helper");
    child.cx().emit(prompt()).await.unwrap();
    child.cx().emit(end()).await.unwrap();
    assert!(kinds(&session).await.is_empty());
}

#[tokio::test]
async fn a_recorded_run_is_resumed_from_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone())).unwrap();
    let cx = bus.cx();
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    cx.emit(results()).await.unwrap();
    let id = session.id().clone();
    bus.close().await;
    session.close().await.unwrap();

    let session = store.open(&id).await.unwrap();
    let loaded = load_history(&session.entries().await.unwrap());
    assert_eq!(loaded.messages.len(), 3);
    assert_eq!(loaded.unfinished, Some("r_1".into()), "it was cut off");
}
