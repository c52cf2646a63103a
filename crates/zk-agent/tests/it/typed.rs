use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use zk_agent::Agent;
use zk_core::model::{AgentError, Block, ToolError};
use zk_core::service::{FnTool, ToolCx};
use zk_testkit::{Script, ScriptedProvider};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct City {
    name: String,
    /// In millions
    people: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Roll {
    /// Number of dice.
    dice: u32,
}

fn agent(script: Script, tool: Option<FnTool>) -> Agent {
    let builder = Agent::builder(Arc::new(ScriptedProvider::new(script)));
    match tool {
        Some(tool) => builder.tool(Arc::new(tool)),
        None => builder,
    }
    .build()
    .unwrap()
}

/// Results of the conversation's calls, in order: text and error flag.
fn results(agent: &Agent) -> Vec<(String, bool)> {
    let history = agent.history();
    let blocks = history.iter().flat_map(|message| message.content.iter());
    let result = |block: &Block| match block {
        Block::ToolResult(result) => Some((result.content.to_text(), result.is_error)),
        _ => None,
    };
    blocks.filter_map(result).collect()
}

#[tokio::test]
async fn a_function_runs_with_arguments_that_fit_and_never_with_others() {
    let tool = FnTool::new("roll", "Rolls dice.", |roll: Roll, _: ToolCx| async move {
        if roll.dice == 6 {
            return Err(ToolError::failed("the sixth die fell off the table; roll five"));
        }
        Ok(format!("{} ones", roll.dice))
    });
    let script = Script::new()
        .turn(|t| t.call("roll", json!({ "dice": "many" })))
        .turn(|t| t.call("roll", json!({ "dice": 6 })))
        .turn(|t| t.call("roll", json!({ "dice": "2" })))
        .turn(|t| t.text("Two ones."));
    let agent = agent(script, Some(tool.reads_only()));
    agent.run("Roll.").unwrap().wait().await.result.unwrap();
    let results = results(&agent);
    let [unfit, failed, fits] = results.as_slice() else { panic!("{results:?}") };
    assert!(unfit.1 && unfit.0.contains("dice"), "{unfit:?}");
    assert!(failed.1 && failed.0.contains("fell off the table"), "{failed:?}");
    // A number in a string is accepted as a number.
    assert!(!fits.1 && fits.0.starts_with("2 ones\n"), "{fits:?}");
}

#[tokio::test]
async fn an_answer_is_the_struct_that_was_asked_for() {
    let lagos = City { name: "Lagos".into(), people: 16.5 };
    let script = Script::new()
        .turn(|t| t.call("__output__", json!({ "name": "Lagos" })))
        .turn(|t| t.call("__output__", serde_json::to_value(&lagos).unwrap()));
    assert_eq!(agent(script, None).run_as::<City>("Which?").await.unwrap(), lagos);
    let script = Script::new().turn(|t| t.call("__output__", json!({ "value": ["a", "b"] })));
    assert_eq!(agent(script, None).run_as::<Vec<String>>("Which?").await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_an_error() {
    let script = (0..9).fold(Script::new(), |script, _| script.turn(|t| t.text("I will not say.")));
    let error = agent(script, None).run_as::<City>("Which?").await.unwrap_err();
    assert!(matches!(error, AgentError::Output(_)), "{error}");
}

#[tokio::test]
async fn the_text_of_a_run_is_its_own_answers_in_order_until_it_is_over() {
    let script = Script::new()
        .turn(|t| t.chunks(["Let me ", "look. "]).call("nothing", json!({})))
        .turn(|t| t.chunks(["It is ", "blue."]));
    let agent = agent(script, None);
    let mut run = agent.run("Why?").unwrap();
    let mut text = run.text();
    let mut pieces = Vec::new();
    while let Some(piece) = text.next().await {
        pieces.push(piece);
    }
    assert_eq!(pieces.concat(), "Let me look. It is blue.");
    assert!(pieces.len() > 2, "{pieces:?}");
    run.wait().await.result.unwrap();
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_reader_that_falls_behind_misses_events_and_is_told_how_many() {
    let read = Arc::new(Notify::new());
    let waiting = read.clone();
    let tool = FnTool::new("wait", "Waits.", move |_: Nothing, _: ToolCx| {
        let waiting = waiting.clone();
        async move {
            waiting.notified().await;
            Ok("done")
        }
    });
    let script = Script::new()
        .turn(|t| t.chunks(vec!["word "; 40_000]).call("wait", json!({})))
        .turn(|t| t.text("More."));
    let agent = agent(script, Some(tool.reads_only()));
    let mut run = agent.run("Why?").unwrap();
    let mut events = run.events();
    tokio::task::yield_now().await;
    let (mut before, mut missed, mut last) = (0, 0, "");
    while let Some(event) = events.next().await {
        if missed == 0 && event.missed == 0 {
            before += 1;
        }
        if before == 16_384 {
            read.notify_one();
        }
        missed += event.missed;
        last = event.name;
    }
    assert!(before >= 16_384 && missed > 20_000, "{before} read, {missed} missed");
    assert_eq!(last, "session:end");
    run.wait().await.result.unwrap();
}

#[tokio::test]
async fn a_reader_of_text_that_falls_behind_misses_pieces_and_can_ask_how_many() {
    let agent = agent(Script::new().turn(|t| t.chunks(vec!["word "; 40_000])), None);
    let mut run = agent.run("Why?").unwrap();
    let mut text = run.text();
    let outcome = run.wait().await;
    outcome.result.unwrap();
    let mut pieces = 0;
    while text.next().await.is_some() {
        pieces += 1;
    }
    assert_eq!((pieces, text.missed(), outcome.text.len()), (16_384, 40_000 - 16_384, 200_000));
}
