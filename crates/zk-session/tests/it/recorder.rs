use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Semaphore;
use zk_core::events::{
    AgentStart, CallRef, Cause, MessagesCause, ModelSelect, SessionEnd, SessionEntry, SessionMessages,
    SessionOpenTurn, SessionStart, SideCallEnd, ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter,
};
use zk_core::kernel::{Bus, Cx, Source};
use zk_core::model::{
    Block, Display, Effects, EntryId, Message, ModelRef, RunId, SessionId, ThinkingLevel, ToolCall,
    ToolResult, TurnUsage, Usage,
};
use zk_core::service::{
    CustomEntry, Durability, Entry, EntryKind, NewEntry, OpenSession, Redactor, RunStatus, SessionLog,
    SessionStore, StoreError,
};
use zk_session::{CallState, MemoryStore, Recorder, Saved, SqliteStore, load_history, resume};

use crate::support::{at, kinds};

/// A session whose disk can be slow or full.
struct Moody {
    inner: Arc<dyn OpenSession>,
    /// Each permit lets one append through.
    disk: Semaphore,
    /// Number of appends that fail from now on.
    full: AtomicU32,
    appends: AtomicUsize,
    /// Numbers of the appends that were requested with [`Durability::Disk`].
    on_disk: Mutex<Vec<usize>>,
}

impl Moody {
    async fn new(permits: usize) -> Arc<Self> {
        let inner = MemoryStore::new().create(at("/project".as_ref())).await.unwrap();
        let disk = Semaphore::new(permits);
        Arc::new(Self {
            inner,
            disk,
            full: AtomicU32::new(0),
            appends: AtomicUsize::new(0),
            on_disk: Mutex::default(),
        })
    }
}

#[async_trait]
impl OpenSession for Moody {
    fn id(&self) -> &SessionId {
        self.inner.id()
    }

    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst);
        if durability == Durability::Disk {
            self.on_disk.lock().unwrap().push(number);
        }
        self.disk.acquire().await.unwrap().forget();
        if self.full.load(Ordering::SeqCst) > 0 {
            self.full.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreError::Failed("the disk is full".into()));
        }
        self.inner.append(entries, durability).await
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

#[tokio::test]
async fn what_plugins_append_before_the_end_is_stored_before_the_end() {
    let (_, session, cx) = recording(ENOUGH).await;
    cx.emit(start()).await.unwrap();
    let own = NewEntry::hidden("goal", 1, json!({"done": true})).by(&Source::new("goals"));
    cx.emit(SessionEnd { entries: vec![own.clone()], ..end() }).await.unwrap();
    let kinds: Vec<_> = session.entries().await.unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds[1], EntryKind::Custom(own));
    assert!(matches!(kinds[2], EntryKind::RunEnd { .. }), "{kinds:?}");
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

fn open_turn() -> SessionOpenTurn {
    let ToolResultsAfter { run_id, turn_id, assistant, usage, .. } = results();
    SessionOpenTurn { run_id, turn_id, message: assistant, usage }
}

fn call(read_only: bool) -> (ToolBegin, ToolEnd) {
    let call = CallRef {
        turn_id: "t_1".into(),
        call_id: "c".into(),
        name: "shell".into(),
        display_name: "shell".into(),
    };
    let (run_id, call) = (RunId::from("r_1"), Arc::new(call));
    let result = ToolResult { call_id: "c".into(), content: "done".into(), is_error: false };
    let (display, details) = (Some(Display::Line { text: "1 file".into() }), Some(json!({"files": 1})));
    let begin = ToolBegin {
        run_id: run_id.clone(),
        call: call.clone(),
        args: json!({"command": "touch x"}),
        effects: Effects::Unknown,
        summary: "$ touch x".into(),
        title: None,
        kind: zk_core::model::CallKind::Execute,
        locations: Vec::new(),
        read_only,
    };
    let summary = "$ touch x".into();
    let exit_code = None;
    (begin, ToolEnd { run_id, call, summary, read_only, result, display, exit_code, details, elapsed_ms: 7 })
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
        EntryKind::OpenTurn { .. } => "open".to_owned(),
        EntryKind::CallBegin { call_id, .. } => format!("begin {call_id}"),
        EntryKind::CallEnd { call_id, .. } => format!("end {call_id}"),
        EntryKind::CallData { call_id, .. } => format!("data {call_id}"),
        EntryKind::Usage { usage, side_call: None } => format!("usage of {}", usage.turn_id),
        EntryKind::Usage { side_call: Some(call), .. } => format!("{} of {}", call.purpose, call.source),
        EntryKind::Leaf { .. } => "leaf".to_owned(),
        EntryKind::Label { .. } => "label".to_owned(),
        EntryKind::Custom(_) => "custom".to_owned(),
    };
    kinds.iter().map(word).collect()
}

#[tokio::test]
async fn a_run_is_recorded_in_the_order_it_happened() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    cx.emit(results()).await.unwrap();
    assert_eq!(
        moody.appends.load(Ordering::SeqCst),
        2,
        "the start goes with the prompt, and the pair is one append"
    );
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
async fn an_answer_that_broke_off_without_text_leaves_what_it_cost() {
    let (_, session, cx) = recording(ENOUGH).await;
    cx.emit(prompt()).await.unwrap();
    let broken = SessionMessages { messages: Vec::new(), usage: Some(usage()), ..prompt() };
    cx.emit(broken).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "usage of t_1"]);
    assert_eq!(load_history(&session.entries().await.unwrap()).messages.len(), 1);
}

#[tokio::test]
async fn a_side_call_leaves_what_it_cost_and_whose_it_was() {
    let (_, session, cx) = recording(ENOUGH).await;
    cx.emit(prompt()).await.unwrap();
    let call = SideCallEnd { source: "titles".into(), purpose: "title".into(), part: None, usage: usage() };
    cx.emit(call).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "title of titles"]);
    assert_eq!(load_history(&session.entries().await.unwrap()).messages.len(), 1);
}

#[tokio::test]
async fn the_prompt_is_stored_before_its_request_can_be_sent() {
    let (moody, session, cx) = recording(0).await;
    cx.emit(start()).await.unwrap();
    let prompted = tokio::spawn({
        let cx = cx.clone();
        async move { cx.emit(prompt()).await }
    });
    tokio::task::yield_now().await;
    assert!(!prompted.is_finished());
    moody.disk.add_permits(ENOUGH);
    prompted.await.unwrap().unwrap();
    assert_eq!(words(&kinds(&session).await), ["start", "hello"]);
}

#[tokio::test]
async fn what_is_dropped_while_it_waits_for_the_disk_is_stored_later_in_its_order() {
    let (moody, session, cx) = recording(0).await;
    let answer = turns(MessagesCause::Answer, Message::assistant(vec![Block::text("answer")]));
    let spawned = |event: SessionMessages| {
        let cx = cx.clone();
        tokio::spawn(async move { cx.emit(event).await })
    };
    let first = spawned(prompt());
    tokio::task::yield_now().await;
    // The answer waits behind the prompt, and its handler is cancelled.
    let second = spawned(answer.clone());
    tokio::task::yield_now().await;
    let (begin, end) = call(true);
    cx.emit(begin).await.unwrap();
    cx.emit(end).await.unwrap();
    let pair = tokio::spawn({
        let cx = cx.clone();
        async move { cx.emit(results()).await }
    });
    tokio::task::yield_now().await;
    for given_up in [second, pair] {
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
    }
    moody.disk.add_permits(ENOUGH);
    first.await.unwrap().unwrap();
    cx.emit(answer).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "answer", "data c", "call", "result"]);
}

#[tokio::test]
async fn a_prompt_that_cannot_be_stored_stops_the_run_before_its_request() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(start()).await.unwrap();
    moody.full.store(1, Ordering::SeqCst);
    let refused = cx.emit(prompt()).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    assert_eq!(words(&kinds(&session).await), [""; 0]);
    // Once there is room, everything is stored in its order.
    cx.emit(results()).await.unwrap();
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["start", "hello", "call", "result", "end"]);
}

#[tokio::test]
async fn a_new_session_that_cannot_be_stored_can_be_done_without() {
    let moody = Moody::new(ENOUGH).await;
    moody.full.store(u32::MAX, Ordering::SeqCst);
    let bus = Bus::new();
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = said.clone();
    let recorder =
        Recorder::new(moody.clone()).or_without(move |error| told.lock().unwrap().push(error.to_string()));
    bus.install(&recorder).unwrap();
    let cx = bus.cx();
    cx.emit(start()).await.unwrap();
    cx.emit(prompt()).await.unwrap();
    cx.emit(results()).await.unwrap();
    moody.full.store(0, Ordering::SeqCst);
    cx.emit(end()).await.unwrap();
    assert_eq!(*said.lock().unwrap(), ["session store: the disk is full"], "said once");
    assert_eq!(recorder.saved().await, Saved::Nothing);
    assert!(moody.entries().await.unwrap().is_empty());
}

#[tokio::test]
async fn once_something_is_stored_a_full_disk_stops_the_run_and_what_is_stored_is_said_truly() {
    let moody = Moody::new(ENOUGH).await;
    let bus = Bus::new();
    let recorder = Recorder::new(moody.clone()).or_without(|error| panic!("{error}"));
    bus.install(&recorder).unwrap();
    let cx = bus.cx();
    cx.emit(prompt()).await.unwrap();
    assert_eq!(recorder.saved().await, Saved::All);
    moody.full.store(1, Ordering::SeqCst);
    cx.emit(results()).await.unwrap_err();
    assert_eq!(recorder.saved().await, Saved::Part { missing: 2 });
    cx.emit(end()).await.unwrap();
    assert_eq!(recorder.saved().await, Saved::All);
}

#[tokio::test]
async fn a_call_with_effects_is_on_the_disk_before_it_runs_and_before_its_result_is_used() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(prompt()).await.unwrap();
    cx.emit(open_turn()).await.unwrap();
    let (begin, end) = call(false);
    cx.emit(begin).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "open", "begin c"]);
    cx.emit(end).await.unwrap();
    cx.emit(results()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["hello", "open", "begin c", "end c", "call", "result"]);
    assert_eq!(*moody.on_disk.lock().unwrap(), [2, 4], "two syncs: the begin, and the pair with the end");
    let kinds = kinds(&session).await;
    let EntryKind::CallEnd { display, details, elapsed_ms, .. } = &kinds[3] else { panic!("{kinds:?}") };
    assert!(display.is_some() && *details == Some(json!({"files": 1})) && *elapsed_ms == 7);
    let loaded = load_history(&session.entries().await.unwrap());
    assert_eq!((loaded.messages.len(), loaded.interrupted), (3, None), "the pair is stored once");
}

#[tokio::test]
async fn the_end_of_a_call_is_synced_with_the_begin_of_the_next() {
    let (moody, _, cx) = recording(ENOUGH).await;
    cx.emit(open_turn()).await.unwrap();
    for _ in 0..3 {
        let (begin, end) = call(false);
        cx.emit(begin).await.unwrap();
        cx.emit(end).await.unwrap();
    }
    cx.emit(results()).await.unwrap();
    assert_eq!(*moody.on_disk.lock().unwrap(), [1, 3, 5, 7], "three begins, and the pair with the last end");
}

#[tokio::test]
async fn a_turn_that_only_reads_costs_no_sync_and_keeps_what_its_calls_left() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(open_turn()).await.unwrap();
    let (begin, end) = call(true);
    cx.emit(begin).await.unwrap();
    cx.emit(end).await.unwrap();
    cx.emit(results()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["open", "data c", "call", "result"]);
    assert!(moody.on_disk.lock().unwrap().is_empty());
    assert_eq!(moody.appends.load(Ordering::SeqCst), 2, "with the pair");
    let kinds = kinds(&session).await;
    let EntryKind::CallData { display, details, elapsed_ms, .. } = &kinds[1] else { panic!("{kinds:?}") };
    assert!(display.is_some() && *details == Some(json!({"files": 1})) && *elapsed_ms == 7);
    let loaded = load_history(&session.entries().await.unwrap());
    assert_eq!((loaded.messages.len(), loaded.interrupted), (2, None));
}

#[tokio::test]
async fn a_plugin_keeps_entries_in_the_session_and_sees_no_others() {
    let (_, session, cx) = recording(ENOUGH).await;
    let log = cx.service::<dyn SessionLog>().unwrap();
    let (goals, todos) = (cx.bus().scope("goals"), cx.bus().scope("todos"));
    cx.emit(prompt()).await.unwrap();
    let id = log.append(&goals, NewEntry::hidden("goal", 1, json!("ship it"))).await.unwrap();
    log.append(&todos, NewEntry::hidden("todo", 2, json!([1]))).await.unwrap();
    let stored = session.entries().await.unwrap();
    assert_eq!(stored[1].id, id);
    assert_eq!(words(&kinds(&session).await), ["hello", "custom", "custom"]);
    let own = log.entries(&goals).await.unwrap();
    assert_eq!(own, [NewEntry::hidden("goal", 1, json!("ship it")).by(goals.source())]);
    assert_eq!(log.entries(&todos).await.unwrap()[0].version, 2);
}

#[tokio::test]
async fn a_plugins_entry_joins_the_write_of_the_results() {
    let (moody, session, cx) = recording(ENOUGH).await;
    let log = cx.service::<dyn SessionLog>().unwrap();
    let view = cx.bus().scope("view");
    let announced: Arc<Mutex<Vec<CustomEntry>>> = Arc::default();
    let heard = announced.clone();
    view.on_sync(move |event: &SessionEntry, _: &Cx| heard.lock().unwrap().push(event.entry.clone()));
    let entry = |turns: u32| NewEntry::hidden("run", 1, json!({ "turns": turns }));
    // One that was left by a turn without results is replaced.
    assert!(log.join_results(&view, entry(1)) && log.join_results(&view, entry(2)));
    let before = moody.appends.load(Ordering::SeqCst);
    cx.emit(results()).await.unwrap();
    assert_eq!(moody.appends.load(Ordering::SeqCst), before + 1);
    let stored = kinds(&session).await;
    assert_eq!(stored.last(), Some(&EntryKind::Custom(entry(2).by(view.source()))));
    assert_eq!(words(&stored).iter().filter(|word| *word == "custom").count(), 1);
    assert_eq!(*announced.lock().unwrap(), [entry(2).by(view.source())]);
    // A failed write leaves it to the plugin.
    assert!(log.join_results(&view, entry(3)));
    moody.full.store(1, Ordering::SeqCst);
    cx.emit(results()).await.unwrap_err();
    cx.emit(results()).await.unwrap();
    assert_eq!(words(&kinds(&session).await).iter().filter(|word| *word == "custom").count(), 1);
}

#[tokio::test]
async fn an_entry_that_could_not_be_stored_is_not_stored_later() {
    let (moody, session, cx) = recording(ENOUGH).await;
    let log = cx.service::<dyn SessionLog>().unwrap();
    let goals = cx.bus().scope("goals");
    moody.full.store(1, Ordering::SeqCst);
    log.append(&goals, NewEntry::hidden("goal", 1, json!(1))).await.unwrap_err();
    log.append(&goals, NewEntry::hidden("goal", 1, json!(2))).await.unwrap();
    assert_eq!(log.entries(&goals).await.unwrap()[0].data, json!(2).into());
    assert_eq!(words(&kinds(&session).await), ["custom"]);
}

#[tokio::test]
async fn a_plugin_hears_that_its_conversation_is_not_stored() {
    let moody = Moody::new(ENOUGH).await;
    moody.full.store(1, Ordering::SeqCst);
    let bus = Bus::new();
    bus.install(&Recorder::new(moody.clone()).or_without(|_| ())).unwrap();
    bus.cx().emit(prompt()).await.unwrap();
    let log = bus.cx().service::<dyn SessionLog>().unwrap();
    let error = log.append(&bus.scope("goals"), NewEntry::hidden("goal", 1, json!(1))).await.unwrap_err();
    assert!(error.to_string().contains("not stored"), "{error}");
}

#[tokio::test]
async fn a_call_whose_begin_cannot_be_stored_is_refused_and_never_counts_as_begun() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(open_turn()).await.unwrap();
    moody.full.store(1, Ordering::SeqCst);
    let refused = cx.emit(call(false).0).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    cx.emit(end()).await.unwrap();
    assert_eq!(words(&kinds(&session).await), ["open", "end"]);
}

#[tokio::test]
async fn a_killed_turn_becomes_a_pair_that_is_stored_once() {
    let (moody, session, cx) = recording(ENOUGH).await;
    cx.emit(prompt()).await.unwrap();
    cx.emit(open_turn()).await.unwrap();
    cx.emit(call(false).0).await.unwrap();
    let loaded = resume(&*moody).await.unwrap();
    let turn = loaded.interrupted.unwrap();
    assert_eq!(turn.calls[0].state, CallState::OutcomeUnknown);
    assert_eq!(turn.calls[0].args, json!({"command": "touch x"}), "what ran, not what the model wrote");
    assert!(turn.results.results().next().unwrap().content.to_text().starts_with("Outcome unknown"));
    assert_eq!(loaded.messages.len(), 3);
    let again = resume(&*moody).await.unwrap();
    assert_eq!((again.messages, again.interrupted), (loaded.messages, None), "from now on it is history");
    assert_eq!(words(&kinds(&session).await), ["hello", "open", "begin c", "call", "result"]);
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
    let begin = |thinking| AgentStart {
        run_id: "r_1".into(),
        model: model("a"),
        thinking,
        tools: Vec::new(),
        missing_tools: Vec::new(),
    };
    let select = |to: &str, cause| ModelSelect { from: None, to: model(to), window: None, cause };
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

#[tokio::test]
async fn no_entry_holds_a_secret_and_the_conversation_in_memory_keeps_it() {
    const SECRET: &str = "correct-horse-battery";
    let (_, session, cx) = recording(ENOUGH).await;
    let redactor = Arc::new(Redactor::new());
    redactor.learn(SECRET);
    cx.bus().scope("host").provide_service(redactor);
    let asked = turns(MessagesCause::Prompt, Message::user_text(format!("use {SECRET}")));
    cx.emit(asked.clone()).await.unwrap();
    // A key streamed in two pieces is one text here.
    let args = json!({ "command": format!("login {SECRET}") });
    let block = Block::ToolCall(ToolCall::new("c", "shell", args.clone()));
    let assistant = Message::assistant(vec![Block::text(format!("I use {SECRET}")), block]).shared();
    cx.emit(SessionOpenTurn { message: assistant.clone(), ..open_turn() }).await.unwrap();
    let (mut begin, mut end) = call(false);
    begin.args = args;
    end.result.content = format!("logged in with {SECRET}").into();
    end.display = Some(Display::Lines { lines: vec![SECRET.into()] });
    end.details = Some(json!({ "env": SECRET }));
    cx.emit(begin).await.unwrap();
    cx.emit(end).await.unwrap();
    cx.emit(ToolResultsAfter { assistant, ..results() }).await.unwrap();
    let log = cx.service::<dyn SessionLog>().unwrap();
    log.append(&cx.bus().scope("goals"), NewEntry::hidden("goal", 1, json!(SECRET))).await.unwrap();
    let stored = kinds(&session).await;
    assert_eq!(words(&stored).len(), 7);
    let text = serde_json::to_string(&stored).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    assert_eq!(text.matches("[redacted]").count(), 10, "{text}");
    assert!(asked.messages[0].text().contains(SECRET));
}
