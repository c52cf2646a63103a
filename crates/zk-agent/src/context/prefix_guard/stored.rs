use serde::{Deserialize, Serialize};
use zk_core::events::PrefixPart;
use zk_core::model::{ModelRef, ThinkingRequest};
use zk_core::service::{COMPACTION_ENTRY, Entry, EntryKind, NewEntry};

use super::parts::{self, Checkpoint, Part};
use super::{Broken, SectionChanges, Sent, of_model, of_sections, of_thinking, of_tools, size};

/// Source and kind of the stored entry.
const SOURCE: &str = "zk-agent";
const KIND: &str = "prefix";
const VERSION: u32 = 1;

/// A request that another process may have sent: sizes and hashes, no texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) model: ModelRef,
    thinking: ThinkingRequest,
    tools: Vec<Part>,
    sections: Vec<Part>,
    messages: Vec<Checkpoint>,
}

#[derive(Serialize, Deserialize)]
struct Data {
    #[serde(flatten)]
    sent: Stored,
    #[serde(default)]
    changes: SectionChanges,
}

impl From<&Sent> for Stored {
    fn from(sent: &Sent) -> Self {
        Self {
            model: sent.model.clone(),
            thinking: sent.thinking,
            tools: sent.tool_parts(),
            sections: sent.system_parts(),
            messages: sent.chains.checkpoints(),
        }
    }
}

impl Stored {
    /// The last request of a stored conversation, with what is known of its sections, and whether the conversation was made
    /// shorter since. Nothing where a later run ended without saying what it sent.
    pub(super) fn of(entries: &[Entry]) -> Option<(Self, SectionChanges, bool)> {
        let is_own = |entry: &Entry| match &entry.kind {
            EntryKind::Custom(custom) => {
                custom.source == SOURCE && custom.kind == KIND && custom.version == VERSION
            }
            _ => false,
        };
        let at = entries.iter().rposition(is_own)?;
        let (entry, later) = (entries.get(at)?, entries.get(at + 1..).unwrap_or_default());
        if later.iter().any(|entry| matches!(entry.kind, EntryKind::RunStart { .. })) {
            return None;
        }
        let EntryKind::Custom(custom) = &entry.kind else { return None };
        let Data { sent, changes } = custom.data.read().ok()?;
        let reduces = |entry: &Entry| match &entry.kind {
            EntryKind::Custom(custom) => custom.kind == COMPACTION_ENTRY,
            _ => false,
        };
        Some((sent, changes, later.iter().any(reduces)))
    }

    /// The entry for the session.
    pub(super) fn entry(self, changes: &SectionChanges) -> Option<NewEntry> {
        let data = serde_json::to_value(Data { sent: self, changes: changes.clone() }).ok()?;
        Some(NewEntry::hidden(KIND, VERSION, data))
    }

    /// Finds the difference as [`Sent::difference`] does. Messages are compared at the checkpoints only.
    pub(super) fn difference(&self, next: &Sent, thinking_counts: bool) -> Option<Broken> {
        let messages = self.messages.last().map_or(0, |last| last.bytes);
        let system = size(&self.sections);
        if self.model != next.model {
            return Some(Broken::new(of_model(&next.model), size(&self.tools) + system + messages));
        }
        let tools = || of_tools(&self.tools, &next.tool_parts(), system + messages);
        let sections = || of_sections(&self.sections, &next.system_parts(), messages);
        let thinking = || {
            let is_other = thinking_counts && self.thinking != next.thinking;
            is_other.then(|| Broken::new(of_thinking(&next.thinking), messages))
        };
        let conversation = || {
            let held = parts::broken_after(&self.messages, &next.messages)?;
            Some(Broken::new(
                PrefixPart::Messages { first: held.messages, source: None },
                messages.saturating_sub(held.bytes),
            ))
        };
        tools().or_else(sections).or_else(thinking).or_else(conversation)
    }
}
