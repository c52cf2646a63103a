//! From a call to its result: arguments, patches, images, sizes.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_agent::{Behavior, OutputBudget, RunOptions};
use zk_core::events::{MessagesCause, ResultPatch, ToolTransform};
use zk_core::kernel::{BoxError, Bus, Cx, OnError};
use zk_core::model::{
    Block, Capabilities, Display, Image, Message, Model, StopReason, ToolContent, ToolOutput, wire,
};
use zk_core::service::{ContextId, ContextWindow, Reduction, WindowFill};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{TestTool, rig, rig_on, rig_with, told};

fn snap() -> TestTool {
    TestTool::new("snap", async |_, _| {
        let image = Image::new("image/png", "AAAA");
        let blocks = vec![Block::text("a picture"), Block::Image(image)];
        Ok(ToolOutput { content: ToolContent::Blocks(blocks), display: None, details: None })
    })
}

fn one(tool: &'static str, args: Value) -> Script {
    Script::new().turn(move |t| t.call(tool, args)).turn(|t| t.text("ok"))
}

// Top level only.
#[tokio::test]
async fn nested_arguments_are_not_coerced() {
    let seen = Arc::new(Mutex::new(Value::Null));
    let kept = seen.clone();
    let tool = TestTool::new("deep", move |args: Value, _| {
        *kept.lock().unwrap() = args;
        async { Ok(ToolOutput::text("ok")) }
    })
    .schema(json!({"type": "object", "properties": {
        "map": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "n": {"type": "integer"},
    }}));
    let rig = rig_with(one("deep", json!({"map": {"n": "1"}, "n": "1"})), |b| b.tool(tool.arc()));
    rig.run("go").await.result.unwrap();
    assert_eq!(*seen.lock().unwrap(), json!({"map": {"n": "1"}, "n": 1}));
}

// Arguments are parsed or rejected, never guessed.
#[tokio::test]
async fn arguments_that_are_no_json_object_are_rejected_and_the_call_never_runs() {
    let script = Script::new()
        .turn(|t| t.raw_call("echo", r#"{"text": "cut o"#).raw_call("echo", "[1]"))
        .turn(|t| t.text("ok"));
    let rig = rig(script);
    rig.run("go").await.result.unwrap();
    let results = rig.results(2);
    assert!(
        results[0].starts_with("echo!: Validation error: the arguments are not valid JSON (EOF"),
        "{results:?}"
    );
    assert!(results[1].contains("they are not a JSON object"), "{results:?}");
    assert_eq!(rig.names(&["tool:before", "validation"]), ["validation:reject", "validation:reject"]);
}

// `StopReason::MaxTokens`: the last call may be cut and is never executed.
#[tokio::test]
async fn a_call_cut_before_its_first_argument_is_not_run_without_arguments() {
    let script = Script::new()
        .turn(|t| t.call("fail", json!({})).raw_call("fail", "").stop(StopReason::MaxTokens))
        .turn(|t| t.text("ok"));
    let rig = rig(script);
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.recorder.named("tool:before").len(), 1);
    let results = rig.results(2);
    assert_eq!(results[0], "fail!: it failed");
    assert!(
        results[1].starts_with("fail!: Validation error: the arguments are not valid JSON"),
        "{results:?}"
    );
}

// Every handler sees the patches before it.
#[tokio::test]
async fn patches_of_a_result_add_up() {
    let rig = rig(one("echo", json!({"text": "secret"})));
    let scope = rig.scope("masker");
    scope.on_sync(|result: &ToolTransform, _: &Cx| {
        let masked = result.content.to_text().replace("secret", "***");
        Some(ResultPatch { content: Some(masked.as_str().into()), ..ResultPatch::default() })
    });
    scope.on_sync(|result: &ToolTransform, _: &Cx| {
        (result.content.to_text() == "***")
            .then(|| ResultPatch { is_error: Some(true), ..ResultPatch::default() })
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo!: ***"]);
    // Before and after the patches.
    assert_eq!(rig.recorder.named("tool:transform")[0]["output_bytes"], 6);
    assert_eq!(rig.recorder.named("tool:after")[0]["output_bytes"], 3);
}

#[tokio::test]
async fn a_result_that_a_strict_host_could_not_patch_is_withheld() {
    let bus = Bus::builder().policy(OnError::Throw).build();
    let rig = rig_with(one("echo", json!({"text": "secret"})), |b| b.bus(bus));
    rig.scope("masker").on_sync(|_: &ToolTransform, _: &Cx| Err::<(), _>("no rules loaded"));
    rig.run("go").await.result.unwrap();
    let results = rig.results(2);
    assert!(results[0].starts_with("echo!: The result is withheld: masker"), "{results:?}");
    assert!(!told(&rig.agent.history()).contains("=secret"), "{}", told(&rig.agent.history()));
}

// After transform and before after; the size is the remaining one.
#[tokio::test]
async fn a_model_without_vision_gets_a_marker_for_an_image() {
    let blind = Model {
        capabilities: Capabilities { vision: false, ..Capabilities::default() },
        ..Model::unknown("scripted", "blind")
    };
    let provider = ScriptedProvider::new(one("snap", json!({}))).with_model(blind);
    let rig = rig_on(provider, |b| b.tool(snap().arc()));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), [format!("snap: a picture\n{}", wire::IMAGE_OMITTED)]);
    assert_eq!(rig.recorder.named("tool:transform")[0]["output_bytes"], 9 + 4);
    assert_eq!(rig.recorder.named("tool:after")[0]["output_bytes"], 9 + wire::IMAGE_OMITTED.len());
    assert!(!told(&rig.agent.history()).contains("[image]"));
}

#[tokio::test]
async fn a_model_with_vision_keeps_the_image() {
    let rig = rig_with(one("snap", json!({})), |b| b.tool(snap().arc()));
    rig.run("go").await.result.unwrap();
    assert!(told(&rig.agent.history()).contains("=a picture\n[image]"));
}

#[tokio::test]
async fn the_display_of_a_result_is_the_tools_own_or_its_first_line() {
    let shown = TestTool::new("shown", async |_, _| {
        Ok(ToolOutput::text("for the model").with_display(Display::Line { text: "for you".into() }))
    });
    let script = Script::new()
        .turn(|t| t.call("shown", json!({})).call("echo", json!({"text": "one\ntwo"})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(shown.arc()));
    rig.run("go").await.result.unwrap();
    let after = rig.recorder.named("tool:after");
    assert_eq!(after[0]["display"]["text"], "for you");
    assert_eq!(after[1]["display"]["text"], "one");
}

// The sum of a turn exceeds the budget; nothing is truncated.
#[tokio::test]
async fn results_over_the_byte_budget_bring_one_message_and_one_event() {
    let behavior = Behavior { tool_output_budget: Some(OutputBudget::Bytes(5)), ..Behavior::default() };
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "abc"})).call("echo", json!({"text": "def"})))
        .turn(|t| t.call("echo", json!({"text": "abcde"})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.behavior(behavior));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: abc", "echo: def"]);
    let exceeded = rig.recorder.named("budget:exceeded");
    assert_eq!(exceeded.len(), 1);
    let (turn, bytes, budget) = (&exceeded[0]["turn"], &exceeded[0]["bytes"], &exceeded[0]["budget"]);
    assert_eq!((turn, bytes, budget), (&json!(1), &json!(6), &json!(5)));
    let history = rig.agent.history();
    assert_eq!(history[3].injected_by.as_deref(), Some("tool-output-budget"));
    assert_eq!(history.iter().filter(|message| message.injected_by.is_some()).count(), 1);
    let causes = rig.recorder.named("session:messages");
    assert_eq!(causes[1]["cause"], serde_json::to_value(MessagesCause::Harness).unwrap());
}

// A window with 10 tokens left holds 30 bytes.
#[tokio::test]
async fn the_byte_budget_of_a_turn_can_be_a_part_of_what_is_left_of_the_window() {
    for (percent, is_over) in [(10, true), (100, false)] {
        let budget = OutputBudget::OfWindow { percent };
        let behavior = Behavior { tool_output_budget: Some(budget), ..Behavior::default() };
        let rig = rig_with(one("echo", json!({"text": "abcd"})), |b| b.behavior(behavior));
        let window: Arc<dyn ContextWindow> =
            Arc::new(Nearly(WindowFill { usable: Some(100), estimate: 90, ..WindowFill::default() }));
        rig.scope("window").provide_service(window);
        rig.run("go").await.result.unwrap();
        assert_eq!(rig.recorder.named("budget:exceeded").len(), usize::from(is_over), "{percent} %");
    }
    let behavior =
        Behavior { tool_output_budget: Some(OutputBudget::OfWindow { percent: 1 }), ..Behavior::default() };
    let rig = rig_with(one("echo", json!({"text": "abcd"})), |b| b.behavior(behavior));
    rig.run("go").await.result.unwrap();
    assert!(rig.recorder.named("budget:exceeded").is_empty(), "nobody knows the window");
}

/// Window that is nearly full.
struct Nearly(WindowFill);

#[async_trait::async_trait]
impl ContextWindow for Nearly {
    fn fill(&self, _: &ContextId) -> Option<WindowFill> {
        Some(self.0)
    }

    fn sent(&self, _: &ContextId, _: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
        None
    }

    fn reduce(&self, _: &ContextId, _: Reduction) {}

    async fn restore(&self, _: &ContextId, _: &Cx) -> Result<bool, BoxError> {
        Ok(false)
    }

    fn take_refusal(&self, _: &ContextId) -> Option<String> {
        None
    }
}

// Canonical and shown name, turn and call, on every tool event.
#[tokio::test]
async fn every_tool_event_says_which_call_it_is_about() {
    let rig = rig_with(one("Say", json!({"text": "hi"})), |b| b.alias("echo", "Say"));
    rig.run("go").await.result.unwrap();
    let turn = rig.recorder.named("turn:before")[0]["turn_id"].clone();
    for name in ["tool:gate", "tool:before", "tool:transform", "tool:after"] {
        let call = rig.recorder.named(name)[0]["call"].clone();
        let expected = json!({"turn_id": turn, "call_id": "call_1", "name": "echo", "display_name": "Say"});
        assert_eq!(call, expected, "{name}");
    }
}

// A tool works in the directory of its agent, under the run's own context.
#[tokio::test]
async fn a_tool_gets_the_directory_and_the_context_of_its_run() {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = seen.clone();
    let tool = TestTool::new("where", move |_, cx: zk_core::service::ToolCx| {
        *kept.lock().unwrap() =
            format!("{} {} {}", cx.cwd.display(), cx.cx.origin().agent, !cx.cx.run_id().is_empty());
        async { Ok(ToolOutput::text("ok")) }
    });
    let rig = rig_with(one("where", json!({})), |b| b.tool(tool.arc()).cwd("/somewhere"));
    rig.run(RunOptions::from("go")).await.result.unwrap();
    assert_eq!(*seen.lock().unwrap(), "/somewhere main true");
}
