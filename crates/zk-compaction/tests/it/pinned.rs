//! Pinned content that outlives compactions takes room in the window as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::time::Instant;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Shorten, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction};
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::model::{AgentError, Model, ToolSpec};
use zk_core::service::{
    ContextWindow, Conversation, PinnedContext, Provider, WindowCause, WindowLevel, WindowPlan,
    WindowStrategy, WindowView,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::tools::Fixed;

struct Pinned(Mutex<String>);

#[async_trait]
impl PinnedContext for Pinned {
    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        Ok(Some(self.0.lock().unwrap().clone()))
    }
}

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    pinned: Arc<Pinned>,
    /// Whether each answer calls a tool, so that a run does not end by itself.
    works: Arc<AtomicBool>,
    stages: Arc<Mutex<Vec<CompactionStage>>>,
    /// Tokens that each compaction left.
    left: Arc<Mutex<Vec<u64>>>,
}

/// Conversation with a window of 8,000 tokens, of which 6,000 may be sent, and answers of about 500.
fn rig(pinned: usize) -> Rig {
    let bus = Bus::new();
    let options = WindowOptions { cooldown: 0, tokenizer: false, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    bus.install(&Shorten).unwrap();
    let pinned = Arc::new(Pinned(Mutex::new("Do it. ".repeat(pinned / 7))));
    bus.scope("todo").provide::<dyn PinnedContext>("todo", pinned.clone()).unwrap();
    let stages = Arc::<Mutex<Vec<_>>>::default();
    let left = Arc::<Mutex<Vec<_>>>::default();
    let (seen, after) = (stages.clone(), left.clone());
    bus.scope("test").on_sync(move |event: &ContextCompaction, _: &Cx| {
        seen.lock().unwrap().push(event.stage);
        if event.stage == CompactionStage::Done {
            after.lock().unwrap().push(event.after);
        }
    });
    let works = Arc::<AtomicBool>::default();
    let goes_on = works.clone();
    let provider = ScriptedProvider::new(Script::answering(move |_| {
        let turn = Turn::new().text("word ".repeat(400));
        if goes_on.load(Ordering::Acquire) { turn.call("look", json!({})) } else { turn }
    }));
    let model = Model { window: Some(8000), ..provider.model("scripted") };
    let builder = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model);
    let agent = builder
        .tool(Arc::new(Fixed(
            ToolSpec::new("look", "Looks.", json!({"type": "object"})),
            "There it is.".into(),
        )))
        .build()
        .unwrap();
    Rig { conversation: AgentConversation::new(agent), provider, pinned, works, stages, left }
}

impl Rig {
    async fn say(&self, prompt: &str) -> Result<(), AgentError> {
        self.conversation.run(prompt).await.unwrap().wait().await.result
    }
}

#[tokio::test]
async fn what_is_pinned_counts_and_more_leaves_for_it() {
    // A compaction leaves about 2,700 tokens, of which pinned content takes 1,750.
    let rig = rig(7000);
    for number in 0..40 {
        rig.say(&format!("question {number}")).await.unwrap();
        let agent = rig.conversation.agent();
        let fill = agent.bus().service::<dyn ContextWindow>().unwrap().fill(&agent.context()).unwrap();
        assert!(fill.level < WindowLevel::Hard, "{number}: {fill:?}");
    }
    let stages = rig.stages.lock().unwrap().clone();
    assert!(stages.len() >= 4, "{stages:?}");
    assert!(
        stages.iter().all(|stage| matches!(stage, CompactionStage::Began | CompactionStage::Done)),
        "{stages:?}"
    );
    // From the second one on, the pinned content is known beforehand.
    let left = rig.left.lock().unwrap().clone();
    assert!(left.len() >= 3 && left[1..].iter().all(|left| *left < 3000), "{left:?}");
    let sent = rig.provider.asked().pop().unwrap().messages;
    let pinned = rig.pinned.0.lock().unwrap().clone();
    let blocks = sent.iter().flat_map(|message| &message.content);
    assert_eq!(blocks.filter(|block| block.as_text() == Some(&pinned)).count(), 1);
}

#[tokio::test]
async fn what_is_pinned_and_fills_the_window_by_itself_ends_the_run_and_is_named_with_what_can_be_done() {
    let rig = rig(30_000);
    rig.say("Remember: be kind").await.unwrap();
    let mut error = None;
    for number in 0..20 {
        if let Err(failed) = rig.say(&format!("question {number}")).await {
            error = Some(failed);
            break;
        }
    }
    let Some(AgentError::ContextExceeded(why)) = error else { panic!("{error:?}") };
    for part in ["by itself: todo 7", "of a window of 8000", "larger window", "new conversation"] {
        assert!(why.message.contains(part), "{part}: {}", why.message);
    }
    assert_eq!(*rig.stages.lock().unwrap(), [CompactionStage::Began, CompactionStage::Stopped]);
    let asked = rig.provider.asked().len();
    // With less of it, the next prompt continues.
    *rig.pinned.0.lock().unwrap() = "Open: the door.".to_owned();
    rig.conversation.compact(None).await.unwrap();
    rig.say("go on").await.unwrap();
    assert_eq!(rig.provider.asked().len(), asked + 1);
}

#[tokio::test]
async fn a_run_of_which_most_is_pinned_ends_after_two_failures_with_its_name_and_choices_and_never_loops() {
    for percent in [60, 75, 90] {
        // Of 6,000 tokens.
        let rig = rig(240 * percent);
        rig.works.store(true, Ordering::Release);
        let Err(AgentError::ContextExceeded(why)) = rig.say("work").await else { panic!("{percent}") };
        let pinned = format!("have to (todo {}", 60 * percent / 100);
        for part in [
            &*pinned,
            "sub-agents, and compact again",
            "of a window of 8000",
            "larger window",
            "new conversation",
        ] {
            assert!(why.message.contains(part), "{percent}: {part}: {}", why.message);
        }
        let stages = rig.stages.lock().unwrap().clone();
        use CompactionStage as S;
        assert!(stages.ends_with(&[S::Began, S::Failed, S::Began, S::Stopped]), "{percent}: {stages:?}");
        assert!(stages.len() <= 6 && rig.provider.asked().len() < 20, "{percent}: {stages:?}");
        // The next prompt is sent unchanged; with less pinned content and a compaction everything works as
        // usual.
        rig.works.store(false, Ordering::Release);
        rig.say("go on").await.unwrap();
        assert_eq!(*rig.stages.lock().unwrap(), stages, "{percent}: no more is tried");
        *rig.pinned.0.lock().unwrap() = "Open: the door.".to_owned();
        rig.conversation.compact(None).await.unwrap();
        for number in 0..20 {
            rig.say(&format!("question {number}")).await.unwrap();
        }
        let later = rig.stages.lock().unwrap().split_off(stages.len());
        assert!(
            later.len() >= 2 && later.chunks(2).all(|two| two == [S::Began, S::Done]),
            "{percent}: {later:?}"
        );
    }
}

/// Strategy that does nothing for this many seconds.
struct Slow(u64);

impl Slow {
    async fn wait(&self) {
        tokio::time::sleep(Duration::from_secs(self.0)).await;
    }
}

#[async_trait]
impl PinnedContext for Slow {
    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        self.wait().await;
        Ok(None)
    }
}

#[async_trait]
impl WindowStrategy for Slow {
    fn order(&self) -> i32 {
        1
    }

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if view.cause == WindowCause::Full {
            self.wait().await;
        }
        Ok(None)
    }
}

/// The most seconds that a prompt waited until something was decided.
async fn longest(rig: &Rig) -> u64 {
    let mut longest = 0;
    for number in 0..20 {
        let begun = Instant::now();
        rig.say(&format!("question {number}")).await.unwrap();
        longest = longest.max(begun.elapsed().as_secs());
    }
    assert!(rig.stages.lock().unwrap().contains(&CompactionStage::Done));
    longest
}

#[tokio::test(start_paused = true)]
async fn those_that_say_what_stays_are_asked_at_once() {
    let rig = rig(700);
    for number in 0..6 {
        let name = format!("slow-{number}");
        let scope = rig.conversation.agent().bus().scope(&*name);
        scope.provide::<dyn PinnedContext>(&name, Arc::new(Slow(60))).unwrap();
    }
    assert_eq!(longest(&rig).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_made_smaller_twice_waits_half_a_minute_all_the_same() {
    let rig = rig(13_000);
    let scope = rig.conversation.agent().bus().scope("slow");
    scope.provide::<dyn WindowStrategy>("slow", Arc::new(Slow(20))).unwrap();
    scope.provide::<dyn PinnedContext>("slow", Arc::new(Slow(4))).unwrap();
    let longest = longest(&rig).await;
    assert!((26..=30).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_person_who_goes_on_with_what_is_pinned_is_told_again_only_when_it_grew_by_a_fifth() {
    // Of 6,000 tokens, so that a compaction frees less than a fifth.
    let rig = rig(240 * 75);
    let ends = async |prompts: usize| {
        let mut ends = 0;
        for number in 0..prompts {
            match rig.say(&format!("question {number}")).await {
                Ok(()) => {}
                Err(AgentError::ContextExceeded(_)) => ends += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        ends
    };
    assert_eq!(ends(40).await, 1, "{:?}", rig.stages.lock().unwrap());
    let pinned = rig.pinned.0.lock().unwrap().clone();
    *rig.pinned.0.lock().unwrap() = format!("{pinned}{}", "Do it. ".repeat(pinned.len() / 140));
    assert_eq!(ends(20).await, 0, "a twentieth more");
    *rig.pinned.0.lock().unwrap() = "Do it. ".repeat(240 * 50 / 7);
    rig.conversation.compact(None).await.unwrap();
    assert_eq!(ends(10).await, 0, "there is room");
    *rig.pinned.0.lock().unwrap() = pinned;
    assert_eq!(ends(40).await, 1, "more than a fifth more than the least of it");
}
