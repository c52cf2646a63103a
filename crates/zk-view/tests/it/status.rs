use std::time::Duration;

use serde_json::json;
use zk_core::events::{
    CompactionStage, CompactionTrigger, ContextCompaction, ContextTransform, Ruling, ToolGate,
};
use zk_core::kernel::{BoxError, Cx, Origin};
use zk_testkit::Script;
use zk_view::{Activity, BatchCounts, Engine, EngineInput, ObservedEvent, Patch, Status};

use crate::support::rig;

fn statuses(patches: &[Patch]) -> Vec<Status> {
    let of = |patch: &Patch| match patch {
        Patch::Status { status } => Some(status.clone()),
        _ => None,
    };
    patches.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_says_what_it_does_from_its_first_moment_and_counts_the_seconds() {
    let rig = rig(Script::new().turn(|t| t.delay(Duration::from_millis(3500)).text("Done."))).await;
    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();
    let run = rig.agent.run("go").unwrap();
    let reading = async {
        let mut all = Vec::new();
        while !all.iter().any(|status: &Status| status.run_ms.is_none()) {
            all.extend(statuses(&reader.next().await.unwrap()));
        }
        all
    };
    let (_, all) = tokio::join!(run.wait(), reading);
    let is_waiting = |status: &&Status| matches!(status.activity, Activity::Waiting { .. });
    let seconds: Vec<u64> = all.iter().filter(is_waiting).map(|status| status.activity_ms / 1000).collect();
    assert_eq!(seconds, [0, 1, 2, 3]);
    assert_eq!(all.last().unwrap().activity, Activity::Idle);
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_an_answer_are_counted_by_how_they_ended() {
    let calls = |t: zk_testkit::Turn| {
        let t = t.call("echo", json!({"text": "a"})).call("fail", json!({"text": "b"}));
        let t = t.call("nobody", json!({})).call("echo", json!({"text": "refused"}));
        t.call("stuck", json!({"text": "c"})).call("run", json!({"text": "d"}))
    };
    let rig = rig(Script::new().turn(calls)).await;
    rig.agent.bus().scope("guard").on_sync(|gate: &ToolGate, _: &Cx| {
        (gate.input_str("text") == Some("refused")).then(|| Ruling::refuse("not today"))
    });
    let mut reader = rig.driver.reader();
    let run = rig.agent.run("go").unwrap();
    let handle = run.handle();
    let running = |status: Status| match status.activity {
        Activity::Running { calls, batch } if calls.iter().any(|call| call.as_str() == "stuck c") => {
            Some(batch)
        }
        _ => None,
    };
    let reading = async {
        loop {
            let found = statuses(&reader.next().await.unwrap()).into_iter().find_map(running);
            if let Some(found) = found {
                handle.abort();
                return found;
            }
        }
    };
    let (_, counted) = tokio::join!(run.wait(), reading);
    let counts = BatchCounts { over: 4, total: 6, failed: 2, refused: 1, skipped: 0 };
    assert_eq!(counted, counts);
    let written = json!({"over": 4, "of": 6, "failed": 2, "refused": 1});
    assert_eq!(serde_json::to_value(counts).unwrap(), written);
    assert_eq!(counts.describe().unwrap(), "4 of 6 done, 2 failed, 1 refused");
}

#[tokio::test(start_paused = true)]
async fn a_view_without_a_run_has_no_timer() {
    let rig = rig(Script::new().turn(|t| t.text("Done."))).await;
    let run = rig.agent.run("go").unwrap();
    run.wait().await;
    let began = tokio::time::Instant::now();
    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();
    let more = tokio::time::timeout(Duration::from_secs(3600), reader.next()).await;
    assert!(more.is_err() && began.elapsed() >= Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn while_a_conversation_is_compacted_that_is_what_the_run_does() {
    let rig = rig(Script::new().turn(|t| t.text("Done."))).await;
    rig.agent.bus().scope("compacting").on_async(async |event: &ContextTransform, cx: &Cx| {
        let compaction = |stage| ContextCompaction {
            turn_id: event.turn_id.clone(),
            trigger: CompactionTrigger::Hard,
            stage,
            before: 90_000,
            after: 90_000,
            strategies: Vec::new(),
            note: None,
        };
        cx.emit(compaction(CompactionStage::Began)).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        cx.emit(compaction(CompactionStage::Done)).await?;
        Ok::<_, BoxError>(None)
    });
    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();
    let run = rig.agent.run("go").unwrap();
    let reading = async {
        let mut all = Vec::new();
        while !all.iter().any(|status: &Status| status.run_ms.is_none()) {
            all.extend(statuses(&reader.next().await.unwrap()));
        }
        all
    };
    let (_, all) = tokio::join!(run.wait(), reading);
    let compacts = |status: &&Status| status.activity == Activity::Compacting { before: 90_000 };
    let seconds: Vec<u64> = all.iter().filter(compacts).map(|status| status.activity_ms / 1000).collect();
    assert!(seconds.contains(&0) && seconds.contains(&2), "{seconds:?}");
    assert_eq!(all.last().unwrap().activity, Activity::Idle, "and it is over");
}

#[test]
fn a_compaction_between_two_runs_is_shown_with_its_seconds_until_it_ends() {
    let compaction = |stage| ContextCompaction {
        turn_id: "t".into(),
        trigger: CompactionTrigger::Manual,
        stage,
        before: 4000,
        after: 4000,
        strategies: Vec::new(),
        note: None,
    };
    for end in [CompactionStage::Done, CompactionStage::Failed, CompactionStage::Cancelled] {
        let mut engine = Engine::new();
        let mut happen = |at: u64, stage: CompactionStage| {
            let (event, origin) = (compaction(stage), Origin::default());
            engine.apply(at, EngineInput::Event(ObservedEvent { event: &event, origin: &origin }));
            (engine.view().status.clone(), engine.next_tick())
        };
        let (begun, next_tick) = happen(500, CompactionStage::Began);
        assert_eq!((begun.activity, begun.run_ms), (Activity::Compacting { before: 4000 }, None));
        assert_eq!(next_tick, Some(1000));
        let (ended, next_tick) = happen(4600, end);
        assert_eq!((ended, next_tick), (Status::default(), None));
    }
    let mut engine = Engine::new();
    let (event, origin) = (compaction(CompactionStage::Began), Origin::default());
    engine.apply(500, EngineInput::Event(ObservedEvent { event: &event, origin: &origin }));
    engine.apply(3600, EngineInput::Tick);
    assert_eq!(engine.view().status.activity_ms, 3000);
}

#[test]
fn the_tokens_of_a_sub_agent_are_counted_while_its_answer_comes_and_before_its_calls_end() {
    use zk_core::events::{SpawnBefore, StreamText, TurnAfter, TurnBefore, UsageUpdate};
    use zk_core::kernel::AnyEvent;
    use zk_core::model::{ModelRef, ThinkingRequest, TurnUsage, Usage};
    let mut engine = Engine::new();
    let child = Origin { agent: "main.1".into(), depth: 1 };
    let mut tokens_after = |event: &dyn AnyEvent, origin: &Origin| {
        engine.apply(0, EngineInput::Event(ObservedEvent { event, origin }));
        engine.view().agents[0].tokens
    };
    let model = ModelRef::new("p", "m");
    let prompt = "look around".to_owned();
    let begun = SpawnBefore {
        child: "main.1".to_owned(),
        call_id: "c".into(),
        depth: 1,
        prompt,
        model: model.clone(),
        background: false,
    };
    assert_eq!(tokens_after(&begun, &Origin::default()), 0);
    let text = |bytes: usize| StreamText { turn_id: "t".into(), delta: "x".repeat(bytes) };
    assert_eq!(tokens_after(&text(60), &child), 0);
    assert_eq!(tokens_after(&text(4), &child), 16);
    assert_eq!(tokens_after(&text(4000), &Origin::default()), 16, "that is another agent's");
    assert_eq!(tokens_after(&text(640), &child), 176);
    // A request that is sent again begins anew.
    let thinking = ThinkingRequest::default();
    let again = TurnBefore { turn_id: "t".into(), turn: 1, model: model.clone(), messages: 1, thinking };
    assert_eq!(tokens_after(&again, &child), 0);
    let usage = Usage { input: 1000, output: 50, ..Usage::default() };
    let answered = TurnAfter {
        turn_id: "t".into(),
        turn: 1,
        usage,
        cost: None,
        message: None,
        error: None,
        tool_counts: std::sync::Arc::default(),
    };
    assert_eq!(tokens_after(&answered, &child), 1050);
    let turn = TurnUsage { turn_id: "t".into(), model, usage, cost: None };
    let total = Usage { input: 3000, output: 60, ..Usage::default() };
    assert_eq!(tokens_after(&UsageUpdate { turn, total, cost: None }, &child), 3060);
    assert_eq!(tokens_after(&text(64), &child), 3076);
}
