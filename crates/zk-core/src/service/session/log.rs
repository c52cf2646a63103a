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

/// Entries of plugins in the session's log: `cx.service::<dyn SessionLog>()`. Absent if the conversation is
/// not stored.
///
/// A plugin sees only its own entries, identified by its scope's [`Source`]. A sub-agent has no stored
/// conversation of its own; its entries go into the session of the root agent.
#[async_trait]
pub trait SessionLog: Send + Sync {
    /// Appends an entry. Once this returns, the entry survives the death of the process.
    ///
    /// # Errors
    /// [`StoreError`]; no entry was added then.
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError>;

    /// Appends an entry that another machine may act on: once this returns, it survives a power cut too. By default as
    /// durable as [`append`](Self::append) makes it.
    ///
    /// # Errors
    /// [`StoreError`]; no entry was added then.
    async fn append_synced(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        self.append(scope, entry).await
    }

    /// Adds an entry to the write that stores the results of the present turn, which saves a write: for handlers of
    /// `tool:results-after` at [`Stage::Early`](crate::kernel::Stage::Early). Replaces an entry of the same kind that
    /// was added before and is not stored. `false` if this log has no such write.
    fn join_results(&self, _scope: &Scope, _entry: NewEntry) -> bool {
        false
    }

    /// Returns all entries of this plugin on the current branch, oldest first, including the entries that
    /// `session:loaded` left out.
    ///
    /// # Errors
    /// [`StoreError`] when the entries cannot be read.
    async fn entries(&self, scope: &Scope) -> Result<Vec<CustomEntry>, StoreError>;

    /// Returns the number of stored messages that were not loaded on resume, because a compaction had left
    /// them out. They precede all loaded messages.
    fn earlier(&self) -> u64 {
        0
    }

    /// Reads the messages counted by [`earlier`](Self::earlier) and calls `visit` for each, oldest first,
    /// until it breaks.
    ///
    /// # Errors
    /// [`StoreError`] when the messages cannot be read.
    async fn visit_earlier(&self, _visit: MessageVisitor) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Callback for messages: see [`SessionLog::visit_earlier`].
pub type MessageVisitor = Box<dyn FnMut(&Arc<Message>) -> ControlFlow<()> + Send>;

/// [`kind`](NewEntry::kind) of the entries in which the manager of the context window records reductions of a
/// conversation and their undoing. They explain a changed prefix in the first request of a resumed session.
pub const COMPACTION_ENTRY: &str = "compaction";

/// Name of the plugin that manages context windows.
pub const WINDOW_OWNER: &str = "context-window";

/// Version of the data in a [`COMPACTION_ENTRY`].
pub const COMPACTION_VERSION: u32 = 1;

/// Name of the tool with which a model reads a skill.
pub const SKILL_TOOL: &str = "skills_use";

/// Tag around the text of a skill.
pub const SKILL_TAG: &str = "skill_content";

/// Whether a result or message contains the text of a skill, instead of a note that the skill is already in
/// use.
#[must_use]
pub fn has_skill_text(text: &str) -> bool {
    text.strip_prefix('<').is_some_and(|text| text.starts_with(SKILL_TAG))
}

/// Whether a line of a prompt begins with the word *remember*. Such a line survives when its prompt leaves
/// the context.
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

/// Part of a compaction record that a store evaluates, to know which messages a resumed conversation needs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum CompactionMark {
    /// Messages are left out or replaced.
    Plan {
        /// Number of the compaction, equal in all its plans.
        number: u32,
        /// Trigger of the compaction; `None` if a strategy's own threshold caused it.
        #[serde(default)]
        trigger: Option<CompactionTrigger>,
        /// Beginning of the conversation that is left out, if any.
        #[serde(default)]
        cut: Option<CutMark>,
    },
    /// The last compaction was undone.
    Undo,
    /// The whole history is sent again.
    Whole,
}

/// Beginning of a conversation that is left out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CutMark {
    /// First message after the omitted beginning.
    pub first: MessageId,
    head: Vec<HeadMark>,
}

/// Message that replaces a left-out beginning.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeadMark {
    Stored(MessageId),
    Message(IgnoredAny),
}

impl CompactionMark {
    /// Reads the record in `entry`; `None` if it is no compaction record, or of another version.
    #[must_use]
    pub fn of(entry: &CustomEntry) -> Option<Self> {
        let is_record = entry.source == WINDOW_OWNER
            && entry.kind == COMPACTION_ENTRY
            && entry.version == COMPACTION_VERSION;
        is_record.then(|| entry.data.read().ok()).flatten()
    }

    /// Whether the record belongs to a compaction. Plans prepared in advance, and thresholds of strategies,
    /// do not.
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
    /// Ids of the stored messages that represent the omitted beginning.
    pub fn stored(&self) -> impl Iterator<Item = &MessageId> {
        self.head.iter().filter_map(|part| match part {
            HeadMark::Stored(id) => Some(id),
            HeadMark::Message(_) => None,
        })
    }
}

/// Entry for a plugin to append to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Kind of the entry, named by the plugin: `goal`, `todo`.
    pub kind: String,
    /// Version of the data's format, from 1.
    pub version: u32,
    /// Content of the entry.
    pub data: Value,
    /// Audience of the entry.
    pub audience: Audience,
}

impl NewEntry {
    /// Creates an entry that only the plugin itself reads.
    pub fn hidden(kind: impl Into<String>, version: u32, data: Value) -> Self {
        Self { kind: kind.into(), version, data, audience: Audience::Hidden }
    }

    /// Converts to the entry of the plugin with this source.
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
    /// Source of the plugin.
    pub source: String,
    /// Kind of the entry, named by the plugin.
    #[serde(default)]
    pub kind: String,
    /// Version of the data's format.
    #[serde(default)]
    pub version: u32,
    /// Content of the entry.
    pub data: EntryData,
    /// Audience of the entry.
    #[serde(default)]
    pub audience: Audience,
}

impl CustomEntry {
    /// Returns the data as text: a string unchanged, other values as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        self.data.read::<String>().unwrap_or_else(|_| self.data.as_json().to_owned())
    }
}

/// Audience of a plugin's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// The plugin only.
    #[default]
    Hidden,
    /// The person too: front-ends show the entry.
    Person,
    /// The person and the model: a resumed conversation contains the entry as a user message, with string
    /// data as its text and other data as JSON.
    Model,
}
