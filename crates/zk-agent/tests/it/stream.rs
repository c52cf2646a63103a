//! Making of a message from a response.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::stream;
use serde_json::json;
use zk_agent::Agent;
use zk_core::events::{StreamToolArgs, StreamTransform};
use zk_core::kernel::Cx;
use zk_core::model::{Block, Model, ModelRef, StopReason, Thinking, ToolCall, Usage, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};
use zk_testkit::{Recorder, Script, ScriptedProvider};

use crate::support::{TestTool, assert_lines, told};

/// Says exactly these events, response by response.
struct Literal {
    responses: Mutex<Vec<Vec<StreamEvent>>>,
    inner: ScriptedProvider,
}

#[async_trait]
impl Provider for Literal {
    fn name(&self) -> &str {
        "scripted"
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        Box::pin(stream::iter(self.responses.lock().unwrap().remove(0).into_iter().map(Ok)))
    }
}

async fn said(responses: Vec<Vec<StreamEvent>>) -> (Agent, Recorder) {
    let (agent, recorder) = literal(responses);
    agent.run("go").unwrap().wait().await.result.unwrap();
    (agent, recorder)
}

fn literal(responses: Vec<Vec<StreamEvent>>) -> (Agent, Recorder) {
    let recorder = Recorder::new();
    let inner = ScriptedProvider::new(Script::new());
    let provider = Literal { responses: Mutex::new(responses), inner };
    let agent = Agent::builder(Arc::new(provider))
        .unguarded()
        .model_id("literal-1")
        .tool(TestTool::echo())
        .plugin(recorder.clone())
        .build()
        .unwrap();
    (agent, recorder)
}

fn done(stop: StopReason) -> StreamEvent {
    StreamEvent::Done { stop, usage: Usage::default() }
}

fn text(block: u32, delta: &str) -> StreamEvent {
    StreamEvent::Text { block, delta: delta.into() }
}

// The provider's whole block goes into the history, not the sum of its deltas.
#[tokio::test]
async fn a_finished_block_replaces_its_pieces_and_blocks_stand_in_their_order() {
    let (agent, recorder) = said(vec![vec![
        text(1, "second"),
        StreamEvent::Thinking { block: 0, delta: "fir".into() },
        text(1, " part"),
        StreamEvent::Block { block: 1, content: Block::text("second part, whole") },
        done(StopReason::EndTurn),
    ]])
    .await;
    assert_lines(&told(&agent.history()), "user: go\nmodel: (fir) | second part, whole");
    assert_eq!(recorder.named("stream:end")[0]["text"], "second part, whole");
}

// Chat Completions continues one text between thoughts.
#[tokio::test]
async fn a_text_ends_where_its_block_or_another_text_does() {
    let (agent, recorder) = literal(vec![vec![
        text(0, "a"),
        StreamEvent::Thinking { block: 1, delta: "hm".into() },
        text(0, "b"),
        StreamEvent::Block { block: 1, content: Block::Thinking(Thinking::default()) },
        StreamEvent::Block { block: 0, content: Block::text("ab") },
        text(3, "c"),
        text(4, "d"),
        done(StopReason::MaxTokens),
    ]]);
    agent.bus().scope("seen").on_sync(|ev: &StreamTransform, _: &Cx| ev.last.then(|| "|".to_owned()));
    agent.run("go").unwrap().wait().await.result.unwrap();
    let shown = recorder.named("stream:text");
    let shown: String = shown.iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(shown, "ab|c|d|");
}

#[tokio::test]
async fn the_pieces_of_a_call_share_its_id_and_name() {
    let args = |delta: &str| StreamEvent::ToolArgs { block: 0, delta: delta.into() };
    let (agent, _) = literal(vec![
        vec![
            StreamEvent::ToolCall { block: 0, id: "c1".into(), name: "echo".into() },
            args(r#"{"te"#),
            args(r#"xt": "#),
            done(StopReason::ToolUse),
        ],
        vec![text(0, "ok"), done(StopReason::EndTurn)],
    ]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    agent.bus().scope("seen").on_sync(move |ev: &StreamToolArgs, _: &Cx| {
        kept.lock().unwrap().push((ev.name.clone(), ev.call_id.shared()));
    });
    agent.run("go").unwrap().wait().await.result.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.windows(2).all(|two| Arc::ptr_eq(&two[0].0, &two[1].0) && Arc::ptr_eq(&two[0].1, &two[1].1))
    );
}

// An unfinished argument text is not a call.
#[tokio::test]
async fn a_call_its_provider_did_not_finish_is_answered_and_not_run() {
    let (agent, recorder) = said(vec![
        vec![
            StreamEvent::ToolCall { block: 0, id: "c1".into(), name: "echo".into() },
            StreamEvent::ToolArgs { block: 0, delta: r#"{"text": "#.into() },
            done(StopReason::ToolUse),
        ],
        vec![text(0, "ok"), done(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(recorder.named("tool:before").len(), 0);
    assert_eq!(recorder.named("validation:reject").len(), 1);
    assert!(told(&agent.history()).contains("!Validation error"), "{}", told(&agent.history()));
}

#[tokio::test]
async fn a_paused_response_is_continued() {
    let (agent, _) = said(vec![
        vec![text(0, "searching"), done(StopReason::PauseTurn)],
        vec![text(0, "found"), done(StopReason::EndTurn)],
    ])
    .await;
    assert_lines(&told(&agent.history()), "user: go\nmodel: searching\nmodel: found");
}

#[tokio::test]
async fn a_response_after_a_providers_compaction_is_continued() {
    let compacted = Block::provider("compacted", &ModelRef::new("said", "m"), json!({"type": "compaction"}));
    let (agent, recorder) = said(vec![
        vec![StreamEvent::Block { block: 0, content: compacted }, done(StopReason::Compaction)],
        vec![text(0, "found"), done(StopReason::EndTurn)],
    ])
    .await;
    assert_lines(&told(&agent.history()), "user: go\nmodel: <compacted>\nmodel: found");
    assert_eq!(recorder.named("stream:provider").len(), 1);
}

#[tokio::test]
async fn the_number_of_pauses_is_limited() {
    let (agent, _) = literal(vec![vec![text(0, "searching"), done(StopReason::PauseTurn)]; 40]);
    let error = agent.run("go").unwrap().wait().await.result.unwrap_err();
    assert!(error.to_string().contains("33 times"), "{error}");
    assert_eq!(agent.history().len(), 1 + 33);
}

// An unknown stop reason ends the turn; calls run in any case.
#[tokio::test]
async fn calls_are_run_whatever_the_reason_for_the_end() {
    let call = Block::ToolCall(ToolCall::new("c1", "echo", json!({"text": "hi"})));
    let (agent, _) = said(vec![
        vec![StreamEvent::Block { block: 0, content: call }, done(StopReason::EndTurn)],
        vec![text(0, "ok"), done(StopReason::Other("odd".into()))],
    ])
    .await;
    assert!(told(&agent.history()).contains("=hi"));
}

#[tokio::test]
async fn an_empty_answer_ends_the_run_and_the_next_one_works() {
    let rig = crate::support::rig(Script::new().turn(|t| t).turn(|t| t.text("ok")));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "");
    rig.run("hello?").await.result.unwrap();
    assert_eq!(rig.provider.asked()[1].messages.len(), 1);
}
