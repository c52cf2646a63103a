//! Sub-agents: ordinary agents on a child bus, stopped together with their parent.

mod agents_tool;
mod child;
mod definition;
mod handed;
mod launch;
mod limits;
mod mailbox;
mod own_model;
mod pinned;
mod record;
mod run_child;
mod subagents;
mod tool;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::kernel::Scope;
use zk_core::model::{AgentError, Model, ThinkingRequest};
use zk_core::service::{
    ContextProducer, FixedSection, Isolation, Lease, PinnedContext, PromptSection, Tool, section_order,
};

pub use definition::AgentDefinition;
pub use subagents::{SubagentError, SubagentInfo, SubagentState, Subagents};

use limits::SpawnCount;
use pinned::RunningChildren;

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
    /// Whether sub-agents may work in the background of their parents, which then have the tool `agents` to
    /// follow them; off by default. They end with the agent that started them.
    pub background: bool,
    /// Readiness to delegate, which a section of the prompt tells the model; without it the model knows only
    /// the tool's description.
    pub delegation: Option<Delegation>,
    /// Whether files that a parent has read count as read by its sub-agents, where tools require a read before
    /// a change; off by default.
    pub share_read_state: bool,
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
            background: false,
            delegation: None,
            share_read_state: false,
        }
    }
}

/// Place in which a sub-agent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationKind {
    /// A private copy of the repository; the changes come back as one patch.
    Worktree,
}

/// Readiness of a model to delegate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "settings", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Delegation {
    /// The model has no sub-agents.
    Disabled,
    /// The model delegates when the person asks for it.
    Explicit,
    /// The model delegates whenever that helps.
    #[default]
    Proactive,
}

impl Delegation {
    /// Returns the text of the prompt section about delegation; `None` without a section.
    fn section(self) -> Option<&'static str> {
        match self {
            Self::Disabled => None,
            Self::Explicit => Some("Start a sub-agent with `spawn` only if the user asks for sub-agents."),
            Self::Proactive => Some(
                "Delegate with `spawn` where it saves context or time: broad searches, reviews, and parts of a task \
                 that do not depend on each other. Do small things yourself.",
            ),
        }
    }
}

/// Id of the prompt section about delegation.
const DELEGATION_SECTION: &str = "delegation";

/// Registers the tools `spawn` and, if sub-agents may work in the background, `agents`.
pub(crate) fn register_tool(agent: &Agent, options: SpawnOptions, scope: &Scope) -> Result<(), AgentError> {
    if options.delegation == Some(Delegation::Disabled) {
        return Ok(());
    }
    let taken = |taken: zk_core::kernel::ProvideError| AgentError::Usage(taken.to_string());
    let origin = agent.bus().origin().clone();
    let subagents = Subagents::of(scope);
    let children = || RunningChildren { subagents: subagents.clone(), agent: origin.agent.to_string() };
    scope.provide::<dyn PinnedContext>("sub-agents", Arc::new(children())).map_err(taken)?;
    if let Some(text) = options.delegation.and_then(Delegation::section) {
        let section = Arc::new(FixedSection::new(section_order::SKILLS, text));
        scope.provide::<dyn PromptSection>(DELEGATION_SECTION, section).map_err(taken)?;
    }
    if options.background {
        scope.provide::<dyn ContextProducer>("sub-agents", Arc::new(children())).map_err(taken)?;
        if origin.depth == 0 {
            subagents.mail.open(&origin.agent);
            record::queue_notices_after_restore(Arc::downgrade(&agent.inner), subagents.clone(), scope);
        }
        let parent = origin.agent.rsplit_once('.').map(|(parent, _)| parent.to_owned());
        let parent = parent.filter(|_| origin.depth > 0);
        let tool = agents_tool::AgentsTool::new(&agent.inner, subagents.clone(), parent);
        scope.provide::<dyn Tool>(agents_tool::NAME, Arc::new(tool)).map_err(taken)?;
        let (ending, name) = (subagents.clone(), origin.agent.to_string());
        let token = agent.inner.token.clone();
        scope.on_close(async move || {
            token.cancel();
            for child in ending.children_of(&name) {
                child.wait_for_end().await;
            }
        });
    }
    let has_isolation = scope.bus().is_some_and(|bus| bus.service::<dyn Isolation>().is_some());
    let is_leg = scope.bus().is_some_and(|bus| bus.service::<Lease>().is_some());
    let background = tool::Background::choose(options.background, is_leg, origin.depth);
    let tool = tool::SpawnTool {
        spec: tool::spec(&options, has_isolation, background),
        total: SpawnCount::of(scope),
        parent: Arc::downgrade(&agent.inner),
        options,
        running: Arc::default(),
        subagents,
    };
    scope.provide::<dyn Tool>(tool::NAME, Arc::new(tool)).map_err(taken)
}
