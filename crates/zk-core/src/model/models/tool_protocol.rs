use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Form in which a model is offered tools, and in which it calls them.
///
/// ```
/// use zk_core::model::{Model, ToolProtocol};
///
/// let model = Model::unknown("any", "model");
/// assert_eq!(model.capabilities.tool_protocol, ToolProtocol::Api);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolProtocol {
    /// Every request carries the schema of every tool, in the form of the provider's API.
    #[default]
    Api,
    /// Core tools with their schemas; one more tool calls any of the others, by name and with arguments.
    Deferred,
    /// Core tools with their schemas; one more tool loads the schemas of others for the next request.
    Lookup,
    /// Tools described in the text of the system prompt, and calls read from the text of the answer: for
    /// models and servers without tool calls.
    Inline,
}

impl ToolProtocol {
    pub(super) fn is_api(&self) -> bool {
        *self == Self::Api
    }
}

impl fmt::Display for ToolProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api => "api",
            Self::Deferred => "deferred",
            Self::Lookup => "lookup",
            Self::Inline => "inline",
        })
    }
}
