//! The order of a tool call: validate, prepare, validate again, gate, count, begin, run, end.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::events::{Ruling, SessionOpenTurn, ToolBegin, ToolEnd, ToolGate, ToolPrepare, TurnAfter};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{AgentError, ToolOutput};
use zk_core::service::{Question, Questions, UiAnswer};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, TestTool, rig, rig_with, told};

fn echo_then_done() -> Script {
    Script::new().turn(|t| t.call("echo", json!({"text": "hi"}))).turn(|t| t.text("Done."))
}

/// An agent whose tool `touch` counts how often it ran.
fn touching(script: Script) -> (Rig, Arc<Mutex<Vec<Value>>>) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let kept = ran.clone();
    let tool = TestTool::new("touch", move |args: Value, _| {
        kept.lock().unwrap().push(args);
        async { Ok(ToolOutput::text("touched")) }
    });
    let schema = json!({"type": "object", "properties": {
        "paths": {"type": "array", "items": {"type": "string"}}
    }});
    (rig_with(script, |builder| builder.tool(tool.schema(schema).arc())), ran)
}

fn touch_then_done() -> Script {
    Script::new().turn(|t| t.call("touch", json!({"paths": ["a"]}))).turn(|t| t.text("Done."))
}

#[tokio::test]
async fn a_gate_judges_the_coerced_arguments_so_an_array_sent_as_text_does_not_pass_a_rule_about_arrays() {
    let sent_as_text = json!({"paths": "[\"secret\"]"});
    let (rig, ran) =
        touching(Script::new().turn(move |t| t.call("touch", sent_as_text)).turn(|t| t.text("Done.")));
    rig.scope("rule").on_sync(|gate: &ToolGate, _: &Cx| {
        let is_secret = |paths: &Vec<Value>| paths.iter().any(|path| path == "secret");
        gate.args["paths"].as_array().is_some_and(is_secret).then(|| Ruling::refuse("secret"))
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["touch!: Blocked: secret"]);
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_handler_of_prepare_rewrites_and_gate_begin_and_tool_get_the_rewritten_arguments_coerced() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("prefix").on_sync(|_: &ToolPrepare, _: &Cx| Some(json!({"paths": "[\"/srv/a\"]"})));
    rig.run("go").await.result.unwrap();
    let rewritten = json!({"paths": ["/srv/a"]});
    for event in ["tool:gate", "tool:begin", "tool:before"] {
        assert_eq!(rig.recorder.named(event)[0]["args"], rewritten, "{event}");
    }
    assert_eq!(*ran.lock().unwrap(), [rewritten]);
}

#[tokio::test]
async fn rewritten_arguments_that_do_not_fit_the_schema_are_rejected_before_any_gate() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("clumsy").on_sync(|_: &ToolPrepare, _: &Cx| Some(json!({"paths": 7})));
    rig.run("go").await.result.unwrap();
    assert!(rig.results(2)[0].starts_with("touch!: Validation error"), "{:?}", rig.results(2));
    assert_eq!(rig.names(&["tool:", "validation:"]), ["tool:prepare", "validation:reject", "tool:batch_end"]);
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_handler_of_prepare_that_fails_refuses_the_call_and_is_named() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("clumsy").on_sync(|_: &ToolPrepare, _: &Cx| -> Result<(), BoxError> { Err("no idea".into()) });
    rig.run("go").await.result.unwrap();
    let result = &rig.results(2)[0];
    for word in ["touch!: Blocked:", "clumsy", "no idea"] {
        assert!(result.contains(word), "{result}");
    }
    assert_eq!(rig.recorder.named("tool:blocked")[0]["by"], "clumsy");
    assert_eq!(rig.recorder.named("tool:gate").len(), 0);
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn invalid_arguments_are_counted_and_answered_without_a_gate() {
    let script = Script::new().turn(|t| t.call("echo", json!({"text": null}))).turn(|t| t.text("Done."));
    let rig = rig(script);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.tool_calls["echo"], 1);
    assert_eq!(rig.names(&["tool:", "validation:"]), ["validation:reject", "tool:batch_end"]);
}

#[tokio::test]
async fn a_parked_call_ends_the_run_with_all_results_and_it_can_be_resumed() {
    let script = Script::new()
        .turn(|t| t.call("touch", json!({"paths": ["a"]})).call("echo", json!({"text": "x"})))
        .turn(|t| t.text("I wait."));
    let (rig, ran) = touching(script);
    rig.scope("consent").on_sync(|gate: &ToolGate, _: &Cx| {
        (&*gate.call.name == "touch").then(|| Ruling::Park("nobody is here to ask".into()))
    });
    let outcome = rig.run("go").await;
    let Err(AgentError::Parked { tool, reason, question: None }) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!((&*tool, &*reason), ("touch", "nobody is here to ask"));
    assert!(outcome.stats.tool_calls.is_empty(), "neither call was let through");
    assert_eq!(rig.recorder.named("tool:parked").len(), 1);
    assert_eq!(rig.agent.history().len(), 3, "{}", told(&rig.agent.history()));
    assert!(ran.lock().unwrap().is_empty());
    rig.run("Later.").await.result.unwrap();
}

#[tokio::test]
async fn a_call_whose_begin_cannot_be_recorded_is_refused_and_its_tool_never_runs() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("journal").on_sync(|_: &ToolBegin, _: &Cx| -> Result<(), BoxError> { Err("disk full".into()) });
    rig.run("go").await.result.unwrap();
    let result = &rig.results(2)[0];
    for word in ["touch!: Blocked:", "journal", "disk full"] {
        assert!(result.contains(word), "{result}");
    }
    assert_eq!(rig.names(&["tool:before", "tool:end", "tool:after"]), Vec::<&str>::new());
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_whose_end_cannot_be_recorded_stops_the_run_with_the_history_whole() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("journal").on_sync(|_: &ToolEnd, _: &Cx| -> Result<(), BoxError> { Err("disk full".into()) });
    let outcome = rig.run("go").await;
    let Err(AgentError::Hook(error)) = outcome.result else { panic!("{:?}", outcome.result) };
    assert!(error.to_string().contains("disk full"), "{error}");
    assert_eq!(ran.lock().unwrap().len(), 1);
    assert!(told(&rig.agent.history()).ends_with("user: =touched"), "{}", told(&rig.agent.history()));
    assert_eq!(rig.provider.requests().len(), 1, "nothing goes on unrecorded");
}

#[tokio::test]
async fn five_identical_failures_in_a_row_end_the_run_as_stuck() {
    let rig = rig(Script::answering(|_| Turn::new().call("fail", json!({"why": "no such file"}))));
    let outcome = rig.run("go").await;
    let Err(AgentError::Stuck { tool, failures }) = outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!((&*tool, failures, outcome.stats.turns), ("fail", 5, 5));
}

#[tokio::test]
async fn a_present_person_is_asked_whether_a_repeating_run_continues() {
    let rig = rig(Script::answering(|_| Turn::new().call("fail", json!({"why": "no such file"}))));
    let questions = Arc::new(Questions::new());
    rig.scope("host").provide_service(questions.clone());
    let front_end = questions.attach();
    let person = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in [UiAnswer::Once, UiAnswer::No { message: None }] {
            let pending = front_end.next().await;
            asked.push(pending.question.clone());
            front_end.answer(pending.id, pending.digest, answer).unwrap();
        }
        asked
    });
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Stuck { .. })), "{:?}", outcome.result);
    assert_eq!(outcome.stats.turns, 10, "asked again after as many more");
    for question in person.await.unwrap() {
        let Question::Confirm { text } = question else { panic!("{question:?}") };
        assert!(text.contains("`fail` 5 times in a row") && text.ends_with("Go on?"), "{text}");
    }
}

#[tokio::test]
async fn two_failures_that_repeat_each_other_in_every_answer_end_the_run_as_stuck() {
    let fail = |turn: Turn, why: &str| turn.call("fail", json!({ "why": why }));
    let rig = rig(Script::answering(move |_| fail(fail(Turn::new(), "no such file"), "denied")));
    let outcome = rig.run("go").await;
    let Err(AgentError::Stuck { failures, .. }) = outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!((failures, outcome.stats.turns), (5, 5));
}

/// The model makes all of them before it sees the first result.
#[tokio::test]
async fn identical_failures_in_one_answer_count_once() {
    let fail = |turn: Turn| turn.call("fail", json!({"why": "no such file"}));
    let script =
        Script::new().turn(|turn| (0..6).fold(turn, |turn, _| fail(turn))).turn(|turn| turn.text("I see."));
    let rig = rig(script);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!((outcome.stats.turns, rig.results(2).len()), (2, 6));
}

#[tokio::test]
async fn calls_cut_off_in_their_json_count_as_identical_failures_too() {
    let rig = rig(Script::answering(|_| Turn::new().raw_call("echo", "{\"text\": \"")));
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Stuck { .. })), "{:?}", outcome.result);
    assert_eq!(rig.provider.requests().len(), 5);
}

#[tokio::test]
async fn failures_that_differ_or_are_interrupted_by_a_success_do_not_count_as_stuck() {
    let script = Script::answering(|asked| match asked.number {
        12.. => Turn::new().text("Done."),
        number if number % 4 == 0 => Turn::new().call("echo", json!({"text": "x"})),
        number if number < 8 => Turn::new().call("fail", json!({"why": "the same"})),
        number => Turn::new().call("fail", json!({"why": format!("another {number}")})),
    });
    rig(script).run("go").await.result.unwrap();
}

#[tokio::test]
async fn the_open_turn_is_announced_before_the_first_call_and_after_its_answer() {
    let rig = rig(echo_then_done());
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.names(&["turn:after", "session:open-turn", "tool:gate", "tool:begin", "tool-results"]),
        ["turn:after", "session:open-turn", "tool:gate", "tool:begin", "tool-results:after", "turn:after"]
    );
    let open = &rig.recorder.named("session:open-turn")[0];
    assert_eq!(open["message"], rig.recorder.named("tool-results:after")[0]["assistant"]);
}

#[tokio::test]
async fn no_call_runs_when_the_open_turn_cannot_be_recorded() {
    let (rig, ran) = touching(touch_then_done());
    rig.scope("store")
        .on_sync(|_: &SessionOpenTurn, _: &Cx| -> Result<(), BoxError> { Err("disk full".into()) });
    let turns = Arc::new(Mutex::new(0));
    let counted = turns.clone();
    rig.scope("counter").on_sync(move |_: &TurnAfter, _: &Cx| *counted.lock().unwrap() += 1);
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Hook(_))), "{:?}", outcome.result);
    assert_eq!((*turns.lock().unwrap(), outcome.stats.turns), (1, 1), "the answer was paid");
    assert!(ran.lock().unwrap().is_empty());
}
