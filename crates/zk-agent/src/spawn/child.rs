use std::sync::Arc;

use zk_core::model::{AgentError, Message};
use zk_core::service::{AgentPart, IsolatedCopy, SharedReads, ToolCx, TurnEnv, drop_section};

use super::{AgentDefinition, SpawnOptions};
use crate::agent::AgentInner;
use crate::context::{GUIDE_SECTION, IDENTITY_SECTION};
use crate::run::RunLimits;
use crate::{Agent, Behavior, Preset};

/// Plan of one sub-agent: its differences from its parent.
pub(super) struct ChildPlan<'a> {
    pub(super) options: &'a SpawnOptions,
    pub(super) definition: Option<&'a AgentDefinition>,
    /// Name of the part whose model the sub-agent asks ([`PartModels`](zk_core::service::PartModels)).
    pub(super) part: &'a str,
    /// Initial history of the sub-agent.
    pub(super) history: Vec<Arc<Message>>,
    /// Copy of the workspace that the sub-agent works in; `None` for its parent's directory.
    pub(super) copy: Option<&'a dyn IsolatedCopy>,
}

impl ChildPlan<'_> {
    /// Creates a sub-agent like its parent, except for its conversation, its directory, and the differences
    /// of its definition.
    pub(super) fn build(
        self,
        parent: &Arc<AgentInner>,
        name: &str,
        cx: &ToolCx,
    ) -> Result<Agent, AgentError> {
        let (options, agent) = (self.options, self.definition);
        let (model, thinking) = {
            let state = parent.state();
            (state.model.clone(), state.thinking)
        };
        let is_of_start = model.provider == parent.provider.name();
        let limits = cx.cx.service::<RunLimits>();
        let bus = parent.bus.child(name);
        bus.scope("part").provide_service(Arc::new(AgentPart(self.part.to_owned())));
        if agent.is_some() {
            // The definition replaces these sections of the parent's prompt.
            let scope = bus.scope("definition");
            [IDENTITY_SECTION, GUIDE_SECTION].into_iter().for_each(|id| drop_section(&scope, id));
        }
        if options.share_read_state && self.copy.is_none() {
            let shared = SharedReads(parent.state().context.clone());
            bus.scope("shared-reads").provide_service(Arc::new(shared));
        }
        let cwd = self.copy.map_or_else(|| cx.cwd.clone(), IsolatedCopy::cwd);
        for plugin in self.copy.map(IsolatedCopy::plugins).unwrap_or_default() {
            bus.install(&*plugin).map_err(|error| AgentError::Usage(error.to_string()))?;
        }
        let mut child = Agent::builder(parent.provider.clone())
            .bus(bus)
            .model(options.model.clone().unwrap_or(model))
            .thinking(options.thinking.unwrap_or(thinking))
            .system(&*parent.system)
            .tools(limits.as_ref().map_or_else(|| parent.tools.clone(), |limits| limits.tools.clone()))
            .behavior(child_behavior(options, parent, limits.as_deref(), agent))
            .retry(parent.retry.clone())
            .rate_limits(parent.limits.clone())
            .history(self.history)
            .cwd(cwd);
        if parent.is_unguarded {
            child = child.unguarded();
        }
        for (canonical, wire) in parent.aliases.iter() {
            child = child.alias(canonical, wire);
        }
        let own = agent.and_then(|agent| agent.preset.clone());
        let own = own.map(|preset| Preset { system: None, tools: None, ..preset });
        if let Some(mut preset) = own.or_else(|| options.preset.clone()) {
            if let Some(agent) = agent {
                let most = parent.behavior.max_turns.unwrap_or(u32::MAX);
                let of_preset = preset.behavior.max_turns.filter(|_| agent.max_turns.is_none());
                preset.behavior.max_turns = of_preset.map(|turns| turns.min(most));
                // Sub-agents spend the budget of their parent.
                preset.behavior.budget = None;
            }
            child = child.preset(preset);
        }
        if let Some(agent) = agent {
            let tools = agent.tools_under(child.tool_set());
            child = child.system(&*agent.prompt).tools(tools);
            if let Some(thinking) = agent.thinking {
                child = child.thinking(thinking);
            }
            // A definition names a model of the provider that its parent began with, so that it does not apply
            // once the parent asks another provider.
            if let Some(id) = agent.model.as_ref().filter(|_| is_of_start) {
                child = child.model(parent.provider.model(id));
            }
        }
        let child = child.spawn(options.clone()).build()?;
        child.inner.state().env = cx.cx.service::<TurnEnv>().unwrap_or_default();
        Ok(child)
    }
}

/// Returns the parent's behaviour with the turn limit of a sub-agent.
fn child_behavior(
    options: &SpawnOptions,
    parent: &AgentInner,
    limits: Option<&RunLimits>,
    agent: Option<&AgentDefinition>,
) -> Behavior {
    let own = agent.and_then(|agent| agent.max_turns).or(options.max_turns);
    let max_turns = [own, parent.behavior.max_turns].into_iter().flatten().min();
    // A sub-agent spends the budget of the run that starts it, and answers in free text.
    let own = Behavior { max_turns, budget: None, schema: None, ..parent.behavior.clone() };
    match limits {
        Some(limits) => Behavior {
            allowed_tools: limits.allowed_tools.clone(),
            tool_budgets: limits.tool_budgets.clone(),
            ..own
        },
        None => own,
    }
}

/// Guard that closes a sub-agent, also if the call that started it is dropped.
pub(super) struct Closing {
    pub(super) child: Agent,
    closed: bool,
}

impl Closing {
    pub(super) fn new(child: Agent) -> Self {
        Self { child, closed: false }
    }

    pub(super) async fn close(mut self) {
        self.child.close().await;
        self.child.bus().close().await;
        self.closed = true;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if !self.closed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let child = self.child.clone();
            runtime.spawn(async move {
                child.close().await;
                child.bus().close().await;
            });
        }
    }
}
