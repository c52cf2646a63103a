//! Data of an item that has to be sent back with it, stored in a block's `WireData`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zk_core::model::{ModelRef, WireData};

/// Provider data of one block. Only the model it came from gets it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReplayData {
    /// Id of the item.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) id: String,
    /// Whether a message is a comment during the work or the final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    /// Fields of a call other than its name and arguments, such as the caller.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) more: Map<String, Value>,
    /// Id of the reasoning item that this item depends on: the API rejects one without the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<String>,
    /// Parts of a summary, unless it is a single part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Vec<Value>>,
    /// Whether the reasoning is the model's raw text instead of a summary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) raw: bool,
    /// A whole item of a kind that only this API has, such as a compaction or a hosted tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<Value>,
}

impl ReplayData {
    /// Returns the data to store; `None` if it is empty.
    pub(super) fn keep(&self, origin: &ModelRef) -> Option<WireData> {
        if *self == Self::default() {
            return None;
        }
        let data = serde_json::to_value(self).ok()?;
        Some(WireData { origin: origin.clone(), data })
    }

    /// Reads stored data. Data of another format, version or dialect counts as empty.
    pub(super) fn of(wire: Option<&WireData>) -> Self {
        wire.and_then(|wire| Self::deserialize(&wire.data).ok()).unwrap_or_default()
    }
}
