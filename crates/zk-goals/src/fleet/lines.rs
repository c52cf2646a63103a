use std::path::Path;

use zk_core::events::{GoalChanged, GoalState};
use zk_core::service::visible_line;

use super::entry::{FleetEntry, FleetState, FleetView};

/// Maximum length of a goal's or prompt's text in a line, in characters.
const MAX_TEXT_CHARS: usize = 70;

/// Describes conversations in lines for a person; `home` is shortened to `~`.
#[must_use]
pub fn fleet_lines(views: &[FleetView], home: Option<&Path>) -> Vec<String> {
    if views.is_empty() {
        return vec!["no conversation of zk is open on this machine, and none was left".to_owned()];
    }
    views.iter().flat_map(|view| lines_of(view, home)).collect()
}

fn lines_of(view: &FleetView, home: Option<&Path>) -> Vec<String> {
    let entry = &view.entry;
    let dir = match home.and_then(|home| entry.cwd.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => entry.cwd.display().to_string(),
    };
    let about = match &entry.goal {
        Some(goal) => format!("goal {}: {}", goal.state, goal.text),
        None => entry.prompt.clone(),
    };
    let about = if about.is_empty() { about } else { format!("  {}", cut_text(&about)) };
    let place =
        if view.state.is_alive() { format!("process {}", entry.pid) } else { "no process".to_owned() };
    let mut lines = vec![visible_line(&format!(
        "{}  {:<8}  {} turns  ${:.4}  {dir}  {place}{about}",
        entry.id,
        view.state.as_str(),
        entry.turns,
        entry.cost,
    ))];
    for question in &entry.questions {
        lines.push(visible_line(&format!("  waits for: {}", question.text)));
        for (at, option) in question.options.iter().enumerate() {
            lines.push(visible_line(&format!("    {}. {option}", at + 1)));
        }
    }
    let waiting = entry.goal.iter().flat_map(|goal| &goal.waiting).filter(|_| entry.questions.is_empty());
    lines.extend(waiting.map(|decision| visible_line(&format!("  was not decided: {decision}"))));
    if matches!(view.state, FleetState::Orphaned | FleetState::Paused) && entry.session.is_some() {
        lines.push(format!("  zk fleet attach {} goes on with it", entry.id));
    }
    lines
}

/// Notice about the open autonomous goal of a resumed session; `None` if its goal is not open.
pub(super) fn open_goal_notice(goal: &GoalChanged) -> Option<String> {
    let is_open = matches!(goal.state, GoalState::Active | GoalState::Paused) && goal.autonomous;
    let (state, text) = (goal.state, cut_text(&goal.text));
    is_open.then(|| {
        visible_line(&format!("the goal of this session is {state}: /goal resume goes on with it ({text})"))
    })
}

/// Notice about conversations whose processes are gone; `None` without any. Those of the directory `cwd` are in
/// its list of sessions.
pub(super) fn orphan_notice(orphans: &[FleetEntry], cwd: &Path) -> Option<String> {
    let is_here = |entry: &FleetEntry| entry.session.is_some() && entry.cwd == cwd;
    let is_resumable = orphans.iter().all(is_here);
    Some(match (orphans.len(), is_resumable) {
        (0, _) => return None,
        (1, true) => {
            "a conversation here ended without being closed: /resume goes on with it, /fleet lists it"
                .to_owned()
        }
        (1, false) => "a conversation ended without being closed: /fleet lists it".to_owned(),
        (count, true) => format!(
            "{count} conversations here ended without being closed: /resume goes on with one, /fleet lists them"
        ),
        (count, false) => format!("{count} conversations ended without being closed: /fleet lists them"),
    })
}

fn cut_text(text: &str) -> String {
    let text = text.lines().next().unwrap_or_default();
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_notice_names_resume_where_the_list_of_sessions_has_the_conversation() {
        let entry = |cwd: &str, session: Option<&str>| -> FleetEntry {
            let entry = json!({
                "version": 1, "id": "a", "pid": 1, "started_ms": 0, "updated_ms": 0, "cwd": cwd, "session": session
            });
            serde_json::from_value(entry).unwrap()
        };
        let notice = |orphans: &[FleetEntry]| orphan_notice(orphans, Path::new("/p")).unwrap_or_default();
        assert_eq!(notice(&[]), "");
        assert!(notice(&[entry("/p", Some("s_1"))]).contains("/resume goes on with it, /fleet lists it"));
        let two = notice(&[entry("/p", Some("s_1")), entry("/p", Some("s_2"))]);
        assert!(two.starts_with("2 conversations here") && two.contains("/resume goes on with one"), "{two}");
        for elsewhere in [entry("/p", None), entry("/q", Some("s_1"))] {
            let text = notice(&[elsewhere, entry("/p", Some("s_2"))]);
            assert_eq!(text, "2 conversations ended without being closed: /fleet lists them");
        }
    }
}
