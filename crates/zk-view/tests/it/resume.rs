use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use zk_agent::AgentConversation;
use zk_core::events::SessionStart;
use zk_core::kernel::Origin;
use zk_core::model::{Block, CallId, Message, ModelRef, SessionId, ToolCall, ToolResult, TurnUsage, Usage};
use zk_core::service::{
    Conversation, ConversationError, Durability, Entry, EntryKind, OpenSession, OpenedSession, SessionOpener,
    SwitchTarget,
};
use zk_session::load_history;
use zk_testkit::Script;
use zk_view::{
    CallState, Content, Effect, Engine, EngineInput, Intent, ObservedEvent, Patch, View, ViewDriver, body_of,
    rebuild,
};

use crate::support::{call, rig, rig_with};

#[tokio::test]
async fn a_resumed_view_goes_on_where_the_stored_one_ended() {
    let script =
        Script::answering(|asked| zk_testkit::Turn::new().text(format!("Answer {}.", asked.messages.len())));
    let mut rig = rig(script).await;
    rig.run("one").await;
    let resumed = ViewDriver::new();
    resumed.begin(&rig.session.entries().await.unwrap());
    assert_eq!(resumed.view().blocks, rig.driver.view().blocks);
    rig.agent.bus().install(&ViewDriver::new()).unwrap_err();
    rig.run("two").await;
    assert!(rig.lines().contains("b3 › two"), "{}", rig.lines());
}

/// Session store that opens a new session or a given one.
struct Sessions {
    entries: Vec<Entry>,
}

#[async_trait]
impl SessionOpener for Sessions {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        Ok(match target {
            SwitchTarget::New => OpenedSession::default(),
            _ => {
                let entries = self.entries.clone();
                let messages = load_history(&entries).messages;
                OpenedSession {
                    id: Some("stored".into()),
                    messages,
                    entries: entries.into(),
                    ..Default::default()
                }
            }
        })
    }
}

#[tokio::test]
async fn a_conversation_that_is_switched_shows_the_other_session_and_nothing_of_the_one_before() {
    let mut rig = rig(Script::answering(|_| zk_testkit::Turn::new().text("Yes."))).await;
    rig.run("one").await;
    let (entries, first) = (rig.session.entries().await.unwrap(), rig.driver.view());
    let opener = Arc::new(Sessions { entries });
    let conversation = AgentConversation::stored(rig.agent.clone(), opener, &[]).await.unwrap();
    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();

    rig.driver.note(zk_view::NoteLevel::Info, "passing");
    conversation.switch(SwitchTarget::New).await.unwrap();
    let patches = reader.next().await.unwrap();
    let [Patch::Open { .. }, Patch::Reset { view }] = &patches[..] else { panic!("{patches:?}") };
    assert_eq!((view.blocks.len(), view.switches), (0, first.switches + 1));
    conversation.run("two").await.unwrap().wait().await;
    assert_eq!(rig.lines().lines().next(), Some("b0 › two"));

    conversation.switch(SwitchTarget::Session("stored".into())).await.unwrap();
    let view = rig.driver.view();
    assert_eq!((&view.blocks, view.switches), (&first.blocks, first.switches + 2));
    // A slow reader gets the same.
    let mut replayed = View::default();
    reader.next().await.unwrap().iter().for_each(|patch| replayed.apply(patch));
    assert_eq!(replayed, view);
}

#[test]
fn texts_that_wait_are_given_back_when_another_session_is_shown() {
    let mut engine = Engine::new();
    let origin = Origin::default();
    let start = SessionStart { session_id: None, run_id: "r".into(), messages: 0 };
    engine.apply(0, EngineInput::Event(ObservedEvent { event: &start, origin: &origin }));
    engine.apply(1, EngineInput::Intent(&Intent::Submit { text: "later".into() }));
    assert_eq!(engine.view().queue.len(), 1);
    let out = engine.apply(2, EngineInput::Begin(&[]));
    assert_eq!(out.effects, [Effect::GiveBack { text: "later".into() }]);
    assert_eq!(out.patches.len(), 1);
    assert_eq!(engine.view(), &View { switches: 1, ..View::default() });
}

#[tokio::test]
async fn a_turn_that_was_cut_off_shows_how_far_each_call_got() {
    let rig = rig(Script::new()).await;
    let calls = ["done", "begun", "not"].map(|id| Block::ToolCall(ToolCall::new(id, "run", json!({}))));
    let message = Message::assistant(calls.to_vec()).shared();
    let usage = TurnUsage {
        turn_id: "t".into(),
        model: ModelRef::new("p", "m"),
        usage: Usage::default(),
        cost: None,
    };
    let id = |id: &str| CallId::from(id);
    let begin = |call: &str| EntryKind::CallBegin {
        turn_id: "t".into(),
        call_id: id(call),
        name: "run".into(),
        args: json!({}),
        summary: Some(format!("run {call}")),
    };
    let result = ToolResult { call_id: id("done"), content: "fine".into(), is_error: false };
    let end = EntryKind::CallEnd {
        turn_id: "t".into(),
        call_id: id("done"),
        summary: Some("run done".into()),
        result: Box::new(result),
        display: None,
        details: None,
        elapsed_ms: 5,
    };
    let entries = vec![
        EntryKind::RunStart { run_id: "r".into() },
        EntryKind::OpenTurn { turn_id: "t".into(), message, usage: usage.into() },
        begin("done"),
        end,
        begin("begun"),
    ];
    rig.session.append(entries, Durability::Process).await.unwrap();
    let blocks = rebuild(&rig.session.entries().await.unwrap());
    let states: Vec<CallState> = blocks.iter().map(|block| call(block).unwrap().state).collect();
    assert_eq!(states, [CallState::Done, CallState::OutcomeUnknown, CallState::NotRun]);
}

#[tokio::test]
async fn a_long_result_is_expanded_from_memory_and_from_the_session_alike() {
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    let script = Script::answering(move |asked| {
        let turn = zk_testkit::Turn::new();
        if asked.results().is_empty() {
            turn.call("echo", json!({"text": text.clone()}))
        } else {
            turn.text("Done.")
        }
    });
    let mut rig = rig(script).await;
    rig.run("go").await;
    let view = rig.driver.view();
    let block = view.blocks.iter().find(|block| call(block).is_some()).unwrap();
    let body = call(block).unwrap().body.clone().unwrap();
    assert_eq!((body.total_lines, body.lines.len(), body.expandable), (2000, 40, true));
    assert_eq!(body.lines.last().unwrap().as_str(), "line 1999");

    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();
    rig.driver.intent(&Intent::Expand { id: block.id.clone() });
    let patches = reader.next().await.unwrap();
    let [Patch::Body { lines, .. }] = &patches[..] else { panic!("{patches:?}") };
    assert_eq!(lines.len(), 2000);

    let entries: Vec<Entry> = rig.session.entries().await.unwrap();
    assert_eq!(body_of(&entries, &block.id).as_deref(), Some(&lines[..]));
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_asked_for() {
    let script = Script::answering(|asked| {
        let turn = zk_testkit::Turn::new();
        if asked.results().len() < 6 && asked.number < 7 {
            turn.call("echo", json!({"text": "megabyte"}))
        } else {
            turn.text("Done.")
        }
    });
    let mut rig = rig(script).await;
    rig.run("go").await;
    let view = rig.driver.view();
    let first = view.blocks.iter().find(|block| matches!(block.content, Content::Call(_))).unwrap();
    rig.driver.intent(&Intent::Expand { id: first.id.clone() });
    assert_eq!(rig.driver.take_effect(), Some(Effect::LoadBody { id: first.id.clone() }));
}

// The conversation of a sub-agent is not stored elsewhere.
#[tokio::test]
async fn a_long_result_of_a_sub_agent_is_expanded_from_the_session_too() {
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    let script = Script::answering(move |asked| {
        let turn = zk_testkit::Turn::new();
        match (asked.last_user_text().as_str(), asked.results().is_empty()) {
            ("go", true) => turn.call("spawn", json!({"task": "look around"})),
            (_, true) => turn.call("echo", json!({"text": text.clone()})),
            (_, false) => turn.text("Done."),
        }
    });
    let mut rig = rig_with(script, |builder| builder.spawn(zk_agent::SpawnOptions::default())).await;
    rig.run("go").await;
    let view = rig.driver.view();
    let block = view.blocks.iter().find(|block| block.agent.is_some() && call(block).is_some()).unwrap();
    assert!(call(block).unwrap().body.as_ref().unwrap().expandable);
    let lines = body_of(&rig.session.entries().await.unwrap(), &block.id).unwrap();
    assert_eq!((lines.len(), lines.last().unwrap().as_str()), (2000, "line 1999"));
}

// Ending the program in the middle keeps what sub-agents did until then.
#[tokio::test]
async fn what_a_sub_agent_did_is_stored_while_it_works() {
    let script = Script::answering(move |asked| {
        let turn = zk_testkit::Turn::new();
        match (asked.last_user_text().as_str(), asked.results().len()) {
            ("go", 0) => {
                turn.call("spawn", json!({"task": "look around"})).call("spawn", json!({"task": "say it"}))
            }
            ("say it", _) => turn.text("It is said."),
            (_, 0) => turn.text("I look.").call("echo", json!({"text": "found"})),
            (_, _) => turn.call("stuck", json!({})),
        }
    });
    let mut rig = rig_with(script, |builder| builder.spawn(zk_agent::SpawnOptions::default())).await;
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    let stored = async |session: &Arc<dyn OpenSession>| {
        let blocks = rebuild(&session.entries().await.unwrap());
        let of_children = blocks.iter().filter(|block| block.agent.is_some());
        of_children.map(|block| format!("{:?}", block.content)).collect::<String>()
    };
    let waiting = async {
        loop {
            let stored = stored(&rig.session).await;
            if ["I look.", "found", "It is said."].iter().all(|said| stored.contains(said)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(waited.is_ok(), "{} of {}", stored(&rig.session).await, rig.lines());
    run.abort();
    run.wait().await;
    rig.check().await;
}

/// Tool that shows its arguments as a to-do list.
struct Lists(Arc<zk_core::model::ToolSpec>);

#[async_trait]
impl zk_core::service::Tool for Lists {
    fn spec(&self) -> &Arc<zk_core::model::ToolSpec> {
        &self.0
    }

    async fn call(
        &self,
        call: &zk_core::model::Approved,
        _: &zk_core::service::ToolCx,
    ) -> Result<zk_core::model::ToolOutput, zk_core::model::ToolError> {
        let items = serde_json::from_value(call.args()["items"].clone()).unwrap();
        let display = zk_core::model::Display::Checklist { items, reshaped: true };
        Ok(zk_core::model::ToolOutput::text("noted").with_display(display))
    }
}

#[tokio::test]
async fn the_list_of_what_is_to_be_done_is_a_fact_of_the_view_and_of_its_session() {
    let list = |state: &str| json!({ "items": [{ "text": "test it", "state": state }] });
    let (first, second) = (list("current"), list("open"));
    let script = Script::new()
        .turn(|t| t.call("lists", first))
        .turn(|t| t.call("lists", second))
        .turn(|t| t.text("Later."))
        .turn(|t| t.call("lists", list("done")))
        .turn(|t| t.text("Done."))
        .turn(|t| t.text("Yes?"));
    let spec = zk_core::model::ToolSpec::new("lists", "lists", json!({ "type": "object" }));
    let mut rig = rig_with(script, |builder| builder.tool(Arc::new(Lists(spec)))).await;
    rig.run("go").await;
    let shown = |view: &View| view.checklist.iter().map(|item| item.state.mark()).collect::<Vec<_>>();
    assert_eq!(shown(&rig.driver.view()), ["☐"]);
    let resumed = ViewDriver::new();
    resumed.begin(&rig.session.entries().await.unwrap());
    assert_eq!(shown(&resumed.view()), ["☐"]);
    resumed.begin(&[]);
    assert!(resumed.view().checklist.is_empty(), "a new session has none");
    rig.run("go on").await;
    assert_eq!(shown(&rig.driver.view()), ["☑"], "it stays until another run begins");
    rig.run("and now?").await;
    assert!(rig.driver.view().checklist.is_empty());
}
