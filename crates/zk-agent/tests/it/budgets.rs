//! Budgets in money and tokens: of runs, of agents, and of all their sub-agents.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use zk_agent::{Agent, AgentBuilder, Behavior, RunOptions, RunOutcome, SpawnOptions};
use zk_core::kernel::Cx;
use zk_core::model::{
    AgentError, Block, Budget, EntryId, Message, Model, ModelRef, Rates, Spent, TurnId, TurnUsage, Usage,
    WireRules,
};
use zk_core::service::{
    Entry, EntryKind, EventStream, Provider, Question, Questions, Request, StreamEvent, UiAnswer,
};
use zk_testkit::{Asked, Recorder, Script, ScriptedProvider, Turn};

use crate::support::assert_sound;

/// Provider whose every answer has the maximum length, less what `used` subtracts, and is billed.
struct Meter {
    inner: ScriptedProvider,
    used: fn(u32) -> u32,
    billed: Arc<Mutex<Spent>>,
    longest: Arc<Mutex<Vec<u32>>>,
}

impl Provider for Meter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.inner)
    }

    fn model(&self, id: &str) -> Model {
        let rates = Rates { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        Model { prices: Some(rates.into()), ..self.inner.model(id) }
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let read: usize = request.history.messages().iter().map(|message| message.size()).sum();
        let output = u64::from((self.used)(request.max_tokens).min(request.max_tokens));
        let usage =
            Usage { cache_write: (read + request.system.len()) as u64 / 3, output, ..Usage::default() };
        self.longest.lock().unwrap().push(request.max_tokens);
        let (billed, model) = (self.billed.clone(), request.model.clone());
        let stream = self.inner.stream(request, cx).map(move |event| {
            event.map(|event| match event {
                StreamEvent::Done { stop, .. } => {
                    let usd = model.cost(&usage).unwrap_or_default();
                    *billed.lock().unwrap() += Spent { usd, tokens: usage.read() + usage.output };
                    StreamEvent::Done { stop, usage }
                }
                other => other,
            })
        });
        Box::pin(stream)
    }
}

/// `spawn 7: TASK` spawns seven; everything else, and results, get a text answer.
fn obedient(asked: &Asked) -> Turn {
    let turn = Turn::new().delay(Duration::from_millis(asked.number as u64 % 7));
    if !asked.results().is_empty() {
        return turn.text("all done");
    }
    let task = asked.messages[0].text();
    match task.strip_prefix("spawn ").and_then(|rest| rest.split_once(": ")) {
        Some((many, inner)) => {
            (0..many.parse().unwrap()).fold(turn, |turn, _| turn.call("spawn", json!({"task": inner})))
        }
        None => turn.text("done"),
    }
}

struct Tree {
    agent: Agent,
    recorder: Recorder,
    inner: ScriptedProvider,
    billed: Arc<Mutex<Spent>>,
    longest: Arc<Mutex<Vec<u32>>>,
}

impl Tree {
    fn new(budget: Budget, used: fn(u32) -> u32, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        let inner = ScriptedProvider::new(Script::answering(obedient));
        let (billed, longest) = (Arc::default(), Arc::default());
        let meter =
            Meter { inner: inner.clone(), used, billed: Arc::clone(&billed), longest: Arc::clone(&longest) };
        let recorder = Recorder::new();
        let many = SpawnOptions { max_concurrent: 50, ..SpawnOptions::default() };
        let behavior = Behavior {
            budget: Some(budget),
            max_tokens: Some(4_000),
            max_concurrent_tools: Some(50),
            ..Behavior::default()
        };
        let builder = Agent::builder(Arc::new(meter)).plugin(recorder.clone()).spawn(many).behavior(behavior);
        let agent = change(builder.model_id("scripted-1")).build().unwrap();
        Self { agent, recorder, inner, billed, longest }
    }

    async fn run(&self, options: impl Into<RunOptions>) -> RunOutcome {
        let outcome = self.agent.run(options).unwrap().wait().await;
        assert_sound(&self.agent.history());
        outcome
    }

    fn billed(&self) -> Spent {
        *self.billed.lock().unwrap()
    }

    fn requests(&self) -> usize {
        self.inner.asked().len()
    }

    fn outcomes(&self) -> Vec<String> {
        let reached = self.recorder.named("run-budget:reached");
        reached.iter().map(|event| event["outcome"]["is"].as_str().unwrap().to_owned()).collect()
    }
}

/// 1 + 7 + 42 agents.
const FIFTY: &str = "spawn 7: spawn 6: work";

#[tokio::test(start_paused = true)]
async fn a_tree_of_50_agents_never_spends_more_than_its_root_was_given() {
    let ways: [fn(u32) -> u32; 4] = [|most| most, |most| most / 2, |most| most / 20, |_| 0];
    for used in ways {
        for budget in [
            Budget::usd(0.02),
            Budget::usd(0.2),
            Budget::usd(1.0),
            Budget::tokens(3_000),
            Budget::tokens(50_000),
            Budget { usd: Some(0.3), tokens: Some(20_000) },
        ] {
            let tree = Tree::new(budget, used, |builder| builder);
            let outcome = tree.run(FIFTY).await;
            assert!(budget.allows(tree.billed()), "{budget} but {:?}", tree.billed());
            assert!(tree.requests() > 0, "{budget}");
            if let Err(error) = &outcome.result {
                // Seven sub-agents that could not start are seven equal failures.
                let is_short = matches!(error, AgentError::Budget { .. } | AgentError::Stuck { .. });
                assert!(is_short, "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_has_enough_does_all_of_its_work() {
    let tree = Tree::new(Budget::usd(100.0), |most| most, |builder| builder);
    tree.run(FIFTY).await.result.unwrap();
    assert_eq!(tree.requests(), 42 + 2 * 8);
    assert!(tree.outcomes().is_empty());
    let shallow = Tree::new(Budget::usd(0.7), |_| 0, |builder| builder);
    shallow.run(FIFTY).await.result.unwrap();
    assert_eq!(shallow.requests(), 42 + 2 * 8, "those that did not fit at once waited for the others");
}

#[tokio::test]
async fn a_run_that_cannot_pay_its_next_request_ends_with_the_needed_amount() {
    let tree = Tree::new(Budget::usd(0.07), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let error = tree.run("two").await.result.unwrap_err();
    let AgentError::Budget { budget, spent, wanted } = &error else { panic!("{error}") };
    assert_eq!(*budget, Budget::usd(0.07));
    assert!(!budget.allows(*spent + *wanted));
    let told = error.to_string();
    assert!(
        told.starts_with("stopped: $0.06 of $0.07 is spent, and the next request may cost up to $"),
        "{told}"
    );
    assert!(told.ends_with("raise the budget, or continue the session"), "{told}");
    assert_eq!((tree.requests(), tree.outcomes().last().unwrap().as_str()), (1, "stopped"));
}

#[tokio::test]
async fn the_output_limit_is_lowered_to_the_rest_of_the_budget() {
    let tree = Tree::new(Budget::tokens(3_000), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let longest = tree.longest.lock().unwrap().clone();
    assert!((2_000..3_000).contains(&longest[0]), "{longest:?}");
    assert_eq!(tree.outcomes(), ["shortened"]);
}

#[tokio::test]
async fn a_budget_in_dollars_needs_a_price_and_one_in_tokens_does_not() {
    for (budget, is_kept) in [(Budget::usd(1.0), false), (Budget::tokens(90_000), true)] {
        let tree = Tree::new(
            budget,
            |most| most,
            |builder| builder.model(Model { prices: None, ..Model::unknown("scripted", "scripted-1") }),
        );
        let ended = tree.run("one").await.result;
        match ended {
            Ok(()) => assert!(is_kept),
            Err(AgentError::Usage(why)) => {
                assert!(!is_kept && why.contains("price of scripted/scripted-1"), "{why}")
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_budget_of_one_run_is_spent_beside_that_of_its_agent() {
    let tree = Tree::new(Budget::usd(1.0), |most| most, |builder| builder);
    let tight = Behavior { budget: Some(Budget::tokens(500)), ..Behavior::default() };
    let error = tree.run(RunOptions::from("one").behavior(tight)).await.result.unwrap_err();
    assert!(matches!(error, AgentError::Budget { budget: Budget { usd: None, .. }, .. }), "{error}");
    tree.run("two").await.result.unwrap();
}

/// Run with a person who makes `choices` in order.
async fn attended(tree: &Tree, prompt: &str, choices: &'static [usize]) -> (RunOutcome, Vec<Question>) {
    let questions = Arc::new(Questions::new());
    let front_end = questions.attach();
    let scope = tree.agent.bus().scope("front-end");
    scope.provide_service(questions);
    let mut seen = Vec::new();
    let answering = async {
        for index in choices {
            let asked = front_end.next().await;
            seen.push(asked.question.clone());
            front_end.answer(asked.id, asked.digest, UiAnswer::Choice { index: *index }).unwrap();
        }
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        outcome = tree.run(prompt) => outcome,
        () = answering => unreachable!(),
    };
    assert!(front_end.pending().is_empty());
    scope.close().await;
    (outcome, seen)
}

#[tokio::test]
async fn a_person_raises_the_budget_and_the_run_continues() {
    let tree = Tree::new(Budget::usd(0.07), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let (outcome, questions) = attended(&tree, "two", &[0]).await;
    outcome.result.unwrap();
    let Question::Select(asked) = &questions[0] else { panic!("{questions:?}") };
    let (text, options) = (&asked.text, &asked.options);
    assert!(text.starts_with("The budget is used up: $0.06 of $0.07 is spent"), "{text}");
    assert_eq!(options, &["raise it to $0.14", "go on without a limit", "stop here"]);
    assert_eq!(tree.outcomes(), ["asked", "raised"]);
    assert!(Budget::usd(0.14).allows(tree.billed()));
}

#[tokio::test]
async fn a_person_removes_the_limit_of_the_budget() {
    let tree = Tree::new(Budget::usd(0.07), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let (outcome, _) = attended(&tree, "two", &[1]).await;
    outcome.result.unwrap();
    for more in ["three", "four"] {
        tree.run(more).await.result.unwrap();
    }
    assert_eq!(tree.outcomes(), ["asked", "lifted"]);
}

#[tokio::test]
async fn a_person_who_says_stop_is_asked_again_with_the_next_prompt_only() {
    let tree = Tree::new(Budget::usd(0.07), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let (outcome, _) = attended(&tree, "two", &[2]).await;
    assert!(matches!(outcome.result, Err(AgentError::Budget { .. })));
    assert_eq!((tree.outcomes(), tree.requests()), (vec!["asked".into(), "stopped".into()], 1));
    // Nobody answers any more.
    let again = tree.run("three").await;
    assert!(matches!(again.result, Err(AgentError::Budget { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_whole_tree_asks_one_question() {
    let tree = Tree::new(Budget::usd(0.13), |most| most, |builder| builder);
    let (outcome, questions) = attended(&tree, FIFTY, &[1]).await;
    outcome.result.unwrap();
    assert_eq!((tree.requests(), questions.len()), (42 + 2 * 8, 1));
}

#[tokio::test]
async fn a_run_that_waits_for_the_answer_can_be_stopped() {
    let tree = Tree::new(Budget::usd(0.07), |most| most, |builder| builder);
    tree.run("one").await.result.unwrap();
    let questions = Arc::new(Questions::new());
    let front_end = questions.attach();
    tree.agent.bus().scope("front-end").provide_service(questions);
    let run = tree.agent.run("two").unwrap();
    let handle = run.handle();
    let stopping = async {
        front_end.next().await;
        handle.abort();
    };
    let (outcome, ()) = tokio::join!(run.wait(), stopping);
    assert!(matches!(outcome.result, Err(AgentError::Aborted)));
    assert!(front_end.pending().is_empty());
}

/// Stored message of a turn with this cost in tokens.
fn stored(tokens: u64) -> Entry {
    let usage = TurnUsage {
        turn_id: TurnId::fresh(),
        model: ModelRef::new("scripted", "scripted-1"),
        usage: Usage { output: tokens, ..Usage::default() },
        cost: None,
    };
    let message = Message::assistant(vec![Block::text("before")]).shared();
    let kind = EntryKind::Message { message, usage: Some(usage.into()) };
    Entry { id: EntryId::fresh(), parent: None, time_ms: 0, kind }
}

#[tokio::test]
async fn a_resumed_conversation_counts_its_stored_spending() {
    let budget = Budget::tokens(60_000);
    let tree = Tree::new(budget, |_| 0, |builder| builder.restored(vec![stored(40_000), stored(19_900)]));
    let error = tree.run("go on").await.result.unwrap_err();
    let AgentError::Budget { spent, .. } = &error else { panic!("{error}") };
    assert_eq!((spent.tokens, tree.requests()), (59_900, 0));
    let tree = Tree::new(budget, |_| 0, |builder| builder.restored(vec![stored(40_000)]));
    tree.run("go on").await.result.unwrap();
}

#[tokio::test]
async fn an_agent_that_continues_another_one_keeps_its_totals() {
    let tree = Tree::new(Budget::tokens(60_000), |_| 1_000, |builder| builder);
    tree.run("spawn 2: work").await.result.unwrap();
    let counts = tree.agent.counts();
    assert_eq!((counts.spent, counts.sub_agents), (Some(tree.billed()), 2));
    let next = Tree::new(Budget::tokens(tree.billed().tokens + 30_000), |_| 1_000, |builder| builder);
    next.agent.continue_counts(counts);
    next.run("spawn 1: work").await.result.unwrap();
    let started = next.recorder.named("spawn:before");
    assert_eq!(started[0]["child"].as_str().and_then(|name| name.rsplit_once('.')).unwrap().1, "3");
    let spent = next.agent.counts().spent.unwrap();
    assert_eq!(spent.tokens, tree.billed().tokens + next.billed().tokens);
    // All of it is spent already.
    let last = Tree::new(Budget::tokens(spent.tokens), |_| 1_000, |builder| builder);
    last.agent.continue_counts(next.agent.counts());
    let error = last.run("go on").await.result.unwrap_err();
    assert!(matches!(&error, AgentError::Budget { .. }), "{error}");
    assert_eq!(last.requests(), 0);
}
