use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::unfold;
use zk_core::kernel::Cx;
use zk_core::model::{Model, WireRules};
use zk_core::service::{Backend, EventStream, Provider, Request};

use crate::acp::agent::{AcpAgent, AgentExecs, AgentFault, DEFAULT_MODEL, absolute_path};
use crate::definition::BackendDefinition;
use crate::steps::OpenSteps;
use crate::turn::Turn;

/// Backend of an agent that speaks the Agent Client Protocol. Its program starts with the first prompt.
pub struct AcpBackend {
    pub(crate) agent: Arc<AcpAgent>,
    pub(crate) steps: Arc<OpenSteps>,
}

impl fmt::Debug for AcpBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpBackend").field("definition", &self.agent.definition).finish_non_exhaustive()
    }
}

impl AcpBackend {
    /// Creates the backend, whose program is started with one of `execs`.
    #[must_use]
    pub fn new(definition: BackendDefinition, execs: AgentExecs) -> Self {
        Self { agent: Arc::new(AcpAgent::new(definition, execs)), steps: Arc::default() }
    }

    /// Starts the agent in `cwd` to test it, and ends it again. Returns its name and version.
    ///
    /// # Errors
    /// [`AgentFault`] when it does not start, or speaks another protocol.
    pub async fn probe(&self, cwd: &Path) -> Result<String, AgentFault> {
        let started = self.agent.start(&absolute_path(cwd)).await;
        let info = started.map(|running| running.answer.agent_info.clone().unwrap_or_default());
        self.agent.stop().await;
        let info = info?;
        let name = info.title.unwrap_or(info.name);
        Ok(format!("{name} {}", info.version).trim().to_owned())
    }
}

#[async_trait]
impl Backend for AcpBackend {
    fn name(&self) -> &str {
        self.agent.name()
    }

    fn describe(&self) -> String {
        self.agent.definition.command_line()
    }

    fn provider(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(AcpProvider { agent: self.agent.clone(), steps: self.steps.clone() }))
    }

    fn unenforced(&self) -> Vec<String> {
        // The caller shows these limits, so they are not shown again.
        self.agent.mark_limits_shown();
        self.agent.unenforced_limits()
    }

    fn walls(&self) -> &str {
        if self.agent.is_sandboxed() { "sandbox" } else { "" }
    }

    async fn stop(&self) {
        self.agent.stop().await;
    }
}

/// Provider whose responses are the turns of an agent.
struct AcpProvider {
    agent: Arc<AcpAgent>,
    steps: Arc<OpenSteps>,
}

#[async_trait]
impl Provider for AcpProvider {
    fn name(&self) -> &str {
        self.agent.name()
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown(self.name(), id)
    }

    fn default_model(&self) -> Option<String> {
        Some(DEFAULT_MODEL.to_owned())
    }

    fn known_models(&self) -> Vec<Model> {
        let own = std::iter::once(DEFAULT_MODEL.to_owned());
        own.chain(self.agent.models()).map(|id| self.model(&id)).collect()
    }

    fn is_retrying(&self) -> bool {
        // A failed prompt may have had effects, so it is not sent again automatically.
        true
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules::tolerant(model.reference())
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let turn = Turn::new(self.agent.clone(), self.steps.clone(), request, cx.clone());
        Box::pin(unfold(turn, |mut turn| async move { Some((turn.next().await?, turn)) }))
    }

    async fn describe_model(&self, id: &str, _: &Cx) -> Model {
        self.model(id)
    }
}
