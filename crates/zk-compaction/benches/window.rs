//! Bench of the window's owner: `cargo bench -p zk-harness-compaction --features tokenizer --bench window`, or
//! `--profile quick` for a quick look.
//!
//! The bars: counting ≥ 20 MB/s, deciding at 10,000 turns ≤ 0.1 ms, compacting 10,000 turns without a model ≤ 100 ms.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]

use std::sync::Arc;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use zk_compaction::{LazyCounter, Rolling, Shorten, Tail, TokenCounter, Window};
use zk_core::events::ContextTransform;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Block, Message, MessageId, ToolCall};
use zk_core::service::{ContextId, ContextWindow, Reduction};

fn main() {
    divan::main();
}

const TURNS: usize = 10_000;

/// Tokens: more than the conversation has, so that only the decision is measured.
const LARGE: u64 = 100_000_000;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Two messages of a coding session: a call with a remark, and about 400 bytes of result.
fn turn(number: usize) -> [Arc<Message>; 2] {
    let id = |what: &str| Some(MessageId::from(format!("m{number}{what}")));
    let path = format!("src/part_{}.rs", number % 300);
    let call = Block::ToolCall(ToolCall::new(format!("c{number}"), "read_file", json!({"path": path})));
    let answer = Message::assistant(vec![Block::text("I look at the next file."), call]);
    let text =
        format!("pub fn part_{number}(input: &str) -> Result<usize, Error> {{ input.parse() }}\n").repeat(5);
    let result = Message::user(vec![Block::result(format!("c{number}"), text, false)]);
    [Message { id: id("a"), ..answer }.shared(), Message { id: id("r"), ..result }.shared()]
}

fn history() -> Vec<Arc<Message>> {
    let first = Message { id: Some("p".into()), ..Message::user_text("Read all of it.") }.shared();
    std::iter::once(first).chain((0..TURNS).flat_map(turn)).collect()
}

struct Rig {
    runtime: Runtime,
    bus: Bus,
    cx: Cx,
    context: Arc<ContextId>,
    number: usize,
}

impl Rig {
    /// A window whose owner has seen `history`.
    fn new(history: &[Arc<Message>], install: fn(&Bus)) -> Self {
        let bus = Bus::new();
        bus.install(&Window::default()).unwrap();
        install(&bus);
        let context = Arc::new(ContextId::fresh());
        let cx = bus.cx().with_service(context.clone());
        let mut rig = Self { runtime: runtime(), bus, cx, context, number: 0 };
        let event = rig.event(history.to_vec());
        rig.emit(event);
        rig
    }

    fn event(&mut self, messages: Vec<Arc<Message>>) -> ContextTransform {
        self.number += 1;
        ContextTransform::new(format!("t{}", self.number).into(), messages, Some(LARGE))
    }

    fn emit(&self, event: ContextTransform) -> Vec<Arc<Message>> {
        self.runtime.block_on(self.cx.emit(event)).unwrap().messages
    }
}

#[divan::bench]
fn count_code(bencher: Bencher<'_, '_>) {
    let counter = LazyCounter::default().loaded();
    let text = [
        include_str!("../src/plan/prepare.rs"),
        include_str!("../src/window/view.rs"),
        include_str!("../src/window/owner.rs"),
    ]
    .concat()
    .repeat(20);
    bencher.counter(BytesCount::of_str(&text)).bench(|| counter.count(black_box(&text)));
}

/// Measures a turn without a compaction: it adds two messages and does not read the others.
#[divan::bench]
fn decide_at_10_000_turns(bencher: Bencher<'_, '_>) {
    let mut history = history();
    let mut rig = Rig::new(&history, |bus| {
        bus.install(&Tail::default().threshold(usize::MAX)).unwrap();
        bus.install(&Rolling).unwrap();
        bus.install(&Shorten).unwrap();
    });
    let mut number = TURNS;
    let events = std::cell::RefCell::new(Vec::new());
    let rig_of_events = std::cell::RefCell::new(&mut rig);
    bencher
        .with_inputs(|| {
            number += 1;
            history.extend(turn(number));
            rig_of_events.borrow_mut().event(history.clone())
        })
        .bench_local_values(|event| {
            let sent = rig_of_events.borrow().emit(event);
            // Dropped with the others, outside of the measurement.
            events.borrow_mut().push(sent);
        });
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn compact_10_000_turns_without_a_model(bencher: Bencher<'_, '_>) {
    let history = history();
    bencher
        .with_inputs(|| {
            let mut rig = Rig::new(&history, |bus| {
                bus.install(&Rolling).unwrap();
                bus.install(&Shorten).unwrap();
            });
            rig.bus.service::<dyn ContextWindow>().unwrap().reduce(&rig.context, Reduction::default());
            let event = rig.event(history.clone());
            (rig, event)
        })
        .bench_local_values(|(rig, event)| {
            let sent = rig.emit(event);
            assert!(sent.len() < history.len());
            (rig, sent)
        });
}
