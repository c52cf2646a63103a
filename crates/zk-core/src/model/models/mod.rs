mod prices;
mod thinking;
mod tool_protocol;

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

pub(super) use prices::round_to_billionth;
pub use prices::{PriceTier, Prices, Rates};
pub use thinking::{ThinkingLevel, ThinkingRequest};
pub use tool_protocol::ToolProtocol;

/// Reference to a model: the provider's name and the model's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelRef {
    /// Name of the provider, as registered.
    pub provider: String,
    /// Id of the model at the provider.
    pub model: String,
}

impl ModelRef {
    /// Creates a reference to `model` of `provider`.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Facts about a model, serialisable and free of secrets, so that events can carry them. The endpoint (URL,
/// key, quirks) stays in the provider crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Model {
    /// Name of the provider.
    pub provider: String,
    /// Id of the model at the provider.
    pub id: String,
    /// Context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Largest output of a response in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Capabilities of the model.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Prices of the model, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl Model {
    /// Creates a model without metadata, with tolerant defaults.
    pub fn unknown(provider: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            id: id.into(),
            window: None,
            max_output: None,
            capabilities: Capabilities::default(),
            prices: None,
        }
    }

    /// Returns the model's reference.
    #[must_use]
    pub fn reference(&self) -> ModelRef {
        ModelRef::new(&*self.provider, &*self.id)
    }

    /// Returns the cost of `usage` in US dollars: the billed amount, or else the amount by the model's prices
    /// if these are known and no unpriced model took part.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        let billed = usage.billed.map(|billionths| billionths as f64 / 1e9);
        let prices = self.prices.as_ref().filter(|_| usage.unpriced == 0);
        billed.or_else(|| prices.map(|prices| prices.cost(usage)))
    }
}

/// Capabilities of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Capabilities {
    /// Whether the model can see images.
    pub vision: bool,
    /// Whether a tool result may carry images; otherwise they follow in a user message.
    pub image_in_tool_result: bool,
    /// Form in which requests ask for the model's reasoning.
    pub thinking: ThinkingSupport,
    /// Form in which the model is offered tools, unless settings say otherwise.
    #[serde(default, skip_serializing_if = "ToolProtocol::is_api")]
    pub tool_protocol: ToolProtocol,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            vision: true,
            image_in_tool_result: false,
            thinking: ThinkingSupport::None,
            tool_protocol: ToolProtocol::Api,
        }
    }
}

/// Form in which requests ask for a model's reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThinkingSupport {
    /// The model does not reason.
    #[default]
    None,
    /// Requests give a token budget.
    Budget,
    /// Requests give an effort word.
    Effort,
    /// The model decides how much it reasons; an effort word guides it.
    Adaptive,
}
