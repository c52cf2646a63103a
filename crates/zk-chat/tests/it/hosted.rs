use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use zk_agent::Agent;
use zk_chat::{
    AgentFactory, ChatError, ChatSetup, HostedConversation, HostedEvent, HostedOptions, HostedOutcome,
};
use zk_core::service::Conversation;
use zk_exec::LocalHostFiles;
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Content, Intent, View};

async fn hosted(script: Script) -> Arc<HostedConversation> {
    let setup = ChatSetup::new("/".into(), Arc::new(LocalHostFiles::new()));
    let provider = Arc::new(ScriptedProvider::new(script));
    let factory = AgentFactory::new(setup, move |bus| {
        Ok(Agent::builder(provider.clone()).bus(bus).model_id("scripted").build()?)
    });
    HostedConversation::open(Arc::new(factory), HostedOptions::default()).await.unwrap()
}

/// Waits until the view is as wanted.
async fn until(hosted: &HostedConversation, is_wanted: impl Fn(&View) -> bool) {
    let mut reader = hosted.view().reader();
    while !is_wanted(&hosted.view().view()) {
        reader.next().await.unwrap();
    }
}

fn answers(view: &View) -> Vec<String> {
    let text = |content: &Content| match content {
        Content::Answer { text, .. } => Some(text.as_str().to_owned()),
        _ => None,
    };
    view.blocks.iter().filter_map(|block| text(&block.content)).collect()
}

#[tokio::test]
async fn prompts_that_come_during_a_run_are_answered_in_their_order() {
    let script = Script::new().turn(|turn| turn.text("one")).turn(|turn| turn.text("two"));
    let hosted = hosted(script).await;
    hosted.intent(&Intent::Submit { text: "first".into() });
    hosted.intent(&Intent::Submit { text: "second".into() });
    until(&hosted, |view| answers(view).len() == 2 && view.queue.is_empty()).await;
    hosted.conversation().idle().await;
    assert_eq!(answers(&hosted.view().view()), ["one", "two"]);
    assert!(hosted.close().await.is_empty());
}

#[tokio::test]
async fn commands_say_their_text_and_those_for_a_terminal_say_that_there_is_none() {
    let hosted = hosted(Script::new()).await;
    let said = hosted.run_command("/model").await.unwrap();
    assert!(matches!(&said, HostedOutcome::Said(text) if text.contains("scripted")), "{said:?}");
    assert!(hosted.run_command("/modle").await.unwrap_err().contains("did you mean"), "a near miss");
    assert!(hosted.run_command("/screen full").await.unwrap_err().contains("terminal"));
    assert_eq!(hosted.run_command("quit").await, Ok(HostedOutcome::Quit));
    let listed = hosted.commands().await;
    assert!(listed.iter().any(|command| command.name == "permissions"), "{listed:?}");
    hosted.close().await;
}

#[tokio::test]
async fn a_conversation_that_cannot_be_read_anew_goes_on_as_it_was() {
    let hosted = hosted(Script::new().turn(|turn| turn.text("still here"))).await;
    assert!(matches!(hosted.reload().await, Err(ChatError::Factory(_))));
    let mut events = hosted.events();
    hosted.intent(&Intent::Submit { text: "Hi.".into() });
    until(&hosted, |view| answers(view) == ["still here"]).await;
    hosted.close().await;
    assert_eq!(events.recv().await, Ok(HostedEvent::Ended));
    drop(hosted);
    assert_eq!(events.recv().await, Err(RecvError::Closed));
}
