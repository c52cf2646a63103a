//! Whatever a model says and a person does, the history stays sound and is stored as it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use zk_agent::{Behavior, QueueMode, RunHandle};
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Concurrency, ErrorKind, StopReason, ToolError, ToolOutput};
use zk_core::service::ToolCx;
use zk_testkit::{Script, Turn};

use crate::support::{Rig, TestTool, rig_with};

#[derive(Clone, Debug)]
enum Call {
    Echo,
    Fail,
    Slow(u64),
    File(u8),
    Command,
    Panic,
    Stuck,
    Unknown,
    Refused,
    Malformed,
    Invalid,
    Output(bool),
}

#[derive(Clone, Debug)]
enum End {
    Whole,
    Cut,
    Refusal,
    Fails(ErrorKind),
    Hangs,
}

#[derive(Clone, Debug)]
struct Said {
    text: bool,
    calls: Vec<Call>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Steer,
    FollowUp,
    Abort,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => Just(Call::Echo),
        1 => Just(Call::Fail),
        1 => (0..200_u64).prop_map(Call::Slow),
        1 => (0..3_u8).prop_map(Call::File),
        1 => Just(Call::Command),
        1 => Just(Call::Panic),
        1 => Just(Call::Stuck),
        1 => Just(Call::Unknown),
        1 => Just(Call::Refused),
        1 => Just(Call::Malformed),
        1 => Just(Call::Invalid),
        1 => any::<bool>().prop_map(Call::Output),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let end = prop_oneof![
        12 => Just(End::Whole),
        1 => Just(End::Cut),
        1 => Just(End::Refusal),
        1 => Just(End::Fails(ErrorKind::Overloaded)),
        1 => Just(End::Fails(ErrorKind::ContextExceeded)),
        1 => Just(End::Hangs),
    ];
    (any::<bool>(), prop::collection::vec(call(), 0..5), end).prop_map(|(text, calls, end)| Said {
        text,
        calls,
        end,
    })
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    (0..120_usize, prop_oneof![2 => Just(Act::Steer), 1 => Just(Act::FollowUp), 1 => Just(Act::Abort)])
}

fn speak(said: Said) -> Turn {
    let turn = if said.text { Turn::new().thinking("Hm.").text("Let me see.") } else { Turn::new() };
    let turn = said.calls.into_iter().fold(turn, |turn, call| match call {
        Call::Echo => turn.call("echo", json!({"text": "hi"})),
        Call::Fail => turn.call("fail", json!({})),
        Call::Slow(ms) => turn.call("slow", json!({"ms": ms})),
        Call::File(number) => turn.call("file", json!({"path": number.to_string()})),
        Call::Command => turn.call("command", json!({})),
        Call::Panic => turn.call("panic", json!({})),
        Call::Stuck => turn.call("stuck", json!({})),
        Call::Unknown => turn.call("nothing", json!({})),
        Call::Refused => turn.call("echo", json!({"text": "forbidden"})),
        Call::Malformed => turn.raw_call("echo", r#"{"text": "#),
        Call::Invalid => turn.call("echo", json!({"text": null})),
        Call::Output(fits) => turn.call("__output__", if fits { json!({"n": 1}) } else { json!({}) }),
    });
    match said.end {
        End::Whole => turn,
        End::Cut => turn.stop(StopReason::MaxTokens),
        End::Refusal => turn.stop(StopReason::Refusal(None)),
        End::Fails(kind) => turn.error(kind, "why"),
        End::Hangs => turn.hang(),
    }
}

fn agent(turns: Vec<Said>, behavior: Behavior) -> Rig {
    let script = turns.into_iter().fold(Script::new(), |script, said| script.turn(move |_| speak(said)));
    let slow = TestTool::new("slow", async |args: Value, _| {
        tokio::time::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0))).await;
        Ok(ToolOutput::text("slept"))
    });
    let file = TestTool::new("file", async |_, cx: ToolCx| {
        tokio::select! {
            () = cx.cx.stop_token().cancelled() => Err(ToolError::failed("stopped half-way")),
            () = tokio::time::sleep(Duration::from_millis(50)) => Ok(ToolOutput::text("written")),
        }
    })
    .kind(|args| Concurrency::Resources(vec![args["path"].as_str().unwrap().to_owned()]));
    let command = TestTool::new("command", async |_, _| Err(ToolError::failed("exit code 1")));
    let rig = rig_with(script.forever(|_| Turn::new().text("Enough.")), |b| {
        b.behavior(behavior)
            .tool(slow.shared().arc())
            .tool(file.arc())
            .tool(command.shared().cancels_siblings().arc())
            .tool(TestTool::new("panic", async |_, _| panic!("a bug")).shared().arc())
            .tool(TestTool::stuck("stuck").shared().arc())
    });
    rig.scope("guard").on_sync(|gate: &ToolGate, _: &Cx| {
        (gate.input_str("text") == Some("forbidden")).then(|| Ruling::refuse("no"))
    });
    rig
}

/// Acts on the run after each given number of events.
async fn run(rig: &Rig, prompt: &str, acts: Vec<(usize, Act)>) -> Result<(), AgentError> {
    let run = rig.agent.run(prompt).unwrap();
    let (handle, seen) = (Mutex::new(run.handle()), AtomicUsize::new(0));
    let scope = rig.scope("person");
    scope.observe(move |_, _| {
        let now = seen.fetch_add(1, Ordering::SeqCst);
        for (_, act) in acts.iter().filter(|(at, _)| *at == now) {
            let handle: RunHandle = handle.lock().unwrap().clone();
            match act {
                Act::Steer => drop(handle.steer("wait")),
                Act::FollowUp => drop(handle.follow_up("and then")),
                Act::Abort => handle.abort(),
            }
        }
    });
    let handle = run.handle();
    let waiting = run.wait();
    tokio::pin!(waiting);
    // A person stops a model or tool that hangs.
    let outcome = match tokio::time::timeout(Duration::from_secs(600), &mut waiting).await {
        Ok(outcome) => outcome,
        Err(_) => {
            handle.abort();
            waiting.await
        }
    };
    scope.close().await;
    rig.assert_sound();
    assert!(!rig.agent.is_running());
    outcome.result
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_history_is_always_sound_and_stored(
        turns in prop::collection::vec(said(), 1..6),
        first in prop::collection::vec(act(), 0..5),
        second in prop::collection::vec(act(), 0..3),
        concurrent in 1..4_usize,
        all in any::<bool>(),
        output in any::<bool>(),
    ) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let behavior = Behavior {
            max_turns: Some(12),
            max_concurrent_tools: Some(concurrent),
            queue_mode: all.then_some(QueueMode::All),
            schema: output.then_some(schema),
            ..Behavior::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let rig = agent(turns, behavior);
            drop(run(&rig, "go", first).await);
            drop(run(&rig, "again", second).await);
            let (begun, over) = (rig.recorder.named("turn:before").len(), rig.recorder.named("turn:after").len());
            assert_eq!(begun, over, "every turn that begins is announced to be over");
            assert_eq!(rig.names(&["session:end"]).len(), 2);
            let calls: usize = rig.agent.history().iter().map(|message| message.calls().count()).sum();
            let answered: usize = rig
                .recorder
                .named("tool-results:after")
                .iter()
                .map(|pair| pair["results"]["content"].as_array().unwrap().len())
                .sum();
            assert_eq!(calls, answered);
        });
    }
}
