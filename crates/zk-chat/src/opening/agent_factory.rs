use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::{Agent, AgentConversation};
use zk_core::kernel::{BoxError, Bus};
use zk_core::service::Ui;

use super::error::ChatError;
use super::factory::{ConversationFactory, ConversationHost, ConversationSource, OpenedConversation};
use super::sessions::NoSessions;
use super::setup::ChatSetup;

/// Factory of conversations that are not stored: each has its own bus and an agent built on it.
pub struct AgentFactory<F> {
    setup: ChatSetup,
    build: F,
}

impl<F> AgentFactory<F>
where
    F: Fn(Bus) -> Result<Agent, BoxError> + Send + Sync,
{
    /// Creates a factory from `build`, which makes the agents. The view and the person's UI are on the bus
    /// before.
    pub fn new(setup: ChatSetup, build: F) -> Self {
        Self { setup, build }
    }

    fn agent(&self, bus: &Bus, host: ConversationHost<'_>) -> Result<Agent, BoxError> {
        (host.on_shown)(None);
        bus.install(&host.view)?;
        let scope = bus.scope("terminal");
        scope.provide_service::<dyn Ui>(host.ui);
        if let Some(questions) = host.questions {
            scope.provide_service(questions);
        }
        (self.build)(bus.clone())
    }
}

impl<F> fmt::Debug for AgentFactory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentFactory").field("setup", &self.setup).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F> ConversationFactory for AgentFactory<F>
where
    F: Fn(Bus) -> Result<Agent, BoxError> + Send + Sync,
{
    fn setup(&self) -> &ChatSetup {
        &self.setup
    }

    async fn open(
        &self,
        _: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError> {
        let bus = Bus::new();
        match self.agent(&bus, host) {
            Ok(agent) => {
                let conversation = AgentConversation::new(agent.clone());
                Ok(OpenedConversation { agent, conversation, sessions: Arc::new(NoSessions) })
            }
            Err(error) => {
                // Plugins registered before the failure end with the bus.
                bus.close().await;
                Err(ChatError::Factory(error))
            }
        }
    }
}
