#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;
use crate::model::{CallId, ModelRef, Stats};

/// A sub-agent was created and is about to run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnBefore {
    /// Name of the sub-agent.
    pub child: String,
    /// Call that starts it.
    pub call_id: CallId,
    /// Depth of the sub-agent in the tree; 1 for a child of the root agent.
    pub depth: u32,
    /// Prompt that the sub-agent begins with.
    pub prompt: String,
    /// Model of the sub-agent.
    pub model: ModelRef,
    /// Whether its parent goes on meanwhile.
    pub background: bool,
}
notify!(SpawnBefore, "spawn:before");

/// A sub-agent finished.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnComplete {
    /// Name of the sub-agent.
    pub child: String,
    /// Depth of the sub-agent in the tree.
    pub depth: u32,
    /// Statistics of the sub-agent's run.
    pub stats: Stats,
}
notify!(SpawnComplete, "spawn:complete");

/// A sub-agent failed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnError {
    /// Name of the sub-agent.
    pub child: String,
    /// Depth of the sub-agent in the tree.
    pub depth: u32,
    /// Cause of the failure, in words.
    pub error: String,
    /// Statistics of the sub-agent's run up to the failure.
    pub stats: Stats,
}
notify!(SpawnError, "spawn:error", CANCELLABLE = false);
