//! Which calls of a batch run together, and what one does to the others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_agent::Behavior;
use zk_core::events::{CallGroup, EndedCall, OutcomeCounts, ToolBatch, ToolBatchEnd};
use zk_core::kernel::Cx;
use zk_core::model::{Concurrency, ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::{Redactor, ToolCx};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, TestTool, rig, rig_with};

type Log = Arc<Mutex<Vec<String>>>;

/// Logs start and end; takes the number of seconds in argument `s`.
fn timed(name: &str, log: &Log) -> TestTool {
    let (name, log) = (name.to_owned(), log.clone());
    TestTool::new(&name.clone(), move |args: Value, _| {
        let (log, id) = (log.clone(), format!("{name}{}", args["n"].as_str().unwrap_or_default()));
        async move {
            log.lock().unwrap().push(format!("+{id}"));
            tokio::time::sleep(Duration::from_secs(args["s"].as_u64().unwrap_or(1))).await;
            log.lock().unwrap().push(format!("-{id}"));
            Ok(ToolOutput::text(id))
        }
    })
}

fn said(log: &Log) -> String {
    log.lock().unwrap().join(" ")
}

fn batch(calls: &[(&str, Value)]) -> Script {
    let calls: Vec<(String, Value)> =
        calls.iter().map(|(name, args)| ((*name).to_owned(), args.clone())).collect();
    let turn = move |turn: Turn| calls.into_iter().fold(turn, |turn, (name, args)| turn.call(name, args));
    Script::new().turn(turn).turn(|t| t.text("ok"))
}

async fn run(rig: &Rig) -> Vec<String> {
    rig.run("go").await.result.unwrap();
    rig.results(2)
}

#[tokio::test(start_paused = true)]
async fn results_come_in_submission_order_whichever_call_is_done_first() {
    let log = Log::default();
    let script = batch(&[("read", json!({"n": "1", "s": 3})), ("read", json!({"n": "2", "s": 1}))]);
    let rig = rig_with(script, |b| b.tool(timed("read", &log).shared().arc()));
    assert_eq!(run(&rig).await, ["read: read1", "read: read2"]);
    assert_eq!(said(&log), "+read1 +read2 -read2 -read1");
}

// The default is a barrier.
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_waits_for_those_before_it_and_holds_up_those_after_it() {
    let log = Log::default();
    let script = batch(&[
        ("read", json!({"n": "1", "s": 2})),
        ("read", json!({"n": "2"})),
        ("write", json!({"n": "3"})),
        ("read", json!({"n": "4"})),
    ]);
    let rig =
        rig_with(script, |b| b.tool(timed("read", &log).shared().arc()).tool(timed("write", &log).arc()));
    run(&rig).await;
    assert_eq!(said(&log), "+read1 +read2 -read2 -read1 +write3 -write3 +read4 -read4");
}

#[tokio::test(start_paused = true)]
async fn calls_on_different_resources_run_together_and_on_the_same_one_in_order() {
    let log = Log::default();
    let edit = timed("edit", &log)
        .kind(|args| Concurrency::Resources(vec![args["path"].as_str().unwrap_or_default().to_owned()]));
    let script = batch(&[
        ("edit", json!({"n": "1", "path": "a", "s": 2})),
        ("edit", json!({"n": "2", "path": "b"})),
        ("edit", json!({"n": "3", "path": "a"})),
    ]);
    let rig = rig_with(script, |b| b.tool(edit.arc()));
    run(&rig).await;
    assert_eq!(said(&log), "+edit1 +edit2 -edit2 -edit1 +edit3 -edit3");
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_allowed() {
    let reads = [
        ("read", json!({"n": "0", "s": 1})),
        ("read", json!({"n": "1", "s": 4})),
        ("read", json!({"n": "2", "s": 2})),
    ];
    for (most, expected) in [
        (Some(1), "+read0 -read0 +read1 -read1 +read2 -read2"),
        (Some(2), "+read0 +read1 -read0 +read2 -read2 -read1"),
        (None, "+read0 +read1 +read2 -read0 -read2 -read1"),
    ] {
        let log = Log::default();
        let behavior = Behavior { max_concurrent_tools: most, ..Behavior::default() };
        let rig = rig_with(batch(&reads), |b| b.tool(timed("read", &log).shared().arc()).behavior(behavior));
        run(&rig).await;
        assert_eq!(said(&log), expected, "at most {most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_calls_run_at_once_unless_said_otherwise() {
    let log = Log::default();
    let calls: Vec<(&str, Value)> = (0..11).map(|_| ("read", json!({}))).collect();
    let rig = rig_with(batch(&calls), |b| b.tool(timed("read", &log).shared().arc()));
    run(&rig).await;
    let begun = log.lock().unwrap().iter().take_while(|entry| entry.starts_with('+')).count();
    assert_eq!(begun, 10);
}

fn command() -> TestTool {
    TestTool::new("shell", async |_, _| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err(ToolError::failed("exit code 1"))
    })
    .shared()
    .cancels_siblings()
}

fn patient(name: &str) -> TestTool {
    TestTool::new(name, async |_, cx: ToolCx| {
        tokio::select! {
            () = cx.cx.stop_token().cancelled() => Err(ToolError::new(ToolErrorKind::Aborted, "stopped")),
            () = tokio::time::sleep(Duration::from_secs(60)) => Ok(ToolOutput::text("done")),
        }
    })
    .shared()
}

const BY_SIBLING: &str = "Cancelled: a command running beside this call failed. Its effects are unknown.";

#[tokio::test(start_paused = true)]
async fn a_failing_command_cancels_the_calls_beside_it_and_nothing_after_them() {
    let script = batch(&[
        ("wait", json!({})),
        ("shell", json!({})),
        ("echo", json!({"text": "quick"})),
        ("fail", json!({})),
    ]);
    let rig = rig_with(script, |b| b.tool(command().arc()).tool(patient("wait").arc()));
    assert_eq!(
        run(&rig).await,
        [
            format!("wait!: {BY_SIBLING}"),
            "shell!: exit code 1".into(),
            "echo: quick".into(),
            "fail!: it failed".into()
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn any_other_failure_leaves_the_calls_beside_it_alone() {
    let failing = TestTool::new("broken", async |_, _| Err(ToolError::failed("no"))).shared();
    let script = batch(&[("wait", json!({})), ("broken", json!({}))]);
    let rig = rig_with(script, |b| b.tool(failing.arc()).tool(patient("wait").arc()));
    assert_eq!(run(&rig).await, ["wait: done", "broken!: no"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_that_does_not_listen_is_dropped_after_a_while() {
    let script = batch(&[("stuck", json!({})), ("shell", json!({}))]);
    let rig = rig_with(script, |b| b.tool(command().arc()).tool(TestTool::stuck("stuck").shared().arc()));
    assert_eq!(run(&rig).await, [format!("stuck!: {BY_SIBLING}"), "shell!: exit code 1".into()]);
}

#[tokio::test]
async fn a_panicking_tool_is_a_failed_call_and_nothing_else() {
    let panics = TestTool::new("panics", async |_, _| panic!("a bug")).shared();
    let at_once = TestTool::new("at_once", |_, _| -> std::future::Ready<Result<ToolOutput, ToolError>> {
        panic!("a bug")
    });
    let script = batch(&[("panics", json!({})), ("echo", json!({"text": "fine"})), ("at_once", json!({}))]);
    let rig = rig_with(script, |b| b.tool(panics.arc()).tool(at_once.arc()));
    let results = run(&rig).await;
    assert!(results[0].starts_with("panics!: `panics` failed inside"), "{results:?}");
    assert_eq!(results[1], "echo: fine");
    assert!(results[2].starts_with("at_once!: `at_once` failed inside"), "{results:?}");
}

// A tool's concurrency is queried before its arguments are validated.
#[tokio::test]
async fn a_tool_that_panics_when_asked_about_its_arguments_runs_alone() {
    let picky = TestTool::new("picky", async |_, _| Ok(ToolOutput::text("ran")))
        .kind(|args| Concurrency::Resources(vec![args["path"].as_str().unwrap().to_owned()]));
    let rig =
        rig_with(batch(&[("picky", json!({})), ("echo", json!({"text": "x"}))]), |b| b.tool(picky.arc()));
    assert_eq!(run(&rig).await, ["picky: ran", "echo: x"]);
}

#[tokio::test]
async fn two_calls_with_one_id_get_a_result_each() {
    let script = Script::new()
        .turn(|t| {
            t.call_as("same", "echo", json!({"text": "1"})).call_as("same", "echo", json!({"text": "2"}))
        })
        .turn(|t| t.text("ok"));
    let rig = rig(script);
    rig.agent.run("go").unwrap().wait().await.result.unwrap();
    let texts: Vec<String> = rig.provider.last_results().iter().map(|one| one.text.clone()).collect();
    assert_eq!(texts, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn several_calls_are_announced_by_kind_before_the_first_of_them_and_a_single_one_is_not() {
    let log = Log::default();
    let script = Script::new()
        .turn(|t| {
            t.call("read", json!({"n": "1"}))
                .call("run", json!({}))
                .call("read", json!({}))
                .call("none", json!({}))
        })
        .turn(|t| t.call("read", json!({"n": "2"})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| {
        b.tool(timed("read", &log).reading().shared().arc()).tool(timed("run", &log).arc())
    });
    let announced = log.clone();
    rig.scope("front-end").on_sync(move |batch: &ToolBatch, _: &Cx| {
        let group = |group: &CallGroup| {
            let names: Vec<&str> = group.calls.iter().map(|call| call.name.as_str()).collect();
            format!("{}={}", group.kind.name(), names.join(","))
        };
        let groups: Vec<String> = batch.groups.iter().map(group).collect();
        announced.lock().unwrap().push(groups.join(" "));
    });
    rig.run("go").await.result.unwrap();
    let said = said(&log);
    assert!(said.starts_with("read=read,read other=run,none +read1"), "{said}");
    assert_eq!(said.matches('=').count(), 2, "{said}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_batch_tells_its_errors_and_counts_those_that_a_later_success_resolved() {
    let key = "correct-horse-battery";
    let script = Script::new()
        .turn(|t| {
            // The parallel success resolves nothing: it was not a reaction to the error.
            t.call("edit", json!({"path": "a", "fails": format!("\n{key} {}", "x".repeat(500))}))
                .call("edit", json!({"path": "b"}))
        })
        .turn(|t| t.call("none", json!({})))
        .turn(|t| t.call("look", json!({"path": "c"})))
        .turn(|t| t.call("look", json!({"path": "./a"})).call("run", json!({"fails": "no\nmore"})))
        .turn(|t| t.call("run", json!({})))
        .turn(|t| t.text("ok"));
    let tool = |name: &str| {
        TestTool::new(name, |args: Value, _| async move {
            match args["fails"].as_str() {
                Some(why) => Err(ToolError::failed(why)),
                None => Ok(ToolOutput::text("done")),
            }
        })
        .arc()
    };
    let rig = rig_with(script, |b| b.tool(tool("edit")).tool(tool("look")).tool(tool("run")));
    let scope = rig.scope("front-end");
    let redactor = Redactor::new();
    redactor.learn(key);
    scope.provide_service(Arc::new(redactor));
    let ends = Log::default();
    let sink = ends.clone();
    scope.on_sync(move |end: &ToolBatchEnd, _: &Cx| {
        let call = |ended: &EndedCall| {
            let error = ended.error.as_deref().unwrap_or("-");
            format!("{}={error}", ended.call.name)
        };
        let calls: Vec<String> = end.calls.iter().map(call).collect();
        let OutcomeCounts { calls: all, errors, resolved } = end.counts;
        sink.lock().unwrap().push(format!("{} {all}/{errors}/{resolved}", calls.join(" ")));
    });
    rig.run("go").await.result.unwrap();
    let ends = ends.lock().unwrap().clone();
    let first = format!("edit=[redacted] {}… edit=- 2/1/0", "x".repeat(200 - "[redacted] ".len()));
    assert_eq!(ends[0], first);
    assert!(ends[1].starts_with("none=Unknown tool `none`.") && ends[1].ends_with(" 3/2/0"), "{}", ends[1]);
    assert_eq!(ends[2..], ["look=- 4/2/0", "look=- run=no 6/3/1", "run=- 7/3/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_stopped_has_its_end_too() {
    let log = Log::default();
    let script = batch(&[("slow", json!({"s": 100})), ("slow", json!({"s": 100}))]);
    let rig = rig_with(script, |b| b.tool(timed("slow", &log).arc()));
    let ends = Log::default();
    let sink = ends.clone();
    rig.scope("front-end").on_sync(move |end: &ToolBatchEnd, _: &Cx| {
        let errors: Vec<String> =
            end.calls.iter().map(|call| call.error.clone().unwrap_or_default()).collect();
        sink.lock().unwrap().push(format!("{} {:?}", errors.join("|"), end.counts));
    });
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("tool:before").await;
    run.abort();
    assert!(run.wait().await.result.is_err());
    let ends = ends.lock().unwrap().clone();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].starts_with("Aborted: ") && ends[0].contains("calls: 2, errors: 2"), "{ends:?}");
}

#[tokio::test]
async fn calls_behind_the_ten_thousandth_of_an_answer_are_not_run_and_say_so() {
    let turn = |turn: Turn| (0..10_002).fold(turn, |turn, _| turn.call("count", json!({})));
    let ran = Arc::new(Mutex::new(0));
    let counter = ran.clone();
    let count = TestTool::new("count", move |_, _| {
        *counter.lock().unwrap() += 1;
        async { Ok(ToolOutput::text("counted")) }
    });
    let rig = rig_with(Script::new().turn(turn).turn(|t| t.text("ok")), |b| b.tool(count.shared().arc()));
    let results = run(&rig).await;
    assert_eq!((results.len(), *ran.lock().unwrap()), (10_002, 10_000));
    assert_eq!(results[9_999], "count: counted");
    for result in &results[10_000..] {
        assert!(result.starts_with("count!: Skipped: your answer has 10002 calls"), "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn identical_reads_of_one_batch_run_once_unless_something_may_have_changed() {
    let one = || ("read", json!({"n": "1"}));
    let other = ("read", json!({"n": "2"}));
    for (calls, ran) in [
        (vec![one(), one(), one()], "+read1 -read1"),
        (vec![one(), other, one()], "+read1 +read2 -read1 -read2"),
        (vec![one(), ("write", json!({"n": "1"})), one()], "+read1 -read1 +write1 -write1 +read1 -read1"),
        (vec![("write", json!({"n": "1"})), ("write", json!({"n": "1"}))], "+write1 -write1 +write1 -write1"),
    ] {
        let log = Log::default();
        let rig = rig_with(batch(&calls), |b| {
            b.tool(timed("read", &log).shared().reading().arc()).tool(timed("write", &log).arc())
        });
        let expected: Vec<String> = calls
            .iter()
            .map(|(name, args)| format!("{name}: {name}{}", args["n"].as_str().unwrap_or_default()))
            .collect();
        assert_eq!(run(&rig).await, expected, "each call has a result");
        assert_eq!(said(&log), ran);
        assert_eq!(rig.recorder.named("tool:after").len(), calls.len(), "each call is announced");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_read_that_failed_gives_its_error_to_both() {
    let gone = TestTool::new("read", async |_, _| Err(ToolError::failed("gone"))).shared().reading();
    let rig = rig_with(batch(&[("read", json!({})), ("read", json!({}))]), |b| b.tool(gone.arc()));
    assert_eq!(run(&rig).await, ["read!: gone", "read!: gone"]);
}
