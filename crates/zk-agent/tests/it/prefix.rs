//! Changes that break the beginning that a request shares with the one before it are named.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use zk_agent::Agent;
use zk_core::events::{
    ContextTransform, PrefixBreak, PrefixCause, PrefixPart, ProviderRequest, RequestPatch, SessionEnd,
    SystemTransform,
};
use zk_core::kernel::{BoxError, Bus, Cx, Source};
use zk_core::model::{Message, Model, ThinkingLevel, ThinkingRequest, WireRules};
use zk_core::service::{
    COMPACTION_ENTRY, CustomEntry, Entry, EntryKind, EventStream, FixedSection, NewEntry, PromptSection,
    Provider, Request, Tool,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::TestTool;

type Breaks = Arc<Mutex<Vec<(PrefixPart, PrefixCause)>>>;

fn provide(bus: &Bus, id: &str, section: impl PromptSection + 'static) -> zk_core::kernel::Scope {
    let scope = bus.scope(format!("plugin-{id}"));
    scope.provide::<dyn PromptSection>(id, Arc::new(section)).unwrap();
    scope
}

fn breaks(bus: &Bus) -> Breaks {
    let seen = Breaks::default();
    let noted = seen.clone();
    bus.scope("test").on_sync(move |event: &PrefixBreak, _: &Cx| {
        noted.lock().unwrap().push((event.part.clone(), event.cause));
    });
    seen
}

fn provider() -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::new(Script::answering(|_| Turn::new().text("done"))))
}

async fn run(agent: &Agent) {
    agent.run("go").unwrap().wait().await.result.unwrap();
}

fn section(id: &str) -> PrefixPart {
    PrefixPart::Section { id: id.into(), source: format!("plugin-{id}") }
}

#[tokio::test]
async fn a_section_that_leaves_or_comes_is_named_and_not_the_one_beside_it() {
    let bus = Bus::new();
    provide(&bus, "first", FixedSection::new(1, "One."));
    let second = provide(&bus, "second", FixedSection::new(2, "Two."));
    provide(&bus, "third", FixedSection::new(3, "Three."));
    let seen = breaks(&bus);
    let agent = Agent::builder(provider()).bus(bus.clone()).system("own").build().unwrap();
    run(&agent).await;
    second.close().await;
    run(&agent).await;
    provide(&bus, "between", FixedSection::new(2, "New."));
    run(&agent).await;
    let parts: Vec<PrefixPart> = seen.lock().unwrap().iter().map(|(part, _)| part.clone()).collect();
    assert_eq!(parts, [section("second"), section("between")]);
}

/// Shows minutes.
struct Minutes(Arc<Mutex<u32>>);

#[async_trait]
impl PromptSection for Minutes {
    fn order(&self) -> i32 {
        2
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        Ok(format!("It is 12:{:02}.", self.0.lock().unwrap()))
    }
}

#[tokio::test]
async fn a_clock_that_stays_the_same_for_some_runs_is_not_taken_for_an_edited_file() {
    let bus = Bus::new();
    let now = Arc::new(Mutex::new(7));
    provide(&bus, "rules", FixedSection::new(1, "Be brief."));
    provide(&bus, "time", Minutes(now.clone()));
    let seen = breaks(&bus);
    let agent = Agent::builder(provider()).bus(bus).build().unwrap();
    for at in 0..12 {
        if at % 3 == 2 {
            *now.lock().unwrap() += 1;
        }
        run(&agent).await;
    }
    use PrefixCause::{Reloaded, Unexplained};
    let expected = [Reloaded, Reloaded, Unexplained, Unexplained].map(|cause| (section("time"), cause));
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// Provider that invalidates its cache when the thinking changes.
struct Forgetful(Arc<ScriptedProvider>);

impl Provider for Forgetful {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.0)
    }

    fn model(&self, id: &str) -> Model {
        self.0.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.0.rules(model)
    }

    fn thinking_breaks_prefix(&self, _: &Model) -> bool {
        true
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        self.0.stream(request, cx)
    }
}

#[tokio::test]
async fn changed_thinking_is_named_if_it_breaks_the_providers_prefix() {
    let level = ThinkingLevel::High;
    let expected = (PrefixPart::Thinking { level }, PrefixCause::ThinkingChanged);
    let providers: [(Arc<dyn Provider>, Vec<_>); 2] =
        [(provider(), vec![]), (Arc::new(Forgetful(provider())), vec![expected])];
    for (provider, expected) in providers {
        let bus = Bus::new();
        let asked = Arc::new(Mutex::new(None));
        let thinking = asked.clone();
        bus.scope("test").on_sync(move |_: &ProviderRequest, _: &Cx| {
            Some(RequestPatch { thinking: *thinking.lock().unwrap(), ..RequestPatch::default() })
        });
        let seen = breaks(&bus);
        let agent = Agent::builder(provider).bus(bus).build().unwrap();
        run(&agent).await;
        *asked.lock().unwrap() = Some(ThinkingRequest { level, budget: None });
        run(&agent).await;
        run(&agent).await;
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn the_owner_of_a_changed_tool_is_named() {
    let bus = Bus::new();
    let tools = bus.scope("mcp:files");
    tools.provide::<dyn Tool>("echo", TestTool::echo()).unwrap();
    let seen = breaks(&bus);
    let agent = Agent::builder(provider()).unguarded().bus(bus.clone()).build().unwrap();
    run(&agent).await;
    tools.close().await;
    run(&agent).await;
    let source = |name: &str| Some(name.to_owned());
    bus.scope("failures").provide::<dyn Tool>("fail", TestTool::fail()).unwrap();
    run(&agent).await;
    let part = |first: &str, owner| PrefixPart::Tools { first: first.into(), source: source(owner) };
    let cause = PrefixCause::ToolsChanged;
    assert_eq!(
        *seen.lock().unwrap(),
        [(part("echo", "mcp:files"), cause), (part("fail", "failures"), cause)]
    );
}

/// Registers a handler that prepends a word to the request.
fn before(bus: &Bus, plugin: &str, word: &Arc<Mutex<&'static str>>) {
    let word = word.clone();
    bus.scope(plugin.to_owned()).on_sync(move |event: &ContextTransform, _: &Cx| {
        let word = *word.lock().unwrap();
        let mut messages = event.messages.clone();
        messages.insert(0, Arc::new(Message::user_text(word)));
        (!word.is_empty()).then_some(messages)
    });
}

#[tokio::test]
async fn the_plugin_that_rewrote_the_messages_otherwise_than_before_is_named() {
    let bus = Bus::new();
    let (first, second) = (Arc::new(Mutex::new("One.")), Arc::new(Mutex::new("Two.")));
    before(&bus, "first", &first);
    before(&bus, "second", &second);
    let seen = breaks(&bus);
    let agent = Agent::builder(provider()).bus(bus.clone()).build().unwrap();
    for (one, two) in
        [("One.", "Two."), ("One.", "Two."), ("One.", "Other."), ("Another.", "Other."), ("Another.", "")]
    {
        (*first.lock().unwrap(), *second.lock().unwrap()) = (one, two);
        run(&agent).await;
    }
    let seen = seen.lock().unwrap();
    let sources = seen.iter().map(|(part, _)| match part {
        PrefixPart::Messages { source, .. } => source.clone().unwrap_or_default(),
        other => format!("{other:?}"),
    });
    assert_eq!(sources.collect::<Vec<_>>(), ["second", "first", "second"]);
}

#[tokio::test]
async fn the_plugin_that_rewrote_the_system_prompt_is_named() {
    let bus = Bus::new();
    let seen = breaks(&bus);
    bus.scope("shouter").on_sync(move |event: &SystemTransform, _: &Cx| {
        Some(format!("{} It is {:?}.", event.system, event.turn_id))
    });
    let agent = Agent::builder(provider()).bus(bus).system("Be brief.").build().unwrap();
    run(&agent).await;
    run(&agent).await;
    let part = PrefixPart::Section { id: "system".into(), source: "shouter".into() };
    assert_eq!(seen.lock().unwrap()[0].0, part);
}

/// Runs a process with the sections `texts`: returns its history, its session entries, and its prefix breaks.
async fn process(
    before: Option<(Vec<Arc<Message>>, Vec<Entry>)>,
    texts: [&str; 2],
    transform: Option<&'static str>,
) -> ((Vec<Arc<Message>>, Vec<Entry>), Vec<(PrefixPart, PrefixCause)>) {
    let bus = Bus::new();
    provide(&bus, "first", FixedSection::new(1, texts[0]));
    provide(&bus, "second", FixedSection::new(2, texts[1]));
    if let Some(more) = transform {
        bus.scope("transform")
            .on_sync(move |event: &SystemTransform, _: &Cx| Some(format!("{}{more}", event.system)));
    }
    let seen = breaks(&bus);
    let kept: Arc<Mutex<Vec<CustomEntry>>> = Arc::default();
    let entries = kept.clone();
    bus.scope("test").on_sync(move |end: &SessionEnd, _: &Cx| {
        entries.lock().unwrap().extend(end.entries.clone());
    });
    let (history, mut entries) = before.unwrap_or_default();
    let agent = Agent::builder(provider())
        .bus(bus)
        .session("s_1".into())
        .history(history)
        .restored(entries.clone())
        .build()
        .unwrap();
    run(&agent).await;
    run(&agent).await;
    let kept = kept.lock().unwrap().clone();
    entries.extend(kept.into_iter().enumerate().map(|(at, entry)| Entry {
        id: format!("e_{at}").into(),
        parent: None,
        time_ms: 0,
        kind: EntryKind::Custom(entry),
    }));
    // Through the text that a store keeps.
    let entries = serde_json::from_value(serde_json::to_value(entries).unwrap()).unwrap();
    let seen = seen.lock().unwrap().clone();
    ((agent.history(), entries), seen)
}

#[tokio::test]
async fn the_first_request_of_a_process_is_compared_with_the_last_one_of_the_process_before() {
    let (first, seen) = process(None, ["One.", "Two."], None).await;
    assert_eq!(seen, []);
    let stored = serde_json::to_string(&first.1).unwrap();
    assert!(!stored.contains("One.") && !stored.contains("done"), "no texts: {stored}");
    let (second, seen) = process(Some(first.clone()), ["One.", "Two."], None).await;
    assert_eq!(seen, [], "nothing changed");
    let (_, seen) = process(Some(second.clone()), ["One.", "Other."], None).await;
    assert_eq!(seen, [(section("second"), PrefixCause::Reloaded)]);
    let (_, seen) = process(Some(second.clone()), ["One.", "Two."], Some(" More.")).await;
    let whole = PrefixPart::Section { id: "first".into(), source: "plugin-first".into() };
    assert!(seen.len() == 1 && seen[0].0 != whole, "{seen:?}");
    let (mut history, entries) = second;
    history[2] = Arc::new(Message::user_text("something else"));
    let (_, seen) = process(Some((history, entries)), ["One.", "Two."], None).await;
    let PrefixPart::Messages { first, .. } = seen[0].0 else { panic!("{seen:?}") };
    assert!(first <= 2 && seen[0].1 == PrefixCause::Unexplained, "{seen:?}");
}

#[tokio::test]
async fn a_stored_compaction_explains_a_changed_prefix() {
    let (before, _) = process(None, ["One.", "Two."], None).await;
    for (source, kind, cause) in [
        ("a-plugin-of-somebody", COMPACTION_ENTRY, PrefixCause::Reduction),
        ("compaction-subgoal", "subgoal", PrefixCause::Unexplained),
    ] {
        let (mut history, mut entries) = before.clone();
        history[1] = Arc::new(Message::user_text("a summary"));
        let custom = NewEntry::hidden(kind, 1, Value::Null).by(&Source::new(source));
        let kind = EntryKind::Custom(custom);
        entries.push(Entry { id: "e_new".into(), parent: None, time_ms: 0, kind });
        let (_, seen) = process(Some((history, entries)), ["One.", "Two."], None).await;
        assert_eq!(seen.iter().map(|(_, cause)| *cause).collect::<Vec<_>>(), [cause], "{source}: {seen:?}");
    }
}

#[tokio::test]
async fn a_clock_is_named_though_each_process_sees_it_once() {
    let mut before = None;
    let mut causes = Vec::new();
    for text in ["It is 12:07.", "It is 12:09.", "It is 12:30.", "It is 13:01."] {
        let (now, seen) = process(before.take(), ["One.", text], None).await;
        before = Some(now);
        causes.extend(seen.into_iter().map(|(_, cause)| cause));
    }
    use PrefixCause::{Reloaded, Unexplained};
    assert_eq!(causes, [Reloaded, Reloaded, Unexplained]);
}

#[tokio::test]
async fn a_conversation_without_a_session_keeps_nothing_of_its_requests() {
    let bus = Bus::new();
    let kept: Arc<Mutex<Vec<Value>>> = Arc::default();
    let entries = kept.clone();
    bus.scope("test").on_sync(move |end: &SessionEnd, _: &Cx| {
        entries.lock().unwrap().push(serde_json::to_value(&end.entries).unwrap());
    });
    let agent = Agent::builder(provider()).bus(bus).build().unwrap();
    run(&agent).await;
    assert_eq!(*kept.lock().unwrap(), [Value::Array(Vec::new())]);
}
