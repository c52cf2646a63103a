use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_agent::{SubagentState, Subagents};
use zk_core::events::{GoalChanged, GoalState, GoalVerdict};
use zk_core::kernel::Cx;
use zk_core::model::{Approved, CheckItem, CheckState, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    CallPlace, Command, CommandOutcome, Questions, Redactor, Selection, Tool, ToolCx, UiAnswer,
};
use zk_goals::{GoalInput, GoalMachine, GoalSettings, GoalSpec, Spender};
use zk_session::MemoryStore;
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{is_supervisor, model, open, open_with, priced, settings};

fn unpaused_settings() -> GoalSettings {
    GoalSettings { pause_ms: 0, ..settings() }
}

async fn run_command(cx: &Cx, name: &str, args: &str) -> Result<CommandOutcome, String> {
    let command = cx.item::<dyn Command>(name).unwrap();
    command.run(args, cx).await.map_err(|error| error.to_string())
}

fn shown_text(outcome: Result<CommandOutcome, String>) -> String {
    match outcome.unwrap() {
        CommandOutcome::Show(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_autonomous_goal_goes_on_until_the_phrase_and_tells_each_change() {
    let script = Script::new()
        .turn(|turn| turn.text("One is done."))
        .turn(|turn| turn.text("Two are done."))
        .turn(|turn| turn.text("All are done.\n\n**The goal is reached.**"));
    let (agent, goals) = open(&MemoryStore::new(), script, settings()).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    agent.bus().scope("test").on_sync(move |event: &GoalChanged, _: &Cx| {
        telling.lock().unwrap().push((event.state, event.turns));
    });
    let cx = agent.bus().cx();
    let prompt = run_command(&cx, "goal", "create --auto do all").await.unwrap();
    assert_eq!(prompt, CommandOutcome::Prompt("do all".to_owned()));
    let begun = tokio::time::Instant::now();
    agent.run("do all").unwrap().wait().await.result.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 1_000, "a pause of 500 ms before each further turn");
    assert_eq!(*told.lock().unwrap(), [(GoalState::Active, 0), (GoalState::Completed, 3)]);
    let history = agent.history();
    let injected: Vec<_> =
        history.iter().filter(|message| message.injected_by.as_deref() == Some("goals")).collect();
    assert_eq!(injected.len(), 2);
    assert!(injected[0].text().contains("do all") && injected[0].text().contains("The goal is reached."));
    assert_eq!(goals.goal().unwrap().turns, 3);
    agent.close().await;
}

#[tokio::test]
async fn a_person_sets_shows_replaces_and_ends_a_goal_by_commands() {
    let script = Script::answering(|_| Turn::new().text("ok"));
    let (agent, goals) = open(&MemoryStore::new(), script, GoalSettings::default()).await;
    let cx = agent.bus().cx();
    assert_eq!(shown_text(run_command(&cx, "goal", "").await), "there is no goal: /goal TEXT sets one");
    assert!(run_command(&cx, "done", "").await.unwrap_err().contains("no goal"));
    let refused = run_command(&cx, "goal", "create --auto fix it").await.unwrap_err();
    assert!(refused.contains("`autonomous = true` under [goals]"), "{refused}");
    assert!(run_command(&cx, "goal", "create   ").await.unwrap_err().contains("needs a text"));
    assert!(shown_text(run_command(&cx, "goal", "fix \u{1b}[31mit").await).contains("next prompt"));
    let second = run_command(&cx, "goal", "another").await.unwrap_err();
    assert!(second.contains("is not reached: /goal clear removes it"), "{second}");
    let text = shown_text(run_command(&cx, "goal", "").await);
    assert!(text.contains("goal 1") && !text.contains('\u{1b}') && text.contains("active"), "{text:?}");
    // A goal that is not autonomous makes the model continue nothing.
    agent.run("go").unwrap().wait().await.result.unwrap();
    assert_eq!(agent.history().len(), 2);
    run_command(&cx, "done", "").await.unwrap();
    assert_eq!(goals.goal().unwrap().state, GoalState::Completed);
    assert!(shown_text(run_command(&cx, "goal", "clear").await).contains("removed"));
    assert!(goals.goal().is_none());
    agent.close().await;
}

#[tokio::test]
async fn the_model_is_told_of_a_goal_that_a_person_set_and_of_no_prompt() {
    for (from_prompts, is_set, is_told) in [(true, false, false), (false, true, true)] {
        let systems = Arc::new(Mutex::new(Vec::new()));
        let seen = systems.clone();
        let script = Script::answering(move |asked| {
            seen.lock().unwrap().push(asked.system.clone());
            Turn::new().text("ok")
        });
        let settings = GoalSettings { from_prompts, ..GoalSettings::default() };
        let (agent, goals) = open(&MemoryStore::new(), script, settings).await;
        if is_set {
            goals.begin(GoalSpec::new("paint the barn").unwrap(), &agent.bus().cx()).await.unwrap();
        }
        agent.run("paint the barn").unwrap().wait().await.result.unwrap();
        let system = systems.lock().unwrap().concat();
        assert_eq!(system.contains("paint the barn") && system.contains("The goal is reached."), is_told);
        assert_eq!(goals.goal().unwrap().state, GoalState::Active, "also from a prompt");
        agent.close().await;
    }
}

#[tokio::test]
async fn a_goal_survives_its_process_and_is_that_of_the_branch() {
    let store = MemoryStore::new();
    let script = || Script::answering(|_| Turn::new().text("ok"));
    let (agent, goals) = open(&store, script(), GoalSettings::default()).await;
    agent.run("hello").unwrap().wait().await.result.unwrap();
    goals.begin(GoalSpec::new("paint the barn").unwrap(), &agent.bus().cx()).await.unwrap();
    agent.run("begin").unwrap().wait().await.result.unwrap();
    agent.close().await;
    drop(agent);
    let (agent, goals) = open(&store, script(), GoalSettings::default()).await;
    agent.run("go on").unwrap().wait().await.result.unwrap();
    let goal = goals.goal().unwrap();
    assert_eq!((goal.spec.text(), goal.turns, goal.state), ("paint the barn", 2, GoalState::Active));
    agent.close().await;
}

#[tokio::test]
async fn a_stopped_run_pauses_the_goal_and_a_prompt_or_resume_goes_on() {
    let script = Script::new().turn(|turn| turn.hang()).turn(|turn| turn.text("Done.\nThe goal is reached."));
    let (agent, goals) = open(&MemoryStore::new(), script, unpaused_settings()).await;
    let cx = agent.bus().cx();
    goals.begin(GoalSpec::new("x").unwrap().autonomous(None, None), &cx).await.unwrap();
    let mut run = agent.run("x").unwrap();
    let handle = run.handle();
    run.start();
    tokio::task::yield_now().await;
    handle.abort();
    let _ = run.wait().await;
    let goal = goals.goal().unwrap();
    assert_eq!((goal.state, goal.spec.max_turns()), (GoalState::Paused, Some(50)));
    let CommandOutcome::Prompt(text) = run_command(&cx, "goal", "resume").await.unwrap() else { panic!() };
    agent.run(text).unwrap().wait().await.result.unwrap();
    assert_eq!(goals.goal().unwrap().state, GoalState::Completed);
    agent.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_supervisor_is_asked_every_five_turns_beside_the_work() {
    let verdicts = Arc::new(Mutex::new(Vec::new()));
    let count = Arc::new(Mutex::new(0));
    let script = Script::answering(move |asked| {
        if is_supervisor(&asked.system) {
            assert!(asked.last_user_text().contains("Step 5"), "the record of the work");
            return priced(Turn::new()).text(r#"{"achieved": true, "reason": "it is all there"}"#);
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        priced(Turn::new()).text(format!("Step {count}"))
    });
    let (agent, goals) = open(&MemoryStore::new(), script, settings()).await;
    let telling = verdicts.clone();
    agent.bus().scope("test").on_sync(move |event: &GoalVerdict, _: &Cx| {
        telling.lock().unwrap().push((event.turns, event.achieved, event.reason.clone()));
    });
    goals.begin(GoalSpec::new("x").unwrap().autonomous(None, None), &agent.bus().cx()).await.unwrap();
    agent.run("x").unwrap().wait().await.result.unwrap();
    assert_eq!(*verdicts.lock().unwrap(), [(5, Some(true), "it is all there".to_owned())]);
    let goal = goals.goal().unwrap();
    assert_eq!(goal.reason.as_deref(), Some("the supervisor found: it is all there"));
    assert_eq!((goal.state, goal.turns), (GoalState::Completed, 6));
    assert!((goal.spent - 0.07).abs() < 1e-9, "{}", goal.spent);
    agent.close().await;
}

#[tokio::test]
async fn a_verdict_has_its_form_from_a_provider_that_enforces_it_and_is_read_from_any() {
    for enforces in [true, false] {
        let script = Script::answering(|asked| match is_supervisor(&asked.system) {
            true => Turn::new().text(r#"{"achieved": true, "reason": "it is all there"}"#),
            false => Turn::new().text(format!("Step {}", asked.messages.len())),
        });
        let provider = ScriptedProvider::new(script).with_model(model());
        let provider = Arc::new(if enforces { provider.with_native_output() } else { provider });
        let (agent, goals) = open_with(&MemoryStore::new(), provider.clone(), settings()).await;
        goals.begin(GoalSpec::new("x").unwrap().autonomous(None, None), &agent.bus().cx()).await.unwrap();
        agent.run("x").unwrap().wait().await.result.unwrap();
        assert_eq!(goals.goal().unwrap().state, GoalState::Completed);
        let requests = provider.requests();
        let verdict = requests.iter().find(|request| is_supervisor(&request.system)).unwrap();
        let form = verdict.output.as_ref().map(|output| output.schema["required"].clone());
        assert_eq!(form, enforces.then(|| json!(["achieved", "reason"])));
        agent.close().await;
    }
}

#[tokio::test]
async fn the_supervisor_reads_no_secret_not_even_a_part_that_a_cut_leaves() {
    let secret = "correct-horse-battery-staple";
    let script = Script::answering(move |asked| match is_supervisor(&asked.system) {
        true => Turn::new().text(r#"{"achieved": true, "reason": "it is all there"}"#),
        // The limit of an answer in the record falls into the secret.
        false => Turn::new().text(format!("Step {:02} {}{secret}", asked.messages.len(), "x".repeat(1_482))),
    });
    let provider = Arc::new(ScriptedProvider::new(script).with_model(model()));
    let (agent, goals) = open_with(&MemoryStore::new(), provider.clone(), settings()).await;
    let redactor = Redactor::new();
    redactor.learn(secret);
    agent.bus().scope("host").provide_service(Arc::new(redactor));
    goals.begin(GoalSpec::new("x").unwrap().autonomous(None, None), &agent.bus().cx()).await.unwrap();
    agent.run("x").unwrap().wait().await.result.unwrap();
    let requests = provider.requests();
    let verdict = requests.iter().find(|request| is_supervisor(&request.system)).unwrap();
    let record = format!("{:?}", verdict.history);
    assert!(record.contains("xxxx") && !record.contains("correct"), "{record}");
    agent.close().await;
}

#[tokio::test]
async fn a_budget_that_cannot_be_held_ends_the_goal() {
    let script = Script::answering(|_| Turn::new().text("ok").call("nothing", json!({})));
    let (agent, goals) = open(&MemoryStore::new(), script, unpaused_settings()).await;
    let unpriced = zk_core::model::Model::unknown("scripted", "free");
    goals.begin(GoalSpec::new("x").unwrap().autonomous(None, Some(1.0)), &agent.bus().cx()).await.unwrap();
    let options = zk_agent::RunOptions::from("x").model(unpriced);
    let outcome = agent.run(options).unwrap().wait().await;
    let goal = goals.goal().unwrap();
    assert_eq!((goal.state, goal.turns), (GoalState::Capped, 0), "{:?}", outcome.result);
    assert!(goal.reason.unwrap().contains("price of the model is not known"));
    agent.close().await;
}

#[tokio::test]
async fn a_cap_stops_the_sub_agents_in_the_background_and_their_end_begins_no_run() {
    let script = Script::answering(|asked| {
        let text = asked.last_user_text();
        if text.contains("Read it.") {
            return Turn::new().hang();
        }
        let has_begun = asked.result_of("spawn").is_some();
        if has_begun { Turn::new().text("Step") } else { spawning() }
    });
    let (agent, goals) = open(&MemoryStore::new(), script, unpaused_settings()).await;
    goals.begin(GoalSpec::new("x").unwrap().autonomous(Some(2), None), &agent.bus().cx()).await.unwrap();
    agent.run("x").unwrap().wait().await.result.unwrap();
    assert_eq!(goals.goal().unwrap().state, GoalState::Capped);
    let subagents = agent.bus().service::<Subagents>().unwrap();
    subagents.until_idle().await;
    let list = subagents.list();
    let states: Vec<_> = list.iter().map(|child| &child.state).collect();
    assert!(matches!(states.as_slice(), [SubagentState::Stopped(why)] if why.contains("cap")), "{states:?}");
    let said = |text: &str| agent.history().iter().filter(|message| message.text().contains(text)).count();
    assert_eq!(said("Step"), 1, "no run after the cap");
    agent.close().await;
}

fn spawning() -> Turn {
    Turn::new().call("spawn", json!({ "task": "Read it.", "background": true }))
}

#[test]
fn what_sub_agents_spend_after_a_cap_is_still_counted() {
    let mut machine = GoalMachine::new(GoalSettings::default().rules());
    machine.apply(GoalInput::Set(GoalSpec::new("x").unwrap().autonomous(None, Some(1.0))));
    machine.apply(GoalInput::Spent { usd: Some(1.5), by: Spender::Other });
    assert_eq!(machine.state(), Some(GoalState::Capped));
    machine.apply(GoalInput::Spent { usd: Some(0.25), by: Spender::Other });
    machine.apply(GoalInput::Spent { usd: Some(4.0), by: Spender::Turn });
    assert!((machine.goal().unwrap().spent - 1.75).abs() < 1e-9, "{:?}", machine.goal());
}

/// Tool that shows a plan of which everything is done.
struct Plan(Arc<ToolSpec>);

#[async_trait::async_trait]
impl Tool for Plan {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let items = vec![CheckItem { text: "paint".to_owned(), state: CheckState::Done }];
        Ok(ToolOutput::text("ok").with_display(Display::Checklist { items, reshaped: false }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_goal_is_not_reached_by_the_plan_that_was_finished_before() {
    let script = Script::new()
        .turn(|turn| turn.call("plan", json!({})))
        .turn(|turn| turn.text("All is painted."))
        .turn(|turn| turn.text("The door is not painted yet."))
        .turn(|turn| turn.text("Now it is.\n\nThe goal is reached."));
    let (agent, goals) = open(&MemoryStore::new(), script, unpaused_settings()).await;
    let spec = ToolSpec::new("plan", "Shows the plan.", json!({ "type": "object" }));
    agent.bus().scope("test").provide::<dyn Tool>("plan", Arc::new(Plan(spec))).unwrap();
    let cx = agent.bus().cx();
    goals.begin(GoalSpec::new("paint the barn").unwrap().autonomous(None, None), &cx).await.unwrap();
    agent.run("begin").unwrap().wait().await.result.unwrap();
    let first = goals.goal().unwrap();
    assert_eq!((first.state, first.turns), (GoalState::Completed, 2));
    let CommandOutcome::Prompt(text) = run_command(&cx, "goal", "resume").await.unwrap() else { panic!() };
    agent.run(text).unwrap().wait().await.result.unwrap();
    let then = goals.goal().unwrap();
    assert_eq!((then.state, then.turns), (GoalState::Completed, 4));
    agent.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_waits_for_a_person_while_the_work_goes_on_and_is_answered_later() {
    let (answers, is_answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, answered) = (answers.clone(), is_answered.clone());
    let script = Script::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        _ if answered.load(Ordering::SeqCst) => Turn::new().text("Done.\n\nThe goal is reached."),
        number => Turn::new().text(format!("Step {number}.")),
    });
    // Without a pause, the goal reaches its cap before anything else happens.
    let settings = GoalSettings { pause_ms: 10, ..settings() };
    let (agent, goals) = open(&MemoryStore::new(), script, settings).await;
    let cx = agent.bus().cx();
    let questions = Arc::new(Questions::new());
    let person = questions.attach();
    agent.bus().scope("terminal").provide_service(questions.clone());
    goals.begin(GoalSpec::new("paint the barn").unwrap().autonomous(None, None), &cx).await.unwrap();
    let until_step = async |step: usize| {
        while answers.load(Ordering::SeqCst) < step {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waiting = || goals.goal().unwrap().changed().waiting;
    let deciding = async {
        until_step(2).await;
        let question = Selection::new("Which colour?", vec!["red".to_owned(), "blue".to_owned()]);
        let asking = questions.ask(question.into(), &cx, Duration::from_secs(3_600));
        let answering = async {
            let asked = person.next().await;
            while waiting().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(waiting(), ["Which colour?"]);
            let now = answers.load(Ordering::SeqCst);
            until_step(now + 3).await;
            assert_eq!((waiting().len(), goals.goal().unwrap().state), (1, GoalState::Active));
            person.answer(asked.id, asked.digest, UiAnswer::Choice { index: 1 }).unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer, UiAnswer::Choice { index: 1 });
        while !waiting().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        is_answered.store(true, Ordering::SeqCst);
    };
    let (outcome, ()) = tokio::join!(agent.run("begin").unwrap().wait(), deciding);
    outcome.result.unwrap();
    assert_eq!(goals.goal().unwrap().state, GoalState::Completed);
    agent.close().await;
}
