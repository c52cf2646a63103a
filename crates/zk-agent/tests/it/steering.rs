//! Messages that arrive while a run goes on.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{AgentConversation, Behavior, QueueMode, RunHandle, RunOptions};
use zk_core::events::{Input, InputReply, SteerInject, StreamEnd, ToolBefore, TurnAfter};
use zk_core::kernel::{Bus, Cx, Event, OnError};
use zk_core::model::{AgentError, Block, Message};
use zk_core::service::Conversation;
use zk_testkit::{Script, Turn};

use crate::support::{Rig, assert_lines, rig, rig_with, told};

/// Handle of the next run, for handlers.
type Slot = Arc<Mutex<Option<RunHandle>>>;

/// Does something to the run on the first `E`.
fn once_on<E: Event>(rig: &Rig, act: impl Fn(&RunHandle) + Send + Sync + 'static) -> Slot
where
    (): zk_core::kernel::IntoReply<E>,
{
    let slot = Slot::default();
    let kept = slot.clone();
    rig.scope("steerer").on_sync(move |_: &E, _: &Cx| {
        if let Some(handle) = kept.lock().unwrap().take() {
            act(&handle);
        }
    });
    slot
}

async fn run(rig: &Rig, slot: &Slot) -> zk_agent::RunOutcome {
    let run = rig.agent.run("go").unwrap();
    *slot.lock().unwrap() = Some(run.handle());
    let outcome = run.wait().await;
    rig.assert_sound();
    outcome
}

fn three_fails(turn: Turn) -> Turn {
    turn.call("fail", json!({"why": "1"})).call("fail", json!({"why": "2"})).call("fail", json!({"why": "3"}))
}

// The skipped results first, then the message.
#[tokio::test]
async fn steering_between_the_calls_of_a_batch_skips_the_rest_honestly() {
    let rig = rig(Script::new().turn(three_fails).turn(|t| t.text("Understood.")));
    let slot = once_on::<ToolBefore>(&rig, |run| run.steer("Stop that.").unwrap());
    run(&rig, &slot).await.result.unwrap();
    assert_lines(
        &told(&rig.agent.history()),
        r#"
        user: go
        model: fail({"why":"1"}) | fail({"why":"2"}) | fail({"why":"3"})
        user: !1 | !Skipped: the user sent a message before this call. It was not run. | !Skipped: the user sent a message before this call. It was not run.
        user [steer]: Stop that.
        model: Understood.
        "#,
    );
    assert_eq!(rig.recorder.named("tool:skipped").len(), 2);
    assert_eq!(rig.recorder.named("tool:gate").len(), 1, "skipped calls pass no gate and are not counted");
    assert_eq!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"], json!({"fail": 1}));
}

#[tokio::test]
async fn a_steering_message_that_is_taken_back_never_reaches_the_model_and_a_delivered_one_cannot_be() {
    let rig = rig(Script::new().turn(three_fails).turn(|t| t.text("Understood.")));
    let conversation = AgentConversation::new(rig.agent.clone());
    let (taken, late) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let (here, told_late) = (taken.clone(), late.clone());
    let scope = rig.scope("person");
    let person = conversation.clone();
    scope.on_sync(move |_: &ToolBefore, _: &Cx| {
        if here.lock().unwrap().is_empty() {
            for text in ["keep", "drop", "keep"] {
                person.steer(Message::injected(text, "steer")).unwrap();
            }
            here.lock().unwrap().extend([
                person.unsteer("drop"),
                person.unsteer("drop"),
                person.unsteer("keep"),
            ]);
        }
    });
    let person = conversation.clone();
    scope.on_sync(move |_: &StreamEnd, _: &Cx| {
        *told_late.lock().unwrap() = Some(person.unsteer("keep"));
    });
    conversation.submit(vec![Block::text("go")]).await.unwrap();
    conversation.idle().await;
    assert_eq!(*taken.lock().unwrap(), [true, false, true]);
    assert_eq!(*late.lock().unwrap(), Some(false), "the model has it");
    let told = told(&rig.agent.history());
    assert!(told.contains("user [steer]: keep") && !told.contains("drop"), "{told}");
    assert!(!conversation.unsteer("keep"), "no run");
}

// Even if the model was done.
#[tokio::test]
async fn steering_after_a_finished_answer_continues_the_run() {
    let rig = rig(Script::new().turn(|t| t.text("Done.")).turn(|t| t.text("That too.")));
    let slot = once_on::<TurnAfter>(&rig, |run| run.steer("And this?").unwrap());
    let outcome = run(&rig, &slot).await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "That too.");
    assert_eq!(rig.names(&["steer", "session:messages"]).len(), 5);
    assert_lines(
        &told(&rig.agent.history()),
        "user: go
        model: Done.
        user [steer]: And this?
        model: That too.",
    );
}

// A follow-up waits for the end, and steering goes before it.
#[tokio::test]
async fn a_follow_up_restarts_a_run_that_would_have_ended() {
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "hi"})))
        .turn(|t| t.text("one"))
        .turn(|t| t.text("two"))
        .turn(|t| t.text("three"));
    let rig = rig(script);
    let slot = once_on::<StreamEnd>(&rig, |run| {
        run.follow_up("later").unwrap();
        run.steer("now").unwrap();
    });
    run(&rig, &slot).await.result.unwrap();
    assert_lines(
        &told(&rig.agent.history()),
        r#"
        user: go
        model: echo({"text":"hi"})
        user: =hi
        model: one
        user [steer]: now
        model: two
        user [follow-up]: later
        model: three
        "#,
    );
    let kinds: Vec<_> = rig.recorder.of::<SteerInject>().iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["steer", "follow_up"]);
    let causes: Vec<_> = rig.recorder.named("session:messages").iter().map(|e| e["cause"].clone()).collect();
    assert_eq!(causes, ["prompt", "answer", "steer", "answer", "follow_up", "answer"]);
}

#[tokio::test]
async fn queued_messages_are_delivered_one_by_one_or_all_at_once() {
    for (mode, turns) in [(None, 4), (Some(QueueMode::One), 4), (Some(QueueMode::All), 2)] {
        let behavior = Behavior { queue_mode: mode, ..Behavior::default() };
        let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| b.behavior(behavior));
        let slot = once_on::<TurnAfter>(&rig, |run| {
            run.steer("a").unwrap();
            run.steer("b").unwrap();
            run.steer("c").unwrap();
        });
        let outcome = run(&rig, &slot).await;
        outcome.result.unwrap();
        assert_eq!(outcome.stats.turns, turns, "{mode:?}");
        let texts: Vec<String> = rig.agent.history().iter().map(|message| message.text()).collect();
        assert_eq!(texts.iter().filter(|text| ["a", "b", "c"].contains(&text.as_str())).count(), 3);
    }
}

#[tokio::test]
async fn follow_ups_have_a_queue_mode_of_their_own() {
    use QueueMode::{All, One};
    for (steering, follow_ups, turns) in
        [(One, Some(All), 4), (All, Some(One), 4), (All, None, 3), (One, None, 5)]
    {
        let behavior =
            Behavior { queue_mode: Some(steering), follow_up_mode: follow_ups, ..Behavior::default() };
        let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| b.behavior(behavior));
        let slot = once_on::<TurnAfter>(&rig, |run| {
            for text in ["a", "b"] {
                run.steer(text).unwrap();
                run.follow_up(text).unwrap();
            }
        });
        let outcome = run(&rig, &slot).await;
        outcome.result.unwrap();
        assert_eq!(outcome.stats.turns, turns, "{steering:?} {follow_ups:?}");
    }
}

#[tokio::test]
async fn a_message_queued_before_the_start_is_delivered_before_the_first_turn() {
    let rig = rig(Script::new().turn(|t| t.text("ok")));
    let run = rig.agent.run("go").unwrap();
    run.steer("and be brief").unwrap();
    run.wait().await.result.unwrap();
    let asked: Vec<String> = rig.provider.asked()[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(asked, ["goand be brief"], "neighbours of one role are one message to the provider");
    assert_eq!(rig.agent.history().len(), 3);
}

#[tokio::test]
async fn undelivered_messages_are_returned() {
    let rig = rig(Script::new().turn(|t| t.text("Hm").hang()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    run.follow_up("later").unwrap();
    run.steer("now").unwrap();
    run.abort();
    let outcome = run.wait().await;
    let unsent: Vec<String> = outcome.unsent.iter().map(|message| message.text()).collect();
    assert_eq!(unsent, ["now", "later"]);
    rig.assert_sound();
}

#[tokio::test]
async fn a_message_whose_delivery_fails_is_returned() {
    let bus = Bus::builder().policy(OnError::Throw).build();
    let rig = rig_with(Script::new().turn(|t| t.text("ok")), |b| b.bus(bus));
    rig.scope("broken").on_sync(|_: &SteerInject, _: &Cx| Err::<(), _>("no"));
    let run = rig.agent.run(RunOptions::from("go")).unwrap();
    run.steer("first").unwrap();
    run.steer("second").unwrap();
    let outcome = run.wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Hook(_))), "{:?}", outcome.result);
    let unsent: Vec<String> = outcome.unsent.iter().map(|message| message.text()).collect();
    assert_eq!(unsent, ["first", "second"]);
    rig.assert_sound();
}

#[tokio::test]
async fn only_a_persons_messages_pass_the_handlers_of_input() {
    let rig = rig(Script::new().turn(three_fails).turn(|t| t.text("First.")).turn(|t| t.text("Second.")));
    rig.scope("guard").on_sync(|input: &Input, _: &Cx| match input.text.as_str() {
        "a secret" => Some(InputReply::Handled),
        "pwd" => Some(InputReply::Transform { text: "run pwd".into(), images: None }),
        _ => None,
    });
    let slot = once_on::<ToolBefore>(&rig, |run| {
        run.steer("a secret").unwrap();
        run.follow_up("a secret").unwrap();
        run.follow_up("pwd").unwrap();
    });
    run(&rig, &slot).await.result.unwrap();
    let told = told(&rig.agent.history());
    assert!(!told.contains("secret"), "{told}");
    assert!(told.contains("user [follow-up]: run pwd"), "{told}");
    assert_eq!(rig.provider.asked().len(), 3, "what was refused leads to no turn of its own");
}
