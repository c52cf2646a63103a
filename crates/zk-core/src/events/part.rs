use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;

/// Kind of part that a plugin adds to a run that can go on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A section of the system prompt.
    PromptSection,
    /// A producer of context, which is told before a prompt or behind a request.
    ContextProducer,
    /// A strategy that makes a conversation fit the model's window.
    WindowStrategy,
    /// A program outside of this process that watches events.
    HookProcess,
    /// A call to a model beside the conversation.
    SideCall,
    /// A model that a plugin asks for.
    Model,
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PromptSection => "prompt section",
            Self::ContextProducer => "context part",
            Self::WindowStrategy => "window strategy",
            Self::HookProcess => "hook process",
            Self::SideCall => "side call",
            Self::Model => "model",
        })
    }
}

/// A plugin failed where a run goes on without what it adds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartLeftOut {
    /// Kind of the part that is left out.
    pub kind: PartKind,
    /// The name it is registered under, or the purpose of a side call.
    pub name: String,
    /// The plugin.
    pub source: String,
    /// Cause of the failure.
    pub error: String,
}
notify!(PartLeftOut, "part:left-out");
