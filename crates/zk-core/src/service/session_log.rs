use async_trait::async_trait;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EntryData, StoreError};
use crate::kernel::{Scope, Source};
use crate::model::EntryId;

/// The entries a plugin keeps in the session's log: `cx.service::<dyn SessionLog>()`. Absent when the
/// conversation is not stored.
///
/// A plugin sees its own entries only: whose they are is its scope's [`Source`]. In a sub-agent, which has no
/// stored conversation of its own, they go into the session of the agent at the root.
#[async_trait]
pub trait SessionLog: Send + Sync {
    /// Appends an entry. When this returns, it survives the death of the process.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was added then.
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError>;

    /// The entries of this plugin on the present branch, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn entries(&self, scope: &Scope) -> Result<Vec<CustomEntry>, StoreError>;
}

/// The [`kind`](NewEntry::kind) of entries by which whoever owns the context window stores that less of a conversation is
/// sent from there on, or more again. They explain why the first request of a resumed session begins otherwise than the
/// last one before.
pub const COMPACTION_ENTRY: &str = "compaction";

/// Entry that a plugin appends to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Kind of the entry, in the plugin's own words: `goal`, `todo`.
    pub kind: String,
    /// The version of its data's shape, from 1.
    pub version: u32,
    /// The data.
    pub data: Value,
    /// Audience of the entry.
    pub audience: Audience,
}

impl NewEntry {
    /// An entry that only the plugin itself reads.
    pub fn hidden(kind: impl Into<String>, version: u32, data: Value) -> Self {
        Self { kind: kind.into(), version, data, audience: Audience::Hidden }
    }

    /// The entry as `source` appended it.
    #[must_use]
    pub fn by(self, source: &Source) -> CustomEntry {
        let Self { kind, version, data, audience } = self;
        CustomEntry { source: source.to_string(), kind, version, data: data.into(), audience }
    }
}

/// An entry that a plugin appended to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CustomEntry {
    /// The plugin.
    pub source: String,
    /// Kind of the entry, in the plugin's own words.
    #[serde(default)]
    pub kind: String,
    /// The version of its data's shape.
    #[serde(default)]
    pub version: u32,
    /// The data.
    pub data: EntryData,
    /// Audience of the entry.
    #[serde(default)]
    pub audience: Audience,
}

impl CustomEntry {
    /// Returns the data as text: a string as it is, anything else as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        self.data.read::<String>().unwrap_or_else(|_| self.data.as_json().to_owned())
    }
}

/// Audience of an entry of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Nobody but the plugin.
    #[default]
    Hidden,
    /// The person.
    Person,
    /// The person and the model: a resumed conversation contains it as a user message. Data that is a string
    /// is its text, anything else is sent as JSON.
    Model,
}
