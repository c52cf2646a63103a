//! Text of sub-agents, which is stored as it arrives.

use std::sync::Arc;

use zk_core::events::{
    MessagesCause, SessionMessages, SessionOpenTurn, SpawnBefore, StreamStart, StreamText,
};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef, ToolCall, TurnUsage, Usage};
use zk_core::service::{
    Audience, EntryKind, OpenSession, Redactor, SessionStore, SubAgentEntry, SubAgentStep, SubAgentTexts,
};
use zk_session::{MemoryStore, Recorder, SqliteStore, load_history};

use crate::support::at;

fn spawned(child: &str) -> SpawnBefore {
    let (prompt, model) = ("look\nclosely".into(), ModelRef::new("p", "m"));
    SpawnBefore { child: child.into(), call_id: "c".into(), depth: 1, prompt, model, background: false }
}

fn begun() -> StreamStart {
    StreamStart { turn_id: "t".into(), model: None, request_id: None }
}

fn piece(text: &str) -> StreamText {
    StreamText { turn_id: "t".into(), delta: text.into() }
}

fn answer(text: &str) -> SessionMessages {
    let messages = vec![Message::assistant(vec![Block::text(text)]).shared()];
    SessionMessages { run_id: "r".into(), messages, usage: None, cause: MessagesCause::Answer }
}

async fn steps(session: &Arc<dyn OpenSession>) -> Vec<SubAgentStep> {
    let step = |kind: &EntryKind| match kind {
        EntryKind::Custom(custom) => SubAgentEntry::of(custom).map(|entry| entry.step),
        _ => None,
    };
    session.entries().await.unwrap().iter().filter_map(|entry| step(&entry.kind)).collect()
}

/// Waits until a sub-agent's stored text is `text`.
async fn until_stored(session: &Arc<dyn OpenSession>, text: &str) {
    loop {
        let texts = SubAgentTexts::read(&session.entries().await.unwrap());
        if texts.of_agent("main.1").as_deref() == Some(text) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn text_of_a_sub_agent_is_stored_before_its_answer_ends() {
    let bus = Bus::new();
    let session = MemoryStore::new().create(at("/project".as_ref())).await.unwrap();
    bus.install(&Recorder::new(session.clone())).unwrap();
    bus.cx().emit(spawned("main.1")).await.unwrap();
    let child = bus.child("main.1");
    child.cx().emit(begun()).await.unwrap();
    child.cx().emit(piece("The lock is ")).await.unwrap();
    child.cx().emit(piece("miss")).await.unwrap();
    // A word is stored once it is complete.
    until_stored(&session, "The lock is").await;
    child.cx().emit(piece("ing here")).await.unwrap();
    until_stored(&session, "The lock is missing").await;
    child.cx().emit(answer("The lock is missing here.")).await.unwrap();
    until_stored(&session, "The lock is missing here.").await;
    // An answer with calls comes next.
    let call = ToolCall::new("d", "shell", serde_json::json!({}));
    let message = Message::assistant(vec![Block::text("I add it."), Block::ToolCall(call)]).shared();
    let (model, usage) = (ModelRef::new("p", "m"), Usage::default());
    let usage = TurnUsage { turn_id: "t".into(), model, usage, cost: None };
    let open = SessionOpenTurn { run_id: "r".into(), turn_id: "t".into(), message, usage };
    child.cx().emit(open).await.unwrap();
    until_stored(&session, "I add it.").await;
    let began = SubAgentStep::Began { parent: "main".into(), call_id: "c".into(), task: "look".into() };
    let stored = steps(&session).await;
    assert_eq!(stored.first(), Some(&began));
    let texts = SubAgentTexts::read(&session.entries().await.unwrap());
    assert_eq!(texts.of_call(&"c".into()), Some(("main.1", "I add it.".to_owned())));
    // The conversation has none of it.
    let entries = session.entries().await.unwrap();
    assert!(load_history(&entries).messages.is_empty());
    let is_hidden =
        |kind: &EntryKind| matches!(kind, EntryKind::Custom(custom) if custom.audience == Audience::Hidden);
    assert!(entries.iter().all(|entry| is_hidden(&entry.kind)));
}

#[tokio::test]
async fn text_of_the_sessions_own_agent_is_not_stored_in_pieces() {
    let bus = Bus::new();
    let session = MemoryStore::new().create(at("/project".as_ref())).await.unwrap();
    bus.install(&Recorder::new(session.clone())).unwrap();
    for cx in [bus.cx(), bus.child("main.1").cx()] {
        cx.emit(begun()).await.unwrap();
        cx.emit(piece("some words ")).await.unwrap();
    }
    until_stored(&session, "some words").await;
    assert_eq!(steps(&session).await.len(), 1, "the piece of the sub-agent alone");
}

#[tokio::test]
async fn stored_text_of_a_sub_agent_holds_no_secret() {
    const SECRET: &str = "correct-horse-battery";
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone())).unwrap();
    let redactor = Arc::new(Redactor::new());
    redactor.learn(SECRET);
    bus.scope("host").provide_service(redactor);
    let cx = bus.child("main.1").cx();
    cx.emit(begun()).await.unwrap();
    // Half of a secret is not recognised, so it waits for the other half.
    let (first, second) = SECRET.split_at(9);
    cx.emit(piece(&format!("use {first}"))).await.unwrap();
    until_stored(&session, "use").await;
    cx.emit(piece(&format!("{second} now, "))).await.unwrap();
    loop {
        let texts = SubAgentTexts::read(&session.entries().await.unwrap());
        if texts.of_agent("main.1").is_some_and(|text| text.ends_with("now,")) {
            break;
        }
        tokio::task::yield_now().await;
    }
    cx.emit(answer(&format!("use {SECRET}"))).await.unwrap();
    for step in steps(&session).await {
        assert!(!format!("{step:?}").contains(first), "{step:?}");
    }
}
