use std::collections::HashMap;
use std::sync::Arc;

use super::EntryKind;
use crate::model::{EntryId, Message, TurnUsage};

impl EntryKind {
    /// The message, of an entry that is one.
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

    /// The usage of a finished turn or of a side call. That of an open turn is stored again with its message.
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

    /// The entry with the ids of other entries replaced; unknown ids stay.
    pub(super) fn with_entry_ids(self, ids: &HashMap<EntryId, EntryId>) -> Self {
        let new = |id: EntryId| ids.get(&id).cloned().unwrap_or(id);
        match self {
            Self::Leaf { to, left } => Self::Leaf { to: to.map(new), left: left.map(new) },
            Self::Label { target, label } => Self::Label { target: new(target), label },
            other => other,
        }
    }
}
