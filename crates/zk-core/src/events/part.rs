use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;

/// Kind of an optional part that a plugin contributes to a run. The run continues without it when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A section of the system prompt.
    PromptSection,
    /// Producer of context, which runs before a prompt or a request.
    ContextProducer,
    /// A strategy that makes a conversation fit the model's window.
    WindowStrategy,
    /// An external program that observes events.
    HookProcess,
    /// A side call: a request to a model outside of the conversation.
    SideCall,
    /// A model that a plugin chose for a turn.
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

/// A plugin's optional part failed and was left out; the run continues.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartLeftOut {
    /// Kind of the part that is left out.
    pub kind: PartKind,
    /// The name that the part is registered under, or the purpose of a side call.
    pub name: String,
    /// Plugin that contributed the part.
    pub source: String,
    /// Cause of the failure.
    pub error: String,
}
notify!(PartLeftOut, "part:left-out");
