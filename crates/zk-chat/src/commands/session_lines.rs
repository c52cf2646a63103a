use std::time::SystemTime;

use zk_core::service::{SessionInfo, visible_line};
use zk_tui::plain::lines::shorten;

use crate::opening::sessions::FoundSession;

/// Sessions as lines, one for each.
pub fn session_lines(sessions: &[SessionInfo], with_directory: bool) -> Vec<String> {
    sessions
        .iter()
        .map(|session| {
            let mut line =
                format!("{}  {:<9} {:>4} messages  ", session.id, age(session.updated), session.messages);
            match &session.unreadable {
                Some(why) => line.push_str(&why.to_string()),
                None => line.push_str(&shorten(&session.title.replace('\n', " "))),
            }
            if let Some(branch) = &session.branch {
                line.push_str(&format!("  [{}]", visible_line(branch)));
            }
            if session.branches > 1 {
                line.push_str(&format!("  ({} branches)", session.branches));
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

/// Sessions that a search found as lines: one for each, and one for each excerpt.
pub(super) fn found_lines(sessions: &[FoundSession]) -> Vec<String> {
    let mut lines = Vec::new();
    for FoundSession { id, title, updated, excerpts } in sessions {
        let title = shorten(&visible_line(title));
        lines.push(format!("{id}  {:<9} {title}", age(*updated)));
        lines.extend(excerpts.iter().map(|excerpt| format!("    {}", shorten(&visible_line(excerpt)))));
    }
    lines
}

/// Remark on the parent session, if there is one.
pub fn parent_remark(session: &SessionInfo) -> Option<String> {
    session.parent.as_ref().map(|parent| format!("(from {})", visible_line(parent.as_str())))
}

/// Age of a time in words, such as `2 d ago`.
pub fn age(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86400),
    }
}
