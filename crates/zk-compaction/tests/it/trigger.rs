//! When a conversation is made smaller, and when no more is tried.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_compaction::{Shorten, Window, WindowOptions};
use zk_core::events::{CompactionStage, CompactionTrigger, ContextCompaction, ContextFill};
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::model::{AgentError, Message, Model, Usage};
use zk_core::service::{PinnedContext, Provider, WindowLevel, WindowPlan, WindowStrategy, WindowView};
use zk_testkit::{Script, ScriptedProvider, Turn};

type Decisions = Arc<Mutex<Vec<(CompactionTrigger, CompactionStage)>>>;

/// Strategy that counts its calls and omits nothing.
#[derive(Clone, Default)]
struct Useless(Arc<Mutex<usize>>);

#[async_trait]
impl WindowStrategy for Useless {
    fn order(&self) -> i32 {
        1
    }

    async fn plan(&self, _: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        *self.0.lock().unwrap() += 1;
        Ok(None)
    }
}

struct Rig {
    agent: Agent,
    provider: ScriptedProvider,
    decisions: Decisions,
    levels: Arc<Mutex<Vec<WindowLevel>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

/// Agent whose provider counts `per_message` tokens for each message and `beside` for the rest.
fn rig(window: u64, beside: u64, per_message: u64, install: impl FnOnce(&Bus)) -> Rig {
    let bus = Bus::new();
    let options = WindowOptions { cooldown: 0, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    install(&bus);
    let (decisions, levels) = (Decisions::default(), Arc::<Mutex<Vec<_>>>::default());
    let notes = Arc::<Mutex<Vec<_>>>::default();
    let test = bus.scope("test");
    let (seen, noted) = (decisions.clone(), notes.clone());
    test.on_sync(move |event: &ContextCompaction, _: &Cx| {
        seen.lock().unwrap().push((event.trigger, event.stage));
        noted.lock().unwrap().extend(event.note.clone());
    });
    let seen = levels.clone();
    test.on_sync(move |event: &ContextFill, _: &Cx| seen.lock().unwrap().push(event.level));
    let script = Script::answering(move |asked| {
        let input = beside + per_message * asked.messages.len() as u64;
        Turn::new().text("word ".repeat(80)).usage(Usage { input, output: per_message, ..Usage::default() })
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(window), ..provider.model("scripted") };
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).build().unwrap();
    Rig { agent, provider, decisions, levels, notes }
}

impl Rig {
    async fn say(&self, prompt: &str) -> Result<(), AgentError> {
        self.agent.run(prompt).unwrap().wait().await.result
    }
}

#[tokio::test]
async fn the_lower_threshold_is_reached_before_the_upper_one_and_after_a_compaction_neither_is() {
    let rig = rig(8000, 100, 400, |bus| drop(bus.install(&Shorten).unwrap()));
    for number in 0..10 {
        rig.say(&format!("question {number}")).await.unwrap();
    }
    use {CompactionStage as S, CompactionTrigger as T};
    let decisions = rig.decisions.lock().unwrap().clone();
    assert_eq!(decisions[..2], [(T::Hard, S::Began), (T::Hard, S::Done)], "{decisions:?}");
    let levels = rig.levels.lock().unwrap().clone();
    let soft = levels.iter().position(|level| *level == WindowLevel::Soft).unwrap();
    assert!(levels[..soft].iter().all(|level| *level == WindowLevel::Low), "{levels:?}");
    assert!(levels[soft..].contains(&WindowLevel::Low), "{levels:?}");
}

#[tokio::test]
async fn twice_too_little_ends_the_run_with_what_fills_the_window_and_the_next_prompt_goes_on_as_it_is() {
    let useless = Useless::default();
    let strategy = useless.clone();
    let rig = rig(8000, 5900, 40, |bus| {
        bus.scope("useless").provide::<dyn WindowStrategy>("useless", Arc::new(strategy)).unwrap();
    });
    rig.say("one").await.unwrap();
    rig.say("two").await.unwrap();
    let error = rig.say("three").await.unwrap_err();
    let AgentError::ContextExceeded(why) = &error else { panic!("{error:?}") };
    for part in
        ["too little twice in a row", "of a window of 8000", "prompts", "larger window", "new conversation"]
    {
        assert!(why.message.contains(part), "{part}: {}", why.message);
    }
    assert_eq!(rig.provider.asked().len(), 2, "it was not sent");
    let stages: Vec<_> = rig.decisions.lock().unwrap().iter().map(|(_, stage)| *stage).collect();
    use CompactionStage as S;
    assert_eq!(stages, [S::Began, S::Failed, S::Began, S::Stopped]);
    let asked = *useless.0.lock().unwrap();
    for _ in 0..3 {
        rig.say("go on").await.unwrap();
    }
    assert_eq!(rig.decisions.lock().unwrap().len(), 4, "no more is tried");
    assert_eq!(*useless.0.lock().unwrap(), asked + 3, "each request is looked at once");
    assert_eq!(rig.notes.lock().unwrap().len(), 2);
}

struct Todos;

#[async_trait]
impl PinnedContext for Todos {
    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        Ok(Some("Open: \tthe  door.\n".into()))
    }
}

#[tokio::test]
async fn what_is_pinned_and_what_a_person_wants_remembered_survive_compactions_byte_for_byte() {
    let rig = rig(6000, 100, 300, |bus| {
        bus.install(&Shorten).unwrap();
        bus.scope("todo").provide::<dyn PinnedContext>("todo", Arc::new(Todos)).unwrap();
    });
    rig.say("The task").await.unwrap();
    rig.say("Well\nRemember: tests  first, ünd café\nyes").await.unwrap();
    for number in 0..30 {
        rig.say(&format!("question {number}")).await.unwrap();
    }
    let done =
        rig.decisions.lock().unwrap().iter().filter(|(_, stage)| *stage == CompactionStage::Done).count();
    assert!(done >= 3, "{done}");
    let sent = rig.provider.asked().pop().unwrap().messages;
    let texts: Vec<&str> =
        sent.iter().flat_map(|message| &message.content).filter_map(|b| b.as_text()).collect();
    let count = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("\nRemember: tests  first, ünd café"), 1, "{texts:?}");
    assert_eq!(texts.iter().filter(|text| **text == "Open: \tthe  door.\n").count(), 1, "{texts:?}");
    assert_eq!(count("question 0"), 0, "something was left out");
}

#[tokio::test]
async fn a_skill_in_use_survives_compactions_as_it_was_given() {
    let rig = rig(6000, 100, 300, |bus| drop(bus.install(&Shorten).unwrap()));
    rig.say("The task").await.unwrap();
    let skill =
        Message::injected("<skill_content name=\"pdf\">\n  Use  this.\n</skill_content>", "skill:pdf");
    rig.agent.inject(skill.clone()).unwrap();
    for number in 0..30 {
        rig.say(&format!("question {number}")).await.unwrap();
    }
    let sent = rig.provider.asked().pop().unwrap().messages;
    let texts = sent.iter().flat_map(|message| &message.content).filter_map(|block| block.as_text());
    assert_eq!(texts.filter(|text| *text == skill.text()).count(), 1);
}

#[test]
fn thresholds_in_the_wrong_order_are_refused_at_the_start() {
    let options = WindowOptions { soft: 0.95, ..WindowOptions::default() };
    let error = Bus::new().install(&Window::with(options)).unwrap_err().to_string();
    assert!(error.contains("`soft` (0.95) must not exceed `hard` (0.9)"), "{error}");
}

#[tokio::test]
async fn a_request_whose_text_cannot_fit_is_never_sent_whatever_the_provider_counted() {
    let rig = rig(8000, 100, 10, |_| {});
    rig.say("short").await.unwrap();
    // Before its first request, and again after the owner of the window gave up.
    for prompt in ["x".repeat(200_000), "go on".to_owned(), "go on".to_owned()] {
        let error = rig.say(&prompt).await.unwrap_err();
        let AgentError::ContextExceeded(why) = &error else { panic!("{error:?}") };
        assert!(why.message.contains("window"), "{}", why.message);
    }
    assert_eq!(rig.provider.asked().len(), 1);
    let level = rig.levels.lock().unwrap().last().copied();
    assert_eq!(level, Some(WindowLevel::Hard));
}
