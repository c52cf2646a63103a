//! A part for each thing that was worked on; parts about the same become one.

use std::sync::Arc;

use zk_compaction::{Focus, Shorten, Window, WindowOptions};
use zk_core::events::ContextTransform;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Block, Message};
use zk_core::service::{ContextId, ContextWindow, Reduction};

struct Rig {
    bus: Bus,
    cx: Cx,
    context: Arc<ContextId>,
    history: Vec<Arc<Message>>,
    turns: usize,
}

fn rig(focus: Focus) -> Rig {
    let bus = Bus::new();
    bus.install(&Window::with(WindowOptions { keep: 600, soft: 0.001, ..WindowOptions::default() })).unwrap();
    bus.install(&focus).unwrap();
    bus.install(&Shorten).unwrap();
    let context = Arc::new(ContextId::fresh());
    let cx = bus.cx().with_service(context.clone());
    Rig { bus, cx, context, history: Vec::new(), turns: 0 }
}

impl Rig {
    async fn ask(&mut self, prompt: &str) -> Vec<Arc<Message>> {
        self.turns += 1;
        self.history.push(Message::user_text(prompt).identified().shared());
        let sent = self.send().await;
        let answer =
            format!("Answer {}: {}", self.turns, "I looked at the login form of the shop. ".repeat(20));
        self.history.push(Message::assistant(vec![Block::text(answer)]).identified().shared());
        sent
    }

    async fn send(&self) -> Vec<Arc<Message>> {
        let messages = self.history.clone();
        let turn_id = format!("t{}", self.turns).into();
        let event = ContextTransform::new(turn_id, messages, Some(100_000));
        self.cx.emit(event).await.unwrap().messages
    }

    fn reduce(&self) {
        self.bus.service::<dyn ContextWindow>().unwrap().reduce(&self.context, Reduction::default());
    }
}

fn parts(sent: &[Arc<Message>]) -> Vec<String> {
    let summaries = sent.iter().flat_map(|message| &message.content).filter_map(|block| match block {
        Block::Compaction(compaction) => Some(compaction.summary.clone()),
        _ => None,
    });
    let text = summaries.collect::<String>();
    text.lines().filter_map(|line| line.strip_prefix("## ").map(str::to_owned)).collect()
}

#[tokio::test]
async fn what_leaves_becomes_parts_and_alike_ones_are_merged_when_something_changes_anyway() {
    let mut rig = rig(Focus::default().auto_consolidate_min_window(1));
    for number in 0..8 {
        rig.ask(&format!("question {number} about the login form of the shop")).await;
    }
    rig.reduce();
    let before = parts(&rig.ask("now").await);
    assert!(before.len() >= 4, "one for each prompt: {before:?}");
    // Merging is tried with each turn; the sent messages stay unchanged until then, also above the lower
    // threshold.
    for number in 0..20 {
        assert_eq!(parts(&rig.ask(&format!("now {number}")).await), before);
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    }
    // The threads for blocking work are idle once another task there has been through.
    for _ in 0..1000 {
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        rig.reduce();
        if parts(&rig.send().await).len() < before.len() {
            return;
        }
    }
    panic!("nothing was merged: {:?}", parts(&rig.send().await));
}

#[test]
fn merging_with_every_request_is_refused_where_it_is_installed() {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    let error = bus.install(&Focus::default().auto_consolidate_min_window(0)).unwrap_err().to_string();
    assert!(error.contains("`auto_consolidate_min_window` must be at least 1"), "{error}");
}
