use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_compaction::{Shorten, Tail, Window};
use zk_core::events::{ContextReduced, PartKind, PartLeftOut, TurnAfter};
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::model::{Message, Model, Usage};
use zk_core::service::{
    ContextId, ContextWindow, Provider, Reduction, WindowCause, WindowPlan, WindowStrategy, WindowView,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Planning function of a strategy.
type Planner = fn(&WindowView<'_>) -> Result<Option<WindowPlan>, BoxError>;

struct Fixed(i32, Planner);

/// The order of a strategy that never answers.
const HANGS: i32 = 0;

#[async_trait]
impl WindowStrategy for Fixed {
    fn order(&self) -> i32 {
        self.0
    }

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if self.0 == HANGS {
            return std::future::pending().await;
        }
        (self.1)(view)
    }
}

fn newest(view: &WindowView<'_>) -> Result<Option<WindowPlan>, BoxError> {
    if view.cause != WindowCause::Full {
        return Ok(None);
    }
    let note = Message::injected("[Earlier messages were left out.]", "newest").shared();
    Ok(Some(WindowPlan::default().cut(0..view.messages.len() - 1, vec![note])))
}

struct Rig {
    bus: Bus,
    agent: Agent,
    provider: ScriptedProvider,
    log: Arc<Mutex<Vec<String>>>,
    context: Arc<Mutex<Option<ContextId>>>,
}

/// An agent with an owner of its window and these strategies.
fn rig(strategies: &[(&str, i32, Planner)]) -> Rig {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    for (name, order, plan) in strategies {
        bus.scope(*name).provide::<dyn WindowStrategy>(name, Arc::new(Fixed(*order, *plan))).unwrap();
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let context = Arc::new(Mutex::new(None));
    let test = bus.scope("test");
    let seen = log.clone();
    test.on_sync(move |event: &ContextReduced, _: &Cx| {
        seen.lock().unwrap().push(format!("{} left {} out", event.strategy, event.messages));
    });
    let seen = log.clone();
    test.on_sync(move |event: &PartLeftOut, _: &Cx| {
        assert_eq!(event.kind, PartKind::WindowStrategy);
        seen.lock().unwrap().push(format!("{}: {}", event.name, event.error));
    });
    let seen = context.clone();
    test.on_sync(move |_: &TurnAfter, cx: &Cx| {
        *seen.lock().unwrap() = cx.service::<ContextId>().map(|context| (*context).clone());
    });
    // Made of two attempts, of which the window holds the last.
    let usage = Usage { input: 1700, output: 100, last_read: Some(900), ..Usage::default() };
    let script = Script::answering(move |_| Turn::new().text("word ".repeat(100)).usage(usage));
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(8000), ..ScriptedProvider::new(Script::new()).model("small") };
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus.clone()).model(model).build().unwrap();
    Rig { bus, agent, provider, log, context }
}

impl Rig {
    async fn run(&self, prompt: &str) -> usize {
        self.agent.run(prompt).unwrap().wait().await.result.unwrap();
        self.provider.asked().pop().unwrap().messages.len()
    }

    fn window(&self) -> Arc<dyn ContextWindow> {
        self.bus.service::<dyn ContextWindow>().unwrap()
    }

    fn context(&self) -> ContextId {
        self.context.lock().unwrap().clone().unwrap()
    }
}

#[tokio::test]
async fn the_owner_knows_how_full_a_window_is_and_makes_it_smaller_when_asked() {
    let rig = rig(&[("newest", 1, newest)]);
    assert_eq!(rig.window().fill(&ContextId::fresh()), None);
    rig.run("one").await;
    assert_eq!(rig.run("two").await, 3);
    let fill = rig.window().fill(&rig.context()).unwrap();
    assert_eq!((fill.tokens, fill.window), (Some(1000), Some(8000)));
    assert!(fill.bytes > 500, "{}", fill.bytes);
    rig.window().reduce(&rig.context(), Reduction::default());
    assert_eq!(rig.run("three").await, 1, "the note and the prompt, as one message");
    assert_eq!(rig.run("four").await, 3, "what left stays away, what came since is sent");
    assert_eq!(*rig.log.lock().unwrap(), ["newest left 4 out"]);
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_fails_hangs_or_plans_nonsense_is_left_out_by_name_and_the_next_one_is_asked() {
    let rig = rig(&[
        ("0-hangs", HANGS, |_| Ok(None)),
        ("1-fails", 1, |_| Err("the disk is full".into())),
        ("2-panics", 2, |_| panic!("a bug")),
        ("3-index", 3, |_| Ok(Some(WindowPlan::default().replace(9, Message::user_text("x").shared())))),
        ("4-range", 4, |view| Ok(Some(WindowPlan::default().cut(0..view.messages.len(), Vec::new())))),
        ("5-newest", 5, newest),
    ]);
    rig.run("one").await;
    rig.log.lock().unwrap().clear();
    rig.window().reduce(&rig.context(), Reduction::default());
    assert_eq!(rig.run("two").await, 1);
    let expected = [
        "0-hangs: it took longer than 120 s",
        "1-fails: the disk is full",
        "2-panics: it panicked",
        "3-index: its plan names message 9 of 3",
        "4-range: its plan leaves messages out from 0 to 3, of 3",
        "5-newest left 2 out",
    ];
    assert_eq!(*rig.log.lock().unwrap(), expected);
}

#[test]
fn a_strategy_without_an_owner_of_the_window_is_refused() {
    for plugin in [&Shorten as &dyn zk_core::kernel::Plugin, &Tail::default()] {
        let error = Bus::new().install(plugin).unwrap_err().to_string();
        assert!(error.contains("install `Window` before"), "{error}");
    }
}
