//! A plugin that adds a section to the system prompt, and a host that measures the sections and drops one.
//!
//! The text is asked for once a run: the glossary may grow in between, and the prompt stays the same for all turns of a
//! run, so that providers can cache it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::events::SystemSections;
use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::service::{PromptSection, drop_section, section_order};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// The plugin: words of a project that a model cannot know.
#[derive(Clone, Default)]
struct Glossary(Arc<Mutex<Vec<(String, String)>>>);

impl Glossary {
    fn add(&self, word: &str, meaning: &str) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.push((word.to_owned(), meaning.to_owned()));
    }
}

impl Plugin for Glossary {
    fn name(&self) -> &str {
        "glossary"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn PromptSection>("glossary", Arc::new(self.clone()))?;
        Ok(())
    }
}

#[async_trait]
impl PromptSection for Glossary {
    fn order(&self) -> i32 {
        section_order::PROJECT
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = words.iter().map(|(word, meaning)| format!("{word}: {meaning}")).collect();
        // A blank text leaves the section out.
        Ok(if lines.is_empty() {
            String::new()
        } else {
            format!("Words of this project:\n{}", lines.join("\n"))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let (bus, glossary) = (Bus::new(), Glossary::default());
    bus.install(&glossary)?;
    bus.scope("host").on_sync(|event: &SystemSections, _: &Cx| {
        for section in &event.sections {
            println!("{} of {}: {} bytes", section.id, section.source, section.bytes);
        }
    });
    let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("Done.")));
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus.clone()).system("Be brief.").build()?;

    glossary.add("lot", "a batch of parts from one day");
    agent.run("What is a lot?")?.wait().await.result?;
    let dropping = bus.scope("without-glossary");
    drop_section(&dropping, "glossary");
    agent.run("And without it?")?.wait().await.result?;

    let prompts: Vec<String> = provider.requests().iter().map(|request| request.system.to_string()).collect();
    assert_eq!(
        prompts,
        ["Be brief.\n\nWords of this project:\nlot: a batch of parts from one day", "Be brief."]
    );
    Ok(())
}
