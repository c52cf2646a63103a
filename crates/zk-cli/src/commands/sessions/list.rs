use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zk_core::service::{SessionInfo, Unreadable};

/// Formats a session as JSON, without unknown fields.
pub(super) fn row(session: &SessionInfo) -> Value {
    let mut row = json!({
        "id": session.id,
        "cwd": session.cwd.to_string_lossy(),
        "created_ms": time_ms(session.created),
        "updated_ms": time_ms(session.updated),
        "title": session.title,
        "messages": session.messages,
        "branches": session.branches,
        "answered": session.answered,
        "interrupted": session.interrupted,
    });
    let mut add = |key: &str, value: Option<Value>| {
        if let (Some(fields), Some(value)) = (row.as_object_mut(), value) {
            fields.insert(key.to_owned(), value);
        }
    };
    add("parent", session.parent.as_ref().map(|parent| json!(parent)));
    add("branch", session.branch.as_ref().map(|branch| json!(branch)));
    add("open_in_process", session.lock.as_ref().map(|lock| json!(lock.pid)));
    let unreadable = session.unreadable.as_ref();
    match unreadable {
        Some(Unreadable::Damaged(why)) => add("damaged", Some(json!(why))),
        _ => add("unreadable", unreadable.map(|why| json!(why.to_string()))),
    }
    row
}

/// Returns a time in milliseconds since 1970.
pub(super) fn time_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
