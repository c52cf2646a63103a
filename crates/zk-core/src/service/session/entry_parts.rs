use std::collections::HashMap;
use std::sync::Arc;

use super::EntryKind;
use crate::model::{EntryId, Message, TurnUsage};

impl EntryKind {
    /// Returns the message of a message entry; `None` for other kinds of entries.
    #[must_use]
    pub const fn message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Message { message, .. } => Some(message),
            Self::Model { .. }
            | Self::Thinking { .. }
            | Self::RunStart { .. }
            | Self::RunEnd { .. }
            | Self::OpenTurn { .. }
            | Self::CallBegin { .. }
            | Self::CallEnd { .. }
            | Self::CallData { .. }
            | Self::Usage { .. }
            | Self::Leaf { .. }
            | Self::Label { .. }
            | Self::Custom(_) => None,
        }
    }

    /// Returns the usage of a finished turn or of a side call. An open turn has none here: its usage is
    /// stored again with its message.
    #[must_use]
    pub fn usage(&self) -> Option<&TurnUsage> {
        match self {
            Self::Message { usage, .. } => usage.as_deref(),
            Self::Usage { usage, .. } => Some(usage),
            Self::Model { .. }
            | Self::Thinking { .. }
            | Self::RunStart { .. }
            | Self::RunEnd { .. }
            | Self::OpenTurn { .. }
            | Self::CallBegin { .. }
            | Self::CallEnd { .. }
            | Self::CallData { .. }
            | Self::Leaf { .. }
            | Self::Label { .. }
            | Self::Custom(_) => None,
        }
    }

    /// Replaces the ids of other entries in this entry; unknown ids stay.
    pub(super) fn with_entry_ids(self, ids: &HashMap<EntryId, EntryId>) -> Self {
        let new = |id: EntryId| ids.get(&id).cloned().unwrap_or(id);
        match self {
            Self::Leaf { to, left } => Self::Leaf { to: to.map(new), left: left.map(new) },
            Self::Label { target, label } => Self::Label { target: new(target), label },
            other => other,
        }
    }
}
