use zk_core::service::{Entry, Redactor};
use zk_view::redact_json;

/// Removes secrets from an entry; an entry without any is returned unchanged.
pub(crate) fn redact_entry(entry: Entry, redactor: &Redactor) -> Entry {
    let Ok(mut json) = serde_json::to_vec(&entry) else { return entry };
    if !redactor.has_candidate(&json) {
        return entry;
    }
    redact_json(&mut json, 0, redactor);
    serde_json::from_slice(&json).unwrap_or(entry)
}
