use std::path::Path;

use zk_core::service::visible_line;

use super::entry::{FleetState, FleetView};

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

fn cut_text(text: &str) -> String {
    let text = text.lines().next().unwrap_or_default();
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
