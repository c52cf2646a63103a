//! The handle of a run and its events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use serde_json::json;
use zk_agent::{Agent, SpawnOptions};
use zk_core::kernel::{AnyEvent, Bus, Cx};
use zk_core::model::Message;
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{Rig, rig};

fn two_turns() -> Rig {
    rig(Script::new().turn(|t| t.call("echo", json!({"text": "hi"}))).turn(|t| t.text("It says hi.")))
}

#[tokio::test]
async fn a_run_does_nothing_before_it_is_awaited() {
    let rig = two_turns();
    let run = rig.agent.run("go").unwrap();
    tokio::task::yield_now().await;
    assert_eq!(rig.recorder.names().len(), 0);
    assert!(rig.agent.is_running(), "but its agent is taken");
    run.wait().await.result.unwrap();
    assert!(!rig.agent.is_running());
}

#[tokio::test]
async fn an_unstarted_run_that_is_dropped_leaves_no_trace() {
    let rig = two_turns();
    drop(rig.agent.run("go").unwrap());
    assert!(!rig.agent.is_running());
    assert_eq!((rig.agent.history().len(), rig.recorder.names().len()), (0, 0));
    rig.run("go").await.result.unwrap();
}

#[tokio::test]
async fn the_events_of_a_run_are_complete_in_order_and_end() {
    let rig = two_turns();
    let mut run = rig.agent.run("go").unwrap();
    let id = run.id().to_string();
    let events: Vec<_> = run.events().collect().await;
    // When the stream has ended, the agent is free.
    assert!(!rig.agent.is_running());
    run.wait().await.result.unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.name).collect();
    assert_eq!(names, rig.recorder.names());
    let data: Vec<_> = events.into_iter().map(|event| event.data).collect();
    let recorded: Vec<_> = rig.recorder.events().into_iter().map(|event| event.data).collect();
    assert_eq!(data, recorded);
    assert_eq!(data.last().unwrap()["run_id"], json!(id));
}

#[tokio::test]
async fn events_can_be_read_one_by_one_while_another_task_waits() {
    let rig = two_turns();
    let mut run = rig.agent.run("go").unwrap();
    let mut events = run.events();
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        while let Some(event) = events.next().await {
            if event.name == "stream:text" {
                text.push_str(event.data["delta"].as_str().unwrap());
            }
        }
        text
    });
    run.wait().await.result.unwrap();
    assert_eq!(reading.await.unwrap(), "It says hi.");
}

#[tokio::test]
async fn asking_for_the_events_of_a_run_that_is_over_gives_an_end() {
    let rig = two_turns();
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.agent.wait_for_idle().await;
    assert!(run.events().next().await.is_none());
    run.wait().await.result.unwrap();
}

#[tokio::test]
async fn the_events_of_a_stopped_run_end_too() {
    let rig = rig(Script::new().turn(|t| t.hang()));
    let mut run = rig.agent.run("go").unwrap();
    let mut events = run.events();
    while events.next().await.unwrap().name != "stream:start" {}
    drop(run);
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.name);
    }
    assert_eq!(last, Some("session:end"));
}

#[tokio::test]
async fn a_dropped_event_stream_stops_nothing() {
    let rig = two_turns();
    let mut run = rig.agent.run("go").unwrap();
    drop(run.events());
    run.wait().await.result.unwrap();
}

#[tokio::test]
async fn the_events_of_one_run_are_not_those_of_the_next() {
    let rig = rig(Script::new().turn(|t| t.text("one")).turn(|t| t.text("two")));
    let mut first = rig.agent.run("go").unwrap();
    let mut events = first.events();
    first.wait().await.result.unwrap();
    rig.run("again").await.result.unwrap();
    let mut texts = Vec::new();
    while let Some(event) = events.next().await {
        if event.name == "stream:end" {
            texts.push(event.data["text"].clone());
        }
    }
    assert_eq!(texts, ["one"]);
}

#[tokio::test]
async fn usage_is_available_during_a_run_and_a_handle_outlives_it() {
    let rig = rig(Script::new().turn(|t| t.call("echo", json!({"text": "hi"}))).turn(|t| t.hang()));
    let mut run = rig.agent.run("go").unwrap();
    let handle = run.handle();
    run.start();
    rig.recorder.wait_for("tool-results:after").await;
    assert_eq!(run.usage().turns, 1);
    assert_eq!(handle.usage().tool_calls["echo"], 1);
    handle.abort();
    let outcome = run.wait().await;
    assert_eq!(outcome.stats.turns, 1);
    let late = handle.steer("too late").unwrap_err();
    assert_eq!(late.message.text(), "too late");
    assert!(handle.follow_up("too late").is_err());
    handle.abort();
}

/// Answers each request after a while, so that it can be steered meanwhile.
fn answering() -> Rig {
    rig(Script::answering(|_| Turn::new().text("Hello.")))
}

#[tokio::test]
async fn a_message_that_arrives_after_the_loop_looked_for_the_last_time_is_unsent_or_refused() {
    for event in ["agent:done", "session:end"] {
        let rig = answering();
        let run = rig.agent.run("go").unwrap();
        let handle = run.handle();
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        rig.scope("person").observe(move |seen: &dyn AnyEvent, _: &Cx| {
            if seen.name() == event && handle.steer("and this").is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let outcome = run.wait().await;
        assert_eq!(outcome.unsent.len(), taken.load(Ordering::SeqCst), "{event}");
        assert_eq!(outcome.unsent[0].text(), "and this");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_whenever_it_is_sent() {
    for round in 0..100_usize {
        let rig = answering();
        let mut run = rig.agent.run("go").unwrap();
        let handle = run.handle();
        run.start();
        let sending = tokio::task::spawn_blocking(move || {
            let (mut taken, mut given_back) = (0, 0);
            while given_back == 0 && taken < 8 {
                match handle.steer("and this") {
                    Ok(()) => taken += 1,
                    Err(_) => given_back += 1,
                }
                std::hint::black_box((0..round * 50).sum::<usize>());
            }
            taken
        });
        let outcome = run.wait().await;
        let taken = sending.await.unwrap();
        let history = rig.agent.history();
        let is_steered = |message: &&Arc<Message>| message.injected_by.as_deref() == Some("steer");
        let delivered = history.iter().filter(is_steered).count();
        assert_eq!(delivered + outcome.unsent.len(), taken, "round {round}");
    }
}

#[tokio::test]
async fn the_events_of_a_run_exclude_other_agents_on_the_bus() {
    let script = || {
        Script::answering(|asked| match asked.messages.len() {
            1 if asked.last_user_text() == "delegate" => Turn::new().call("spawn", json!({"task": "do it"})),
            _ => Turn::new().text("Done."),
        })
    };
    let bus = Bus::new();
    let agent = |script: Script, options: Option<SpawnOptions>| {
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(bus.clone());
        match options {
            Some(options) => builder.spawn(options),
            None => builder,
        }
    };
    let first = agent(script(), Some(SpawnOptions::default())).build().unwrap();
    // The tool `spawn` of the bus belongs to the first agent; this is a second tree.
    let other = Agent::builder(Arc::new(ScriptedProvider::new(script())))
        .bus(bus.child("other"))
        .spawn(SpawnOptions::default())
        .build()
        .unwrap();
    let mut run = first.run("delegate").unwrap();
    let mut events = run.events();
    let beside = other.run("delegate").unwrap().wait();
    let (seen, beside) = tokio::join!(
        async {
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push((event.agent.to_string(), event.name));
            }
            seen
        },
        beside
    );
    beside.result.unwrap();
    run.wait().await.result.unwrap();
    let agents: BTreeSet<&str> = seen.iter().map(|(agent, _)| &**agent).collect();
    assert_eq!(agents.into_iter().collect::<Vec<_>>(), ["main", "main.1"]);
    assert!(seen.iter().any(|(agent, name)| agent == "main.1" && *name == "agent:done"));
}

// A run that is held back counts no time before its start.
#[tokio::test]
async fn time_is_counted_from_the_start() {
    let rig = two_turns();
    let run = rig.agent.run("go").unwrap();
    assert_eq!(run.usage().duration_ms, 0);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(run.usage().duration_ms, 0);
    run.wait().await.result.unwrap();
}
