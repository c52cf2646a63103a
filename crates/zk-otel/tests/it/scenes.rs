//! Runs of every kind: names, parents, attributes, and nothing private.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{AgentBuilder, Behavior, SpawnOptions};
use zk_core::events::{
    BudgetOutcome, CompactionStage, CompactionTrigger, ContextCompaction, DecidedBy, PermissionDecided,
    PermissionRequest, Ruling, RunBudgetReached, SideCallEnd, ToolGate,
};
use zk_core::kernel::{BoxError, Cx, plugin_fn};
use zk_core::model::{
    Budget, CallRef, Effects, ErrorKind, ModelRef, Spent, StopReason, ToolOutput, TurnId, TurnUsage, Usage,
};
use zk_core::service::{Redactor, Tool, ToolCx, TraceContext, TurnEnv};
use zk_testkit::{Asked, Script, Turn};

use crate::collector::{Manner, Seen};
use crate::rig::{PRIVATE, Rig, TestTool, tree};

/// A run, and the spans that come of it.
struct Scene {
    what: &'static str,
    script: Script,
    change: fn(AgentBuilder) -> AgentBuilder,
    spans: &'static str,
}

fn usage() -> Usage {
    Usage { input: 10, output: 5, cache_read: 100, cache_write: 7, reasoning: 2, ..Usage::default() }
}

fn said(turn: Turn) -> Turn {
    turn.text(PRIVATE).usage(usage())
}

fn calls(name: &'static str) -> Script {
    Script::new().turn(move |t| t.call(name, json!({"text": PRIVATE}))).turn(said)
}

fn same(builder: AgentBuilder) -> AgentBuilder {
    builder
}

/// Has a gate that answers each call with `ruling`.
fn gated(builder: AgentBuilder, ruling: fn() -> Ruling) -> AgentBuilder {
    builder.plugin(plugin_fn("gate", move |scope| {
        scope.on_sync(move |_: &ToolGate, _: &Cx| Some(ruling()));
        Ok::<(), BoxError>(())
    }))
}

/// Sub-agents do what the first words of their task say.
fn family(asked: &Asked) -> Turn {
    if !asked.results().is_empty() {
        return said(Turn::new());
    }
    match asked.last_user_text().split_once(": ") {
        Some((_, "go")) => {
            Turn::new().call("spawn", json!({"task": "deep"})).call("spawn", json!({"task": "echo"}))
        }
        _ if asked.last_user_text() == "deep" => Turn::new().call("spawn", json!({"task": "echo"})),
        _ => Turn::new().call("echo", json!({"text": PRIVATE})),
    }
}

fn call_of(cx: &ToolCx) -> Arc<CallRef> {
    Arc::new(CallRef {
        turn_id: cx.cx.turn_id().into(),
        call_id: cx.call_id.clone(),
        name: "story".into(),
        display_name: "story".into(),
    })
}

/// A tool in whose calls happens what plugins of a program announce.
fn story() -> Arc<dyn Tool> {
    TestTool::tool("story", async |_, cx: ToolCx| {
        let (call, turn_id) = (call_of(&cx), TurnId::from(cx.cx.turn_id()));
        let args = json!({"text": PRIVATE});
        let request = PermissionRequest {
            call: call.clone(),
            args: args.clone(),
            effects: Effects::Unknown,
            by_rule: false,
        };
        cx.cx.emit(request).await.unwrap();
        let decided = PermissionDecided {
            call,
            args,
            effects: Effects::Unknown,
            cwd: PathBuf::from("/"),
            allowed: true,
            by: DecidedBy::Person,
            reasons: vec![PRIVATE.to_owned()],
            allowed_by: None,
        };
        cx.cx.emit(decided).await.unwrap();
        let compaction = |stage| ContextCompaction {
            turn_id: turn_id.clone(),
            trigger: CompactionTrigger::Hard,
            stage,
            before: 1_000,
            after: 100,
            strategies: Vec::new(),
            note: Some(PRIVATE.to_owned()),
        };
        cx.cx.emit(compaction(CompactionStage::Began)).await.unwrap();
        let usage = TurnUsage {
            turn_id: turn_id.clone(),
            model: ModelRef::new("p", "small"),
            usage: usage(),
            cost: Some(0.5),
        };
        let side = SideCallEnd { source: "compaction".into(), purpose: "summary".into(), part: None, usage };
        cx.cx.emit(side).await.unwrap();
        cx.cx.emit(compaction(CompactionStage::Done)).await.unwrap();
        cx.cx.emit(compaction(CompactionStage::Failed)).await.unwrap();
        let budget = |outcome| RunBudgetReached {
            turn: 1,
            turn_id: turn_id.clone(),
            budget: Budget::default(),
            spent: Spent::default(),
            wanted: Spent::default(),
            outcome,
        };
        cx.cx.emit(budget(BudgetOutcome::Asked)).await.unwrap();
        cx.cx.emit(budget(BudgetOutcome::Lifted)).await.unwrap();
        Ok(ToolOutput::text("told"))
    })
}

fn scenes() -> Vec<Scene> {
    let scene = |what, script, change, spans| Scene { what, script, change, spans };
    vec![
        scene(
            "a plain run",
            Script::new().turn(said),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call",
            calls("echo"),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool echo\n  turn\n    chat scripted-1",
        ),
        scene(
            "two calls of a turn",
            Script::new()
                .turn(|t| t.call("echo", json!({"text": "1"})).call("echo", json!({"text": "2"})))
                .turn(said),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool echo\n    execute_tool echo\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call that fails",
            calls("fail"),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool fail !failed\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call of a tool that is not there",
            calls("words of the model"),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool _unknown !rejected\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call with wrong arguments",
            Script::new().turn(|t| t.call("echo", json!({"words": PRIVATE}))).turn(said),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool echo !rejected\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call that is refused",
            calls("echo"),
            |builder| gated(builder, || Ruling::refuse(PRIVATE)),
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool echo !refused\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call with a result of a gate",
            calls("echo"),
            |builder| gated(builder, || Ruling::Substitute(ToolOutput::text(PRIVATE))),
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool echo\n  turn\n    chat scripted-1",
        ),
        scene(
            "a call that is parked",
            calls("echo"),
            |builder| gated(builder, || Ruling::Park(PRIVATE.into())),
            "invoke_agent main !parked\n  turn\n    chat scripted-1\n    execute_tool echo !parked",
        ),
        scene(
            "a retry",
            Script::new().turn(|t| t.error(ErrorKind::Overloaded, PRIVATE)).turn(said),
            same,
            "invoke_agent main\n  turn\n    chat scripted-1 [\"retry\"]",
        ),
        scene(
            "an error of the provider",
            Script::new().turn(|t| t.error(ErrorKind::Rejected, PRIVATE)),
            same,
            "invoke_agent main !_OTHER\n  turn !_OTHER\n    chat scripted-1 !_OTHER",
        ),
        scene(
            "an answer that breaks off",
            Script::new().turn(|t| t.text(PRIVATE).error(ErrorKind::Rejected, PRIVATE)),
            same,
            "invoke_agent main !_OTHER\n  turn !_OTHER\n    chat scripted-1 !_OTHER",
        ),
        scene(
            "the limit of turns",
            calls("echo"),
            |builder| builder.behavior(Behavior { max_turns: Some(1), ..Behavior::default() }),
            "invoke_agent main !_OTHER\n  turn\n    chat scripted-1\n    execute_tool echo",
        ),
        scene(
            "a call that makes a call",
            calls("outer"),
            |builder| {
                builder.tool(TestTool::tool("outer", async |_, cx: ToolCx| {
                    let inner = cx.cx.item::<dyn Tool>("echo").unwrap();
                    cx.run(inner, json!({"text": PRIVATE})).await.unwrap().into_output()
                }))
            },
            "invoke_agent main\n  turn\n    chat scripted-1\n    execute_tool outer\n      execute_tool echo\n  turn\n    chat scripted-1",
        ),
        scene(
            "sub-agents side by side, and one below",
            Script::answering(family),
            |builder| builder.spawn(SpawnOptions::default()),
            "invoke_agent main
  turn
    chat scripted-1
    execute_tool spawn
      invoke_agent main.1
        turn
          chat scripted-1
          execute_tool spawn
            invoke_agent main.1.1
              turn
                chat scripted-1
                execute_tool echo
              turn
                chat scripted-1
        turn
          chat scripted-1
    execute_tool spawn
      invoke_agent main.2
        turn
          chat scripted-1
          execute_tool echo
        turn
          chat scripted-1
  turn
    chat scripted-1",
        ),
        scene(
            "waits for a person, a compaction with a side call, one that fails",
            calls("story"),
            |builder| builder.tool(story()),
            "invoke_agent main
  turn
    chat scripted-1
    execute_tool story
    wait permission
    compact [\"side call\"]
    compact !failed
    wait budget
  turn
    chat scripted-1",
        ),
    ]
}

#[tokio::test]
async fn each_kind_of_run_becomes_spans_with_parents_and_attributes_and_without_content() {
    for Scene { what, script, change, spans } in scenes() {
        let rig = Rig::new(script, change);
        rig.run().await;
        let seen = rig.spans().await;
        assert_eq!(tree_sorted(&tree(&seen)), tree_sorted(spans), "{what}\n{}", tree(&seen));
        seen.iter().for_each(|span| assert_required(span, what));
        assert!(!rig.collector.dump().contains(PRIVATE), "{what}: content was sent");
        assert_eq!(*rig.notices.lock().unwrap(), Vec::<String>::new(), "{what}");
    }
}

/// Order among spans that begin at once does not count.
fn tree_sorted(tree: &str) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut lines: Vec<String> = tree
        .lines()
        .map(|line| {
            let depth = (line.len() - line.trim_start().len()) / 2;
            path.truncate(depth);
            path.push(line.trim().to_owned());
            path.join(" > ")
        })
        .collect();
    lines.sort();
    lines
}

fn assert_required(span: &Seen, what: &str) {
    let operation = span.name.split(' ').next().unwrap();
    let (kind, names): (i32, &[&str]) = match operation {
        "invoke_agent" => (
            1,
            &[
                "gen_ai.operation.name",
                "gen_ai.provider.name",
                "gen_ai.request.model",
                "gen_ai.agent.name",
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.output_tokens",
                "zk.run.id",
                "zk.run.status",
                "zk.agent.depth",
            ],
        ),
        "chat" => (
            3,
            &[
                "gen_ai.operation.name",
                "gen_ai.provider.name",
                "gen_ai.request.model",
                "gen_ai.request.max_tokens",
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.output_tokens",
            ],
        ),
        "execute_tool" => (
            1,
            &[
                "gen_ai.operation.name",
                "gen_ai.tool.name",
                "gen_ai.tool.call.id",
                "gen_ai.tool.type",
                "zk.call.outcome",
            ],
        ),
        "turn" => (1, &["zk.turn.number", "zk.turn.id"]),
        "wait" => (1, &["zk.wait.for", "zk.wait.answer"]),
        "compact" => (
            1,
            &[
                "zk.compaction.trigger",
                "zk.compaction.stage",
                "zk.compaction.before_tokens",
                "zk.compaction.after_tokens",
            ],
        ),
        other => panic!("{what}: {other}"),
    };
    assert_eq!(span.kind, kind, "{what}: {span:?}");
    for name in names {
        assert!(span.attributes.contains_key(*name), "{what}: {name} is missing in {span:?}");
    }
    if let Some(named) = span.attributes.get("gen_ai.operation.name") {
        assert_eq!(named, operation, "{what}");
    }
    let fails = span.is_error && span.attributes.contains_key("error.type");
    assert!(fails || !span.is_error, "{what}: an error has a class in {span:?}");
}

#[tokio::test]
async fn usage_finish_reason_and_metrics_are_those_of_the_answer() {
    let rig = Rig::new(Script::new().turn(said), same);
    rig.run().await;
    let seen = rig.spans().await;
    let chat = seen.iter().find(|span| span.name.starts_with("chat")).unwrap();
    for (name, value) in [
        ("gen_ai.usage.input_tokens", "117"),
        ("gen_ai.usage.output_tokens", "5"),
        ("gen_ai.usage.cache_read.input_tokens", "100"),
        ("gen_ai.usage.cache_creation.input_tokens", "7"),
        ("gen_ai.usage.reasoning.output_tokens", "2"),
        ("gen_ai.response.finish_reasons", "stop"),
        ("gen_ai.provider.name", "scripted"),
    ] {
        assert_eq!(chat.attributes[name], value, "{name}");
    }
    let points = rig.collector.points();
    let sum = |name: &str, key: &str, value: &str| {
        let mut of = points.iter().filter(|(metric, attributes, _)| {
            metric == name && attributes.get(key).is_some_and(|found| found == value)
        });
        of.next().unwrap_or_else(|| panic!("{name} {key} {value} in {points:?}")).2
    };
    assert_eq!(sum("gen_ai.client.token.usage", "gen_ai.token.type", "input"), 117.0);
    assert_eq!(sum("gen_ai.client.token.usage", "gen_ai.token.type", "output"), 5.0);
    assert_eq!(sum("zk.cache.tokens", "zk.cache.kind", "read"), 100.0);
    assert_eq!(sum("zk.cache.tokens", "zk.cache.kind", "write"), 7.0);
    for operation in ["chat", "invoke_agent"] {
        assert!(sum("gen_ai.client.operation.duration", "gen_ai.operation.name", operation) > 0.0);
    }
    assert!(sum("gen_ai.client.operation.time_to_first_chunk", "gen_ai.operation.name", "chat") > 0.0);
}

#[tokio::test]
async fn a_run_that_is_stopped_ends_its_spans_as_cancelled() {
    for (what, script, spans) in [
        (
            "in the answer",
            Script::new().turn(|t| t.text("x").hang()),
            "invoke_agent main !cancelled\n  turn !cancelled\n    chat scripted-1 !cancelled",
        ),
        (
            "in a call",
            Script::new().turn(|t| t.text("x").call("wait", json!({}))),
            "invoke_agent main !cancelled\n  turn\n    chat scripted-1\n    execute_tool wait !cancelled",
        ),
    ] {
        let (begun, begins) = tokio::sync::oneshot::channel();
        let begun = Arc::new(Mutex::new(Some(begun)));
        let rig = Rig::new(script, |builder| {
            builder.tool(TestTool::tool("wait", async |_, cx: ToolCx| {
                cx.cx.stop_token().cancelled().await;
                Err(zk_core::model::ToolError::new(zk_core::model::ToolErrorKind::Aborted, "stopped"))
            }))
        });
        let scope = rig.agent.bus().scope("watch");
        let is_in_call = what == "in a call";
        let tell = move || begun.lock().unwrap().take().map_or((), |begun| begun.send(()).unwrap());
        let tell_call = tell.clone();
        scope.on_sync(move |_: &zk_core::events::StreamText, _: &Cx| {
            if !is_in_call {
                tell();
            }
        });
        scope.on_sync(move |_: &zk_core::events::ToolBefore, _: &Cx| tell_call());
        let mut run = rig.agent.run("go").unwrap();
        run.start();
        begins.await.unwrap();
        run.abort();
        run.wait().await;
        assert_eq!(tree(&rig.spans().await), spans, "{what}");
    }
}

#[tokio::test]
async fn a_later_run_says_what_it_goes_on_from_and_is_a_trace_of_its_own() {
    let rig = Rig::new(Script::new().turn(said).turn(said), same);
    rig.run().await;
    rig.run().await;
    let seen = rig.spans().await;
    let roots: Vec<&Seen> = seen.iter().filter(|span| span.name == "invoke_agent main").collect();
    let earlier: Vec<&str> =
        roots.iter().map(|root| &*root.attributes["zk.session.earlier_messages"]).collect();
    assert_eq!(earlier, ["0", "2"]);
    assert_ne!(roots[0].trace, roots[1].trace);
}

#[tokio::test]
async fn content_is_sent_when_it_is_asked_for_and_has_no_secrets() {
    const SECRET: &str = "zkey-0123456789abcdef0123456789";
    let asked = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": format!("{PRIVATE} {SECRET}")})))
        .turn(|t| t.text(format!("{PRIVATE} {SECRET}")));
    let rig = Rig::with(&asked, Manner::Takes, script, |builder| builder.system(format!("Be {PRIVATE}.")));
    let redactor = Redactor::new();
    redactor.learn(SECRET);
    rig.agent.bus().scope("redactor").provide_service(Arc::new(redactor));
    rig.run().await;
    let seen = rig.spans().await;
    let has = |span: &Seen, name: &str| span.attributes.get(name).is_some_and(|text| text.contains(PRIVATE));
    let chats: Vec<&Seen> = seen.iter().filter(|span| span.name.starts_with("chat")).collect();
    assert!(
        chats.iter().all(|chat| has(chat, "gen_ai.input.messages") && has(chat, "gen_ai.output.messages")),
        "{chats:?}"
    );
    assert!(has(chats[0], "gen_ai.system_instructions"), "{chats:?}");
    let messages: serde_json::Value =
        serde_json::from_str(&chats[1].attributes["gen_ai.input.messages"]).unwrap();
    assert_eq!(messages[1]["parts"][0]["type"], "tool_call");
    assert_eq!(messages[2]["parts"][0]["type"], "tool_call_response");
    let call = seen.iter().find(|span| span.name == "execute_tool echo").unwrap();
    assert!(has(call, "gen_ai.tool.call.arguments") && has(call, "gen_ai.tool.call.result"), "{call:?}");
    assert!(!rig.collector.dump().contains(SECRET));
}

#[tokio::test]
async fn a_secret_of_several_lines_or_at_the_cut_is_in_no_content() {
    const SECRET: &str = "zkey-\"one\nzkey-two-0123456789";
    let asked = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let cut = format!("{}{SECRET}", ".".repeat(128 * 1024 - 20));
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": format!("a {SECRET}")})))
        .turn(move |t| t.call("echo", json!({ "text": cut })))
        .turn(|t| t.text(format!("b {SECRET}")));
    let rig = Rig::with(&asked, Manner::Takes, script, |builder| builder.system(format!("Be {SECRET}.")));
    let redactor = Redactor::new();
    redactor.learn(SECRET);
    rig.agent.bus().scope("redactor").provide_service(Arc::new(redactor));
    rig.run().await;
    assert_eq!(rig.spans().await.iter().filter(|span| span.name == "execute_tool echo").count(), 2);
    let dump = rig.collector.dump();
    assert!(dump.contains("[redacted]") && !dump.contains("zkey-"));
}

#[tokio::test]
async fn words_that_others_chose_are_short() {
    let long = "w".repeat(1000);
    let (id, reason) = (long.clone(), StopReason::Other(long.clone()));
    let script = Script::new()
        .turn(move |t| t.call_as(id, "echo", json!({"text": "a"})))
        .turn(move |t| t.text("b").stop(reason));
    let rig = Rig::new(script, same);
    rig.run().await;
    assert!(rig.spans().await.iter().any(|span| span.name == "execute_tool echo"));
    let dump = rig.collector.dump();
    let of = |chars: usize| long.chars().take(chars).collect::<String>();
    assert!(dump.contains(&of(128)) && !dump.contains(&of(129)));
}

#[tokio::test]
async fn commands_and_requests_of_a_call_get_its_place_in_the_trace_and_a_run_that_of_its_starter() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = kept.clone();
    let look = TestTool::tool("look", move |_, cx: ToolCx| {
        let (variables, headers) = (
            cx.cx.service::<TurnEnv>().unwrap().0.clone(),
            cx.cx.service::<dyn TraceContext>().unwrap().headers(&cx.cx),
        );
        keeping.lock().unwrap().push((variables, headers));
        async { Ok(ToolOutput::text("seen")) }
    });
    let given = [("TRACEPARENT", parent), ("TRACESTATE", "a=1")];
    let rig = Rig::with(&given, Manner::Takes, calls("look"), |builder| builder.tool(look));
    rig.run().await;
    let seen = rig.spans().await;
    let call = seen.iter().find(|span| span.name == "execute_tool look").unwrap();
    let place = format!("00-{}-{}-01", call.trace, call.id);
    let (variables, headers) = kept.lock().unwrap()[0].clone();
    assert_eq!((&*variables["TRACEPARENT"], &*variables["TRACESTATE"]), (&*place, "a=1"));
    assert_eq!(headers, [("traceparent", place), ("tracestate", "a=1".to_owned())]);
    let root = seen.iter().find(|span| span.name == "invoke_agent main").unwrap();
    assert_eq!((&*root.trace, &*root.parent), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_is_not_sent_and_still_continues() {
    let kept = Arc::new(Mutex::new(None));
    let keeping = kept.clone();
    let look = TestTool::tool("look", move |_, cx: ToolCx| {
        *keeping.lock().unwrap() = cx.cx.service::<TurnEnv>().unwrap().0.get("TRACEPARENT").cloned();
        async { Ok(ToolOutput::text("seen")) }
    });
    let given = [("OTEL_TRACES_SAMPLER", "always_off")];
    let rig = Rig::with(&given, Manner::Takes, calls("look"), |builder| builder.tool(look));
    rig.run().await;
    assert_eq!(rig.spans().await.len(), 0);
    assert!(kept.lock().unwrap().as_ref().is_some_and(|parent| parent.ends_with("-00")), "{kept:?}");
}
