use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zk_agent::Agent;
use zk_chat::{
    AgentFactory, ChatError, ChatSetup, ConversationFactory, ConversationHost, ConversationSource, EditorEnv,
};
use zk_core::kernel::{BoxError, Bus};
use zk_core::service::{Questions, Ui};
use zk_exec::LocalHostFiles;
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Content, ViewDriver};

struct Silent;

impl Ui for Silent {
    fn notify(&self, _: &str) {}
}

fn setup() -> ChatSetup {
    ChatSetup::new("/".into(), Arc::new(LocalHostFiles::new()))
}

fn host<'a>(view: &ViewDriver, shown: &'a AtomicUsize) -> ConversationHost<'a> {
    let on_shown = Box::new(|_| _ = shown.fetch_add(1, Ordering::Relaxed));
    let (ui, questions) = (Arc::new(Silent), Arc::new(Questions::new()));
    ConversationHost { ui, questions: Some(questions), view: view.clone(), stop: None, on_shown }
}

#[tokio::test]
async fn a_conversation_of_an_agent_is_shown_once_and_its_view_has_the_answer() {
    let factory = AgentFactory::new(setup(), |bus| {
        let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
        Ok(Agent::builder(Arc::new(provider)).bus(bus).model_id("scripted").build()?)
    });
    let (view, shown) = (ViewDriver::new(), AtomicUsize::new(0));
    let opened = factory.open(ConversationSource::Start, host(&view, &shown)).await.unwrap();
    assert_eq!(shown.load(Ordering::Relaxed), 1);
    opened.conversation.run("Hi.").await.unwrap().wait().await;
    let is_answer =
        |content: &Content| matches!(content, Content::Answer { text, .. } if text.as_str() == "Hello.");
    assert!(view.view().blocks.iter().any(|block| is_answer(&block.content)));
    assert!(opened.sessions.list(&Default::default()).await.unwrap().is_empty());
    let refusal = factory.find_model("other", &opened.agent).await.unwrap_err().to_string();
    assert!(refusal.contains("other"), "{refusal}");
}

#[tokio::test]
async fn an_error_of_a_factory_comes_back_as_the_program_made_it_and_its_bus_is_closed() {
    #[derive(Debug, thiserror::Error)]
    #[error("no key")]
    struct NoKey;

    let closed = Arc::new(AtomicUsize::new(0));
    let counted = closed.clone();
    let factory = AgentFactory::new(setup(), move |bus: Bus| {
        let counted = counted.clone();
        bus.scope("plugin").on_close(async move || _ = counted.fetch_add(1, Ordering::Relaxed));
        Err(BoxError::from(NoKey))
    });
    let (view, shown) = (ViewDriver::new(), AtomicUsize::new(0));
    match factory.open(ConversationSource::Start, host(&view, &shown)).await {
        Err(ChatError::Factory(error)) => assert!(error.is::<NoKey>()),
        other => panic!("{other:?}"),
    }
    assert_eq!(closed.load(Ordering::Relaxed), 1);
}

#[test]
fn an_editor_is_the_first_that_is_set_and_readable_and_empty_variables_count_as_none() {
    let env = |values: &'static [(&str, &str)]| {
        let found = move |name: &str| {
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        format!("{:?}", EditorEnv::new(found))
    };
    assert!(env(&[]).contains("\"vi\""));
    assert!(env(&[("VISUAL", ""), ("EDITOR", "nano -w")]).contains("\"nano -w\""));
    let both = env(&[("VISUAL", "kak"), ("EDITOR", "nano"), ("TERM", "xterm"), ("SECRET_KEY", "k")]);
    assert!(both.contains("\"kak\"") && both.contains("\"xterm\"") && !both.contains("SECRET_KEY"), "{both}");
}
