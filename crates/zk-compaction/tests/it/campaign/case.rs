//! Generated conversations.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use zk_core::model::{Block, Message, MessageId, ModelRef, Thinking, ToolCall};

/// Number of strategies, and the indices of the background strategy and of the provider's.
pub(super) const STRATEGIES: usize = 12;
pub(super) const PAIRS: usize = 6;
pub(super) const SERVER: usize = 9;

/// One turn.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnOf {
    /// Length of the person's text before it in bytes, if any.
    pub(super) said: Option<usize>,
    /// A line of it asks to remember something.
    pub(super) remembers: bool,
    /// Skill given by the person, and one requested by the model: number and size in bytes.
    pub(super) given: Option<(usize, usize)>,
    pub(super) asked: Option<(usize, usize)>,
    /// Bytes of the results of its calls.
    pub(super) results: Vec<usize>,
    /// A run that was stopped: its calls have no results.
    pub(super) is_stopped: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) strategy: usize,
    pub(super) summariser: u8,
    pub(super) window: Option<u64>,
    /// Settings for when less is sent: the lower threshold, the upper one, tokens that stay, turns of rest,
    /// the part to be freed.
    pub(super) thresholds: (f64, f64, u64, u32, f64),
    /// Size of the content pinned by plugins in bytes: rules, to-dos and sub-agents.
    pub(super) pinned: [usize; 3],
    /// Turns at which the provider reports an overflow.
    pub(super) overflows: Vec<usize>,
    /// Turns before which a person undoes the last compaction, or requests one.
    pub(super) restores: Vec<usize>,
    pub(super) asks: Vec<usize>,
    /// Turn before which another model is chosen, with its window.
    pub(super) switch: Option<(usize, Option<u64>)>,
    pub(super) turns: Vec<TurnOf>,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..200usize, 8 => 200..9000usize, 1 => Just(60_000usize)]
}

fn window() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![500..4000u64, 4000..64_000u64])
}

fn turn() -> impl Strategy<Value = TurnOf> {
    let skill = || prop::option::weighted(0.08, (0..3usize, 50..2500usize));
    (
        prop::option::of(size()),
        prop::bool::weighted(0.15),
        skill(),
        skill(),
        prop::collection::vec(size(), 0..4),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(said, remembers, given, asked, results, is_stopped)| TurnOf {
            said,
            remembers,
            given,
            asked,
            results,
            is_stopped,
        })
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let thresholds = (
        prop_oneof![Just(0.6), Just(0.3), Just(0.05)],
        prop_oneof![Just(0.9), Just(0.6), Just(1.0)],
        prop_oneof![Just(20_000), Just(0), 100..4000u64],
        0..4u32,
        prop_oneof![Just(0.2), Just(0.05), Just(0.6)],
    );
    let pinned = || prop_oneof![3 => Just(0usize), 5 => 10..1500usize, 1 => 1500..20_000usize];
    let some = || prop::collection::vec(0..25usize, 0..3);
    let moments = (some(), some(), some(), prop::option::weighted(0.3, (1..25usize, window())));
    (
        (0..STRATEGIES, 0..7u8, window()),
        thresholds,
        [pinned(), pinned(), pinned()],
        moments,
        prop::collection::vec(turn(), 1..25),
    )
        .prop_map(|((strategy, summariser, window), thresholds, pinned, moments, turns)| {
            let (overflows, restores, asks, switch) = moments;
            Case {
                strategy,
                summariser,
                window,
                thresholds,
                pinned,
                overflows,
                restores,
                asks,
                switch,
                turns,
            }
        })
}

/// Block of a provider that compacted its context itself.
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

/// A "remember" line of a prompt.
pub(super) fn line_to_remember(number: usize) -> String {
    format!("Remember:  keep\tthis line {number}, ünd its bytes")
}

/// Text of a skill in this turn.
pub(super) fn skill_text(skill: usize, turn: usize, bytes: usize) -> String {
    format!("<skill_content name=\"s{skill}\">\n  As of {turn}:\t{}\n</skill_content>", "ö".repeat(bytes / 2))
}

/// Messages that the turn adds to a conversation.
pub(super) fn messages(case: &Case, number: usize, turn: &TurnOf) -> Vec<Arc<Message>> {
    let id = |what: &str| Some(MessageId::from(format!("m{number}{what}")));
    let mut all = Vec::new();
    if let Some((skill, bytes)) = turn.given {
        let given = Message::injected(skill_text(skill, number, bytes), format!("skill:s{skill}"));
        all.push(Message { id: id("s"), ..given }.shared());
    }
    if turn.said.is_some() || turn.remembers {
        let mut text = format!("and {}", "ä".repeat(turn.said.unwrap_or_default() / 2));
        if turn.remembers {
            text = format!("{}\n{text}", line_to_remember(number));
        }
        all.push(Message { id: id("p"), ..Message::user_text(text) }.shared());
    }
    let call = |at: usize| format!("c{number}_{at}");
    let mut answer = vec![thinking(number), Block::text("well")];
    // The provider sometimes compacts earlier messages, and requires its block unchanged.
    if case.strategy == SERVER && number % 5 == 4 {
        answer.insert(0, provider_compaction(number));
    }
    let mut given = Vec::new();
    for (at, bytes) in turn.results.iter().enumerate() {
        answer.push(Block::ToolCall(ToolCall::new(call(at), "ls", json!({"path": "a"}))));
        given.push(Block::result(call(at), "é".repeat(bytes / 2), false));
    }
    if let Some((skill, bytes)) = turn.asked {
        let asked = json!({"skill": format!("s{skill}")});
        answer.push(Block::ToolCall(ToolCall::new(call(9), "skills_use", asked)));
        given.push(Block::result(call(9), skill_text(skill, number, bytes), false));
    }
    all.push(Message { id: id("a"), ..Message::assistant(answer) }.shared());
    if turn.is_stopped {
        all.push(Message { id: id("n"), ..Message::user_text("I stopped you. Go on.") }.shared());
    } else if !given.is_empty() {
        all.push(Message { id: id("r"), ..Message::user(given) }.shared());
    }
    all
}
