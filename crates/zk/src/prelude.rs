//! Names of a first program: `use zk::prelude::*;`.

pub use std::sync::Arc;

pub use zk_agent::{
    Agent, AgentDefinition, RetryPolicy, RunOptions, RunOutcome, RunUpdate, SpawnOptions, ToolSet,
};
pub use zk_core::events::{
    ResultPatch, Ruling, SessionBeforeEnd, SessionLoaded, ToolAfter, ToolBefore, ToolGate, ToolPrepare,
    ToolTransform, TurnAfter, ViewBlock,
};
pub use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope, plugin_fn};
pub use zk_core::model::{AgentError, Block, Display, Effects, Message, Model, ToolError};
pub use zk_core::service::{
    Command, CommandOutcome, ContextMode, ContextProducer, FixedSection, NewEntry, PromptSection, Provider,
    Tool, ToolCx, section_order,
};

#[cfg(feature = "typed")]
pub use zk_core::service::FnTool;

#[cfg(feature = "exec")]
pub use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
#[cfg(feature = "permission")]
pub use zk_permission::{Mode, PermissionGate, allow_if};
#[cfg(feature = "providers")]
pub use zk_providers::{Anthropic, AnthropicOptions, Connection, Vendor, Vendors};
#[cfg(feature = "session")]
pub use zk_session::{MemoryStore, Recorder, SqliteStore, continue_conversation, resume_conversation};
#[cfg(feature = "tools")]
pub use zk_tools::{ToolsOptions, ToolsPlugin};
