//! A conversation on the terminal with a scripted model, which keeps nothing.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{IsTerminal, stdin};
use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::{Agent, AgentConversation};
use zk_chat::{
    ChatError, ChatSetup, ChatStart, ConversationFactory, ConversationHost, ConversationSource, NamedModel,
    NoInterrupts, NoSessions, OpenedConversation,
};
use zk_core::kernel::{BoxError, Bus};
use zk_core::model::Model;
use zk_exec::LocalHostFiles;
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_tui::TerminalEnv;

/// Opens conversations with a model that always answers the same.
struct Scripted(ChatSetup);

#[async_trait]
impl ConversationFactory for Scripted {
    fn setup(&self) -> &ChatSetup {
        &self.0
    }

    async fn open(
        &self,
        _: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError> {
        let failed = |error: BoxError| ChatError::Factory(error);
        (host.on_shown)(None);
        let bus = Bus::new();
        bus.install(&host.view).map_err(|error| failed(error.into()))?;
        bus.scope("terminal").provide_service(host.questions);
        let script = Script::new().forever(|_| Turn::new().text("Hello, world."));
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(bus).model_id("scripted");
        let agent = builder.build().map_err(|error| failed(error.into()))?;
        let conversation = AgentConversation::new(agent.clone());
        Ok(OpenedConversation { agent, conversation, sessions: Arc::new(NoSessions) })
    }

    async fn find_model(&self, name: &str, _: &Agent) -> Result<NamedModel, BoxError> {
        Err(format!("there is no model {name}: this one is scripted").into())
    }

    async fn find_provider(&self, name: &str, _: Option<&str>, _: &Agent) -> Result<Model, BoxError> {
        Err(format!("there is no provider {name}: the model is scripted").into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if !stdin().is_terminal() {
        println!("this is a conversation: run it on a terminal");
        return Ok(());
    }
    let terminal = TerminalEnv::new(|name| std::env::var_os(name));
    let setup = ChatSetup::new(std::env::current_dir()?, Arc::new(LocalHostFiles::new()));
    let factory = Arc::new(Scripted(ChatSetup { terminal, ..setup }));
    // Without a prompt it ends as soon as it is open.
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "/quit".to_owned());
    let start = ChatStart { prompt: Some(prompt), ..ChatStart::default() };
    let ended = zk_chat::run(factory, start, |_| Ok(Arc::new(NoInterrupts)))?;
    println!("{ended:?}");
    Ok(())
}
