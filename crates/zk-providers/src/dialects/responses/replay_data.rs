//! Data that an item of a response has to be sent back with, as it is kept in a block's `WireData`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zk_core::model::{ModelRef, WireData};

/// The provider's part of one block. Only the model it came from ever sees it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReplayData {
    /// The item's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) id: String,
    /// Whether a message is a comment on the way or the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    /// Fields of a call beside its name and arguments, such as who made it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) more: Map<String, Value>,
    /// The id of the reasoning the item came from: the one is not accepted without the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<String>,
    /// The parts of a summary that is not one part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Vec<Value>>,
    /// The reasoning is the model's own text and no summary of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) raw: bool,
    /// An item of a kind only this API has, as it was: a compaction, a hosted tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<Value>,
}

impl ReplayData {
    /// Returns the data as it is kept; nothing for nothing.
    pub(super) fn keep(&self, origin: &ModelRef) -> Option<WireData> {
        if *self == Self::default() {
            return None;
        }
        let data = serde_json::to_value(self).ok()?;
        Some(WireData { origin: origin.clone(), data })
    }

    /// Reads the data as it was kept. Data of another shape, from another version or another dialect, counts
    /// as none.
    pub(super) fn of(wire: Option<&WireData>) -> Self {
        wire.and_then(|wire| Self::deserialize(&wire.data).ok()).unwrap_or_default()
    }
}
