mod prices;
mod thinking;

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

pub(super) use prices::dollars;
pub use prices::{PriceTier, Prices, Rates};
pub use thinking::{ThinkingLevel, ThinkingRequest};

/// Which model of which provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelRef {
    /// The provider's name, as registered.
    pub provider: String,
    /// The model's id, as the provider knows it.
    pub model: String,
}

impl ModelRef {
    /// The model `model` of `provider`.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A model's identity: serialisable and free of secrets, so it can travel on events. The endpoint (URL, key,
/// quirks) never leaves the provider crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Model {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub id: String,
    /// Context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Largest output in tokens, if known.
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
    /// A model nothing is known about, with tolerant defaults.
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

    /// Returns the cost of `usage` in US dollars: what is billed, or else what it comes to if the prices are
    /// known, and no other model had a part in it.
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
    /// A tool result may carry images; otherwise they follow in a user message.
    pub image_in_tool_result: bool,
    /// Form in which its reasoning is asked for.
    pub thinking: ThinkingSupport,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { vision: true, image_in_tool_result: false, thinking: ThinkingSupport::None }
    }
}

/// Form in which a model's reasoning is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThinkingSupport {
    /// Not at all.
    #[default]
    None,
    /// With a token budget.
    Budget,
    /// With an effort word.
    Effort,
    /// The model decides; an effort word guides it.
    Adaptive,
}
