use std::collections::HashMap;
use std::sync::Arc;

use zk_core::model::EntryId;
use zk_core::service::{Entry, EntryKind, Redactor};

/// Redactor of the entries of one session.
pub(crate) struct EntryRedactor {
    redactor: Arc<Redactor>,
    /// Entries that were left out, each with its parent.
    gone: HashMap<EntryId, Option<EntryId>>,
}

impl EntryRedactor {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, gone: HashMap::new() }
    }

    /// Removes secrets from an entry. `None` if the entry is invalid without its secrets: it is left out, and
    /// its children are attached to its parent.
    pub(crate) fn redact_entry(&mut self, mut entry: Entry) -> Option<Entry> {
        self.relink(&mut entry.parent);
        if let EntryKind::Leaf { to, .. } = &mut entry.kind {
            self.relink(to);
        }
        if let Ok(mut value) = serde_json::to_value(&entry) {
            if !self.redactor.redact_value(&mut value) {
                return Some(entry);
            }
            if let Ok(clean) = serde_json::from_value(value) {
                return Some(clean);
            }
        }
        self.gone.insert(entry.id, entry.parent);
        None
    }

    fn relink(&self, parent: &mut Option<EntryId>) {
        if let Some(before) = parent.as_ref().and_then(|parent| self.gone.get(parent)) {
            parent.clone_from(before);
        }
    }

    /// Message about the entries that were left out.
    pub(crate) fn notice(&self) -> Option<String> {
        match self.gone.len() {
            0 => None,
            1 => Some("1 entry could not be written without its secrets, and was left out".to_owned()),
            n => Some(format!("{n} entries could not be written without their secrets, and were left out")),
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::Message;

    use super::*;

    fn entry(id: &str, parent: Option<&str>, text: &str) -> Entry {
        let kind = EntryKind::Message { message: Message::user_text(text).shared(), usage: None };
        Entry { id: id.into(), parent: parent.map(Into::into), time_ms: 1, kind }
    }

    #[test]
    fn an_entry_that_is_invalid_without_its_secrets_is_left_out() {
        let redactor = Arc::new(Redactor::new());
        // Secrets: a text that JSON escapes, and the type tag of an entry.
        redactor.learn("pass\"word\\\n123");
        redactor.learn("run_start");
        let mut clean = EntryRedactor::new(redactor);
        let first = clean.redact_entry(entry("e_1", None, "it is pass\"word\\\n123")).unwrap();
        assert_eq!(first.kind.message().unwrap().text(), "it is [redacted]");
        let kind = EntryKind::RunStart { run_id: "r_1".into() };
        assert_eq!(clean.redact_entry(Entry { kind, ..entry("e_2", Some("e_1"), "") }), None);
        let last = clean.redact_entry(entry("e_3", Some("e_2"), "plain")).unwrap();
        assert_eq!(last.parent, Some("e_1".into()));
        assert!(clean.notice().unwrap().starts_with("1 entry"));
    }
}
