//! Parts of the run that plugins and tools find in their context.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use zk_core::events::{AgentDone, SessionBeforeEnd, SessionEnd, SessionLoaded, TurnAfter, TurnBefore};
use zk_core::kernel::{BoxError, Cx, Source};
use zk_core::model::{AgentError, ErrorKind, Message, ToolOutput, Usage};
use zk_core::service::{
    Audience, CustomEntry, Entry, EntryKind, NewEntry, RunControl, SideAnswer, SideCall, ToolCx,
};
use zk_testkit::{Script, Turn};

use crate::support::{TestTool, rig, rig_with};

fn run_of(cx: &Cx) -> Arc<dyn RunControl> {
    cx.service::<dyn RunControl>().unwrap()
}

/// Answers side calls with `side`, and everything else with one tool call and an end.
fn beside(side: impl Fn() -> Turn + Send + Sync + 'static) -> Script {
    Script::answering(move |asked| match asked.messages.len() {
        _ if asked.last_user_text() == "A title?" => side(),
        1 => Turn::new().call("ask", json!({})),
        _ => Turn::new().text("Done."),
    })
}

type Asked = Arc<Mutex<Option<Result<SideAnswer, AgentError>>>>;

/// A tool that makes a side call.
fn asking(limit: Duration) -> (TestTool, Asked) {
    let asked = Asked::default();
    let kept = asked.clone();
    let tool = TestTool::new("ask", move |_, cx: ToolCx| {
        let kept = kept.clone();
        async move {
            let call = SideCall { limit, ..SideCall::new(&Source::new("titles"), "title", "A title?") };
            let answer = run_of(&cx.cx).side_call(call).await;
            *kept.lock().unwrap() = Some(answer);
            Ok(ToolOutput::text("asked"))
        }
    });
    (tool, asked)
}

#[tokio::test]
async fn a_side_call_has_no_tools_stays_out_of_the_history_and_is_counted() {
    let (tool, asked) = asking(Duration::from_secs(30));
    let usage = Usage { input: 70, output: 7, ..Usage::default() };
    let rig = rig_with(beside(move || Turn::new().text("A nice title").usage(usage)), |b| b.tool(tool.arc()));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    let answer = asked.lock().unwrap().take().unwrap().unwrap();
    assert_eq!((&*answer.text, answer.usage.usage), ("A nice title", usage));
    let stats = outcome.stats;
    assert_eq!((stats.turns, stats.turn_usage.len()), (2, 2));
    assert_eq!(stats.side_calls["title"][0].usage, usage);
    let told = rig.recorder.named("side-call:end");
    assert_eq!((told.len(), &told[0]["source"], &told[0]["purpose"]), (1, &json!("titles"), &json!("title")));
    assert_eq!(told[0]["usage"]["usage"]["input"], json!(70));
    assert_eq!((stats.usage.input, stats.usage.output), (70, 7), "the turns of the script cost nothing");
    assert_eq!(stats.by_model().values().next().unwrap().usage.input, 70);
    assert_eq!(rig.agent.history().len(), 4);
    let request = &rig.provider.requests()[1];
    assert!(request.tools.is_empty());
    assert_eq!(request.max_tokens, 1_024);
}

#[tokio::test(start_paused = true)]
async fn a_side_call_without_an_answer_in_time_fails_as_stalled_and_the_run_goes_on() {
    let (tool, asked) = asking(Duration::from_secs(30));
    let rig = rig_with(beside(|| Turn::new().text("A ").hang()), |b| b.tool(tool.arc()));
    rig.run("go").await.result.unwrap();
    let Err(AgentError::Provider(error)) = asked.lock().unwrap().take().unwrap() else { panic!("it hung") };
    assert_eq!(error.kind, ErrorKind::Stalled);
    assert!(error.message.contains("`title`"), "{error}");
}

#[tokio::test]
async fn a_side_call_stops_with_the_run() {
    let (tool, _) = asking(Duration::from_secs(3_600));
    let rig = rig_with(beside(|| Turn::new().text("A ").hang()), |b| b.tool(tool.arc()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("tool:before").await;
    run.abort();
    assert!(matches!(run.wait().await.result, Err(AgentError::Aborted)));
    rig.assert_sound();
}

#[tokio::test]
async fn a_handler_that_stops_the_run_gives_a_reason_that_the_end_tells() {
    let rig = rig(Script::answering(|_| Turn::new().text("Hello.").hang()));
    rig.scope("budget").on_sync(|_: &TurnBefore, cx: &Cx| {
        run_of(cx).abort("the budget of 1 $ is used up");
        run_of(cx).abort("a second reason");
    });
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Aborted)), "{:?}", outcome.result);
    let reason = "the budget of 1 $ is used up";
    assert_eq!(outcome.abort_reason.as_deref(), Some(reason));
    assert_eq!(rig.recorder.named("agent:abort")[0]["reason"], reason);
    assert_eq!(rig.recorder.named("agent:done")[0]["error"], format!("the run was stopped: {reason}"));
}

#[tokio::test]
async fn a_handler_steers_and_follows_up_and_sees_the_state_of_the_run() {
    let rig = rig(Script::answering(|_| Turn::new().text("Hello.")));
    let states = Arc::new(Mutex::new(Vec::new()));
    let kept = states.clone();
    rig.scope("goals").on_sync(move |after: &TurnAfter, cx: &Cx| {
        let run = run_of(cx);
        assert_eq!(run.run_id().as_str(), cx.run_id());
        if after.turn == 1 {
            run.follow_up(Message::injected("And then?", "goals")).unwrap();
            run.steer(Message::injected("Be brief.", "goals")).unwrap();
        }
        let state = run.state();
        kept.lock().unwrap().push((state.turn, state.steering, state.follow_ups, state.stopping));
    });
    let late = Arc::new(Mutex::new(None));
    let kept = late.clone();
    rig.scope("keeper").on_sync(move |_: &AgentDone, cx: &Cx| *kept.lock().unwrap() = Some(run_of(cx)));
    rig.run("go").await.result.unwrap();
    assert_eq!(*states.lock().unwrap(), [(1, 1, 1, false), (2, 0, 1, false), (3, 0, 0, false)]);
    let run = late.lock().unwrap().take().unwrap();
    let message = run.steer(Message::injected("Too late.", "goals")).unwrap_err().message;
    assert_eq!(message.text(), "Too late.");
}

#[tokio::test]
async fn entries_that_plugins_append_before_the_end_are_handed_over_with_the_end() {
    let rig = rig(Script::answering(|_| Turn::new().text("Hello.")));
    rig.scope("goals")
        .on_sync(|_: &SessionBeforeEnd, _: &Cx| Some(NewEntry::hidden("goal", 1, json!({"done": true}))));
    rig.scope("broken")
        .on_sync(|_: &SessionBeforeEnd, _: &Cx| -> Result<Option<NewEntry>, BoxError> { Err("no".into()) });
    let ends = Arc::new(Mutex::new(Vec::new()));
    let kept = ends.clone();
    rig.scope("recorder").on_sync(move |end: &SessionEnd, _: &Cx| kept.lock().unwrap().push(end.clone()));
    rig.run("go").await.result.unwrap();
    let entry = CustomEntry {
        source: "goals".into(),
        kind: "goal".into(),
        version: 1,
        data: json!({"done": true}).into(),
        audience: Audience::Hidden,
    };
    assert_eq!(ends.lock().unwrap()[0].entries, [entry]);
    assert_eq!(
        rig.names(&["agent:done", "session:before-end", "session:end"]),
        ["agent:done", "session:before-end", "session:end"]
    );
}

#[tokio::test]
async fn the_entries_of_a_restored_conversation_are_announced_once_before_anything_else() {
    let message = Message::user_text("earlier").shared();
    let kind = EntryKind::Message { message: message.clone(), usage: None };
    let entry = Entry { id: "e_1".into(), parent: None, time_ms: 0, kind };
    let script = Script::answering(|_| Turn::new().text("Hello."));
    let rig = rig_with(script, |b| b.restored(vec![entry]));
    let loaded = Arc::new(Mutex::new(0));
    let kept = loaded.clone();
    rig.scope("goals").on_sync(move |ev: &SessionLoaded, _: &Cx| *kept.lock().unwrap() += ev.entries.len());
    rig.run("go").await.result.unwrap();
    rig.run("go").await.result.unwrap();
    assert_eq!(*loaded.lock().unwrap(), 1);
    assert_eq!(rig.names(&["session:loaded", "session:start", "input"])[..2], ["session:loaded", "input"]);
}
