#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;
use crate::model::{ModelRef, Stats};

/// A sub-agent was made and is about to run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnBefore {
    /// The sub-agent.
    pub child: String,
    /// How deep it sits in the tree; 1 for a child of the root agent.
    pub depth: u32,
    /// What it is asked.
    pub prompt: String,
    /// Its model.
    pub model: ModelRef,
}
notify!(SpawnBefore, "spawn:before");

/// A sub-agent finished.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnComplete {
    /// The sub-agent.
    pub child: String,
    /// How deep it sits in the tree.
    pub depth: u32,
    /// What it did.
    pub stats: Stats,
}
notify!(SpawnComplete, "spawn:complete");

/// A sub-agent failed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SpawnError {
    /// The sub-agent.
    pub child: String,
    /// How deep it sits in the tree.
    pub depth: u32,
    /// Why, in words.
    pub error: String,
    /// What it had done.
    pub stats: Stats,
}
notify!(SpawnError, "spawn:error", CANCELLABLE = false);
