//! Sub-agents: agents like any other, on a child bus, stopped with their parent.

mod tool;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use zk_core::kernel::Scope;
use zk_core::model::{AgentError, Model, ThinkingRequest};
use zk_core::service::{PinnedContext, Tool};

use crate::{Agent, Preset};

/// What sub-agents may do and how they differ from their parent.
#[derive(Clone, Debug)]
pub struct SpawnOptions {
    /// Sub-agents that may run at once; a call beyond them is refused. 3 by default.
    pub max_concurrent: usize,
    /// How deep the tree may grow below the root; 3 by default.
    pub max_depth: u32,
    /// What replaces the parent's system prompt, tools, aliases and behaviour.
    pub preset: Option<Preset>,
    /// Their model; the parent's unless set.
    pub model: Option<Model>,
    /// Their reasoning; the parent's unless set.
    pub thinking: Option<ThinkingRequest>,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self { max_concurrent: 3, max_depth: 3, preset: None, model: None, thinking: None }
    }
}

/// Registers the tool `spawn` for `agent`.
pub(crate) fn offer(agent: &Agent, options: SpawnOptions, scope: &Scope) -> Result<(), AgentError> {
    let children = tool::Children::default();
    scope
        .provide::<dyn PinnedContext>("sub-agents", Arc::new(children.clone()))
        .map_err(|taken| AgentError::Usage(taken.to_string()))?;
    let tool = tool::SpawnTool {
        spec: tool::spec(),
        parent: Arc::downgrade(&agent.inner),
        options,
        running: Arc::default(),
        made: AtomicU32::new(0),
        children,
    };
    scope
        .provide::<dyn Tool>(tool::NAME, Arc::new(tool))
        .map_err(|taken| AgentError::Usage(taken.to_string()))
}
