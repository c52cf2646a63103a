use serde::{Deserialize, Serialize};
use zk_core::events::PrefixPart;
use zk_core::model::{ModelRef, ThinkingRequest};
use zk_core::service::{COMPACTION_ENTRY, Entry, EntryKind, NewEntry};

use super::parts::{self, Checkpoint, Part};
use super::{
    Broken, SectionChanges, Sent, find_sections_break, find_tools_break, model_part, thinking_part,
    total_size,
};

/// Source, kind and version of the session entry with the last request.
const SOURCE: &str = "zk-agent";
const KIND: &str = "prefix";
const VERSION: u32 = 1;

/// Sizes and hashes of the last request of an earlier process, without texts.
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
    /// Reads the last request of a stored conversation, its section statistics, and whether the conversation
    /// was compacted since. `None` if a later run has left no record.
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

    /// Creates the session entry with this request and the statistics of sections.
    pub(super) fn entry(self, changes: &SectionChanges) -> Option<NewEntry> {
        let data = serde_json::to_value(Data { sent: self, changes: changes.clone() }).ok()?;
        Some(NewEntry::hidden(KIND, VERSION, data))
    }

    /// Finds the first difference like [`Sent::difference`], but compares messages only at the checkpoints.
    pub(super) fn first_difference(&self, next: &Sent, thinking_counts: bool) -> Option<Broken> {
        let messages = self.messages.last().map_or(0, |last| last.bytes);
        let system = total_size(&self.sections);
        if self.model != next.model {
            return Some(Broken::new(model_part(&next.model), total_size(&self.tools) + system + messages));
        }
        let tools = || find_tools_break(&self.tools, &next.tool_parts(), system + messages);
        let sections = || find_sections_break(&self.sections, &next.system_parts(), messages);
        let thinking = || {
            let is_other = thinking_counts && self.thinking != next.thinking;
            is_other.then(|| Broken::new(thinking_part(&next.thinking), messages))
        };
        let conversation = || {
            let held = parts::last_equal_checkpoint(&self.messages, &next.messages)?;
            Some(Broken::new(
                PrefixPart::Messages { first: held.messages, source: None },
                messages.saturating_sub(held.bytes),
            ))
        };
        tools().or_else(sections).or_else(thinking).or_else(conversation)
    }
}
