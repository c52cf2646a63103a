//! Effects of a command on the conversation it was typed in, and when the messages of plugins join it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_core::events::ToolBefore;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Block, Message};
use zk_core::service::{
    Command, CommandOutcome, ContextId, Conversation, Delivery, RunControl, Submitted, SwitchTarget,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::TestTool;

/// Asks for a hand-over and restarts with the answer.
struct HandOver;

#[async_trait]
impl Command for HandOver {
    fn name(&self) -> &str {
        "hand-over"
    }

    fn help(&self) -> &str {
        "go on in a new session"
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let conversation = cx.service::<dyn Conversation>().ok_or("this needs a conversation")?;
        assert!(cx.service::<ContextId>().is_some(), "its window can be asked about");
        conversation.submit(vec![Block::text(format!("What is left of {args}?"))]).await?;
        assert!(conversation.idle().await.is_empty());
        let state = conversation.switch(SwitchTarget::New).await?;
        assert_eq!((state.messages, state.run), (0, None));
        conversation.deliver(Message::injected("Left: paint.", "hand-over"), Delivery::NextPrompt).await?;
        Ok(CommandOutcome::Prompt("Go on.".into()))
    }
}

fn conversation(script: Script) -> (AgentConversation, ScriptedProvider) {
    let provider = ScriptedProvider::new(script);
    let agent =
        Agent::builder(Arc::new(provider.clone())).unguarded().tool(TestTool::echo()).build().unwrap();
    (AgentConversation::new(agent), provider)
}

fn sent(provider: &ScriptedProvider) -> Vec<String> {
    provider.asked().last().unwrap().messages.iter().map(|message| message.text()).collect()
}

#[tokio::test]
async fn a_command_sends_prompts_awaits_them_and_switches_the_session() {
    let (conversation, provider) = conversation(Script::answering(|_| Turn::new().text("Paint.")));
    let CommandOutcome::Prompt(prompt) = HandOver.run("the door", &conversation.command_cx()).await.unwrap()
    else {
        panic!("it gives a prompt");
    };
    assert_eq!(sent(&provider), ["What is left of the door?"]);
    conversation.run(prompt.as_str()).await.unwrap().wait().await.result.unwrap();
    assert_eq!(sent(&provider), ["Go on.Left: paint."], "one message for the model, of two parts");
    assert_eq!(conversation.agent().history().len(), 3);
    // Handlers of events do not find it: they would wait for themselves.
    assert!(conversation.agent().bus().cx().service::<dyn Conversation>().is_none());
    assert!(HandOver.run("", &conversation.agent().bus().cx()).await.is_err());
}

#[tokio::test]
async fn a_message_interrupts_or_waits_for_the_answer_or_for_the_next_prompt() {
    let script = Script::answering(|asked| match asked.results().len() {
        0 if asked.last_user_text() == "go" => Turn::new().call("echo", json!({"text": "x"})),
        _ => Turn::new().text("ok"),
    });
    let (conversation, provider) = conversation(script);
    let held = conversation.clone();
    conversation.agent().bus().scope("plugin").on_async_with(
        held,
        async |conversation: &AgentConversation, _: &ToolBefore, cx: &Cx| {
            let say = |text: &str| Message::injected(text, "plugin");
            cx.service::<dyn RunControl>().unwrap().next_prompt(say("for later"));
            for (text, delivery) in [("at the end", Delivery::FollowUp), ("at once", Delivery::Steer)] {
                let submitted = conversation.deliver(say(text), delivery).await?;
                assert!(matches!(submitted, Submitted::Queued(_)), "{submitted:?}");
            }
            Ok::<_, BoxError>(())
        },
    );
    conversation.submit(vec![Block::text("go")]).await.unwrap();
    assert!(conversation.idle().await.is_empty());
    let texts: Vec<_> = conversation.agent().history().iter().map(|message| message.text()).collect();
    let at = |text: &str| texts.iter().position(|sent| sent.contains(text));
    assert!(at("at once").unwrap() < at("at the end").unwrap(), "{texts:?}");
    assert_eq!(at("for later"), None, "not this run");
    // A run starts with messages that wait for a prompt, and without others.
    let begun = conversation.deliver(Message::injected("look", "plugin"), Delivery::Steer).await.unwrap();
    assert!(matches!(begun, Submitted::Started(_)), "{begun:?}");
    conversation.idle().await;
    assert!(!sent(&provider).join(" ").contains("for later"));
    conversation.submit(vec![Block::text("well")]).await.unwrap();
    conversation.idle().await;
    assert_eq!(sent(&provider).last().unwrap(), "wellfor later");
    // A message that waits does not follow into another conversation.
    let waits = conversation.deliver(Message::injected("old", "plugin"), Delivery::NextPrompt).await.unwrap();
    assert_eq!(waits, Submitted::Waiting);
    conversation.switch(SwitchTarget::New).await.unwrap();
    conversation.submit(vec![Block::text("new")]).await.unwrap();
    conversation.idle().await;
    assert_eq!(sent(&provider), ["new"]);
}
