//! A strategy for conversations that do not fit their model's window: a list of what was asked takes the place of
//! everything but the newest message.
//!
//! The owner of the window decides when it is asked, and keeps what it planned; the stored history does not change.

use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_compaction::Window;
use zk_core::events::ContextReduced;
use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::model::{ErrorKind, Message, Role, context_size};
use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// The plugin.
struct Outline;

impl Plugin for Outline {
    fn name(&self) -> &str {
        "outline"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn WindowStrategy>("outline", Arc::new(Self))?;
        Ok(())
    }
}

#[async_trait]
impl WindowStrategy for Outline {
    fn order(&self) -> i32 {
        500
    }

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        let Some(newest) = view.messages.len().checked_sub(1).filter(|newest| *newest > 0) else {
            return Ok(None);
        };
        if view.cause != WindowCause::Full {
            return Ok(None);
        }
        let asked = view.messages.iter().take(newest).filter(|message| message.role == Role::User);
        let lines: Vec<String> = asked.map(|message| format!("- {}", first_words(&message.text()))).collect();
        let outline = Message::injected(format!("Asked before:\n{}", lines.join("\n")), "outline").shared();
        Ok(Some(WindowPlan::default().cut(0..newest, vec![outline])))
    }
}

fn first_words(text: &str) -> String {
    text.split_whitespace().take(5).collect::<Vec<_>>().join(" ")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let bus = Bus::new();
    bus.install(&Window::default())?;
    bus.install(&Outline)?;
    bus.scope("host").on_sync(|event: &ContextReduced, _: &Cx| {
        println!(
            "{}: {} messages left out, {} → {} bytes",
            event.strategy, event.messages, event.before, event.after
        );
    });
    // A model with a very small window.
    let script = Script::answering(|asked| match context_size(&asked.messages) {
        0..1500 => Turn::new().text("A long answer. ".repeat(20)),
        _ => Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long"),
    });
    let provider = ScriptedProvider::new(script);
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).build()?;
    for number in 1..=8 {
        agent.run(format!("Tell me about part {number}."))?.wait().await.result?;
    }
    assert_eq!(agent.history().len(), 16, "what is stored is whole");
    assert!(provider.asked().iter().any(|asked| {
        asked
            .messages
            .iter()
            .any(|message| message.text().starts_with("Asked before:\n- Tell me about part 1."))
    }));
    Ok(())
}
