use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zk_core::service::{SessionInfo, Unreadable, visible_line};
use zk_tui::plain::lines::shorten;

/// A session as JSON; what is not known or not so is left out or false.
pub(super) fn row(session: &SessionInfo) -> Value {
    let mut row = json!({
        "id": session.id,
        "cwd": session.cwd.to_string_lossy(),
        "created_ms": time_ms(session.created),
        "updated_ms": time_ms(session.updated),
        "title": session.title,
        "messages": session.messages,
        "answered": session.answered,
        "interrupted": session.interrupted,
    });
    let mut add = |key: &str, value: Option<Value>| {
        if let (Some(fields), Some(value)) = (row.as_object_mut(), value) {
            fields.insert(key.to_owned(), value);
        }
    };
    add("parent", session.parent.as_ref().map(|parent| json!(parent)));
    add("open_in_process", session.lock.as_ref().map(|lock| json!(lock.pid)));
    let unreadable = session.unreadable.as_ref();
    match unreadable {
        Some(Unreadable::Damaged(why)) => add("damaged", Some(json!(why))),
        _ => add("unreadable", unreadable.map(|why| json!(why.to_string()))),
    }
    row
}

/// Milliseconds since 1970.
pub(super) fn time_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Sessions in a line each.
pub(crate) fn session_lines(sessions: &[SessionInfo], with_directory: bool) -> Vec<String> {
    sessions
        .iter()
        .map(|session| {
            let mut line =
                format!("{}  {:<9} {:>4} messages  ", session.id, age(session.updated), session.messages);
            match &session.unreadable {
                Some(why) => line.push_str(&why.to_string()),
                None => line.push_str(&shorten(&session.title.replace('\n', " "))),
            }
            if session.interrupted {
                line.push_str(if session.answered {
                    "  (interrupted)"
                } else {
                    "  (interrupted, no answer)"
                });
            }
            if let Some(remark) = parent_remark(session) {
                line.push_str(&format!("  {remark}"));
            }
            if let Some(lock) = &session.lock {
                line.push_str(&format!("  (open in process {})", lock.pid));
            }
            if with_directory {
                line.push_str(&format!("  {}", visible_line(&session.cwd.display().to_string())));
            }
            line
        })
        .collect()
}

/// Which session this one comes from, if one is known.
pub(super) fn parent_remark(session: &SessionInfo) -> Option<String> {
    session.parent.as_ref().map(|parent| format!("(from {})", visible_line(parent.as_str())))
}

pub(super) fn age(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86400),
    }
}
