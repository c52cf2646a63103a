use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EntryData, StoreError};
use crate::events::CompactionTrigger;
use crate::kernel::{Scope, Source};
use crate::model::{EntryId, Message, MessageId};

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

    /// The entries of this plugin on the present branch, oldest first: all of them, also those that `session:loaded` left out.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn entries(&self, scope: &Scope) -> Result<Vec<CustomEntry>, StoreError>;

    /// Number of messages of the conversation that are stored and were not read when it was resumed, because a compaction
    /// had left them out. They are before all others.
    fn earlier(&self) -> u64 {
        0
    }

    /// Reads these messages, and hands each to `visit`, oldest first, until that breaks off.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn visit_earlier(&self, _visit: MessageVisitor) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Visitor of messages: see [`SessionLog::visit_earlier`].
pub type MessageVisitor = Box<dyn FnMut(&Arc<Message>) -> ControlFlow<()> + Send>;

/// The [`kind`](NewEntry::kind) of entries by which whoever owns the context window stores that less of a conversation is
/// sent from there on, or more again. They explain why the first request of a resumed session begins otherwise than the
/// last one before.
pub const COMPACTION_ENTRY: &str = "compaction";

/// Plugin that owns context windows, by its name.
pub const WINDOW_OWNER: &str = "context-window";

/// Version of the shape of its [`COMPACTION_ENTRY`].
pub const COMPACTION_VERSION: u32 = 1;

/// Tool by which a model reads a skill.
pub const SKILL_TOOL: &str = "skills_use";

/// Element around the text of a skill.
pub const SKILL_TAG: &str = "skill_content";

/// Whether a result or message about a skill has its text, and does not only say that it is in use.
#[must_use]
pub fn has_skill_text(text: &str) -> bool {
    text.strip_prefix('<').is_some_and(|text| text.starts_with(SKILL_TAG))
}

/// Whether a line of a prompt begins with the word *remember*: it is kept when the prompt leaves the context.
///
/// ```
/// use zk_core::service::is_remember_line;
///
/// assert!(is_remember_line(" Remember: never push.") && !is_remember_line("remembered"));
/// ```
#[must_use]
pub fn is_remember_line(line: &str) -> bool {
    let word: String = line.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
    word.eq_ignore_ascii_case("remember")
}

/// Part of a compaction's record that a store reads, to know which messages a resumed conversation needs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum CompactionMark {
    /// Messages are left out, or sent in another form.
    Plan {
        /// Number of the compaction, which its plans share.
        number: u32,
        /// Reason for a compaction; nothing where a strategy has a threshold of its own.
        #[serde(default)]
        trigger: Option<CompactionTrigger>,
        /// The beginning that is not sent.
        #[serde(default)]
        cut: Option<CutMark>,
    },
    /// The last compaction was taken back.
    Undo,
    /// Everything is sent as it is stored again.
    Whole,
}

/// The beginning of a conversation that is not sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CutMark {
    /// The first message after it.
    pub first: MessageId,
    head: Vec<HeadMark>,
}

/// Message that stands for such a beginning.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeadMark {
    Stored(MessageId),
    Message(IgnoredAny),
}

impl CompactionMark {
    /// Reads the record in `entry`; nothing where it is none, or of another version.
    #[must_use]
    pub fn of(entry: &CustomEntry) -> Option<Self> {
        let is_record = entry.source == WINDOW_OWNER
            && entry.kind == COMPACTION_ENTRY
            && entry.version == COMPACTION_VERSION;
        is_record.then(|| entry.data.read().ok()).flatten()
    }

    /// Whether it belongs to a compaction. What was prepared beforehand, and thresholds of strategies, are none.
    #[must_use]
    pub fn is_compaction(&self) -> bool {
        match self {
            Self::Plan { trigger: Some(trigger), .. } => match trigger {
                CompactionTrigger::Soft => false,
                CompactionTrigger::Hard | CompactionTrigger::Overflow | CompactionTrigger::Manual => true,
            },
            Self::Plan { trigger: None, .. } | Self::Undo | Self::Whole => false,
        }
    }
}

impl CutMark {
    /// The stored messages among those that stand for the beginning.
    pub fn stored(&self) -> impl Iterator<Item = &MessageId> {
        self.head.iter().filter_map(|part| match part {
            HeadMark::Stored(id) => Some(id),
            HeadMark::Message(_) => None,
        })
    }
}

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
