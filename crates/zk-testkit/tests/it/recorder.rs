use std::sync::Arc;

use serde_json::json;
use zk_core::events::{CallRef, StreamText, ToolAfter, ToolBefore, TurnAfter};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ToolCall, ToolContent, TurnId, Usage};
use zk_testkit::Recorder;

fn call() -> Arc<CallRef> {
    Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: "toolu_x9".into(),
        name: "shell".into(),
        display_name: "Bash".into(),
    })
}

async fn little_run(bus: &Bus) {
    let cx = bus.cx();
    let turn_id = TurnId::fresh();
    for delta in ["Let me ", "look."] {
        cx.emit(StreamText { turn_id: turn_id.clone(), delta: delta.into() }).await.unwrap();
    }
    let call_block = Block::ToolCall(ToolCall::new("toolu_x9", "shell", json!({"command": "ls"})));
    cx.emit(TurnAfter {
        turn_id,
        turn: 1,
        usage: Usage { input: 10, output: 5, ..Usage::default() },
        cost: None,
        message: Some(Message::assistant(vec![Block::text("Let me look."), call_block]).shared()),
        error: None,
        tool_counts: Arc::default(),
    })
    .await
    .unwrap();
    let child = bus.child("helper");
    child
        .cx()
        .emit(ToolBefore {
            call: call(),
            args: json!({"command": "ls"}),
            summary: "ls".into(),
            coercions: None,
            run_tool_counts: Arc::default(),
        })
        .await
        .unwrap();
    cx.emit(ToolAfter {
        call: call(),
        content: ToolContent::Text("a.txt\nb.txt".into()),
        is_error: true,
        display: None,
        exit_code: None,
        details: None,
        output_bytes: 11,
        elapsed_ms: 3,
        run_tool_counts: Arc::default(),
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_transcript_reads_like_a_protocol() {
    let recorder = Recorder::new();
    let bus = Bus::new();
    bus.install(&recorder).unwrap();
    little_run(&bus).await;
    insta::assert_snapshot!(recorder.transcript(), @r#"
    stream:text  delta="Let me look."
    turn:after  message=assistant("Let me look.", shell#1 {"command":"ls"}) turn=1 usage={input=10 output=5}
      [helper] tool:before  shell#1 as Bash args={command="ls"} summary="ls"
    tool:after  shell#1 as Bash content="a.txt\nb.txt" is_error output_bytes=11
    "#);
}

#[tokio::test]
async fn two_runs_that_do_the_same_have_the_same_transcript() {
    let mut transcripts = Vec::new();
    for _ in 0..2 {
        let recorder = Recorder::new();
        let bus = Bus::new();
        bus.install(&recorder).unwrap();
        little_run(&bus).await;
        transcripts.push(recorder.transcript());
    }
    assert_eq!(transcripts[0], transcripts[1]);
}

#[tokio::test]
async fn events_can_be_asked_for_by_name_and_by_type() {
    let recorder = Recorder::new();
    let bus = Bus::new();
    bus.install(&recorder).unwrap();
    little_run(&bus).await;
    assert_eq!(recorder.names(), ["stream:text", "stream:text", "turn:after", "tool:before", "tool:after"]);
    assert_eq!(recorder.of::<ToolAfter>()[0]["content"], "a.txt\nb.txt");
    assert_eq!(recorder.named("stream:text").len(), 2);
    assert_eq!((&*recorder.events()[3].agent, recorder.events()[3].depth), ("helper", 1));
    recorder.clear();
    assert!(recorder.names().is_empty());
}

#[tokio::test]
async fn one_can_wait_for_an_event() {
    let recorder = Recorder::new();
    let bus = Bus::new();
    bus.install(&recorder).unwrap();
    let waiting = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.wait_for("tool:after").await }
    });
    little_run(&bus).await;
    waiting.await.unwrap();
    recorder.wait_for("stream:text").await;
}
