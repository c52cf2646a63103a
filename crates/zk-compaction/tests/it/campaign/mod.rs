//! Generated conversations under every strategy and many windows: what is sent stays sound, whatever is left out.
//! `ZK_COMPACTION_CASES=10000` runs the whole campaign.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::json;
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextOverflow, ContextTransform};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::wire::Repair;
use zk_core::model::{
    AgentError, Block, Message, MessageId, ModelRef, Role, RunId, Thinking, ToolCall, TurnUsage, Usage,
    WireReady, WireRules, context_size,
};
use zk_core::service::{
    ContextId, ContextWindow, RunControl, RunEnded, RunState, SideAnswer, SideCall, WindowLevel,
};

/// How many strategies there are, the one that prepares what it does beside the conversation, and the one of the provider.
const STRATEGIES: usize = 10;
const PAIRS: usize = 6;
const SERVER: usize = 9;

/// Bytes that may be sent where the window is not known.
const FALLBACK: usize = 100_000;

const PINNED: &str = "Remember:  keep\tthis line, ünd its bytes";

/// A run whose model summarises in one way.
struct Run(u8);

#[async_trait]
impl RunControl for Run {
    fn run_id(&self) -> RunId {
        "r".into()
    }

    fn state(&self) -> RunState {
        RunState { turn: 1, stopping: false, steering: 0, follow_ups: 0 }
    }

    fn steer(&self, message: Message) -> Result<(), RunEnded> {
        Err(RunEnded { message: message.shared() })
    }

    fn follow_up(&self, message: Message) -> Result<(), RunEnded> {
        Err(RunEnded { message: message.shared() })
    }

    fn next_prompt(&self, _: Message) {}

    fn abort(&self, _: &str) {}

    async fn side_call(&self, call: SideCall) -> Result<SideAnswer, AgentError> {
        let text = match self.0 {
            0 => "## Aim\nTo go on. ä".repeat(20),
            1 => String::new(),
            2 => "\u{1}\u{2}".repeat(50),
            3 => call.messages.iter().map(Message::text).collect::<String>().repeat(2),
            _ => return Err(AgentError::Usage("no".into())),
        };
        let model = ModelRef::new("p", "m");
        let usage = TurnUsage { turn_id: "t".into(), model, usage: Usage::default(), cost: None };
        Ok(SideAnswer { text, usage })
    }
}

/// One turn: what the person says before it, if anything, and how large the results of its calls are.
type TurnSizes = (Option<usize>, Vec<usize>);

#[derive(Clone, Debug)]
struct Case {
    strategy: usize,
    summariser: u8,
    window: Option<u64>,
    /// Where less is sent: the lower threshold, the upper one, tokens that stay, turns of rest.
    thresholds: (f64, f64, u64, u32),
    /// Turns after which the provider says that it did not fit.
    overflows: Vec<usize>,
    turns: Vec<TurnSizes>,
}

fn case() -> impl Strategy<Value = Case> {
    let size = || prop_oneof![8 => 0..200usize, 8 => 200..9000usize, 1 => Just(60_000usize)];
    let turn = (prop::option::of(size()), prop::collection::vec(size(), 0..4));
    let thresholds = (
        prop_oneof![Just(0.6), Just(0.3), Just(0.05)],
        prop_oneof![Just(0.9), Just(0.6), Just(1.0)],
        prop_oneof![Just(20_000), Just(0), 100..4000u64],
        0..4u32,
    );
    (
        0..STRATEGIES,
        0..5u8,
        prop::option::of(prop_oneof![500..4000u64, 4000..64_000u64]),
        thresholds,
        prop::collection::vec(0..25usize, 0..3),
        prop::collection::vec(turn, 1..25),
    )
        .prop_map(|(strategy, summariser, window, thresholds, overflows, turns)| Case {
            strategy,
            summariser,
            window,
            thresholds,
            overflows,
            turns,
        })
}

fn bus(case: &Case) -> Bus {
    let bus = Bus::new();
    // A tokenizer that is there from some turn on would change the sizes between two requests.
    let (soft, hard, keep, cooldown) = case.thresholds;
    let options = WindowOptions {
        soft,
        hard,
        keep,
        cooldown,
        fallback_bytes: FALLBACK,
        tokenizer: false,
        ..WindowOptions::default()
    };
    bus.install(&Window::with(options)).unwrap();
    match case.strategy {
        0 => {}
        1 => drop(bus.install(&Tail::default().threshold(20_000).keep_turns(2)).unwrap()),
        2 => drop(bus.install(&Rolling).unwrap()),
        3 => drop(bus.install(&Summary).unwrap()),
        4 => drop(bus.install(&Subgoal::default()).unwrap()),
        5 => drop(bus.install(&Subgoal::by_gain()).unwrap()),
        PAIRS => drop(bus.install(&ToolPairs).unwrap()),
        7 => {
            bus.install(&Tail::default().threshold(20_000).keep_turns(2)).unwrap();
            bus.install(&Summary).unwrap();
        }
        8 => drop(bus.install(&Focus::default().auto_consolidate_min_window(1)).unwrap()),
        // Nothing here: what the provider sent stands in the answers.
        _ => {}
    }
    bus.install(&Shorten).unwrap();
    bus
}

/// What a provider put there when it compacted its context itself.
fn provider_compaction(number: usize) -> Block {
    let data = json!({"type": "compaction", "content": format!("before turn {number}:  ünd\t")});
    Block::provider("context compacted", &ModelRef::new("p", "m"), data)
}

/// Reasoning with the provider's proof, which holds for exactly these bytes.
fn thinking(number: usize) -> Block {
    Block::Thinking(Thinking {
        text: format!("hm  {number}\t"),
        signature: Some(format!("proof-{number}=")),
        origin: Some(ModelRef::new("p", "m")),
        ..Thinking::default()
    })
}

/// What the turn adds to a conversation.
fn messages(case: &Case, number: usize, (said, results): &TurnSizes) -> Vec<Arc<Message>> {
    let id = |what: &str| Some(MessageId::from(format!("m{number}{what}")));
    let mut all = Vec::new();
    if let Some(bytes) = said {
        let text = if number == 1 { PINNED.to_owned() } else { format!("and {}", "ä".repeat(bytes / 2)) };
        all.push(Message { id: id("p"), ..Message::user_text(text) }.shared());
    }
    let call = |at: usize| format!("c{number}_{at}");
    let mut answer = vec![thinking(number), Block::text("well")];
    // The provider compacted what came before, now and then, and wants its block back as it was.
    if case.strategy == SERVER && number % 5 == 4 {
        answer.insert(0, provider_compaction(number));
    }
    answer.extend(
        (0..results.len()).map(|at| Block::ToolCall(ToolCall::new(call(at), "ls", json!({"path": "a"})))),
    );
    all.push(Message { id: id("a"), ..Message::assistant(answer) }.shared());
    if !results.is_empty() {
        let given = results.iter().enumerate();
        let blocks = given.map(|(at, bytes)| Block::result(call(at), "é".repeat(bytes / 2), false));
        all.push(Message { id: id("r"), ..Message::user(blocks.collect()) }.shared());
    }
    all
}

fn check_sent(case: &Case, history: &[Arc<Message>], sent: &[Arc<Message>]) -> Result<(), TestCaseError> {
    let ready = WireReady::normalise(sent, &WireRules::tolerant(ModelRef::new("p", "m")));
    let torn = ready
        .repairs()
        .iter()
        .find(|repair| matches!(repair, Repair::MissingResult { .. } | Repair::OrphanResult { .. }));
    prop_assert!(torn.is_none(), "{torn:?} in {case:?}");
    for answer in sent.iter().filter(|message| message.role == Role::Assistant) {
        prop_assert!(history.contains(answer), "an answer is another one: {answer:?} in {case:?}");
    }
    let newest = |all: &[Arc<Message>]| all.last().map(|last| (last.role, last.content.len()));
    prop_assert_eq!(newest(sent), newest(history));
    let has_line = |all: &[Arc<Message>]| all.iter().any(|message| message.text().contains(PINNED));
    prop_assert!(!has_line(history) || has_line(sent), "the line is gone: {case:?}");
    Ok(())
}

/// Whether of the conversation nothing is left that could leave: its first message, what was put in, and the newest turn.
fn is_least(sent: &[Arc<Message>]) -> bool {
    let answered = sent.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
    let older = sent.get(1..answered).unwrap_or_default();
    older.iter().all(|message| message.injected_by.is_some())
}

async fn run(case: &Case) -> Result<(), TestCaseError> {
    let bus = bus(case);
    let context = Arc::new(ContextId::fresh());
    let run = Arc::new(Run(case.summariser));
    let cx: Cx = bus.cx().with_service::<dyn RunControl>(run).with_service(context.clone());
    let window = bus.service::<dyn ContextWindow>().unwrap();
    let stopped = Arc::new(Mutex::new(false));
    let seen = stopped.clone();
    bus.scope("test").on_sync(move |event: &ContextCompaction, _: &Cx| {
        *seen.lock().unwrap() |= event.stage == CompactionStage::Stopped;
    });
    let mut history = vec![Message { id: Some("m".into()), ..Message::user_text("go") }.shared()];
    let emit = async |history: &[Arc<Message>], turn: &str| {
        let event =
            ContextTransform { turn_id: turn.into(), messages: history.to_vec(), window: case.window };
        cx.emit(event).await.unwrap().messages
    };
    for (number, turn) in case.turns.iter().enumerate() {
        history.extend(messages(case, number, turn));
        let stored = history.clone();
        let id = format!("t{number}");
        let mut sent = emit(&history, &id).await;
        check_sent(case, &history, &sent)?;
        let before = context_size(&sent);
        if case.overflows.contains(&number) {
            let (model, error) = (ModelRef::new("p", "m"), "too long".into());
            let event = ContextOverflow {
                turn_id: id.as_str().into(),
                model,
                window: case.window,
                size: before,
                error,
            };
            cx.emit(event).await.unwrap();
            sent = emit(&history, &id).await;
            check_sent(case, &history, &sent)?;
            prop_assert!(context_size(&sent) <= before.max(3000) + 400, "it grew: {case:?}");
            // The line about what left takes more than next to nothing; the agent does not send that again.
            let is_less = context_size(&sent) < before || before < 3000;
            prop_assert!(is_less || is_least(&sent), "it stayed as large: {case:?}");
        }
        let fill = window.fill(&context).unwrap();
        let exceeds = fill.usable.map_or(fill.bytes >= FALLBACK, |usable| fill.estimate >= usable);
        prop_assert!(
            !exceeds || is_least(&sent) || *stopped.lock().unwrap(),
            "it does not fit, and nobody says so: {fill:?} {case:?}"
        );
        if fill.level < WindowLevel::Hard {
            let mut again = emit(&history, &id).await;
            // What was prepared meanwhile is applied, a few at a time.
            for _ in 0..if case.strategy == PAIRS { 30 } else { 0 } {
                tokio::task::yield_now().await;
                sent = std::mem::replace(&mut again, emit(&history, &id).await);
            }
            prop_assert_eq!(again, sent, "at rest nothing changes");
        }
        prop_assert!(stored.iter().zip(&history).all(|(stored, now)| Arc::ptr_eq(stored, now)));
        let _ = window.take_refusal(&context);
    }
    Ok(())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a full campaign is asked for")]
fn under_every_strategy_and_window_pairs_stay_whole_pinned_lines_stay_and_rest_is_rest() {
    let cases: u32 = match std::env::var("ZK_COMPACTION_CASES") {
        Ok(cases) => cases.parse().unwrap(),
        Err(_) => 100,
    };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    TestRunner::new_with_rng(config, rng).run(&case(), |case| runtime.block_on(run(&case))).unwrap();
}

#[test]
fn a_summary_that_takes_more_than_what_it_stands_for_is_not_used() {
    let mut turns: Vec<TurnSizes> = vec![(None, Vec::new()); 3];
    turns.extend([(None, vec![3620]), (Some(1602), Vec::new())]);
    let case = Case {
        strategy: 3,
        summariser: 3,
        window: Some(18_166),
        overflows: vec![4],
        turns,
        thresholds: (0.6, 0.9, 20_000, 1),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run(&case)).unwrap();
}
