//! The system prompt is put together of sections that plugins register.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::events::{
    PartKind, PartLeftOut, PrefixBreak, PrefixCause, PrefixPart, SectionSize, SystemSections,
};
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::service::{FixedSection, PromptSection, drop_section, section_order};
use zk_testkit::{Script, ScriptedProvider, Turn};

fn provide(bus: &Bus, source: &str, id: &str, section: impl PromptSection + 'static) {
    bus.scope(source).provide::<dyn PromptSection>(id, Arc::new(section)).unwrap();
}

fn fixed(order: i32, text: &str) -> FixedSection {
    FixedSection::new(order, text)
}

async fn prompts_of(bus: &Bus, own: &str, runs: usize) -> Vec<String> {
    let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("done")));
    let provider = Arc::new(provider);
    let agent = Agent::builder(provider.clone()).bus(bus.clone()).system(own).build().unwrap();
    for _ in 0..runs {
        agent.run("go").unwrap().wait().await.result.unwrap();
    }
    provider.requests().iter().map(|request| request.system.to_string()).collect()
}

#[tokio::test]
async fn sections_stand_by_order_and_id_and_blank_ones_are_left_out() {
    let bus = Bus::new();
    provide(&bus, "b", "second", fixed(section_order::PROJECT, "two"));
    provide(&bus, "a", "first", fixed(section_order::PROJECT, "one"));
    provide(&bus, "c", "place", fixed(section_order::PLACE, "here"));
    provide(&bus, "d", "nothing", fixed(0, " \n"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sizes = seen.clone();
    bus.scope("test").on_sync(move |event: &SystemSections, _: &Cx| {
        sizes.lock().unwrap().push(event.sections.clone());
    });
    let prompts = prompts_of(&bus, "own", 2).await;
    assert_eq!(prompts, ["own\n\nhere\n\none\n\ntwo"; 2], "the same bytes in each run");
    let size = |id: &str, source: &str, bytes| SectionSize { id: id.into(), source: source.into(), bytes };
    let expected = vec![
        size("system", "zk-agent", 3),
        size("place", "c", 4),
        size("first", "a", 3),
        size("second", "b", 3),
    ];
    assert_eq!(*seen.lock().unwrap(), [expected.clone(), expected]);
}

#[tokio::test]
async fn a_section_is_dropped_and_decorated_by_its_id() {
    let bus = Bus::new();
    provide(&bus, "a", "one", fixed(1, "one"));
    provide(&bus, "a", "two", fixed(2, "two"));
    let dropping = bus.scope("b");
    drop_section(&dropping, "one");
    dropping.decorate::<dyn PromptSection>("two", |inner| Arc::new(Louder(inner)));
    assert_eq!(prompts_of(&bus, "", 1).await, ["two!"]);
    dropping.close().await;
    assert_eq!(prompts_of(&bus, "", 1).await, ["one\n\ntwo"]);
}

#[tokio::test(start_paused = true)]
async fn a_section_that_fails_panics_or_hangs_is_left_out_by_name_and_the_run_goes_on() {
    let bus = Bus::new();
    provide(&bus, "good", "good", fixed(1, "kept"));
    for (source, fault) in [("failing", Fault::Error), ("panicking", Fault::Panic), ("hanging", Fault::Hang)]
    {
        provide(&bus, source, source, fault);
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let left_out = seen.clone();
    bus.scope("test").on_sync(move |event: &PartLeftOut, _: &Cx| {
        assert_eq!(event.kind, PartKind::PromptSection);
        left_out.lock().unwrap().push(format!("{} of {}: {}", event.name, event.source, event.error));
    });
    assert_eq!(prompts_of(&bus, "own", 1).await, ["own\n\nkept"]);
    let expected = [
        "failing of failing: the disk is full",
        "hanging of hanging: it took longer than 5 s",
        "panicking of panicking: it panicked",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

struct Louder(Arc<dyn PromptSection>);

#[async_trait]
impl PromptSection for Louder {
    fn order(&self) -> i32 {
        self.0.order()
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        Ok(self.0.text(cx).await? + "!")
    }
}

enum Fault {
    Error,
    Panic,
    Hang,
}

#[async_trait]
impl PromptSection for Fault {
    fn order(&self) -> i32 {
        5
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        match self {
            Self::Error => Err("the disk is full".into()),
            Self::Panic => panic!("a bug"),
            Self::Hang => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok("late".into())
            }
        }
    }
}

/// Counter that changes with each request, like a clock.
struct Ticks(Arc<Mutex<u32>>);

#[async_trait]
impl PromptSection for Ticks {
    fn order(&self) -> i32 {
        section_order::PROJECT
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        let mut ticks = self.0.lock().unwrap();
        *ticks += 1;
        Ok(format!("It is {ticks} o'clock."))
    }
}

#[tokio::test]
async fn a_clock_in_a_section_is_named_as_what_breaks_the_prefix_without_a_reason() {
    let bus = Bus::new();
    provide(&bus, "rules", "rules", fixed(1, "Be brief."));
    provide(&bus, "timekeeper", "time", Ticks(Arc::default()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let breaks = seen.clone();
    bus.scope("test").on_sync(move |event: &PrefixBreak, _: &Cx| {
        breaks.lock().unwrap().push((event.part.clone(), event.cause));
    });
    prompts_of(&bus, "own", 5).await;
    let seen = seen.lock().unwrap().clone();
    let part = PrefixPart::Section { id: "time".into(), source: "timekeeper".into() };
    assert!(seen.iter().all(|(broken, _)| *broken == part), "{seen:?}");
    use PrefixCause::{Reloaded, Unexplained};
    let causes: Vec<PrefixCause> = seen.iter().map(|(_, cause)| *cause).collect();
    // A file may be edited twice; a text that differs each time is no file.
    assert_eq!(causes, [Reloaded, Reloaded, Unexplained, Unexplained]);
}
