//! Simulated goals: models that progress, stall, fail, loop and never end, supervisors that are wrong, garbled, busy
//! or silent, and processes that are killed at any time and go on from the entries of the session.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use serde_json::{Value, json};
use zk_agent::RunOptions;
use zk_core::events::GoalState;
use zk_core::model::{Approved, Effects, ErrorKind, Message, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};
use zk_goals::{GoalSettings, GoalSpec};
use zk_session::MemoryStore;
use zk_testkit::{Script, Turn};

use crate::support::{ANSWER_USD, is_supervisor, open, priced, settings};

/// Default number of simulated goals, unless `ZK_GOALS_SIMULATED` sets another.
const SIMULATED: u64 = 50;

/// Maximum number of kills during one goal.
const MAX_KILLS: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Work {
    /// Reaches the goal after this number of answers.
    Progress(u32),
    /// Repeats one answer.
    Loop,
    /// Repeats one call and one answer.
    CallLoop,
    /// Never succeeds.
    Fails,
    /// Fails now and then, and reaches the goal after this number of answers.
    Flaky(u32),
    /// Calls tools and never answers.
    OnlyCalls,
    /// Gives another answer each time, without an end.
    Endless,
}

#[derive(Clone, Copy, Debug)]
enum Judge {
    Absent,
    Honest,
    Garbage,
    Busy,
    Silent,
    /// Wrongly judges that the goal is achieved.
    Wrong,
}

/// Counts of one goal, over all of its processes.
#[derive(Default)]
struct World {
    rng: Mutex<Rng>,
    answers: AtomicU32,
    main_answers: AtomicU32,
}

struct Case {
    work: Work,
    judge: Judge,
    max_turns: u32,
    budget: Option<f64>,
    kills: u32,
}

fn draw_case(rng: &mut Rng) -> Case {
    let work = match rng.u32(..7) {
        0 => Work::Progress(rng.u32(1..30)),
        1 => Work::Loop,
        2 => Work::CallLoop,
        3 => Work::Fails,
        4 => Work::Flaky(rng.u32(1..20)),
        5 => Work::OnlyCalls,
        _ => Work::Endless,
    };
    let judge = match rng.u32(..6) {
        0 => Judge::Absent,
        1 => Judge::Honest,
        2 => Judge::Garbage,
        3 => Judge::Busy,
        4 => Judge::Silent,
        _ => Judge::Wrong,
    };
    Case {
        work,
        judge,
        max_turns: rng.u32(3..40),
        budget: rng.bool().then(|| f64::from(rng.u32(2..40)) * ANSWER_USD),
        kills: if rng.bool() { rng.u32(1..=MAX_KILLS) } else { 0 },
    }
}

fn model_script(world: &Arc<World>, work: Work, judge: Judge) -> Script {
    let world = world.clone();
    Script::answering(move |asked| {
        let (delay, luck) = {
            let mut rng = world.rng.lock().unwrap();
            (Duration::from_millis(rng.u64(..3_000)), rng.u32(..3))
        };
        let counted = |turn: Turn| {
            world.answers.fetch_add(1, Ordering::Relaxed);
            priced(turn.delay(delay))
        };
        if is_supervisor(&asked.system) {
            return match judge {
                Judge::Absent | Judge::Silent => Turn::new().hang(),
                Judge::Honest => counted(Turn::new()).text(r#"{"achieved": false, "reason": "not yet"}"#),
                Judge::Garbage => counted(Turn::new()).text("Looks {good} to me"),
                Judge::Busy => Turn::new().delay(delay).error(ErrorKind::Rate, "429"),
                Judge::Wrong => counted(Turn::new()).text(r#"{"achieved": true, "reason": "all done"}"#),
            };
        }
        let fails = || Turn::new().delay(delay).error(ErrorKind::Overloaded, "503");
        let number = |world: &World| world.main_answers.fetch_add(1, Ordering::Relaxed) + 1;
        let step = |number: u32, last: u32| match number >= last {
            true => counted(Turn::new()).text("All is done.\n\nThe goal is reached."),
            false => counted(Turn::new()).text(format!("Step {number} is done.")),
        };
        match work {
            Work::Progress(last) => step(number(&world), last),
            Work::Flaky(_) if luck == 0 => fails(),
            Work::Flaky(last) => step(number(&world), last),
            Work::Loop => counted(Turn::new()).text("I am working on it."),
            Work::CallLoop if asked.results().is_empty() => counted(Turn::new()).call("look", json!({})),
            Work::CallLoop => counted(Turn::new()).text("I looked."),
            Work::Fails => fails(),
            Work::OnlyCalls => counted(Turn::new()).call("look", json!({ "at": number(&world) })),
            Work::Endless => counted(Turn::new()).text(format!("Thought {}.", number(&world))),
        }
    })
}

/// Tool without effects.
struct Look(Arc<ToolSpec>);

#[async_trait]
impl Tool for Look {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("seen"))
    }
}

fn look_tool() -> Arc<dyn Tool> {
    Arc::new(Look(ToolSpec::new("look", "Looks.", json!({"type": "object"}))))
}

/// Simulates one process, which begins or continues the goal until the goal or the process ends. Returns
/// whether the process was not killed.
async fn run_process(
    world: &Arc<World>,
    case: &Case,
    store: &MemoryStore,
    kill_after: Option<Duration>,
) -> bool {
    let supervisor_turns = if matches!(case.judge, Judge::Absent) { 0 } else { 5 };
    let settings = GoalSettings { supervisor_turns, ..settings() };
    let (agent, goals) = open(store, model_script(world, case.work, case.judge), settings).await;
    agent.bus().scope("tools").provide::<dyn Tool>("look", look_tool()).unwrap();
    let cx = agent.bus().cx();
    let work = async {
        let mut options = match goals.load(&cx).await.unwrap() {
            None => {
                let goal = GoalSpec::new("do it all").unwrap().autonomous(Some(case.max_turns), case.budget);
                goals.begin(goal, &cx).await.unwrap();
                RunOptions::from("do it all")
            }
            Some(_) => match goals.next_message() {
                Some(message) => {
                    agent.inject(Message::injected(message, "goals")).unwrap();
                    RunOptions::resume()
                }
                None => return,
            },
        };
        loop {
            let _ = agent.run(options).unwrap().wait().await;
            let Some(retry) = goals.take_retry() else { return };
            tokio::time::sleep(retry.pause).await;
            agent.inject(Message::injected(retry.message, "goals")).unwrap();
            options = RunOptions::resume();
        }
    };
    match kill_after {
        None => {
            work.await;
            agent.close().await;
            true
        }
        Some(after) => tokio::select! {
            () = work => {
                agent.close().await;
                true
            }
            () = tokio::time::sleep(after) => false,
        },
    }
}

fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let case = draw_case(&mut rng);
    let world = Arc::new(World { rng: Mutex::new(rng.fork()), ..World::default() });
    let store = MemoryStore::new();
    let mut kills = 0;
    loop {
        let kill_after = (kills < case.kills).then(|| Duration::from_millis(rng.u64(..20_000)));
        // A runtime that is dropped takes all tasks of its process with it.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let is_over = runtime.block_on(run_process(&world, &case, &store, kill_after));
        drop(runtime);
        if is_over {
            break;
        }
        kills += 1;
    }
    let reopened = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let goal = reopened.block_on(async {
        let (agent, goals) = open(&store, Script::new(), settings()).await;
        goals.load(&agent.bus().cx()).await.unwrap().expect("the goal is not forgotten")
    });
    check_end(seed, &case, &world, &goal, kills);
}

fn check_end(seed: u64, case: &Case, world: &World, goal: &zk_goals::Goal, kills: u32) {
    let told = format!(
        "seed {seed}: {:?}, {:?}, {} turns, {:?}, {kills} kills: {goal:?}",
        case.work, case.judge, case.max_turns, case.budget
    );
    let reason = goal.reason.clone().unwrap_or_default();
    let is_by = |words: &str| reason.contains(words);
    // Any work may end capped or stuck, but not every work may end reached.
    let is_allowed = match (goal.state, case.work) {
        (GoalState::Completed, Work::Progress(_) | Work::Flaky(_)) if is_by("the model said so") => true,
        (GoalState::Completed, _) => matches!(case.judge, Judge::Wrong) && is_by("the supervisor found"),
        (GoalState::Capped, Work::Fails) => false,
        (GoalState::Capped, _) => {
            is_by("turns are over") && goal.turns >= case.max_turns
                || is_by("is spent")
                    && case.budget.is_some_and(|budget| goal.spent + 1.5 * ANSWER_USD > budget)
        }
        (GoalState::Stuck, Work::Loop | Work::CallLoop) => is_by("3 equal answers"),
        (GoalState::Stuck, Work::Fails | Work::Flaky(_)) => is_by("5 failures in a row"),
        (GoalState::Stuck, Work::Progress(_) | Work::OnlyCalls | Work::Endless)
        | (GoalState::Active | GoalState::Paused | GoalState::Cleared, _) => false,
    };
    assert!(is_allowed, "{told}");
    assert!(goal.turns <= case.max_turns, "{told}");
    let spent = f64::from(world.answers.load(Ordering::Relaxed)) * ANSWER_USD;
    if let Some(budget) = case.budget {
        assert!(goal.spent <= budget + ANSWER_USD + 1e-9, "{told}");
        // A killed process may have paid for an answer, and for a verdict, that it could not store.
        let unstored = f64::from(2 * kills) * ANSWER_USD;
        assert!(spent <= budget + ANSWER_USD + unstored + 1e-9, "{spent} was spent; {told}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the number of goals is chosen by whoever runs the tests")]
fn simulation_count() -> u64 {
    std::env::var("ZK_GOALS_SIMULATED").ok().and_then(|count| count.parse().ok()).unwrap_or(SIMULATED)
}

#[test]
fn simulated_goals_end_for_the_reason_that_is_told_within_their_caps_and_none_is_forgotten() {
    let count = simulation_count();
    for seed in 0..count {
        simulate(seed);
    }
    println!("{count} goals were simulated");
}
