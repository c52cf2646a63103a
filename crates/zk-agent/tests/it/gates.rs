//! Refusals of calls: who may refuse, in which order, and what is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_agent::{Behavior, OnExceed, RunOptions, ToolBudget, Verdict};
use zk_core::events::{BudgetMode, Ruling, ToolBefore, ToolGate, ToolPrepare};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, plugin_fn};
use zk_core::model::{Concurrency, ToolOutput};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, TestTool, rig, rig_with};

fn echoes(count: usize) -> impl FnOnce(Turn) -> Turn {
    move |turn| (0..count).fold(turn, |turn, n| turn.call("echo", json!({"text": format!("{n}")})))
}

fn budget(max: u32, on_exceed: OnExceed) -> Behavior {
    let budget = ToolBudget { max, on_exceed };
    Behavior { tool_budgets: BTreeMap::from([("echo".to_owned(), budget)]), ..Behavior::default() }
}

fn dedup(tool: &str) -> Behavior {
    let key: zk_agent::DedupKey = Arc::new(|args: &Value| args["key"].as_str().map(str::to_owned));
    Behavior { dedup_tools: BTreeMap::from([(tool.to_owned(), key)]), ..Behavior::default() }
}

fn counts(rig: &Rig) -> Value {
    rig.recorder.named("agent:done").pop().unwrap()["stats"]["tool_calls"].clone()
}

#[tokio::test]
async fn a_refusal_wins_over_a_substitute_that_came_before_it() {
    let rig = rig(Script::new().turn(echoes(1)).turn(|t| t.text("ok")));
    let scope = rig.scope("both");
    scope.on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::Substitute(ToolOutput::text("cached"))));
    scope.on_sync(|gate: &ToolGate, _: &Cx| gate.is_decided().then(|| Ruling::refuse("no")));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo!: Blocked: no"]);
    assert_eq!(counts(&rig), json!({}));
}

// Each handler sees the call as changed by earlier ones.
#[tokio::test]
async fn later_gates_and_the_tool_get_rewritten_arguments() {
    let rig = rig(Script::new().turn(echoes(1)).turn(|t| t.text("ok")));
    let scope = rig.scope("rewriter");
    scope.on_sync(|_: &ToolPrepare, _: &Cx| Some(json!({"text": "safe"})));
    scope.on_sync(|gate: &ToolGate, _: &Cx| {
        (gate.input_str("text") != Some("safe")).then(|| Ruling::refuse("not rewritten"))
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: safe"]);
}

#[tokio::test]
async fn hooks_see_the_counts_from_before_the_batch() {
    let rig = rig(Script::new().turn(echoes(2)).turn(echoes(1)).turn(|t| t.text("ok")));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (at_gate, before) = (seen.clone(), seen.clone());
    let scope = rig.scope("watcher");
    scope.on_sync(move |gate: &ToolGate, _: &Cx| {
        at_gate.lock().unwrap().push(gate.run_tool_counts.get("echo").copied().unwrap_or(0));
    });
    scope.on_sync(move |call: &ToolBefore, _: &Cx| {
        before.lock().unwrap().push(call.run_tool_counts.get("echo").copied().unwrap_or(0));
    });
    rig.run("go").await.result.unwrap();
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 0, 0, 2, 2]);
    assert_eq!(counts(&rig), json!({"echo": 3}));
}

// Per run.
#[tokio::test]
async fn counts_begin_at_zero_in_every_run() {
    let script = Script::new().turn(echoes(1)).turn(|t| t.text("ok")).turn(echoes(1)).turn(|t| t.text("ok"));
    let rig = rig_with(script, |builder| builder.behavior(budget(1, OnExceed::Block)));
    rig.run("go").await.result.unwrap();
    rig.run("again").await.result.unwrap();
    assert_eq!(rig.results(4), ["echo: 0"]);
    assert_eq!(counts(&rig), json!({"echo": 1}));
}

// The gate counts the calls that it passes, so a budget holds inside one batch.
#[tokio::test]
async fn a_blocking_budget_holds_inside_one_parallel_batch() {
    let script = Script::new().turn(echoes(4)).turn(|t| t.text("ok"));
    let rig = rig_with(script, |builder| builder.behavior(budget(2, OnExceed::Block)));
    rig.run("go").await.result.unwrap();
    let refused = "echo!: Blocked: `echo` was called 2 times in this run, its limit is 2; go on without it";
    assert_eq!(rig.results(2), ["echo: 0", "echo: 1", refused, refused]);
    let exceeded = rig.recorder.named("tool-budget:exceeded");
    let modes: Vec<_> = exceeded.iter().map(|e| (&e["count"], &e["max"], &e["mode"])).collect();
    assert_eq!(modes, [(&json!(2), &json!(2), &json!("block")), (&json!(2), &json!(2), &json!("block"))]);
    assert_eq!(counts(&rig), json!({"echo": 2}), "blocked calls do not count");
}

// The results first, then the message; once for each tool and run.
#[tokio::test]
async fn a_steering_budget_lets_the_calls_run_and_asks_once_to_come_to_an_end() {
    let script = Script::new().turn(echoes(3)).turn(echoes(1)).turn(|t| t.text("ok"));
    let rig = rig_with(script, |builder| builder.behavior(budget(1, OnExceed::Steer)));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: 0", "echo: 1", "echo: 2"]);
    assert_eq!(rig.results(3), ["echo: 0"]);
    let history = rig.agent.history();
    let nudges: Vec<usize> =
        (0..history.len()).filter(|at| history[*at].injected_by.as_deref() == Some("tool-budget")).collect();
    assert_eq!(nudges, [3], "after the results of the batch that went over, and never again");
    assert_eq!(rig.recorder.named("tool-budget:exceeded").len(), 3);
}

#[tokio::test]
async fn a_budget_function_decides_call_by_call() {
    let rule = OnExceed::With(Arc::new(|tool, count| Verdict {
        mode: if count > 1 { BudgetMode::Block } else { BudgetMode::Steer },
        message: format!("{tool} {count}"),
    }));
    let script = Script::new().turn(echoes(3)).turn(|t| t.text("ok"));
    let rig = rig_with(script, |builder| builder.behavior(budget(1, rule)));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: 0", "echo: 1", "echo!: Blocked: echo 2"]);
    assert_eq!(rig.agent.history()[3].text(), "echo 1");
}

fn counting(calls: &Arc<AtomicU32>) -> TestTool {
    let calls = calls.clone();
    TestTool::new("fetch", move |args: Value, _| {
        let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(ToolOutput::text(format!("{} #{number}", args["key"].as_str().unwrap_or("-")))) }
    })
}

fn fetch(key: &'static str) -> impl FnOnce(Turn) -> Turn {
    move |turn| turn.call("fetch", json!({"key": key}))
}

// Replayed word for word, counted, and through transform and after.
#[tokio::test]
async fn a_repeated_call_gets_the_earlier_result_and_counts() {
    let calls = Arc::new(AtomicU32::new(0));
    let script = Script::new().turn(fetch("a")).turn(fetch("a")).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(counting(&calls).arc()).behavior(dedup("fetch")));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), rig.results(3));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(counts(&rig), json!({"fetch": 2}));
    assert_eq!(rig.names(&["tool:transform", "tool:after"]).len(), 4);
    assert_eq!(rig.recorder.named("tool:before").len(), 1);
}

// Only the most recent key; an empty or absent one is none; the memory is the agent's.
#[tokio::test]
async fn only_the_last_call_of_a_tool_is_replayed() {
    let calls = Arc::new(AtomicU32::new(0));
    let script = Script::new()
        .turn(fetch("a"))
        .turn(fetch("b"))
        .turn(fetch("a"))
        .turn(|t| t.call("fetch", json!({"key": ""})))
        .turn(|t| t.call("fetch", json!({"key": ""})))
        .turn(|t| t.text("ok"))
        .turn(fetch("a"))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(counting(&calls).arc()).behavior(dedup("fetch")));
    rig.run("go").await.result.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 5);
    rig.run("in the next run too").await.result.unwrap();
    assert_eq!(rig.results(8), ["fetch: a #3"]);
    rig.agent.reset().unwrap();
}

#[tokio::test]
async fn a_failed_call_is_not_replayed() {
    let script = Script::new()
        .turn(|t| t.call("fail", json!({"key": "a"})))
        .turn(|t| t.call("fail", json!({"key": "a"})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.behavior(dedup("fail")));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.recorder.named("tool:before").len(), 2);
}

// The key is made of the arguments as the model gave them, both times.
#[tokio::test]
async fn a_call_that_was_coerced_is_replayed_too() {
    let calls = Arc::new(AtomicU32::new(0));
    let schema =
        json!({"type": "object", "properties": {"key": {"type": "string"}, "n": {"type": "integer"}}});
    let key: zk_agent::DedupKey = Arc::new(|args: &Value| Some(args.to_string()));
    let behavior = Behavior { dedup_tools: BTreeMap::from([("fetch".into(), key)]), ..Behavior::default() };
    let again = |t: Turn| t.call("fetch", json!({"key": "a", "n": "1"}));
    let script = Script::new().turn(again).turn(again).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(counting(&calls).schema(schema).arc()).behavior(behavior));
    rig.run("go").await.result.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn policy_beats_a_consumers_cache_and_budgets_beat_a_replay() {
    let calls = Arc::new(AtomicU32::new(0));
    let behavior = Behavior {
        tool_budgets: BTreeMap::from([("fetch".into(), ToolBudget { max: 1, on_exceed: OnExceed::Block })]),
        allowed_tools: Some(vec!["fetch".into()]),
        ..dedup("fetch")
    };
    let script = Script::new()
        .turn(fetch("a"))
        .turn(|t| t.call("fetch", json!({"key": "a"})).call("echo", json!({"text": "x"})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(counting(&calls).arc()).behavior(behavior));
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.results(3),
        [
            "fetch!: Blocked: `fetch` was called 1 times in this run, its limit is 1; go on without it",
            "echo!: Blocked: `echo` is not allowed here; allowed are: fetch",
        ]
    );
    let by: Vec<_> = rig.recorder.named("tool:blocked").iter().map(|e| e["by"].clone()).collect();
    assert_eq!(by, ["zk-agent", "zk-agent"]);
}

// Consumers first; a framework gate is inert once decided.
#[tokio::test]
async fn the_frameworks_gates_do_nothing_to_a_decided_call() {
    let behavior = Behavior { allowed_tools: Some(Vec::new()), ..budget(0, OnExceed::Block) };
    let script = Script::new().turn(echoes(1)).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.behavior(behavior));
    rig.scope("cache")
        .on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::Substitute(ToolOutput::text("from the cache"))));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: from the cache"]);
    assert_eq!(rig.recorder.named("tool-budget:exceeded").len(), 0);
}

// Agent-lifetime handlers, then those of the run.
#[tokio::test]
async fn gates_of_the_agent_are_asked_before_those_of_the_run() {
    let rig = rig(Script::new().turn(echoes(1)).turn(|t| t.text("ok")));
    rig.scope("agents").on_sync(|_: &ToolPrepare, _: &Cx| Some(json!({"text": "agent"})));
    let runs = plugin_fn("runs", |scope| {
        scope.on_sync(|call: &ToolPrepare, _: &Cx| {
            let text = format!("{}, run", call.args["text"].as_str().unwrap_or("nobody"));
            Some(json!({"text": text}))
        });
        Ok::<(), BoxError>(())
    });
    rig.run(RunOptions::from("go").plugin(Arc::new(runs))).await.result.unwrap();
    assert_eq!(rig.results(2), ["echo: agent, run"]);
}

/// Cause of a gate's failure, and the gate.
type Named = (&'static str, fn(&Rig));

struct Never;

impl Handler<ToolGate> for Never {
    async fn call(&self, _: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_fails_panics_or_does_not_answer_refuses() {
    let cases: [Named; 3] = [
        ("policy file unreadable", |rig| {
            rig.scope("guard").on_sync(|_: &ToolGate, _: &Cx| Err::<(), _>("policy file unreadable"));
        }),
        ("panicked: boom", |rig| {
            rig.scope("guard").on_sync(|_: &ToolGate, _: &Cx| -> Option<Ruling> { panic!("boom") });
        }),
        ("no answer within 30s", |rig| {
            rig.scope("guard").handle::<ToolGate, _>(Arc::new(Never));
        }),
    ];
    for (why, install) in cases {
        let rig = rig(Script::new().turn(echoes(1)).turn(|t| t.text("ok")));
        install(&rig);
        rig.run("go").await.result.unwrap();
        let results = rig.results(2);
        assert!(results[0].starts_with("echo!: Blocked: a guard failed"), "{results:?}");
        assert!(results[0].ends_with(why), "{results:?}");
        assert_eq!(counts(&rig), json!({}));
        assert_eq!(rig.recorder.named("tool:before").len(), 0);
    }
}

// One gate at a time, in the order of the calls, while earlier calls already run.
#[tokio::test(start_paused = true)]
async fn gates_are_asked_one_after_the_other_in_the_order_of_the_calls() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let rig = rig(Script::new().turn(echoes(3)).turn(|t| t.text("ok")));
    let kept = log.clone();
    rig.scope("slow").on_async_with(kept, async |log: &Arc<Mutex<Vec<String>>>, gate: &ToolGate, _: &Cx| {
        let text = gate.input_str("text").unwrap_or_default().to_owned();
        log.lock().unwrap().push(format!("{text} in"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        log.lock().unwrap().push(format!("{text} out"));
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(*log.lock().unwrap(), ["0 in", "0 out", "1 in", "1 out", "2 in", "2 out"]);
}

// The gates of a run are its own, also on a bus it shares.
#[tokio::test]
async fn the_limits_of_one_run_do_not_bind_another_agent_on_the_same_bus() {
    let slow = TestTool::new("slow", async |_, cx: zk_core::service::ToolCx| {
        cx.cx.stop_token().cancelled().await;
        Ok(ToolOutput::text("stopped"))
    })
    .kind(|_| Concurrency::Shared);
    let limits = Behavior { allowed_tools: Some(vec!["slow".into()]), ..Behavior::default() };
    let limited =
        rig_with(Script::new().turn(|t| t.call("slow", json!({}))), |b| b.tool(slow.arc()).behavior(limits));
    let mut held = limited.agent.run("go").unwrap();
    held.start();
    limited.recorder.wait_for("tool:before").await;
    let provider = zk_testkit::ScriptedProvider::new(Script::new().turn(echoes(1)).turn(|t| t.text("ok")));
    let other = zk_agent::Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .bus(limited.agent.bus().clone())
        .build()
        .unwrap();
    other.run("go").unwrap().wait().await.result.unwrap();
    assert!(!provider.last_results()[0].is_error, "{:?}", provider.last_results());
    held.abort();
    assert!(held.wait().await.result.is_err());
}
