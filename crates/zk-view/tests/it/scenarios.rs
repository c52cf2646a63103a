//! Every kind of run: the stored session shows what was seen, whatever happened in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use zk_agent::{Behavior, OnExceed, RunHandle, SpawnOptions, ToolBudget};
use zk_compaction::{Shorten, Tail, Window};
use zk_core::events::{
    Input, InputReply, ProviderRetry, ResultPatch, Ruling, SessionBeforeEnd, StreamTransform, ToolAfter,
    ToolBefore, ToolGate, ToolPrepare, ToolProgress, ToolTransform, TurnAfter, TurnBefore, ViewBlock,
};
use zk_core::kernel::Cx;
use zk_core::model::{Display, ErrorKind, Message, ModelRef, StopReason, ToolOutput};
use zk_core::service::{Audience, NewEntry, Question, Questions, RetryNotice, SessionLog, UiAnswer};
use zk_testkit::{Asked, Script, Turn};

use zk_core::service::EntryKind;
use zk_view::{Call, CallState, rebuild};

use crate::support::{Rig, call, recordings, rig, rig_with};

fn echo(text: &str) -> impl FnOnce(Turn) -> Turn {
    let text = text.to_owned();
    move |turn| turn.call("echo", json!({ "text": text }))
}

fn done(turn: Turn) -> Turn {
    turn.text("Done.")
}

/// Script in which a sub-agent starts a sub-agent of its own.
fn spawning(asked: &Asked) -> Turn {
    let turn = Turn::new();
    match (asked.last_user_text().as_str(), asked.results().is_empty()) {
        ("go", true) => turn
            .text("I have it done.")
            .call("spawn", json!({"task": "look around"}))
            .call("spawn", json!({"task": "fail"}))
            .call("echo", json!({"text": "beside"})),
        ("look around", true) => turn.thinking("Hm.").call("spawn", json!({"task": "look closer"})),
        ("look closer", true) => turn.call("run", json!({"text": "x\n".repeat(60)})).call("fail", json!({})),
        ("fail", _) => turn.text("Half").error(ErrorKind::Overloaded, "gone"),
        (_, _) => turn.text("Seen."),
    }
}

fn person_entry(text: &str) -> NewEntry {
    NewEntry { kind: "goal".into(), version: 1, data: json!(text), audience: Audience::Person }
}

/// Runs an action after a number of turns have begun.
fn at_turn(
    rig: &Rig,
    number: usize,
    act: impl Fn(&RunHandle) + Send + Sync + 'static,
) -> Arc<std::sync::Mutex<Option<RunHandle>>> {
    let handle: Arc<std::sync::Mutex<Option<RunHandle>>> = Arc::default();
    let (kept, seen) = (handle.clone(), std::sync::atomic::AtomicUsize::new(0));
    rig.agent.bus().scope("person").on_sync(move |_: &ToolBefore, _: &Cx| {
        if seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == number
            && let Some(handle) = &*kept.lock().unwrap()
        {
            act(handle);
        }
    });
    handle
}

async fn scenario(name: &str) -> Rig {
    let two = || Script::new().turn(echo("one")).turn(echo("two")).turn(done);
    let plain = |behavior| rig_with(two(), move |b| b.behavior(behavior));
    let mut rig = match name {
        "a batch with a barrier" => {
            let batch = |t: Turn| {
                let t =
                    t.text("I look.").call("echo", json!({"text": "a"})).call("echo", json!({"text": "b"}));
                t.call("run", json!({"text": "c\nd"}))
                    .call("fail", json!({"text": "e"}))
                    .call("echo", json!({}))
            };
            rig(Script::new().turn(batch).turn(done)).await
        }
        "two calls of one id" => {
            let twice = |t: Turn| {
                let t = t.call_as("same", "run", json!({"text": "a"}));
                t.call_as("same", "fail", json!({"text": "b"})).call_as("same", "echo", json!({"text": "c"}))
            };
            rig(Script::new().turn(twice).turn(done)).await
        }
        "calls that do not run" => {
            let calls = |t: Turn| {
                let t = t
                    .call("nobody", json!({}))
                    .raw_call("echo", r#"{"text": "#)
                    .call("echo", json!({"text": [7]}));
                t.call("echo", json!({"text": "refused"})).call("echo", json!({"text": "parked"}))
            };
            let rig = rig(Script::new().turn(calls).turn(done)).await;
            rig.agent.bus().scope("guard").on_sync(|gate: &ToolGate, _: &Cx| match gate.input_str("text") {
                Some("refused") => Some(Ruling::refuse("not today")),
                Some("parked") => Some(Ruling::Park("at night".into())),
                Some(_) | None => None,
            });
            rig
        }
        "a substitute, a prepared call and a changed result" => {
            let rig = rig(two()).await;
            let scope = rig.agent.bus().scope("plugin");
            scope.on_sync(|prepare: &ToolPrepare, _: &Cx| {
                (prepare.args["text"] == "one").then(|| json!({"text": "prepared"}))
            });
            scope.on_sync(|gate: &ToolGate, _: &Cx| {
                (gate.input_str("text") == Some("two"))
                    .then(|| Ruling::Substitute(ToolOutput::text("instead")))
            });
            scope.on_sync(|_: &ToolTransform, _: &Cx| {
                Some(ResultPatch { content: Some("changed".into()), ..ResultPatch::default() })
            });
            rig
        }
        "a budget of calls" => {
            let budget = ToolBudget { max: 1, on_exceed: OnExceed::Block };
            plain(Behavior {
                tool_budgets: BTreeMap::from([("echo".to_owned(), budget)]),
                ..Behavior::default()
            })
            .await
        }
        "a turn limit" => plain(Behavior { max_turns: Some(2), ..Behavior::default() }).await,
        "a tool that is not allowed" => {
            plain(Behavior { allowed_tools: Some(vec!["run".into()]), ..Behavior::default() }).await
        }
        "an answer by schema" => {
            let schema =
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
            let script = Script::new()
                .turn(|t| t.text("It is one."))
                .turn(|t| t.call("__output__", json!({"n": "many"})))
                .turn(|t| t.call("__output__", json!({"n": 1})));
            rig_with(script, |b| b.behavior(Behavior { schema: Some(schema), ..Behavior::default() })).await
        }
        "an answer cut off by its limit, paused and refused" => {
            let script = Script::new()
                .turn(|t| t.text("Half").stop(StopReason::PauseTurn))
                .turn(|t| t.text("More").call("echo", json!({"text": "x"})).stop(StopReason::MaxTokens))
                .turn(|t| t.text("No.").stop(StopReason::Refusal(None)));
            rig(script).await
        }
        "an error after text" => {
            rig(Script::new().turn(echo("one")).turn(|t| t.text("Half").error(ErrorKind::Rejected, "gone")))
                .await
        }
        "an answer that is sent again" => {
            let cut = |t: Turn| t.thinking("Hm.").text("Half").error(ErrorKind::Transport, "gone");
            rig(Script::new().turn(echo("one")).turn(cut).turn(done)).await
        }
        "an error before text" => {
            rig(Script::new().turn(echo("one")).turn(|t| t.error(ErrorKind::Auth, "no key"))).await
        }
        "no answer at all" => rig(Script::new().turn(|t| t.error(ErrorKind::Auth, "no key"))).await,
        "a wait for another attempt" => {
            let rig = rig(two()).await;
            rig.agent.bus().scope("provider").on_async(async |_: &TurnBefore, cx: &Cx| {
                let retry = RetryNotice {
                    kind: ErrorKind::Overloaded,
                    message: "busy".into(),
                    attempt: 1,
                    max_attempts: 3,
                    delay: Duration::from_millis(10),
                    discards: false,
                };
                cx.emit(ProviderRetry { model: ModelRef::new("p", "m"), retry }).await
            });
            rig
        }
        "a conversation that is made shorter" => {
            let script = Script::new()
                .turn(|t| t.call("run", json!({"text": "x\n".repeat(4000)})))
                .turn(|t| t.error(ErrorKind::ContextExceeded, "too long"))
                .turn(echo("two"))
                .turn(done);
            rig_with(script, |b| b.plugin(Window::default()).plugin(Tail::default()).plugin(Shorten)).await
        }
        "sub-agents of sub-agents, side by side" => {
            rig_with(Script::answering(spawning), |b| b.spawn(SpawnOptions::default())).await
        }
        "a question" => {
            let rig = rig(two()).await;
            let questions = Arc::new(Questions::new());
            let front_end = questions.attach();
            tokio::spawn(async move {
                for answer in [UiAnswer::Once, UiAnswer::No { message: Some("not this".into()) }] {
                    let asked = front_end.next().await;
                    front_end.answer(asked.id, asked.digest, answer).unwrap();
                }
            });
            rig.agent.bus().scope("consent").on_async_with(questions, ask);
            rig
        }
        "text that is masked" => {
            let script =
                Script::new().turn(|t| t.text("The key is K.").call("echo", json!({"text": "x"}))).turn(done);
            let rig = rig(script).await;
            let scope = rig.agent.bus().scope("mask");
            scope.on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.replace('K', "***")));
            rig
        }
        "blocks and entries of plugins" => {
            let rig = rig(two()).await;
            let scope = rig.agent.bus().scope("goals");
            scope.on_async(async |ev: &ToolAfter, cx: &Cx| {
                cx.emit(ViewBlock {
                    source: "todo".into(),
                    key: "list".into(),
                    kind: "todo".into(),
                    title: "Tasks".into(),
                    body: Display::Line { text: ev.call.call_id.to_string() },
                    last: false,
                })
                .await
            });
            let goals = scope.clone();
            scope.on_async_with(goals, note_goal);
            scope.on_sync(|_: &SessionBeforeEnd, _: &Cx| Some(person_entry("not yet\nmet")));
            rig
        }
        "an input that a plugin changes" => {
            let rig = rig(two()).await;
            rig.agent.bus().scope("input").on_sync(|_: &Input, _: &Cx| {
                Some(InputReply::Transform { text: "something else".into(), images: None })
            });
            rig
        }
        "progress" => {
            let rig = rig(Script::new().turn(|t| t.call("run", json!({"text": "a\nb"}))).turn(done)).await;
            rig.agent.bus().scope("watcher").on_sync(|_: &ToolProgress, _: &Cx| ());
            rig
        }
        "steering, a follow-up and a message of the harness" => {
            let script = Script::answering(|asked| match asked.number {
                0 | 1 => Turn::new().call("echo", json!({"text": "x"})).call("run", json!({"text": "y"})),
                _ => Turn::new().text("Done."),
            });
            let rig = rig(script).await;
            let handle = at_turn(&rig, 1, |handle| {
                handle.steer("other way").unwrap();
                handle.follow_up("and then").unwrap();
            });
            let run = rig.agent.run("go").unwrap();
            *handle.lock().unwrap() = Some(run.handle());
            run.wait().await;
            rig
        }
        "a run that is stopped in a batch" => {
            let script = Script::new().turn(|t| {
                t.text("I try.")
                    .call("run", json!({"text": "a"}))
                    .call("stuck", json!({}))
                    .call("run", json!({}))
            });
            let rig = rig(script.forever(|_| Turn::new().text("Well."))).await;
            let handle = at_turn(&rig, 2, |handle| handle.abort());
            let run = rig.agent.run("go").unwrap();
            *handle.lock().unwrap() = Some(run.handle());
            run.wait().await;
            rig
        }
        "a run that is stopped while it answers" => {
            let rig =
                rig(Script::new().turn(|t| t.thinking("Hm.").text("On and on").hang()).turn(done)).await;
            let run = rig.agent.run("go").unwrap();
            let handle = run.handle();
            let stop = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                handle.abort();
            };
            tokio::join!(run.wait(), stop);
            rig
        }
        "a command of the person" => {
            let mut rig = rig(two()).await;
            rig.run("go").await;
            rig.agent.inject(Message::injected("$ ls\na b", "user:bash")).unwrap();
            rig
        }
        other => panic!("there is no scenario {other}"),
    };
    rig.run("go").await;
    rig
}

async fn ask(questions: &Arc<Questions>, gate: &ToolGate, cx: &Cx) -> Option<Ruling> {
    let question = Question::Confirm { text: format!("Run {}?", gate.call.name) };
    match questions.ask(question, cx, Duration::from_secs(20)).await {
        UiAnswer::Once => None,
        UiAnswer::No { message } => Some(Ruling::refuse(message.unwrap_or_default())),
        _ => Some(Ruling::refuse("nobody was there")),
    }
}

async fn note_goal(scope: &zk_core::kernel::Scope, _: &TurnAfter, cx: &Cx) {
    cx.service::<dyn SessionLog>().unwrap().append(scope, person_entry("on the way")).await.unwrap();
}

const SCENARIOS: [&str; 25] = [
    "a batch with a barrier",
    "two calls of one id",
    "calls that do not run",
    "a substitute, a prepared call and a changed result",
    "a budget of calls",
    "a turn limit",
    "a tool that is not allowed",
    "an answer by schema",
    "an answer cut off by its limit, paused and refused",
    "an error after text",
    "an answer that is sent again",
    "an error before text",
    "no answer at all",
    "a wait for another attempt",
    "a conversation that is made shorter",
    "sub-agents of sub-agents, side by side",
    "a question",
    "text that is masked",
    "blocks and entries of plugins",
    "an input that a plugin changes",
    "progress",
    "steering, a follow-up and a message of the harness",
    "a run that is stopped in a batch",
    "a run that is stopped while it answers",
    "a command of the person",
];

#[tokio::test(start_paused = true)]
async fn whatever_happens_in_a_run_its_session_shows_the_blocks_that_were_seen() {
    for name in SCENARIOS {
        let mut rig = scenario(name).await;
        // The blocks of another run follow them.
        rig.run("again").await;
        record(name, &rig);
    }
}

/// Writes the patches of a scenario to the directory `ZK_RECORD_PATCHES`, for the tests of the screens.
fn record(name: &str, rig: &Rig) {
    let Some(directory) = recordings() else { return };
    let patches = rig.recorded.lock().unwrap();
    let lines = patches.iter().map(|patch| format!("{}\n", serde_json::to_string(patch).unwrap()));
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::path::Path::new(&directory).join(format!("{name}.jsonl"));
    std::fs::write(path, lines.collect::<String>()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_anywhere_shows_what_was_seen_up_to_its_last_whole_turn() {
    let mut turns = 0;
    // Blocks of a plugin may change until its run ends, so they are stored with the end.
    for name in SCENARIOS.into_iter().filter(|name| *name != "blocks and entries of plugins") {
        let rig = scenario(name).await;
        let entries = rig.session.entries().await.unwrap();
        let seen = rebuild(&entries);
        for end in 0..entries.len() {
            let shown = rebuild(&entries[..end]);
            let whole = match &entries[end].kind {
                EntryKind::OpenTurn { .. } => shown.len(),
                // Only calls of the open turn may differ from their final state.
                _ => {
                    shown.iter().take_while(|block| call(block).is_none_or(|call| !is_cut_off(call))).count()
                }
            };
            if matches!(&entries[end].kind, EntryKind::OpenTurn { .. }) {
                assert_eq!(shown[..], seen[..whole], "{name}, {end} entries");
                turns += 1;
            }
            let cut_off = shown[whole.min(shown.len())..].iter().filter_map(|block| call(block));
            for call in cut_off.filter(|call| call.state == CallState::OutcomeUnknown) {
                let summary = call.summary.as_str();
                assert!(
                    summary != call.tool.as_str() && !summary.is_empty(),
                    "{name}, {end} entries: {call:?}"
                );
            }
        }
    }
    assert!(turns > 20, "{turns}");
}

fn is_cut_off(call: &Call) -> bool {
    matches!(call.state, CallState::OutcomeUnknown | CallState::NotRun)
}
