//! Keys that are cut between two pieces of what is shown as it arrives.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::StreamTransform;
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, ToolOutput};
use zk_core::service::{Redactor, ToolCx};
use zk_testkit::{Script, Step, Turn};

use crate::support::{Rig, TestTool, rig, rig_with};

const KEY: &str = "correct-horse-battery";

fn redact(rig: &Rig) {
    let redactor = Redactor::new();
    redactor.learn(KEY);
    rig.scope("redact").provide_service(Arc::new(redactor));
}

fn deltas(rig: &Rig, event: &str, field: &str) -> Vec<String> {
    let events = rig.recorder.named(event);
    events.iter().map(|event| event[field].as_str().unwrap().to_owned()).collect()
}

/// Pieces of a text, cut before each of its characters, or only at `at`.
fn cut(text: &str, at: usize) -> Vec<String> {
    match at {
        0 => text.chars().map(String::from).collect(),
        at => {
            let (head, tail) = text.split_at(at);
            vec![head.to_owned(), tail.to_owned()]
        }
    }
}

/// Runs a stream in which every streamed text contains the key, cut at `at`.
async fn run(at: usize) -> Rig {
    let text = format!("it is {KEY}, I think");
    let args = json!({ "text": text }).to_string();
    let pieces = [cut(&text, at), cut(&args, at), cut(&text, at)];
    let [said, args, printed] = pieces;
    let thinking = Step::Thinking { chunks: said.clone(), signature: None };
    let call = Step::Call { id: None, name: "chatty".into(), args };
    let script = Script::new()
        .turn(|t| t.step(thinking).chunks(said.clone()).step(call))
        .turn(|t| t.chunks(said).error(ErrorKind::Transport, "reset"));
    let chatty = TestTool::new("chatty", move |_, cx: ToolCx| {
        printed.iter().for_each(|piece| cx.progress.show(piece));
        std::future::ready(Ok(ToolOutput::text("done")))
    });
    let rig = rig_with(script, |builder| builder.tool(chatty.arc()));
    redact(&rig);
    rig.scope("same").on_sync(|event: &StreamTransform, _: &Cx| Some(event.delta.clone()));
    rig.run("go").await.result.unwrap_err();
    rig
}

#[tokio::test]
async fn a_key_is_never_shown_at_any_boundary_of_pieces() {
    let clean = "it is [redacted], I think";
    for at in 0..30 {
        let rig = run(at).await;
        assert_eq!(deltas(&rig, "stream:text", "delta").concat(), clean.repeat(2), "{at}");
        assert_eq!(deltas(&rig, "stream:transform", "delta").concat(), clean.repeat(2), "{at}");
        assert_eq!(deltas(&rig, "stream:thinking", "delta").concat(), clean, "{at}");
        let args = json!({ "text": clean }).to_string();
        assert_eq!(deltas(&rig, "stream:tool-args", "delta").concat(), args, "{at}");
        assert_eq!(deltas(&rig, "tool:progress", "text").concat(), clean, "{at}");
    }
}

#[tokio::test]
async fn a_possible_key_is_shown_at_the_end_of_its_block() {
    let rig = rig(Script::new().turn(|t| t.thinking("correct").chunks(["a sk", "i"]).chunks(["correct"])));
    redact(&rig);
    rig.run("go").await.result.unwrap();
    assert_eq!(deltas(&rig, "stream:thinking", "delta"), ["correct"]);
    assert_eq!(deltas(&rig, "stream:text", "delta"), ["a ", "ski", "correct"]);
    assert_eq!(
        rig.names(&["stream:thinking", "stream:text", "stream:end"]),
        ["stream:thinking", "stream:text", "stream:text", "stream:text", "stream:end"]
    );
}

#[tokio::test(start_paused = true)]
async fn held_back_text_of_a_stopped_answer_is_shown() {
    let rig = rig(Script::answering(|_| Turn::new().chunks(["So ", "correct"]).hang()));
    redact(&rig);
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    tokio::task::yield_now().await;
    run.abort();
    assert_eq!(run.wait().await.text, "So correct");
    assert_eq!(deltas(&rig, "stream:text", "delta").concat(), "So correct");
}
