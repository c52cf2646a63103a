//! Sub-agents: ordinary agents on a child bus, stopped together with their parent.

mod definition;
mod tool;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zk_core::events::SessionLoaded;
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::{AgentError, Model, ThinkingRequest};
use zk_core::service::{PinnedContext, Tool};

pub use definition::AgentDefinition;

use crate::{Agent, Preset};

/// Limits of sub-agents and their differences from the parent. A named sub-agent uses the preset of its
/// definition, if that has one; all others use `preset`. Reasoning in a preset takes precedence over
/// `thinking`.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// # use zk_agent::{Agent, AgentDefinition, Preset, SpawnOptions};
/// # use zk_core::model::{AgentError, ThinkingLevel, ThinkingRequest};
/// # use zk_testkit::{Script, ScriptedProvider};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AgentError> {
/// # let script = Script::new()
/// #     .turn(|t| t.call("spawn", json!({ "task": "Read it.", "agent": "reader" })))
/// #     .turn(|t| t.text("It is short."))
/// #     .turn(|t| t.text("Done."));
/// # let provider = Arc::new(ScriptedProvider::new(script));
/// let thinking = ThinkingRequest { level: ThinkingLevel::Low, budget: None };
/// let quick = Preset { thinking: Some(thinking), ..Preset::default() };
/// let reader = AgentDefinition {
///     name: "reader".into(),
///     description: "Reads files.".into(),
///     prompt: "You read, and say what you read.".into(),
///     preset: Some(quick.clone()),
///     ..AgentDefinition::default()
/// };
/// let options = SpawnOptions { preset: Some(quick), agents: vec![reader], ..SpawnOptions::default() };
/// let agent = Agent::builder(provider.clone()).spawn(options).build()?;
/// agent.run("What does it say?")?.wait().await.result?;
/// assert_eq!(provider.asked()[1].system, "You read, and say what you read.");
/// assert_eq!(provider.requests()[1].thinking.level, ThinkingLevel::Low);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SpawnOptions {
    /// Maximum number of sub-agents that run concurrently; a further call is refused. 3 by default.
    pub max_concurrent: usize,
    /// Maximum number of levels of sub-agents below the root; 3 by default.
    pub max_depth: u32,
    /// Maximum number of sub-agents of one session, on all levels together; 100 by default.
    pub max_total: u32,
    /// Maximum number of turns of a sub-agent; 50 by default. Text it wrote before is included in the error.
    pub max_turns: Option<u32>,
    /// Maximum number of output tokens of a sub-agent before it is stopped; no limit by default. Its own
    /// sub-agents count separately.
    pub max_output_tokens: Option<u64>,
    /// Named sub-agents.
    pub agents: Vec<AgentDefinition>,
    /// Replacement for the parent's system prompt, tools, aliases and behaviour.
    pub preset: Option<Preset>,
    /// Model of the sub-agents; `None` for the parent's.
    pub model: Option<Model>,
    /// Reasoning request of the sub-agents; `None` for the parent's.
    pub thinking: Option<ThinkingRequest>,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self {
            max_concurrent: 3,
            max_depth: 3,
            max_total: 100,
            max_turns: Some(50),
            max_output_tokens: None,
            agents: Vec::new(),
            preset: None,
            model: None,
            thinking: None,
        }
    }
}

/// Number of sub-agents that a session has started in the whole tree of agents; a service of the root.
#[derive(Debug, Default)]
pub(crate) struct SpawnCount(AtomicU32);

impl SpawnCount {
    /// Counts one more sub-agent, unless there are already `most`.
    fn take(&self, most: u32) -> bool {
        let more = |count: u32| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Returns the counter of this tree.
    fn of(scope: &Scope) -> Arc<Self> {
        let known = scope.bus().and_then(|bus| bus.service::<Self>());
        known.unwrap_or_else(|| {
            let count = Arc::new(Self::default());
            scope.provide_service(count.clone());
            let begins_anew = count.clone();
            scope.on_sync_at(Reach::Own, move |_: &SessionLoaded, _: &Cx| {
                begins_anew.0.store(0, Ordering::Release)
            });
            count
        })
    }
}

/// Registers the tool `spawn` for `agent`.
pub(crate) fn register_tool(agent: &Agent, options: SpawnOptions, scope: &Scope) -> Result<(), AgentError> {
    let children = tool::Children::default();
    scope
        .provide::<dyn PinnedContext>("sub-agents", Arc::new(children.clone()))
        .map_err(|taken| AgentError::Usage(taken.to_string()))?;
    let tool = tool::SpawnTool {
        spec: tool::spec(&options.agents),
        total: SpawnCount::of(scope),
        parent: Arc::downgrade(&agent.inner),
        options,
        running: Arc::default(),
        children,
    };
    scope
        .provide::<dyn Tool>(tool::NAME, Arc::new(tool))
        .map_err(|taken| AgentError::Usage(taken.to_string()))
}
