//! A front-end over `zk-view` that appends labelled lines and never redraws: for a screen reader, or a log.
//!
//! This front-end looks at no event of the agent: patches come in, intents go out, and what the view wants
//! done it does. The model is scripted, so that it runs anywhere.

#![expect(clippy::print_stdout, reason = "a front-end shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Approved, Display, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallGuard, Conversation, Question, Questions, Tool, ToolCx, UiAnswer};
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Block, Content, Intent, Patch, ViewDriver};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let questions = Arc::new(Questions::new());
    let (bus, view) = (Bus::new(), ViewDriver::answering(&questions));
    bus.install(&view)?;
    let consent = bus.scope("consent");
    consent.on_async_with(questions, ask_first);
    consent.provide_service(Arc::new(CallGuard));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script())))
        .bus(bus.clone())
        .model_id("scripted")
        .tool(Arc::new(Count(ToolSpec::new("count", "Counts.", json!({"type": "object"})))))
        .build()?;
    let conversation = AgentConversation::new(agent);

    let screen = tokio::spawn(show(view.clone()));
    let prompts: Vec<String> = std::env::args().skip(1).collect();
    let usual = || vec!["Count to a hundred.".to_owned(), "Thank you.".to_owned()];
    for text in if prompts.is_empty() { usual() } else { prompts } {
        view.intent(&Intent::Submit { text });
        // A prompt that waited for the end of a run follows it.
        while let Some(effect) = view.take_effect() {
            if let Some(left) = view.carry_out(&conversation, effect).await {
                println!("Not possible here: {left:?}");
            }
            conversation.idle().await;
        }
    }
    conversation.close().await;
    bus.close().await;
    Ok(screen.await?)
}

/// Shows the view until its bus is closed, and answers what it asks.
async fn show(view: ViewDriver) {
    let mut reader = view.reader();
    while let Some(patches) = reader.next().await {
        for patch in patches {
            match patch {
                // After falling behind: a longer-lived front-end would keep the ids it has shown.
                Patch::Reset { view } => view.blocks.iter().for_each(|block| line(block)),
                Patch::Open { block } | Patch::Close { block } if block.closed => line(&block),
                Patch::Ask { card } => {
                    // A person would answer here; the digest says what was shown.
                    println!("Question: {:?}. Answer: yes.", card.question);
                    view.intent(&Intent::Answer { id: card.id, digest: card.digest, answer: UiAnswer::Once });
                }
                _ => {}
            }
        }
    }
}

/// One block as labelled lines.
fn line(block: &Block) {
    let who = block.agent.as_ref().map_or(String::new(), |agent| format!("{}, ", agent.name));
    match &block.content {
        Content::User { text, .. } => println!("{who}You: {text}"),
        Content::Answer { text, .. } => println!("{who}Answer: {text}"),
        Content::Call(call) => {
            println!("{who}Tool {}: {:?}", call.summary, call.state);
            if let Some(body) = &call.body {
                let shown = body.lines.len().min(3);
                println!("{who}Result, the last {shown} of {} lines:", body.total_lines);
                body.lines.iter().rev().take(shown).rev().for_each(|line| println!("  {line}"));
            }
        }
        Content::End(end) => println!("{who}Done: {} turns.", end.turns),
        _ => {}
    }
}

/// A gate that asks before every call.
async fn ask_first(questions: &Arc<Questions>, gate: &ToolGate, cx: &Cx) -> Option<Ruling> {
    let question = Question::Confirm { text: format!("Run {}?", gate.call.name) };
    match questions.ask(question, cx, Duration::from_secs(20)).await {
        UiAnswer::Once => None,
        _ => Some(Ruling::refuse("the person did not agree")),
    }
}

/// Counts to a hundred.
struct Count(Arc<ToolSpec>);

#[async_trait]
impl Tool for Count {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let lines = (1..=100).map(|n| n.to_string()).collect();
        Ok(ToolOutput::text("counted").with_display(Display::Lines { lines }))
    }

    fn summary(&self, _: &Value) -> String {
        "count to a hundred".to_owned()
    }
}

fn script() -> Script {
    Script::new()
        .turn(|t| t.text("I count.").call("count", json!({})))
        .turn(|t| t.text("Counted."))
        .forever(|_| zk_testkit::Turn::new().text("You are welcome."))
}
