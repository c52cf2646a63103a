//! Sub-agents in the background: their results, stops, messages and the turns they begin with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zk_agent::{Behavior, Delegation, SpawnOptions, SubagentState, Subagents};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, plugin_fn};
use zk_core::model::{Message, Role};
use zk_core::service::{CopyChanges, IsolatedCopy, Isolation, IsolationError};
use zk_testkit::{Asked, Script, Turn};

use crate::support::{Rig, rig_with};

/// A model whose prompts are its next turns: each line is one turn of `call TOOL JSON | …`, `say TEXT`,
/// `hang`, `fail` or `after SECONDS LINE`.
pub(crate) fn scripted(asked: &Asked) -> Turn {
    let own = |message: &Message| {
        message.role == Role::User
            && message.injected_by.is_none()
            && !message.content.iter().any(|block| block.as_result().is_some())
    };
    let answers =
        |messages: &[Arc<Message>]| messages.iter().filter(|one| one.role == Role::Assistant).count();
    let Some(at) = asked.messages.iter().rposition(|message| own(message)) else {
        return Turn::new().text("?");
    };
    let (task, done) = (asked.messages[at].text(), answers(&asked.messages[at..]));
    turn(task.lines().nth(done).unwrap_or("say done"), asked)
}

fn turn(line: &str, asked: &Asked) -> Turn {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "say" => Turn::new().text(rest.replace("{last}", &last_result(asked))),
        "hang" => Turn::new().text("Wait").hang(),
        "after" => {
            let (seconds, line) = rest.split_once(' ').unwrap();
            let pause = Turn::new().delay(Duration::from_secs(seconds.parse().unwrap()));
            pause.text(line.to_owned())
        }
        "call" => {
            let (mut turn, mut rest) = (Turn::new(), rest);
            // Arguments may have calls of their own in a task.
            while let Some((tool, args)) = rest.split_once(' ') {
                let mut values = serde_json::Deserializer::from_str(args).into_iter::<Value>();
                turn = turn.call(tool, values.next().unwrap().unwrap());
                rest = args.get(values.byte_offset()..).unwrap().trim_start_matches(" | ");
            }
            turn
        }
        other => panic!("no such line: {other}"),
    }
}

fn last_result(asked: &Asked) -> String {
    asked.results().last().map(|result| result.text.clone()).unwrap_or_default()
}

fn options() -> SpawnOptions {
    SpawnOptions { background: true, ..SpawnOptions::default() }
}

fn family(options: SpawnOptions) -> Rig {
    rig_with(Script::answering(scripted), |builder| builder.system("Base.").spawn(options))
}

fn background(task: &str) -> String {
    format!("call spawn {}", json!({"task": task, "background": true}))
}

async fn say(rig: &Rig, lines: &[&str]) -> String {
    let outcome = rig.run(lines.join("\n")).await;
    outcome.result.unwrap();
    outcome.text
}

fn subagents(rig: &Rig) -> Arc<Subagents> {
    rig.agent.bus().service::<Subagents>().unwrap()
}

/// Messages about sub-agents in the history, in order.
fn notices(rig: &Rig) -> Vec<String> {
    let history = rig.agent.history();
    let told = history.iter().filter(|message| message.injected_by.as_deref() == Some("sub-agents"));
    told.map(|message| message.text()).collect()
}

/// Results that the history has of the tool `agents`.
fn answers(rig: &Rig) -> Vec<String> {
    let history = rig.agent.history();
    let calls: Vec<_> =
        history.iter().flat_map(|message| message.calls().cloned().collect::<Vec<_>>()).collect();
    let results = history.iter().flat_map(|message| {
        message.content.iter().filter_map(|block| block.as_result().cloned()).collect::<Vec<_>>()
    });
    results
        .filter(|result| calls.iter().any(|call| call.id == result.call_id && call.name == "agents"))
        .map(|result| result.content.to_text())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_result_waits_for_the_next_prompt_and_is_reported_once() {
    let rig = family(options());
    assert_eq!(say(&rig, &[&background("after 5 found it"), "say going on"]).await, "going on");
    assert_eq!(rig.recorder.named("spawn:before")[0]["background"], json!(true));
    subagents(&rig).until_idle().await;
    assert!(!rig.agent.is_running() && notices(&rig).is_empty(), "no run begins by itself");
    say(&rig, &["say thanks"]).await;
    say(&rig, &["say again"]).await;
    assert_eq!(notices(&rig), ["Sub-agent main.1 is done after 1 turn. Its answer:\nfound it"]);
    let info = &subagents(&rig).list()[0];
    assert_eq!((info.state.clone(), info.turns, info.is_background), (SubagentState::Done, 1, true));
}

#[tokio::test(start_paused = true)]
async fn a_result_joins_the_run_that_is_active_between_two_turns() {
    let rig = family(options());
    let wait = r#"call agents {"action":"wait","agent":"main.1","seconds":1} | agents {"action":"status"}"#;
    let long = r#"call agents {"action":"wait","agent":"main.2","seconds":20}"#;
    let two = format!(
        "{} | spawn {}",
        background("after 5 first"),
        json!({"task": "after 9 second", "background": true})
    );
    say(&rig, &[&two, wait, long, "say end"]).await;
    let answers = answers(&rig);
    assert!(answers[0].starts_with("main.1 still works after 1 s"), "{answers:?}");
    assert!(answers[1].contains("main.1  works, in the background; 0 turns"), "{answers:?}");
    assert_eq!(answers[2], "(main.2: done)\nsecond", "a call that waits gives the result");
    assert_eq!(notices(&rig), ["Sub-agent main.1 is done after 1 turn. Its answer:\nfirst"]);
}

#[tokio::test(start_paused = true)]
async fn agents_are_stopped_by_their_parent_by_a_person_and_with_the_conversation() {
    let rig = family(options());
    let both = format!("{} | spawn {}", background("hang"), json!({"task": "hang", "background": true}));
    say(&rig, &[&both, r#"call agents {"action":"stop","agent":"main.1"}"#, "say end"]).await;
    assert!(
        answers(&rig)[0].starts_with("(main.1: stopped: stopped by the agent that started it)"),
        "{:?}",
        answers(&rig)
    );
    subagents(&rig).stop("main.2", "stopped by the person").unwrap();
    subagents(&rig).until_idle().await;
    assert!(subagents(&rig).stop("main.2", "again").is_err());
    say(&rig, &[&background("hang"), "say end"]).await;
    assert_eq!(notices(&rig).len(), 1);
    assert!(
        notices(&rig)[0].starts_with("Sub-agent main.2 was stopped in its first turn"),
        "{:?}",
        notices(&rig)
    );
    let all = subagents(&rig);
    rig.agent.close().await;
    let states: Vec<bool> = all.list().iter().map(|info| info.state.is_over()).collect();
    assert_eq!(states, [true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_person_steers_one_of_several() {
    let rig = family(options());
    let lines = "call echo {\"text\":\"a\"}\nhang";
    let mut run = rig.agent.run(background(lines) + "\nhang").unwrap();
    run.start();
    let all = subagents(&rig);
    let mut changes = all.changes();
    while all.list().first().is_none_or(|info| info.turns < 1) {
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    all.steer("main.1", "say steered").unwrap();
    assert_eq!(
        all.steer("main.7", "x").unwrap_err().to_string(),
        "there is no sub-agent `main.7`; there are main.1"
    );
    run.abort();
    run.wait().await;
    // Steering interrupts at the next turn; this model hangs, so it is stopped.
    all.stop("main.1", "enough").unwrap();
    all.until_idle().await;
    assert_eq!(all.list()[0].state, SubagentState::Stopped("enough".into()));
}

#[tokio::test(start_paused = true)]
async fn messages_are_bounded_name_their_sender_and_are_pulled() {
    let rig = family(options());
    let child = "call agents {\"action\":\"message\",\"agent\":\"parent\",\"text\":\"half way\"}\ncall agents {\"action\":\"inbox\"}\nsay read: {last}";
    let spawn = background(child);
    let inbox = r#"call agents {"action":"wait","agent":"main.1"} | agents {"action":"inbox"}"#;
    let inbox_after = r#"call agents {"action":"inbox"}"#;
    say(&rig, &[&spawn, inbox, inbox_after, "say end"]).await;
    let mut answers = answers(&rig);
    answers.retain(|answer| answer.contains("half way"));
    assert_eq!(answers, ["from main.1: half way"]);
    // A dead agent gets no messages, an unknown one neither, and the root has no parent.
    for (to, why) in [
        ("main.1", "main.1 has ended, so nobody will read the message; start another sub-agent"),
        ("main.9", "you have no sub-agent `main.9`; yours are main.1"),
        ("parent", "you have no parent: a person reads your answers"),
    ] {
        let call = format!("call agents {}", json!({"action": "message", "agent": to, "text": "hi"}));
        say(&rig, &[&call, "say {last}"]).await;
        assert_eq!(self::answers(&rig).last().unwrap(), why);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_sub_agent_stops_its_own_sub_agents() {
    let rig = family(options());
    let child = format!("{}\nsay early", background("hang"));
    let wait = r#"call agents {"action":"wait","agent":"main.1"}"#;
    say(&rig, &[&background(&child), wait, "say end"]).await;
    let answer = &answers(&rig)[0];
    assert_eq!(answer, "(main.1: done)\nearly\n\n(its sub-agents main.1.1 were stopped with it)");
    assert!(subagents(&rig).list().iter().all(|info| info.state.is_over()));
}

#[tokio::test]
async fn turns_are_handed_over_on_request() {
    for (context, seen) in [
        (json!({}), vec!["task"]),
        (
            json!({"context": "last_answer"}),
            vec!["The last answer of the agent that asks you:\n\nseven", "task"],
        ),
        (json!({"context": "last_turns"}), vec!["say seven", "seven", "next", "task"]),
        (
            json!({"context": "last_turns", "turns": 2}),
            vec!["say six", "six", "say seven", "seven", "next", "task"],
        ),
    ] {
        let mut args = json!({"task": "task"});
        args.as_object_mut().unwrap().extend(context.as_object().unwrap().clone());
        let script = Script::new()
            .turn(|turn| turn.text("six"))
            .turn(|turn| turn.text("seven"))
            .turn(|turn| turn.call("spawn", args))
            .turn(|turn| turn.text("child"))
            .turn(|turn| turn.text("end"));
        let rig = rig_with(script, |builder| builder.spawn(options()));
        for prompt in ["say six", "say seven", "next"] {
            rig.run(prompt).await.result.unwrap();
        }
        let child = &rig.provider.asked()[3];
        let texts: Vec<String> = child
            .messages
            .iter()
            .flat_map(|message| {
                message
                    .content
                    .iter()
                    .filter_map(|block| block.as_text().map(ToOwned::to_owned))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(texts, seen, "{context}");
    }
}

#[tokio::test]
async fn the_prompt_states_the_readiness_to_delegate() {
    for (delegation, tools, told) in [
        (None, true, ""),
        (Some(Delegation::Disabled), false, ""),
        (Some(Delegation::Explicit), true, "only if the user asks"),
        (Some(Delegation::Proactive), true, "Delegate with `spawn` where"),
    ] {
        let rig = family(SpawnOptions { delegation, ..options() });
        say(&rig, &["say hi"]).await;
        let asked = &rig.provider.asked()[0];
        assert_eq!(asked.tools.contains(&"spawn".to_owned()), tools, "{delegation:?}");
        assert_eq!(asked.tools.contains(&"agents".to_owned()), tools, "{delegation:?}");
        assert!(
            asked.system.contains(told) && (told.is_empty() == (asked.system == "Base.")),
            "{}",
            asked.system
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_conversation_gets_no_notice() {
    let rig = family(options());
    say(&rig, &[&background("after 5 late"), "say end"]).await;
    rig.forget();
    subagents(&rig).until_idle().await;
    say(&rig, &["say new"]).await;
    assert!(notices(&rig).is_empty());
}

#[tokio::test]
async fn there_is_no_background_and_no_copy_where_the_host_has_none() {
    let rig = family(SpawnOptions::default());
    let outcome = rig.run(format!("{}\nsay {{last}}", background("say x"))).await;
    assert_eq!(outcome.text, "sub-agents do not work in the background here");
    let rig = family(options());
    let call = format!("call spawn {}\nsay {{last}}", json!({"task": "say x", "isolation": "worktree"}));
    let outcome = rig.run(call).await;
    assert_eq!(outcome.text, "there are no copies of the workspace here; delegate without `isolation`");
    let _ = Behavior::default();
}

/// A copy that takes its time, and counts how often its changes were taken.
#[derive(Default)]
struct SlowCopy(std::sync::atomic::AtomicUsize);

struct Copies(Arc<SlowCopy>);

#[async_trait::async_trait]
impl Isolation for Copies {
    async fn isolate(&self, _: &str, _: &Path, _: &Cx) -> Result<Arc<dyn IsolatedCopy>, IsolationError> {
        Ok(self.0.clone())
    }
}

#[async_trait::async_trait]
impl IsolatedCopy for SlowCopy {
    fn cwd(&self) -> PathBuf {
        PathBuf::from("/")
    }

    fn plugins(&self) -> Vec<Arc<dyn Plugin>> {
        Vec::new()
    }

    async fn finish(&self) -> Result<CopyChanges, IsolationError> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        let files = vec!["a.txt".to_owned()];
        let file = Some(PathBuf::from("/state/main.1.patch"));
        Ok(CopyChanges { files, added: 1, tool: "apply_changes".into(), file, ..CopyChanges::default() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_call_brings_the_changes_of_its_copy_back() {
    let copy = Arc::new(SlowCopy::default());
    let copies = Arc::new(Copies(copy.clone()));
    let plugin = plugin_fn("copies", move |scope: &Scope| {
        scope.provide_service::<dyn Isolation>(copies.clone());
        Ok::<(), BoxError>(())
    });
    let rig = rig_with(Script::answering(scripted), |builder| {
        builder.system("Base.").plugin(plugin).spawn(options())
    });
    let args = json!({"task": "hang", "isolation": "worktree"});
    let mut run = rig.agent.run(format!("call spawn {args}")).unwrap();
    run.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(subagents(&rig).list().len(), 1);
    run.abort();
    run.wait().await.result.unwrap_err();
    assert_eq!(copy.0.load(std::sync::atomic::Ordering::Acquire), 0, "the call was dropped");
    subagents(&rig).until_idle().await;
    assert_eq!(copy.0.load(std::sync::atomic::Ordering::Acquire), 1);
    say(&rig, &["say thanks"]).await;
    let told = notices(&rig).join("\n");
    assert!(
        told.contains("Sub-agent main.1 was stopped") && told.contains("git apply /state/main.1.patch"),
        "{told}"
    );
}
