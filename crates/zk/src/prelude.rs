//! Names of a first program: `use zk::prelude::*;`.

pub use std::sync::Arc;

pub use zk_agent::{Agent, RunOptions};
pub use zk_core::events::{Ruling, ToolBefore, ToolGate, TurnAfter};
pub use zk_core::kernel::{Bus, Cx, Plugin, Scope, plugin_fn};
pub use zk_core::model::{Message, Model};
pub use zk_core::service::{Provider, Tool};

#[cfg(feature = "exec")]
pub use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
#[cfg(feature = "permission")]
pub use zk_permission::{Mode, PermissionGate};
#[cfg(feature = "providers")]
pub use zk_providers::{Anthropic, AnthropicOptions, Connection, Vendor, Vendors};
#[cfg(feature = "session")]
pub use zk_session::{MemoryStore, Recorder, SqliteStore, resume_conversation};
#[cfg(feature = "tools")]
pub use zk_tools::{ToolsOptions, ToolsPlugin};
