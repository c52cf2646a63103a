use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use zk_core::kernel::Scope;
use zk_core::model::MessageId;
use zk_core::service::{Audience, Entry, EntryKind, NewEntry, SessionLog};

use super::registry::Registry;
use crate::store::record::custom_data;

/// Kind of the records' entries in a session.
const KIND: &str = "subgoal";
/// Version of the records' format.
const VERSION: u32 = 1;

/// Record in a session of a change of subgoals. Records are only appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Record {
    /// The active subgoal was completed.
    Completed {
        /// Id of the subgoal's last message, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<MessageId>,
    },
    /// A new subgoal began.
    Preparation {
        /// Text of the new subgoal.
        text: String,
        /// Id of the last message before the subgoal, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<MessageId>,
    },
}

/// Appends `records` to the session, oldest first. Returns the records that could not be stored.
pub(super) async fn append(records: Vec<Record>, log: &dyn SessionLog, scope: &Scope) -> Vec<Record> {
    let mut left = records.into_iter();
    while let Some(record) = left.next() {
        let Ok(data) = serde_json::to_value(&record) else { continue };
        if log.append(scope, NewEntry::hidden(KIND, VERSION, data)).await.is_err() {
            return std::iter::once(record).chain(left).collect();
        }
    }
    Vec::new()
}

/// Rebuilds the registry from a conversation's entries. Records of a newer version are skipped.
pub(super) fn restore(entries: &[Entry], source: &str) -> Registry {
    let mut registry = Registry::default();
    let mut positions: HashMap<&MessageId, usize> = HashMap::new();
    // A plugin's text for the model is sent as a message, too.
    let mut told = 0;
    for entry in entries {
        if let EntryKind::Custom(custom) = &entry.kind {
            told += usize::from(custom.audience == Audience::Model);
        }
        if let Some(message) = entry.kind.message() {
            registry.add_message(message, std::mem::take(&mut told));
            positions.extend(message.id.as_ref().map(|id| (id, registry.position())));
        }
        let Some(data) = custom_data(entry, source, KIND, VERSION) else { continue };
        let position = |after: Option<MessageId>, registry: &Registry| {
            after.and_then(|id| positions.get(&id).copied()).unwrap_or(registry.position())
        };
        match data.read() {
            Ok(Record::Completed { after }) => registry.complete(position(after, &registry)),
            Ok(Record::Preparation { text, after }) => registry.begin(text, position(after, &registry)),
            Err(_) => {}
        }
    }
    registry
}
