//! Runs as protocols: every event, in order.

use serde_json::json;
use zk_core::events::{Ruling, ToolErrored, ToolGate, ToolUnknown, UnknownReply};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, ToolContent, ToolOutput, Usage};
use zk_testkit::Script;

use crate::support::{Rig, TestTool, assert_lines, rig, rig_with};

const TOOL_PATH: &[&str] = &["tool:", "validation:", "tool-results"];

fn one_call(tool: &str, args: serde_json::Value) -> Script {
    let tool = tool.to_owned();
    Script::new().turn(move |t| t.call(tool, args)).turn(|t| t.text("Done."))
}

async fn tool_path(rig: &Rig) -> String {
    rig.run("go").await.result.unwrap();
    rig.lines(TOOL_PATH)
}

#[tokio::test]
async fn a_run_with_a_tool_call_announces_everything_in_order() {
    let script = Script::new()
        .turn(|t| {
            let usage = Usage { input: 10, output: 5, ..Usage::default() };
            t.thinking("Hm.").text("Let me look.").call("echo", json!({"text": "hi"})).usage(usage)
        })
        .turn(|t| t.text("It says hi."));
    let rig = rig(script);
    rig.run("What does it say?").await.result.unwrap();
    assert_lines(
        &rig.recorder.transcript(),
        r##"
        input  text="What does it say?"
        session:start
        agent:before-start  prompt=user("What does it say?")
        session:messages  cause="prompt" messages=[user("What does it say?")]
        agent:start  model=scripted/scripted-1 thinking="off" tools=["echo", "fail"]
        context:transform  messages=[user("What does it say?")]
        system:transform  turn=1
        provider:request  max_tokens=16384 model=scripted/scripted-1 thinking={level="off"} tool_choice="auto"
        turn:before  messages=1 model=scripted/scripted-1 thinking={level="off"} turn=1
        stream:start  model="scripted-1"
        stream:thinking  delta="Hm."
        stream:text  delta="Let me look."
        stream:tool-args  #1 delta="{\"text\":\"hi\"}" name="echo"
        stream:end  text="Let me look."
        message:end  message=assistant(thinking "Hm.", "Let me look.", echo#1 {"text":"hi"})
        turn:after  message=assistant(thinking "Hm.", "Let me look.", echo#1 {"text":"hi"}) turn=1 usage={input=10 output=5}
        session:open-turn  message=assistant(thinking "Hm.", "Let me look.", echo#1 {"text":"hi"}) usage={model=scripted/scripted-1 usage={input=10 output=5}}
        tool:gate  echo#1 args={text="hi"} effects={effects="unknown"}
        tool:begin  echo#1 args={text="hi"} effects={effects="unknown"} summary="echo {\"text\":\"hi\"}"
        tool:before  echo#1 args={text="hi"} summary="echo {\"text\":\"hi\"}"
        tool:transform  echo#1 content="hi" output_bytes=2
        tool:end  echo#1 result={#1 content="hi"} summary="echo {\"text\":\"hi\"}"
        tool:after  echo#1 content="hi" display={kind="line" text="hi"} output_bytes=2
        tool:batch_end  calls=[{echo#1}] counts={calls=1}
        tool-results:after  assistant=assistant(thinking "Hm.", "Let me look.", echo#1 {"text":"hi"}) results=user(result#1 "hi") usage={model=scripted/scripted-1 usage={input=10 output=5}}
        usage  total={input=10 output=5} turn={model=scripted/scripted-1 usage={input=10 output=5}}
        context:transform  messages=[user("What does it say?"), assistant(thinking "Hm.", "Let me look.", echo#1 {"text":"hi"}), user(result#1 "hi")]
        system:transform  turn=2
        provider:request  max_tokens=16384 model=scripted/scripted-1 thinking={level="off"} tool_choice="auto"
        turn:before  messages=3 model=scripted/scripted-1 thinking={level="off"} turn=2
        stream:start  model="scripted-1"
        stream:text  delta="It says hi."
        stream:end  text="It says hi."
        message:end  message=assistant("It says hi.")
        turn:after  message=assistant("It says hi.") turn=2
        session:messages  cause="answer" messages=[assistant("It says hi.")] usage={model=scripted/scripted-1}
        usage  total={input=10 output=5} turn={model=scripted/scripted-1}
        agent:done  stats={tool_calls={echo=1} turns=2 usage={input=10 output=5}} status="completed" text="It says hi."
        session:end  status="completed" to=4
        "##,
    );
}

#[tokio::test]
async fn a_response_without_text_has_no_stream_end() {
    let rig = rig(one_call("echo", json!({"text": "hi"})));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.recorder.named("stream:end").len(), 1, "only the second response has text");
}

#[tokio::test]
async fn a_blocked_call_fires_nothing_but_its_gate_and_is_not_counted() {
    let rig = rig(one_call("echo", json!({"text": "hi"})));
    let scope = rig.scope("guard");
    scope.on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::refuse("not today")));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  echo#1 args={text="hi"} effects={effects="unknown"}
        tool:blocked  echo#1 args={text="hi"} by="guard" reason="not today"
        tool:batch_end  calls=[{echo#1 error="Blocked: not today" is_error}] counts={calls=1 errors=1}
        tool-results:after  assistant=assistant(echo#1 {"text":"hi"}) results=user(result#1 error "Blocked: not today") usage={model=scripted/scripted-1}
        "##,
    );
    assert!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"].as_object().unwrap().is_empty());
}

#[tokio::test]
async fn a_substitute_skips_the_call_but_is_transformed_announced_and_counted() {
    let rig = rig(one_call("fail", json!({})));
    let scope = rig.scope("cache");
    scope.on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::Substitute(ToolOutput::text("as before"))));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  fail#1 effects={effects="unknown"}
        tool:transform  fail#1 content="as before" output_bytes=9
        tool:after  fail#1 content="as before" display={kind="line" text="as before"} output_bytes=9
        tool:batch_end  calls=[{fail#1}] counts={calls=1}
        tool-results:after  assistant=assistant(fail#1 {}) results=user(result#1 "as before") usage={model=scripted/scripted-1}
        "##,
    );
    assert_eq!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"], json!({"fail": 1}));
}

#[tokio::test]
async fn an_unknown_tool_is_counted_and_answered_with_the_tools_there_are() {
    let rig = rig(one_call("ecko", json!({})));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  ecko#1 effects={effects="known"}
        tool:unknown  ecko#1
        tool:error  ecko#1 error={kind="not_found" message="Unknown tool `ecko`. Did you mean `echo`? The tools are: echo, fail."}
        tool:batch_end  calls=[{ecko#1 error="Unknown tool `ecko`. Did you mean `echo`? The tools are: echo, fail." is_error}] counts={calls=1 errors=1}
        tool-results:after  assistant=assistant(ecko#1 {}) results=user(result#1 error "Unknown tool `ecko`. Did you mean `echo`? The tools are: echo, fail.") usage={model=scripted/scripted-1}
        "##,
    );
    assert_eq!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"], json!({"ecko": 1}));
}

#[tokio::test]
async fn a_handler_answers_an_unknown_tool_without_an_error() {
    let rig = rig(one_call("ecko", json!({})));
    rig.scope("helper").on_sync(|_: &ToolUnknown, _: &Cx| {
        Some(UnknownReply { result: Some(ToolContent::from("you mean echo")), suppress_error: true })
    });
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  ecko#1 effects={effects="known"}
        tool:unknown  ecko#1
        tool:batch_end  calls=[{ecko#1}] counts={calls=1}
        tool-results:after  assistant=assistant(ecko#1 {}) results=user(result#1 "you mean echo") usage={model=scripted/scripted-1}
        "##,
    );
}

#[tokio::test]
async fn the_error_handler_of_an_unknown_tool_has_the_last_word() {
    let rig = rig(one_call("ecko", json!({})));
    let scope = rig.scope("helper");
    scope.on_sync(|_: &ToolUnknown, _: &Cx| {
        Some(UnknownReply { result: Some(ToolContent::from("first")), suppress_error: false })
    });
    scope.on_sync(|error: &ToolErrored, _: &Cx| {
        error.result.as_ref().map(|first| ToolContent::Text(format!("{}, then second", first.to_text())))
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["ecko: first, then second"]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_rejected_with_readable_issues() {
    let rig = rig(one_call("echo", json!({"text": null})));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        validation:reject  echo#1 issues=["`text` is required"]
        tool:batch_end  calls=[{echo#1 error="Validation error: `text` is required. Call it again with corrected argum…" is_error}] counts={calls=1 errors=1}
        tool-results:after  assistant=assistant(echo#1 {"text":null}) results=user(result#1 error "Validation error: `text` is required. Call it again with corrected argum…") usage={model=scripted/scripted-1}
        "##,
    );
}

#[tokio::test]
async fn a_coercion_is_announced_and_the_tool_gets_the_coerced_arguments() {
    let rig = rig(one_call("echo", json!({"text": 5})));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        validation:coerce  echo#1 coercions=[{from=5 key="text" to="5"}]
        tool:gate  echo#1 args={text="5"} effects={effects="unknown"}
        tool:begin  echo#1 args={text="5"} effects={effects="unknown"} summary="echo {\"text\":\"5\"}"
        tool:before  echo#1 args={text="5"} coercions=[{from=5 key="text" to="5"}] summary="echo {\"text\":\"5\"}"
        tool:transform  echo#1 content="5" output_bytes=1
        tool:end  echo#1 result={#1 content="5\n[Arguments were converted: give `text` as \"5\" instead of 5 next time.]"} summary="echo {\"text\":\"5\"}"
        tool:after  echo#1 content="5\n[Arguments were converted: give `text` as \"5\" instead of 5 next time.]" display={kind="line" text="5"} output_bytes=72
        tool:batch_end  calls=[{echo#1}] counts={calls=1}
        tool-results:after  assistant=assistant(echo#1 {"text":5}) results=user(result#1 "5\n[Arguments were converted: give `text` as \"5\" instead of 5 next time.]") usage={model=scripted/scripted-1}
        "##,
    );
}

#[tokio::test]
async fn without_a_coercion_the_field_is_absent() {
    let rig = rig(one_call("echo", json!({"text": "5"})));
    rig.run("go").await.result.unwrap();
    assert!(rig.recorder.named("tool:before")[0].get("coercions").is_none());
    assert_eq!(rig.recorder.named("validation:coerce").len(), 0);
}

#[tokio::test]
async fn a_failing_tool_is_an_error_result() {
    let rig = rig(one_call("fail", json!({"why": "no disk"})));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  fail#1 args={why="no disk"} effects={effects="unknown"}
        tool:begin  fail#1 args={why="no disk"} effects={effects="unknown"} summary="fail {\"why\":\"no disk\"}"
        tool:before  fail#1 args={why="no disk"} summary="fail {\"why\":\"no disk\"}"
        tool:error  fail#1 error={kind="failed" message="no disk"}
        tool:transform  fail#1 content="no disk" is_error output_bytes=7
        tool:end  fail#1 result={#1 content="no disk" is_error} summary="fail {\"why\":\"no disk\"}"
        tool:after  fail#1 content="no disk" display={kind="line" text="no disk"} is_error output_bytes=7
        tool:batch_end  calls=[{fail#1 error="no disk" is_error}] counts={calls=1 errors=1}
        tool-results:after  assistant=assistant(fail#1 {"why":"no disk"}) results=user(result#1 error "no disk") usage={model=scripted/scripted-1}
        "##,
    );
}

#[tokio::test]
async fn a_handler_of_an_error_may_give_the_result_instead() {
    let rig = rig(one_call("fail", json!({})));
    rig.scope("mender").on_sync(|_: &ToolErrored, _: &Cx| Some(ToolContent::from("mended")));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  fail#1 effects={effects="unknown"}
        tool:begin  fail#1 effects={effects="unknown"} summary="fail {}"
        tool:before  fail#1 summary="fail {}"
        tool:error  fail#1 error={kind="failed" message="it failed"}
        tool:transform  fail#1 content="mended" output_bytes=6
        tool:end  fail#1 result={#1 content="mended"} summary="fail {}"
        tool:after  fail#1 content="mended" display={kind="line" text="mended"} output_bytes=6
        tool:batch_end  calls=[{fail#1}] counts={calls=1}
        tool-results:after  assistant=assistant(fail#1 {}) results=user(result#1 "mended") usage={model=scripted/scripted-1}
        "##,
    );
}

#[tokio::test]
async fn an_answer_alone_has_no_tool_events() {
    let rig = rig(Script::new().turn(|t| t.text("Hello.")));
    rig.run("Hi").await.result.unwrap();
    assert_eq!(
        rig.names(&["session", "agent", "turn", "usage", "message", "tool"]),
        [
            "session:start",
            "agent:before-start",
            "session:messages",
            "agent:start",
            "turn:before",
            "message:end",
            "turn:after",
            "session:messages",
            "usage",
            "agent:done",
            "session:end",
        ]
    );
}

#[tokio::test]
async fn a_stopped_run_announces_its_end_in_order() {
    let rig = rig(Script::new().turn(|t| t.text("Let me ").hang()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    run.abort();
    assert!(run.wait().await.result.is_err());
    rig.assert_sound();
    assert_lines(
        &rig.lines(&["turn:", "session:", "agent:", "usage", "message"]),
        r##"
        session:start
        agent:before-start  prompt=user("go")
        session:messages  cause="prompt" messages=[user("go")]
        agent:start  model=scripted/scripted-1 thinking="off" tools=["echo", "fail"]
        turn:before  messages=1 model=scripted/scripted-1 thinking={level="off"} turn=1
        turn:after  error="the run was stopped" turn=1
        session:messages  cause="answer" messages=[assistant("Let me ")]
        agent:abort
        agent:done  error="the run was stopped" status="aborted" text="Let me "
        session:end  status="aborted" to=2
        "##,
    );
}

#[tokio::test]
async fn a_failed_response_still_has_its_turn_after() {
    let script = Script::new().turn(|t| {
        let usage = Usage { input: 7, ..Usage::default() };
        t.text("Let me ").usage(usage).error(ErrorKind::Rejected, "try later")
    });
    let rig = rig_with(script, |builder| builder.retry(zk_agent::RetryPolicy::never()));
    assert!(rig.run("go").await.result.is_err());
    assert_lines(
        &rig.lines(&["turn:", "session:", "agent:", "usage", "message"]),
        r##"
        session:start
        agent:before-start  prompt=user("go")
        session:messages  cause="prompt" messages=[user("go")]
        agent:start  model=scripted/scripted-1 thinking="off" tools=["echo", "fail"]
        turn:before  messages=1 model=scripted/scripted-1 thinking={level="off"} turn=1
        turn:after  error="scripted/scripted-1: request rejected while in the stream: try later" turn=1 usage={input=7}
        usage  total={input=7} turn={model=scripted/scripted-1 usage={input=7}}
        session:messages  cause="answer" messages=[assistant("Let me ")] usage={model=scripted/scripted-1 usage={input=7}}
        agent:done  error="scripted/scripted-1: request rejected while in the stream: try later" stats={turns=1 usage={input=7}} status="error" text="Let me "
        session:end  status="error" to=2
        "##,
    );
}

#[tokio::test]
async fn the_message_is_final_and_the_turn_announced_before_any_gate() {
    let rig = rig(one_call("echo", json!({"text": "hi"})));
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.names(&["message:end", "turn:after", "tool:gate", "tool-results"]),
        ["message:end", "turn:after", "tool:gate", "tool-results:after", "message:end", "turn:after"]
    );
}

#[tokio::test]
async fn progress_is_announced_between_before_and_after() {
    let chatty = TestTool::new("chatty", async |_, cx: zk_core::service::ToolCx| {
        cx.progress.show("one");
        tokio::task::yield_now().await;
        cx.progress.show("two");
        Ok(ToolOutput::text("done"))
    });
    let rig = rig_with(one_call("chatty", json!({})), |builder| builder.tool(chatty.arc()));
    assert_lines(
        &tool_path(&rig).await,
        r##"
        tool:gate  chatty#1 effects={effects="unknown"}
        tool:begin  chatty#1 effects={effects="unknown"} summary="chatty {}"
        tool:before  chatty#1 summary="chatty {}"
        tool:progress  chatty#1 text="one"
        tool:progress  chatty#1 text="two"
        tool:transform  chatty#1 content="done" output_bytes=4
        tool:end  chatty#1 result={#1 content="done"} summary="chatty {}"
        tool:after  chatty#1 content="done" display={kind="line" text="done"} output_bytes=4
        tool:batch_end  calls=[{chatty#1}] counts={calls=1}
        tool-results:after  assistant=assistant(chatty#1 {}) results=user(result#1 "done") usage={model=scripted/scripted-1}
        "##,
    );
}
