//! Structured output.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_agent::{Behavior, OutputBudget, RunOptions};
use zk_core::events::{PrefixBreak, PrefixCause, TurnAfter};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, ErrorKind, StopReason};
use zk_core::service::{Request, ToolChoice};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

use crate::support::{Rig, rig_on, rig_with, told};

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    })
}

fn asking(script: Script, schema: Value) -> Rig {
    rig_with(script, |b| b.behavior(Behavior { schema: Some(schema), ..Behavior::default() }))
}

fn give(args: Value) -> impl FnOnce(Turn) -> Turn {
    move |turn| turn.call("__output__", args)
}

fn choices(rig: &Rig) -> Vec<ToolChoice> {
    rig.provider.requests().into_iter().map(|request| request.tool_choice).collect()
}

#[tokio::test]
async fn a_model_may_call_the_output_tool_unforced() {
    let script = Script::new().turn(|t| t.call("echo", json!({"text": "x"}))).turn(give(json!({"n": 1})));
    let rig = asking(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    let ready = &rig.recorder.named("output");
    assert_eq!(ready.len(), 1);
    assert_eq!(ready[0]["output"], json!({"n": 1}));
    assert!(ready[0]["schema"].get("$schema").is_none(), "strict providers reject the key");
    assert_eq!(choices(&rig), [ToolChoice::Auto, ToolChoice::Auto]);
    let spec = rig.provider.requests()[0].tools.iter().find(|t| t.name == "__output__").unwrap().clone();
    assert!(spec.schema.get("$schema").is_none());
    assert_eq!(rig.recorder.named("agent:done")[0]["stats"]["output"], json!({"n": 1}));
}

#[tokio::test]
async fn a_model_that_answers_in_text_is_forced_to_call_the_output_tool() {
    let script = Script::new().turn(|t| t.text("It is one.")).turn(give(json!({"n": 1})));
    let rig = asking(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    assert_eq!(choices(&rig), [ToolChoice::Auto, ToolChoice::Tool("__output__".into())]);
}

#[tokio::test]
async fn an_invalid_output_is_answered_with_the_validation_error() {
    let script = Script::new().turn(give(json!({"n": "many"}))).turn(give(json!({"n": "2"})));
    let rig = asking(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 2})), "and coerced where that is possible");
    assert!(rig.results(2)[0].contains("`n` must be integer, not \"many\""), "{:?}", rig.results(2));
}

#[tokio::test]
async fn a_model_that_never_gives_the_output_is_an_error() {
    let rig = asking(Script::answering(|_| Turn::new().text("No.")), schema());
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Output(_))), "{:?}", outcome.result);
    assert_eq!(outcome.stats.output, None);
    assert_eq!(outcome.stats.turns, 3, "asked, and forced twice");
    assert!(told(&rig.agent.history()).ends_with("model: No."));
}

#[tokio::test]
async fn a_model_that_never_gives_a_valid_output_is_an_error() {
    let wrong = |asked: &Asked| Turn::new().call("__output__", json!({"n": format!("no {}", asked.number)}));
    let rig = asking(Script::answering(wrong), schema());
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Output(_))), "{:?}", outcome.result);
    assert_eq!(outcome.stats.turns, 6);
}

#[tokio::test]
async fn an_exceeded_budget_is_announced_after_the_output_of_the_same_turn() {
    let script = Script::new().turn(give(json!({"n": 1})));
    let behavior = Behavior {
        schema: Some(schema()),
        tool_output_budget: Some(OutputBudget::Bytes(1)),
        ..Behavior::default()
    };
    let rig = rig_with(script, |b| b.behavior(behavior));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.names(&["output", "budget:exceeded"]), ["output", "budget:exceeded"]);
}

// Tool arguments are objects: everything else travels as a field, and references still find their target.
#[tokio::test]
async fn a_schema_that_is_no_object_is_wrapped_and_unwrapped() {
    let list = json!({
        "type": "array",
        "items": {"$ref": "#/$defs/Item"},
        "$defs": {"Item": {"type": "object"}},
    });
    let rig = asking(Script::new().turn(give(json!({"value": [{}, {}]}))), list.clone());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!([{}, {}])));
    assert_eq!(rig.recorder.named("output")[0]["schema"], list);
    let spec = rig.provider.requests()[0].tools.iter().find(|t| t.name == "__output__").unwrap().clone();
    assert_eq!(
        spec.schema,
        json!({
            "type": "object",
            "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
            "required": ["value"],
            "$defs": {"Item": {"type": "object"}},
        })
    );
}

#[tokio::test]
async fn the_list_of_allowed_tools_does_not_keep_the_output_out() {
    let behavior =
        Behavior { schema: Some(schema()), allowed_tools: Some(Vec::new()), ..Behavior::default() };
    let rig = rig_with(Script::new().turn(give(json!({"n": 1}))), |b| b.behavior(behavior));
    rig.run("go").await.result.unwrap();
}

// Steering is checked before the end: the rest is an ordinary run.
#[tokio::test]
async fn a_run_steered_after_its_output_does_not_end_with_its_next_tool_call() {
    let script = Script::new()
        .turn(give(json!({"n": 1})))
        .turn(|t| t.call("echo", json!({"text": "x"})))
        .turn(give(json!({"n": 2})));
    let rig = asking(script, schema());
    let handle = Arc::new(Mutex::new(None::<zk_agent::RunHandle>));
    let kept = handle.clone();
    rig.scope("steerer").on_sync(move |after: &TurnAfter, _: &Cx| {
        if after.turn == 1
            && let Some(run) = kept.lock().unwrap().take()
        {
            run.follow_up("And twice that?").unwrap();
        }
    });
    let run = rig.agent.run(RunOptions::from("go")).unwrap();
    *handle.lock().unwrap() = Some(run.handle());
    let outcome = run.wait().await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 2})));
    assert_eq!(rig.recorder.named("output").len(), 2);
}

fn native(script: Script, schema: Value) -> Rig {
    let behavior = Behavior { schema: Some(schema), ..Behavior::default() };
    rig_on(ScriptedProvider::new(script).with_native_output(), |b| b.behavior(behavior))
}

#[tokio::test]
async fn a_provider_that_enforces_schemas_is_asked_for_the_answer() {
    let script = Script::new().turn(|t| t.call("echo", json!({"text": "x"}))).turn(|t| t.text("{\"n\": 1}"));
    let rig = native(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    assert_eq!(rig.recorder.named("output").len(), 1);
    for request in rig.provider.requests() {
        assert!(request.tools.iter().all(|tool| tool.name != "__output__"));
        let format = request.output.expect("the shape of the answer");
        assert_eq!((&*format.name, &format.schema["required"]), ("answer", &json!(["n"])));
    }
}

#[tokio::test]
async fn an_answer_that_is_no_object_is_asked_for_as_a_field() {
    let script = Script::new().turn(|t| t.text("{\"value\": [1, 2]}"));
    let rig = native(script, json!({"type": "array", "items": {"type": "integer"}}));
    assert_eq!(rig.run("go").await.stats.output, Some(json!([1, 2])));
}

#[tokio::test]
async fn an_answer_that_does_not_follow_the_schema_is_asked_for_again() {
    let script = Script::new().turn(|t| t.text("One.")).turn(|t| t.text("{}")).turn(|t| t.text("{\"n\": 1}"));
    let rig = native(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    let history = told(&rig.agent.history());
    for word in ["it is no JSON", "`n` is required"] {
        assert!(history.contains(word), "{history}");
    }
}

#[tokio::test]
async fn an_answer_is_coerced_and_read_from_the_last_text() {
    let script = Script::new().turn(|t| t.text("I look.").text("{\"n\": \"1\"}"));
    assert_eq!(native(script, schema()).run("go").await.stats.output, Some(json!({"n": 1})));
}

#[tokio::test]
async fn an_answer_that_was_cut_is_asked_for_again() {
    let cut = |t: Turn| t.text("{\"n\":").stop(StopReason::MaxTokens);
    let rig = native(Script::new().turn(cut).turn(|t| t.text("{\"n\": 1}")), schema());
    assert_eq!(rig.run("go").await.stats.output, Some(json!({"n": 1})));
    assert!(told(&rig.agent.history()).contains("it was cut at the output limit"));
}

// A steering message after the output may lead to chat, which neither loses the output nor continues for
// ever.
#[tokio::test]
async fn a_run_steered_after_its_output_keeps_it_if_no_other_follows() {
    let script = Script::new().turn(|t| t.text("{\"n\": 1}")).forever(|_| Turn::new().text("Bye."));
    let rig = native(script, schema());
    let handle = Arc::new(Mutex::new(None::<zk_agent::RunHandle>));
    let kept = handle.clone();
    rig.scope("steerer").on_sync(move |_: &TurnAfter, _: &Cx| {
        if let Some(run) = kept.lock().unwrap().take() {
            run.follow_up("Thanks!").unwrap();
        }
    });
    let run = rig.agent.run(RunOptions::from("go")).unwrap();
    *handle.lock().unwrap() = Some(run.handle());
    let outcome = run.wait().await;
    outcome.result.unwrap();
    assert_eq!((outcome.stats.turns, outcome.stats.output), (7, Some(json!({"n": 1}))));
}

#[tokio::test]
async fn a_provider_that_refuses_the_schema_after_all_is_given_the_tool() {
    let script = Script::new()
        .turn(|t| t.error(ErrorKind::Rejected, "The compiled grammar is too large"))
        .turn(give(json!({"n": 1})));
    let rig = native(script, schema());
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    let asked = rig.provider.requests().into_iter().map(|request| {
        (request.output.is_some(), request.tools.iter().any(|tool| tool.name == "__output__"))
    });
    assert_eq!(asked.collect::<Vec<_>>(), [(true, false), (false, true)]);
}

#[tokio::test]
async fn a_request_that_is_refused_without_the_schema_too_fails_the_run() {
    let refused = |t: Turn| t.error(ErrorKind::Rejected, "no such thing");
    let rig = native(Script::new().turn(refused).turn(refused).turn(|t| t.text("late")), schema());
    let Err(AgentError::Provider(error)) = rig.run("go").await.result else { panic!("it was refused") };
    assert_eq!((error.kind, rig.provider.requests().len()), (ErrorKind::Rejected, 2));
}

#[tokio::test]
async fn an_answer_that_never_follows_the_schema_fails_the_run() {
    let rig = native(Script::new().forever(|_| Turn::new().text("{}")), schema());
    let outcome = rig.run("go").await;
    let Err(AgentError::Output(why)) = outcome.result else { panic!("{:?}", outcome.result) };
    assert!(why.contains("`n` is required"), "{why}");
    assert_eq!((outcome.stats.turns, outcome.stats.output), (6, None));
}

fn native_without_tools(script: Script) -> Rig {
    let behavior = Behavior { schema: Some(schema()), ..Behavior::default() };
    let provider = ScriptedProvider::new(script).with_native_output_without_tools();
    rig_on(provider, |b| b.behavior(behavior))
}

/// Of each request, whether it names the shape of the answer, and whether it offers tools.
fn shapes(rig: &Rig) -> Vec<(bool, bool)> {
    let shape = |request: Request| (request.output.is_some(), !request.tools.is_empty());
    rig.provider.requests().into_iter().map(shape).collect()
}

#[tokio::test]
async fn a_model_that_just_answers_is_held_to_the_schema_where_that_needs_a_request_without_tools() {
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "x"})))
        .turn(|t| t.text("It is one."))
        .turn(|t| t.text("{\"n\": 1}"));
    let rig = native_without_tools(script);
    let broken = Arc::new(Mutex::new(Vec::new()));
    let seen = broken.clone();
    rig.scope("test").on_sync(move |event: &PrefixBreak, _: &Cx| seen.lock().unwrap().push(event.cause));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    assert_eq!(shapes(&rig), [(false, true), (false, true), (true, false)]);
    assert!(
        told(&rig.agent.history()).contains("follows this schema: {\"properties\""),
        "the model knows it"
    );
    assert_eq!(*broken.lock().unwrap(), [PrefixCause::ToolsChanged]);
}

#[tokio::test]
async fn a_schema_that_is_refused_without_tools_is_left_to_the_tool() {
    let script = Script::new()
        .turn(|t| t.text("It is one."))
        .turn(|t| t.error(ErrorKind::Rejected, "The compiled grammar is too large"))
        .turn(|t| t.text("Still one."))
        .turn(give(json!({"n": 1})));
    let rig = native_without_tools(script);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    assert_eq!(shapes(&rig), [(false, true), (true, false), (false, true), (false, true)]);
}

#[tokio::test]
async fn a_server_that_ignores_the_schema_of_a_request_without_tools_is_made_to_call_the_tool() {
    for ignored in ["Still one.", "{}"] {
        let script = Script::new()
            .turn(|t| t.text("It is one."))
            .turn(|t| t.text(ignored))
            .turn(give(json!({"n": 1})));
        let rig = native_without_tools(script);
        let outcome = rig.run("go").await;
        outcome.result.unwrap();
        assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
        assert_eq!(shapes(&rig), [(false, true), (true, false), (false, true)]);
        assert_eq!(choices(&rig).pop(), Some(ToolChoice::Tool("__output__".into())));
        let history = told(&rig.agent.history());
        assert!(history.contains("does not follow the schema: "), "the model is told why: {history}");
        assert!(history.contains("Give the final answer by calling `__output__`."), "{history}");
    }
}

#[tokio::test]
async fn a_run_that_goes_on_after_an_answer_without_tools_has_its_tools_again() {
    let script = Script::new()
        .turn(|t| t.text("It is one."))
        .turn(|t| t.text("{\"n\": 1}"))
        .turn(|t| t.call("echo", json!({"text": "x"})))
        .turn(|t| t.text("Bye."));
    let rig = native_without_tools(script);
    let handle = Arc::new(Mutex::new(None::<zk_agent::RunHandle>));
    let kept = handle.clone();
    rig.scope("steerer").on_sync(move |after: &TurnAfter, _: &Cx| {
        if after.turn == 2
            && let Some(run) = kept.lock().unwrap().take()
        {
            run.follow_up("Thanks!").unwrap();
        }
    });
    let run = rig.agent.run(RunOptions::from("go")).unwrap();
    *handle.lock().unwrap() = Some(run.handle());
    let outcome = run.wait().await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"n": 1})));
    assert_eq!(shapes(&rig), [(false, true), (true, false), (false, true), (false, true)]);
}
