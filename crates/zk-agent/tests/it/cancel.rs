//! A run stopped at every point where it can wait.

use serde_json::{Value, json};
use tokio::task::yield_now;
use zk_agent::{Behavior, RunHandle, SpawnOptions};
use zk_core::events::*;
use zk_core::kernel::{BoxError, Cx, HookOptions, Reach, plugin_fn};
use zk_core::model::{AgentError, ToolOutput};
use zk_testkit::{Asked, Script, Turn};

use crate::support::{Rig, TestTool, rig_with, told};

/// Script: two calls, then a sub-agent in parallel with a third, then an answer. The sub-agent makes a call,
/// too.
fn says(asked: &Asked) -> Turn {
    let is_child = asked.messages[0].text() == "child";
    let text = |n: &str| json!({"text": n});
    match (is_child, asked.messages.len()) {
        (true, 1) => Turn::new().call("slow", text("c")),
        (true, _) => Turn::new().text("Child done."),
        (false, 1) => {
            Turn::new().thinking("Hm.").text("Look.").call("slow", text("1")).call("slow", text("2"))
        }
        (false, 3) => Turn::new().call("spawn", json!({"task": "child"})).call("alone", text("3")),
        (false, _) => Turn::new().text("All done."),
    }
}

/// Waits once. A handler is asked twice before it is waited for.
async fn pause() {
    yield_now().await;
    yield_now().await;
}

/// Every handler waits once, so that there is a point to stop at before and after each.
fn waiting() -> Rig {
    let slow = |name: &str| {
        TestTool::new(name, async |args: Value, _| {
            pause().await;
            Ok(ToolOutput::text(args["text"].as_str().unwrap_or_default()))
        })
    };
    let waits = plugin_fn("waits", |scope| {
        let at = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        macro_rules! wait_in {
            ($($event:ty),+) => {
                $(scope.on_async_at(at, async |_: &$event, _: &Cx| pause().await);)+
            };
        }
        wait_in!(
            Input,
            SessionStart,
            AgentBeforeStart,
            SessionMessages,
            AgentStart,
            ContextTransform,
            SystemTransform,
            ProviderRequest,
            TurnBefore,
            StreamStart,
            StreamText,
            StreamThinking,
            StreamToolArgs,
            StreamEnd,
            MessageEnd,
            TurnAfter,
            ToolGate,
            ToolBefore,
            ToolTransform,
            ToolAfter,
            ToolSkipped,
            ToolResultsAfter,
            UsageUpdate,
            SteerInject,
            SpawnBefore,
            SpawnComplete,
            SpawnError,
            AgentAbort,
            AgentDone,
            SessionEnd
        );
        Ok::<(), BoxError>(())
    });
    rig_with(Script::answering(says), |b| {
        b.plugin(waits)
            .tool(slow("slow").shared().arc())
            .tool(slow("alone").arc())
            .spawn(SpawnOptions::default())
            .behavior(Behavior { max_turns: Some(20), ..Behavior::default() })
    })
}

/// Checks that no task of a run is left: its own, those of its sub-agents, their clean-ups.
async fn assert_no_tasks(context: &str) {
    let metrics = tokio::runtime::Handle::current().metrics();
    let gone = async {
        // One is the task that asks.
        while metrics.num_alive_tasks() > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.is_ok(), "{context}");
}

/// Runs for `steps` steps, then `act`; returns whether the run had ended before.
async fn interrupted_after(steps: u32, act: fn(&RunHandle)) -> bool {
    let rig = waiting();
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    for _ in 0..steps {
        yield_now().await;
    }
    let ended = !rig.agent.is_running();
    act(&run.handle());
    let outcome = run.wait().await;
    let context = format!("after {steps} steps:\n{}", told(&rig.agent.history()));
    match &outcome.result {
        Ok(()) => assert_eq!(outcome.text, "All done.", "{context}"),
        Err(error) => assert!(matches!(error, AgentError::Aborted), "{error} {context}"),
    }
    rig.assert_sound();
    assert_eq!(own(&rig, "agent:done"), 1, "{context}");
    assert_eq!(own(&rig, "session:end"), 1, "{context}");
    assert_eq!(own(&rig, "turn:before"), own(&rig, "turn:after"), "{context}");
    assert_no_tasks(&context).await;
    ended
}

/// Runs for `steps` steps and drops the handle. Gives whether the run had ended by itself.
async fn dropped_after(steps: u32) -> bool {
    let rig = waiting();
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    for _ in 0..steps {
        yield_now().await;
    }
    let ended = !rig.agent.is_running();
    drop(run);
    rig.agent.wait_for_idle().await;
    rig.assert_sound();
    assert_eq!(own(&rig, "session:end"), 1);
    assert_no_tasks(&format!("after {steps} steps")).await;
    rig.run("go on").await.result.unwrap();
    ended
}

/// In a second task, so that both proceed alternately.
async fn in_a_task(work: impl Future<Output = bool> + Send + 'static) -> bool {
    tokio::spawn(work).await.unwrap()
}

/// Number of times that the root agent announced an event.
fn own(rig: &Rig, name: &str) -> usize {
    rig.recorder.events().iter().filter(|event| event.depth == 0 && event.name == name).count()
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_stopped_at_any_point() {
    let mut steps = 0;
    while !in_a_task(interrupted_after(steps, RunHandle::abort)).await {
        steps += 1;
    }
    assert!(steps > 80, "{steps} points are too few to be all of them");
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_steered_at_any_point() {
    let mut steps = 0;
    while !in_a_task(interrupted_after(steps, |run| drop(run.steer("wait")))).await {
        steps += 3;
    }
}

#[tokio::test(start_paused = true)]
async fn the_handle_of_a_run_can_be_dropped_at_any_point() {
    let mut steps = 0;
    while !in_a_task(dropped_after(steps)).await {
        steps += 2;
    }
}
