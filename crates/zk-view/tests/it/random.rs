//! Whatever a model says and a person does, the stored session shows what was seen, and patches replay to the view.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use zk_agent::{Behavior, RunHandle};
use zk_core::events::{Ruling, StreamTransform, ToolAfter, ToolGate, ViewBlock};
use zk_core::kernel::Cx;
use zk_core::model::{Display, ErrorKind, StopReason, ToolOutput};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, rig_with};

#[derive(Clone, Copy, Debug)]
enum Said {
    Text,
    Thinking,
    Echo,
    Run,
    Fail,
    Stuck,
    Unknown,
    Refused,
    Replaced,
    Malformed,
    Invalid,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    Cut,
    Refusal,
    Pause,
    Fails(ErrorKind),
    Hangs,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Steer,
    FollowUp,
    Abort,
}

fn said() -> impl Strategy<Value = (Vec<Said>, End)> {
    let one = prop_oneof![
        4 => Just(Said::Text),
        1 => Just(Said::Thinking),
        3 => Just(Said::Echo),
        2 => Just(Said::Run),
        1 => Just(Said::Fail),
        1 => Just(Said::Stuck),
        1 => Just(Said::Unknown),
        1 => Just(Said::Refused),
        1 => Just(Said::Replaced),
        1 => Just(Said::Malformed),
        1 => Just(Said::Invalid),
    ];
    let end = prop_oneof![
        12 => Just(End::Whole),
        1 => Just(End::Cut),
        1 => Just(End::Refusal),
        1 => Just(End::Pause),
        1 => Just(End::Fails(ErrorKind::Overloaded)),
        1 => Just(End::Fails(ErrorKind::ContextExceeded)),
        1 => Just(End::Hangs),
    ];
    (prop::collection::vec(one, 0..6), end)
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    (0..60_usize, prop_oneof![Just(Act::Steer), Just(Act::FollowUp), Just(Act::Abort)])
}

fn speak((said, end): (Vec<Said>, End)) -> Turn {
    let turn = said.into_iter().fold(Turn::new(), |turn, said| match said {
        Said::Text => turn.text("My key is K,\u{1b}[2J I think."),
        Said::Thinking => turn.thinking("Hm.").delay(Duration::from_millis(2300)).thinking(" So."),
        Said::Echo => turn.call("echo", json!({"text": "one\ntwo"})),
        Said::Run => turn.call("run", json!({"text": "x\n".repeat(100)})),
        Said::Fail => turn.call("fail", json!({})),
        Said::Stuck => turn.call("stuck", json!({})),
        Said::Unknown => turn.call("nothing", json!({})),
        Said::Refused => turn.call("echo", json!({"text": "forbidden"})),
        Said::Replaced => turn.call("echo", json!({"text": "replaced"})),
        Said::Malformed => turn.raw_call("echo", r#"{"text": "#),
        Said::Invalid => turn.call("echo", json!({"text": [null]})),
    });
    match end {
        End::Whole => turn,
        End::Cut => turn.stop(StopReason::MaxTokens),
        End::Refusal => turn.stop(StopReason::Refusal(None)),
        End::Pause => turn.stop(StopReason::PauseTurn),
        End::Fails(kind) => turn.error(kind, "why"),
        End::Hangs => turn.hang(),
    }
}

async fn rig(turns: Vec<(Vec<Said>, End)>, masks: bool, shows: bool) -> Rig {
    let script = turns.into_iter().fold(Script::new(), |script, said| script.turn(move |_| speak(said)));
    let behavior = Behavior { max_turns: Some(12), ..Behavior::default() };
    let rig = rig_with(script.forever(|_| Turn::new().text("Enough.")), |b| b.behavior(behavior)).await;
    let scope = rig.agent.bus().scope("guard");
    scope.on_sync(|gate: &ToolGate, _: &Cx| match gate.input_str("text") {
        Some("forbidden") => Some(Ruling::refuse("no")),
        Some("replaced") => Some(Ruling::Substitute(ToolOutput::text("instead"))),
        Some(_) | None => None,
    });
    if masks {
        scope.on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.replace('K', "***")));
    }
    if shows {
        scope.on_async(async |ev: &ToolAfter, cx: &Cx| {
            cx.emit(ViewBlock {
                source: "todo".into(),
                key: ev.call.name.clone(),
                kind: "todo".into(),
                title: "Tasks".into(),
                body: Display::Line { text: ev.call.call_id.to_string() },
                last: ev.is_error,
            })
            .await
        });
    }
    rig
}

/// Acts on the run after each given number of events.
async fn run(rig: &mut Rig, prompt: &str, acts: Vec<(usize, Act)>) {
    let run = rig.agent.run(prompt).unwrap();
    let (handle, seen) = (Mutex::new(run.handle()), AtomicUsize::new(0));
    let scope = rig.agent.bus().scope("person");
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
    if tokio::time::timeout(Duration::from_secs(60), &mut waiting).await.is_err() {
        handle.abort();
        waiting.await;
    }
    scope.close().await;
    rig.check().await;
}

/// Runs the same 96 cases each time, or the number in the variable.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign is set from outside")]
fn campaign() -> ProptestConfig {
    let asked = std::env::var("ZK_VIEW_RUNS").ok().and_then(|cases| cases.parse().ok());
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(96) };
    ProptestConfig {
        cases: asked.unwrap_or(96),
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(campaign())]

    #[test]
    fn the_stored_session_shows_what_was_seen(
        turns in prop::collection::vec(said(), 1..5),
        first in prop::collection::vec(act(), 0..4),
        second in prop::collection::vec(act(), 0..3),
        masks in any::<bool>(),
        shows in any::<bool>(),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut rig = rig(turns, masks, shows).await;
            run(&mut rig, "go", first).await;
            run(&mut rig, "again", second).await;
        });
    }
}
