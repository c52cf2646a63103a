use serde_json::json;
use zk_core::events::{Ruling, StreamTransform, ToolGate, ToolRemark, ToolTransform};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{ErrorKind, StopReason};
use zk_testkit::Script;
use zk_view::{CallState, Effect, Intent, Text};

use crate::support::{rig, rig_with};

#[tokio::test]
async fn a_run_is_a_block_for_each_thing_that_is_said_and_done() {
    let script = Script::new()
        .turn(|t| {
            t.thinking("Hm.")
                .text("Let me look.")
                .call("echo", json!({"text": "one\ntwo"}))
                .call("run", json!({"text": "a"}))
                .call("fail", json!({"text": "b"}))
        })
        .turn(|t| t.text("It is ").text("done."));
    let mut rig = rig(script).await;
    rig.run("do it").await;
    assert_eq!(
        rig.lines(),
        "b0 › do it\n\
         b1 thinks: Hm.\n\
         b2 says: Let me look. Whole\n\
         b3 Done echo one two → 2: one / two\n\
         b4 Done run a → 1: a\n\
         b5 Failed fail b → 2: it failed / b\n\
         b6 says: It is done. Whole\n\
         b7 end: Completed, 2 turns\n"
    );
    rig.run("again").await;
    assert!(rig.lines().contains("b8 › again\n"), "{}", rig.lines());
}

#[tokio::test]
async fn calls_that_do_not_run_say_why_live_and_from_the_store() {
    let script = Script::new()
        .turn(|t| {
            t.call("run", json!({"text": "refused"}))
                .call("echo", json!({"text": 7}))
                .call("nobody", json!({}))
                .raw_call("echo", "{\"text\": ")
        })
        .turn(|t| t.text("Well."));
    let mut rig = rig(script).await;
    rig.agent
        .bus()
        .scope("guard")
        .on_sync(|gate: &ToolGate, _: &Cx| (gate.call.name == "run").then(|| Ruling::refuse("not today")));
    rig.run("do it").await;
    let states: Vec<CallState> = rig.calls().iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Refused, CallState::Done, CallState::Unknown, CallState::Invalid]);
    assert_eq!(rig.calls()[0].reason, Some(Text::new("not today")));
}

#[tokio::test]
async fn a_call_says_which_arguments_were_converted_and_what_is_remarked_on_it() {
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": 7})).call("run", json!({"text": "a"})))
        .turn(|t| t.text("Well."));
    let mut rig = rig(script).await;
    rig.agent.bus().scope("plugin").on_async(async |end: &ToolTransform, cx: &Cx| {
        if end.call.name == "run" {
            cx.emit(ToolRemark { call: end.call.clone(), text: "half of it\nis left out".into() }).await?;
        }
        Ok::<_, BoxError>(None)
    });
    rig.run("do it").await;
    let remarks: Vec<Vec<Text>> = rig.calls().into_iter().map(|call| call.remarks).collect();
    let converted = Text::new("`text` came as 7 and was read as \"7\"");
    assert_eq!(remarks, [vec![converted], vec![Text::new("half of it is left out")]]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_it_ended() {
    let cut = || {
        let half = |t: zk_testkit::Turn| t.text("Half").error(ErrorKind::Transport, "gone");
        Script::new().turn(half).turn(|t| t.text("Whole."))
    };
    for (script, end) in [
        (Script::new().turn(|t| t.text("Cut").stop(StopReason::MaxTokens)), "says: Cut MaxTokens"),
        (Script::new().turn(|t| t.stop(StopReason::MaxTokens)), "says:  MaxTokens"),
        (Script::new().turn(|t| t), "says:  Empty"),
        (Script::new().turn(|t| t.text("No.").stop(StopReason::Other("x".into()))), "says: No. Other"),
        (Script::new().turn(|t| t.text("Half").error(ErrorKind::Rejected, "gone")), "says: Half Broken"),
        (cut(), "says: Half SentAgain"),
        (cut(), "says: Whole."),
        (Script::new().turn(|t| t.error(ErrorKind::Overloaded, "gone")), "end: Error"),
    ] {
        let mut rig = rig(script).await;
        rig.run("go").await;
        assert!(rig.lines().contains(end), "{end}: {}", rig.lines());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_keeps_what_was_seen_of_it() {
    let script = Script::new()
        .turn(|t| t.text("First.").call("echo", json!({"text": "x"})).call("stuck", json!({})))
        .turn(|t| t.text("Never"));
    let mut rig = rig(script).await;
    let run = rig.agent.run("go").unwrap();
    let handle = run.handle();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        handle.abort();
    };
    tokio::join!(run.wait(), stop);
    rig.check().await;
    let calls = rig.calls();
    assert_eq!(
        (calls[0].state, calls[1].state),
        (CallState::Done, CallState::OutcomeUnknown),
        "{}",
        rig.lines()
    );
    assert!(rig.lines().contains("end: Aborted"), "{}", rig.lines());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_stopped_keeps_what_was_shown_of_it() {
    let mut rig = rig(Script::new().turn(|t| t.thinking("Hm.").text("On and on").hang())).await;
    let run = rig.agent.run("go").unwrap();
    let handle = run.handle();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        handle.abort();
    };
    tokio::join!(run.wait(), stop);
    rig.check().await;
    assert!(rig.lines().contains("says: On and on Stopped"), "{}", rig.lines());
}

#[tokio::test]
async fn what_was_shown_of_a_changed_answer_is_what_the_store_shows() {
    let script = Script::new()
        .turn(|t| t.text("My key is K.").call("echo", json!({"text": "x"})))
        .turn(|t| t.text("K again."));
    let mut rig = rig(script).await;
    rig.agent.bus().scope("mask").on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.replace('K', "***")));
    rig.run("go").await;
    assert!(rig.lines().contains("says: My key is ***. Whole"), "{}", rig.lines());
    assert!(!rig.lines().contains('K'), "{}", rig.lines());
}

#[tokio::test]
async fn a_message_put_in_from_outside_a_run_is_a_block() {
    let mut rig = rig(Script::new().turn(|t| t.text("Seen."))).await;
    rig.run("go").await;
    rig.agent.inject(zk_core::model::Message::injected("$ ls\na b", "user:bash")).unwrap();
    rig.driver.note(zk_view::NoteLevel::Info, "passing");
    assert!(rig.lines().contains("note: passing"), "{}", rig.lines());
}

#[tokio::test]
async fn steering_texts_wait_in_the_queue_until_they_are_delivered() {
    let script = Script::new().turn(|t| t.call("echo", json!({"text": "x"}))).turn(|t| t.text("Done."));
    let mut rig = rig(script).await;
    let run = rig.agent.run("go").unwrap();
    let (handle, driver) = (run.handle(), rig.driver.clone());
    rig.agent.bus().scope("host").on_sync(move |_: &zk_core::events::ToolBefore, _: &Cx| {
        driver.intent(&Intent::Steer { text: "other way".into() });
        let Some(Effect::Steer { text }) = driver.take_effect() else { panic!("no steering") };
        assert_eq!(driver.view().queue.len(), 1);
        handle.steer(text).unwrap();
    });
    run.wait().await;
    rig.check().await;
    assert_eq!(rig.driver.view().queue, []);
    assert!(rig.lines().contains("(steer) other way"), "{}", rig.lines());
}

#[tokio::test]
async fn a_prompt_typed_during_a_run_is_sent_at_its_end() {
    let mut rig = rig(Script::answering(|_| zk_testkit::Turn::new().text("Yes."))).await;
    rig.agent.bus().scope("typist").on_sync({
        let driver = rig.driver.clone();
        move |_: &zk_core::events::TurnAfter, _: &Cx| driver.intent(&Intent::Submit { text: "next".into() })
    });
    rig.run("go").await;
    assert_eq!(rig.driver.take_effect(), Some(Effect::Run { text: "next".into() }));
    assert_eq!(rig.driver.take_effect(), None);
}

#[tokio::test]
async fn sub_agents_have_blocks_and_a_row_of_their_own() {
    let script = Script::answering(|asked| {
        let turn = zk_testkit::Turn::new();
        match (asked.last_user_text().as_str(), asked.results().is_empty()) {
            ("go", true) => turn.call("spawn", json!({"task": "look around"})),
            ("look around", true) => turn.call("echo", json!({"text": "seen"})),
            _ => turn.text("Done."),
        }
    });
    let mut rig = rig_with(script, |builder| builder.spawn(zk_agent::SpawnOptions::default())).await;
    rig.run("go").await;
    let view = rig.driver.view();
    assert!(rig.lines().contains("main.1/b1 [main.1] Done echo seen → 1: seen\n"), "{}", rig.lines());
    assert_eq!(view.agents.len(), 1, "{:?}", view.agents);
    assert_eq!(view.agents[0].state, zk_view::AgentState::Done);
}

#[tokio::test]
async fn a_refused_call_says_why_in_words_for_a_person() {
    use std::sync::Arc;
    use zk_core::events::{CallRef, DecidedBy, PermissionDecided, StreamToolArgs, ToolBlocked};
    use zk_core::kernel::Origin;
    use zk_core::model::Effects;
    use zk_view::{Content, Engine, EngineInput, ObservedEvent};

    let model = "the user declined this call";
    for (by, reasons, reason, expected) in [
        (DecidedBy::Person, vec![], format!("{model}: use the other file"), "you said: use the other file"),
        (DecidedBy::Person, vec![], format!("{model}; do not try it again"), "you said no"),
        (
            DecidedBy::Nobody,
            vec![],
            "nobody answered; it was not the user".to_owned(),
            "nobody was here to be asked",
        ),
        (DecidedBy::Policy, vec!["`rm` is denied".to_owned()], "do not try".to_owned(), "`rm` is denied"),
        (DecidedBy::Plugin, vec![], "not on Fridays".to_owned(), "not on Fridays"),
    ] {
        let mut engine = Engine::new();
        let mut see = |event: &dyn zk_core::kernel::AnyEvent| {
            engine.apply(0, EngineInput::Event(ObservedEvent { event, origin: &Origin::default() }));
        };
        let call = Arc::new(CallRef {
            turn_id: "t".into(),
            call_id: "c".into(),
            name: "shell".into(),
            display_name: "shell".into(),
        });
        let delta = "{}".to_owned();
        see(&StreamToolArgs { turn_id: "t".into(), call_id: "c".into(), name: "shell".into(), delta });
        let (args, cwd, effects) = (json!({}), "/".into(), Effects::Unknown);
        see(&PermissionDecided {
            call: call.clone(),
            args: args.clone(),
            effects,
            cwd,
            allowed: false,
            by,
            reasons,
            allowed_by: None,
        });
        see(&ToolBlocked { call, args, reason, by: None });
        let Content::Call(shown) = &engine.view().blocks[0].content else { panic!("{by:?}") };
        assert_eq!((shown.state, &shown.reason), (CallState::Refused, &Some(Text::new(expected))));
    }
}

#[tokio::test]
async fn jobs_stay_in_the_view_when_another_session_takes_its_place() {
    use zk_view::{JobRow, JobState, ViewDriver};

    let view = ViewDriver::new();
    let job =
        JobRow { id: "job-1".into(), command: "make".into(), state: JobState::Running, detached: false };
    let mut reader = view.reader();
    reader.next().await.unwrap();
    view.set_jobs(std::slice::from_ref(&job));
    view.set_jobs(std::slice::from_ref(&job));
    assert_eq!(reader.next().await.unwrap(), [zk_view::Patch::Jobs { jobs: vec![job.clone()] }]);
    view.begin(&[]);
    assert_eq!(view.view().jobs, [job]);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_reasoning_is_known_live_and_from_the_store() {
    let thinks = |turn: zk_testkit::Turn| {
        turn.thinking("Hm.").delay(std::time::Duration::from_millis(2300)).thinking(" So.").text("Done.")
    };
    let mut rig = rig(Script::new().turn(thinks)).await;
    // The session shows the same blocks.
    rig.run("think").await;
    let view = rig.driver.view();
    let thought = view.blocks.iter().find_map(|block| match block.content {
        zk_view::Content::Thinking { thought_ms, .. } => thought_ms,
        _ => None,
    });
    assert!(thought.is_some_and(|ms| (2300..3000).contains(&ms)), "{thought:?}");
}

#[tokio::test]
async fn a_sub_agent_that_a_person_stops_is_stopped_and_not_failed() {
    let script = Script::answering(|asked| {
        let turn = zk_testkit::Turn::new();
        match (asked.last_user_text().as_str(), asked.results().is_empty()) {
            ("go", true) => turn.call("spawn", json!({"task": "look around", "background": true})),
            ("look around", _) => turn.hang(),
            _ => turn.text("It looks."),
        }
    });
    let options = zk_agent::SpawnOptions { background: true, ..zk_agent::SpawnOptions::default() };
    let rig = rig_with(script, |builder| builder.spawn(options)).await;
    // The sub-agent goes on beside the end of the run.
    rig.agent.run("go").unwrap().wait().await;
    let subagents = rig.agent.bus().service::<zk_agent::Subagents>().unwrap();
    subagents.stop("main.1", "stopped by the person").unwrap();
    subagents.until_idle().await;
    assert_eq!(rig.driver.view().agents[0].state, zk_view::AgentState::Stopped);
}
