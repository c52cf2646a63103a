//! Plugins are asked before a conversation is made smaller: they keep it as it is, or say what stands for what leaves.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Shorten, Window, WindowOptions};
use zk_core::events::{
    CompactionStage as Stage, CompactionTrigger as Trigger, ContextCompaction, ContextReduced, PartLeftOut,
    SessionBeforeCompact, SessionBeforeReply,
};
use zk_core::kernel::{BoxError, Bus, Cx, OnError};
use zk_core::model::{Model, Usage};
use zk_core::service::{Conversation, Provider};
use zk_testkit::{Script, ScriptedProvider, Turn};

#[derive(Default)]
struct Seen {
    asked: Vec<Trigger>,
    decisions: Vec<ContextCompaction>,
    left_out: Vec<String>,
}

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    seen: Arc<Mutex<Seen>>,
}

/// A conversation whose provider counts 400 tokens for each message, in a window of 8,000. A plugin answers `reply` when
/// it is asked.
fn rig(reply: SessionBeforeReply) -> Rig {
    rig_on(Bus::new(), reply)
}

fn rig_on(bus: Bus, reply: SessionBeforeReply) -> Rig {
    let options = WindowOptions { cooldown: 0, keep: 600, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    bus.install(&Shorten).unwrap();
    let (seen, test) = (Arc::<Mutex<Seen>>::default(), bus.scope("test"));
    let kept = seen.clone();
    test.on_sync(move |event: &ContextCompaction, _: &Cx| kept.lock().unwrap().decisions.push(event.clone()));
    let kept = seen.clone();
    test.on_sync(move |event: &PartLeftOut, _: &Cx| kept.lock().unwrap().left_out.push(event.error.clone()));
    let kept = seen.clone();
    test.on_sync(move |event: &SessionBeforeCompact, _: &Cx| {
        assert!(event.tokens > 0);
        kept.lock().unwrap().asked.push(event.trigger);
        Some(reply.clone())
    });
    let script = Script::answering(|asked| {
        let input = 100 + 400 * asked.messages.len() as u64;
        Turn::new().text("word ".repeat(80)).usage(Usage { input, output: 400, ..Usage::default() })
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(8000), ..provider.model("scripted") };
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).build().unwrap();
    Rig { conversation: AgentConversation::new(agent), provider, seen }
}

impl Rig {
    async fn say(&self, prompts: std::ops::Range<usize>) {
        for number in prompts {
            let run = self.conversation.run(format!("question {number}")).await.unwrap();
            run.wait().await.result.unwrap();
        }
    }

    /// Returns the messages that were sent last, as JSON.
    fn sent(&self) -> String {
        serde_json::to_string(&self.provider.asked().pop().unwrap().messages).unwrap()
    }
}

fn with(data: Value) -> SessionBeforeReply {
    SessionBeforeReply { data: Some(data), ..SessionBeforeReply::default() }
}

#[tokio::test]
async fn a_plugin_keeps_a_conversation_as_it_is_although_it_exceeds_the_threshold() {
    let no = SessionBeforeReply {
        cancel: true,
        reason: Some("the plan is not written down".into()),
        ..SessionBeforeReply::default()
    };
    let rig = rig(no);
    rig.say(0..10).await;
    assert!(rig.sent().contains("question 0"));
    let seen = rig.seen.lock().unwrap();
    assert!(!seen.asked.is_empty() && seen.asked.iter().all(|trigger| *trigger == Trigger::Hard));
    assert_eq!(seen.decisions.len(), seen.asked.len());
    for decision in &seen.decisions {
        assert_eq!((decision.trigger, decision.stage), (Trigger::Hard, Stage::Cancelled));
        assert_eq!(decision.note.as_deref(), Some("the plan is not written down"));
        assert_eq!(decision.before, decision.after);
    }
}

#[tokio::test]
async fn the_summary_of_a_plugin_stands_for_what_leaves_whoever_asked_for_the_compaction() {
    let rig = rig(with(json!({"summary": "The person wants the lighthouse painted."})));
    rig.say(0..4).await;
    rig.conversation.compact(None).await.unwrap();
    rig.say(4..5).await;
    let sent = rig.sent();
    assert!(sent.contains("lighthouse painted") && sent.contains("question 3"), "{sent}");
    assert!(!sent.contains("question 0"), "{sent}");
    rig.say(5..16).await;
    assert_eq!(rig.sent().matches("lighthouse painted").count(), 1, "one summary at a time");
    let seen = rig.seen.lock().unwrap();
    assert_eq!(seen.asked[..2], [Trigger::Manual, Trigger::Hard]);
    let ends: Vec<_> = seen.decisions.iter().filter(|decision| decision.stage != Stage::Began).collect();
    assert_eq!(ends.len(), seen.asked.len(), "what came of each is announced");
    assert!(ends.iter().all(|end| end.stage == Stage::Done && end.strategies[0] == "plugin"), "{ends:?}");
    assert!(ends.iter().all(|end| end.after < end.before));
}

#[tokio::test]
async fn a_compaction_that_an_error_breaks_off_says_the_error_and_not_that_it_was_stopped() {
    let rig = rig_on(Bus::builder().policy(OnError::Throw).build(), SessionBeforeReply::default());
    rig.say(0..4).await;
    let scope = rig.conversation.agent().bus().scope("guard");
    scope.on_sync(|_: &ContextReduced, _: &Cx| Err::<(), BoxError>("the disk is full".into()));
    let error = rig.conversation.compact(None).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    let seen = rig.seen.lock().unwrap();
    let stages: Vec<_> = seen.decisions.iter().map(|decision| decision.stage).collect();
    assert_eq!(stages, [Stage::Began, Stage::Cancelled]);
    let note = seen.decisions[1].note.as_deref().unwrap();
    assert!(note.contains("the disk is full") && !note.contains("stopped"), "{note}");
}

#[tokio::test]
async fn a_summary_that_cannot_stand_for_anything_is_left_out_and_the_strategies_are_asked() {
    for (data, why) in [(json!(7), "is no text"), (json!("long ".repeat(9000)), "more than the")] {
        let rig = rig(with(data.clone()));
        rig.say(0..10).await;
        assert!(rig.sent().contains("left out here to save context"), "{}", rig.sent());
        let is_text = data.is_string();
        let compacted = rig.conversation.compact(None).await;
        assert_eq!(compacted.is_ok(), is_text, "{compacted:?}");
        let seen = rig.seen.lock().unwrap();
        assert!(seen.left_out.iter().all(|error| error.contains(why)), "{:?}", seen.left_out);
        let done = seen.decisions.iter().find(|decision| decision.stage == Stage::Done).unwrap();
        assert_eq!(done.strategies, ["shorten"]);
    }
}
