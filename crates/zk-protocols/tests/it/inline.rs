use std::sync::Arc;

use serde_json::json;
use zk_core::kernel::Scope;
use zk_core::model::StopReason;
use zk_core::service::ToolChoice;
use zk_protocols::{CallExtractor, CallFormat, CallPiece, CallReader, EXTRACT_CALLS, ToolProtocol};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{rig, rig_on};

const CALL: &str = "```tool_call-3f9a\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hi\"}}\n```\n";

#[tokio::test]
async fn a_call_in_the_text_runs_and_never_reaches_the_screen() {
    let script = Script::new()
        .turn(|t| t.thinking("hm").text(format!("Let me see.\n{CALL}")))
        .turn(|t| t.text("It said hi."));
    let rig = rig(ToolProtocol::Inline, script);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(rig.calls(), ["echo({\"text\":\"hi\"})", "=echo hi"]);
    assert_eq!(rig.screen(), "Let me see.\nIt said hi.");
    assert_eq!(rig.recorder.named("tool:begin").len(), 1, "gates, displays and undo see the call");
    assert!(rig.sent_text_only(), "no block of tools is sent");
    let sent = rig.sent(2);
    assert_eq!(
        sent[1],
        "Let me see.\n\n```tool_call-3f9a\n{\"arguments\":{\"text\":\"hi\"},\"name\":\"echo\"}\n```\n"
    );
    assert_eq!(sent[2], "Result of `echo`:\n```\necho hi\n```\n");
    let system = &rig.provider.asked()[0].system;
    assert!(system.starts_with("You help.\n\n# Tools\n") && system.contains("## fetch_page"), "{system}");
    assert_eq!(rig.provider.asked()[1].system, *system, "the prefix stays the same");
}

#[tokio::test]
async fn every_size_of_the_pieces_gives_the_same() {
    let whole = format!("One.\nTwo `x`.\n\n````\nexample\n{CALL}````\n{CALL}");
    for size in [1, 2, 3, 5, 8, 13, 1000] {
        let chars: Vec<char> = whole.chars().collect();
        let parts: Vec<String> = chars.chunks(size).map(|part| part.iter().collect()).collect();
        let rig = rig(ToolProtocol::Inline, Script::new().turn(|t| t.chunks(parts)).turn(|t| t.text("ok")));
        rig.run("go").await.result.unwrap();
        assert_eq!(rig.calls().len(), 2, "size {size}: the quoted call is an example");
        assert_eq!(rig.screen(), format!("{}ok", whole.strip_suffix(CALL).unwrap()), "size {size}");
    }
}

#[tokio::test]
async fn two_calls_of_one_answer_both_run_in_order() {
    let other = CALL.replace("echo", "fetch_page").replace("text", "url");
    let rig = rig(
        ToolProtocol::Inline,
        Script::new().turn(|t| t.text(format!("{CALL}{other}"))).turn(|t| t.text("ok")),
    );
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.calls(),
        ["echo({\"text\":\"hi\"})", "fetch_page({\"url\":\"hi\"})", "=echo hi", "=fetch_page hi"]
    );
}

#[tokio::test]
async fn what_is_no_call_is_answered_with_the_error_and_never_run() {
    let broken = "```tool_call-3f9a\n{\"name\": \"echo\", \"arguments\": {\"text\": }}\n```\n";
    let nameless = "```tool_call-3f9a\n{\"arguments\": {}}\n```\n";
    let unknown = CALL.replace("echo", "ecco");
    let invalid = CALL.replace("\"text\"", "\"txt\"");
    let cut = CALL.get(..CALL.len() - 10).unwrap();
    for (text, stop, error) in [
        (broken, StopReason::EndTurn, "!Validation error: the arguments are not valid JSON"),
        (nameless, StopReason::EndTurn, "!Blocked: this call names no tool"),
        (&*unknown, StopReason::EndTurn, "!Unknown tool `ecco`. Did you mean `echo`?"),
        (&*invalid, StopReason::EndTurn, "!Validation error: `text` is required"),
        (cut, StopReason::MaxTokens, "!Validation error: the arguments are not valid JSON"),
    ] {
        let script =
            Script::new().turn(|t| t.text(text).stop(stop)).turn(|t| t.text(CALL)).turn(|t| t.text("done"));
        let rig = rig(ToolProtocol::Inline, script);
        rig.run("go").await.result.unwrap();
        let calls = rig.calls();
        assert!(calls[1].starts_with(error), "{calls:?}");
        assert_eq!(calls[3], "=echo hi", "the retry runs");
        assert_eq!(rig.recorder.named("tool:begin").len(), 1);
        assert_eq!(rig.screen(), "done", "nothing of a call is shown");
    }
}

#[tokio::test]
async fn a_server_that_enforces_schemas_is_held_to_the_tools_or_an_answer() {
    let call = json!({"reply": {"action": "echo", "arguments": {"text": "hi"}}}).to_string();
    let answer = json!({"reply": {"answer": "It said \"hi\"."}}).to_string();
    let script = Script::new().turn(|t| t.text(call)).turn(|t| t.text(answer));
    let provider = ScriptedProvider::new(script).with_native_output_without_tools();
    let rig = rig_on(ToolProtocol::Inline, provider, |b| b);
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.calls(), ["echo({\"text\":\"hi\"})", "=echo hi"]);
    assert_eq!(rig.screen(), "It said \"hi\".");
    let request = &rig.provider.requests()[0];
    let schema = &request.output.as_ref().unwrap().schema["properties"]["reply"]["anyOf"];
    let names: Vec<_> =
        schema.as_array().unwrap().iter().map(|one| &one["properties"]["action"]["const"]).collect();
    assert_eq!(names, [&json!("echo"), &json!("fetch_page"), &json!("read_file"), &json!(null)]);
    assert_eq!(request.tool_choice, ToolChoice::Auto);
    assert!(request.tools.is_empty() && request.system.contains("{\"reply\": {\"answer\": \"TEXT\"}}"));
    assert_eq!(rig.sent(2)[1], "{\"reply\":{\"action\":\"echo\",\"arguments\":{\"text\":\"hi\"}}}\n");
}

#[tokio::test]
async fn a_call_that_the_model_quotes_from_a_file_is_not_run() {
    let readme = format!("Setup:\n```sh\nmake\n```\n{}", CALL.replace("-3f9a", ""));
    let answer = format!("It says:\n```markdown\n{readme}```\n");
    let rig = rig(ToolProtocol::Inline, Script::new().turn(|t| t.text(&answer)));
    rig.run("show the README").await.result.unwrap();
    assert_eq!(rig.calls(), [] as [String; 0]);
    assert_eq!(rig.screen(), answer);
    assert!(rig.provider.asked()[0].system.contains("`tool_call-3f9a`"));
    let script = Script::new().turn(|t| t.text(format!("{CALL}That said hi."))).turn(|t| t.text("ok"));
    let rig = crate::support::rig(ToolProtocol::Inline, script);
    rig.run("go").await.result.unwrap();
    let calls = rig.calls();
    assert!(
        calls[1].starts_with('!') && calls[1].contains("(not run: text stands behind the call)"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn a_structured_output_is_enforced_beside_inline_tools() {
    let answer = json!({"reply": {"answer": "Ada is 36."}}).to_string();
    let script = Script::new().turn(|t| t.text(answer)).turn(|t| t.text("{\"age\": 36}"));
    let provider = ScriptedProvider::new(script).with_native_output_without_tools();
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let behavior = zk_agent::Behavior { schema: Some(schema.clone()), ..zk_agent::Behavior::default() };
    let rig = rig_on(ToolProtocol::Inline, provider, |b| b.behavior(behavior));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.stats.output, Some(json!({"age": 36})));
    assert_eq!(*rig.provider.requests()[1].output.as_ref().unwrap().schema, schema);
}

/// Advice on the step: another spelling of the fence is read, too.
struct Lenient(Arc<dyn CallExtractor>);

impl CallExtractor for Lenient {
    fn reader(&self, format: CallFormat) -> Box<dyn CallReader> {
        Box::new(LenientReader(self.0.reader(format)))
    }
}

struct LenientReader(Box<dyn CallReader>);

impl CallReader for LenientReader {
    fn push(&mut self, delta: &str) -> Vec<CallPiece> {
        self.0.push(&delta.replace("```tool\n", "```tool_call-3f9a\n"))
    }

    fn finish(&mut self, is_cut: bool) -> Vec<CallPiece> {
        self.0.finish(is_cut)
    }
}

#[tokio::test]
async fn the_step_that_extracts_calls_can_be_advised() {
    let call = CALL.replace("tool_call-3f9a", "tool");
    let rig = rig(ToolProtocol::Inline, Script::new().turn(|t| t.chunks([call])).turn(|t| t.text("ok")));
    let advice: Scope = rig.agent.bus().scope("advice");
    advice.decorate::<dyn CallExtractor>(EXTRACT_CALLS, |inner| Arc::new(Lenient(inner)));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.calls(), ["echo({\"text\":\"hi\"})", "=echo hi"]);
}

#[tokio::test]
async fn an_answer_that_broke_off_keeps_its_text_and_loses_its_calls() {
    let script = Script::new()
        .turn(|t| t.text(format!("Half.\n{CALL}``")).error(zk_core::model::ErrorKind::Auth, "no"));
    let rig = rig(ToolProtocol::Inline, script);
    assert!(rig.run("go").await.result.is_err());
    assert_eq!(rig.calls(), [] as [String; 0]);
    assert!(rig.screen().starts_with("Half.\n") && !rig.screen().contains("tool_call"), "{}", rig.screen());
}

#[tokio::test]
async fn a_model_that_repeats_one_call_is_held_to_an_answer() {
    let call = json!({"reply": {"action": "echo", "arguments": {"text": "hi"}}}).to_string();
    let script = Script::new()
        .turn(|t| t.text(call.clone()))
        .turn(|t| t.text(call.clone()))
        .turn(|t| t.text(call.clone()))
        .turn(|t| t.text(json!({"reply": {"answer": "hi"}}).to_string()));
    let provider = ScriptedProvider::new(script).with_native_output_without_tools();
    let rig = rig_on(ToolProtocol::Inline, provider, |b| b);
    rig.run("go").await.result.unwrap();
    let branches = |request: usize| {
        let schema = rig.provider.requests()[request].output.as_ref().unwrap().schema.clone();
        schema["properties"]["reply"]["anyOf"].as_array().unwrap().len()
    };
    assert_eq!([branches(2), branches(3)], [4, 1]);
    assert_eq!(rig.provider.asked()[3].system, rig.provider.asked()[2].system, "the prefix stays the same");
}
