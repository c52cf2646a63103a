mod items;

use zk_core::service::{Trust, visible_line, visible_lines};
use zk_permission::PermissionGate;

use super::print_words as print;
use crate::app::{AppContext, Workplace};
use crate::args::actions::TrustAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::ProjectFile;
use items::{agent_lines, command_lines, memory_lines, skill_lines};

/// Shows, approves or revokes the approvals of this project.
pub(crate) fn trust(app: &AppContext, action: &TrustAction) -> Outcome<Exit> {
    if let Some(problem) = app.work.machine.trust.problem() {
        return Err(Failure::failed(problem));
    }
    let project = visible_line(&app.work.project.display().to_string());
    let mut lines = Vec::new();
    match action {
        TrustAction::Remove { name } => return remove(&app.work, name.as_deref()),
        TrustAction::Add => {
            for file in &app.settings.project_files {
                app.work.machine.trust.approve(&file.item(&app.work.project)).map_err(Failure::failed)?;
                lines.push(format!("{project}/{}: trusted from now on, as it is", file.name));
                lines.extend(values(file));
            }
        }
        TrustAction::Status => {
            for file in &app.settings.project_files {
                let state = if file.trusted { "trusted" } else { "not trusted: what it sets is ignored" };
                lines.push(format!("{project}/{}: {state}", file.name));
                lines.extend(values(file));
            }
        }
    }
    lines.extend(skill_lines(&app.work, &app.settings, action)?);
    lines.extend(agent_lines(&app.work, action)?);
    lines.extend(command_lines(&app.work, action)?);
    lines.extend(memory_lines(&app.work, action)?);
    if lines.is_empty() {
        lines.push(format!("{project} has no settings, skills, agents, commands or facts of its own"));
    }
    let approved = app.work.machine.trust.approved(&app.work.project).map_err(Failure::failed)?;
    let calls = approved.iter().filter(|(kind, _)| kind == PermissionGate::TRUST_KIND);
    let calls: Vec<String> = calls.flat_map(|(_, name)| rows(name)).collect();
    if !calls.is_empty() {
        lines.push("calls that always run here (`zk trust remove` revokes):".to_owned());
        lines.extend(calls);
    }
    print(&app.work.machine, &lines)
}

/// Revokes all approvals of the project, or those whose names begin with `name`.
fn remove(work: &Workplace, name: Option<&str>) -> Outcome<Exit> {
    let approved = work.machine.trust.approved(&work.project).map_err(Failure::failed)?;
    let wanted = |(_, at): &&(String, String)| name.is_none_or(|name| at.starts_with(name.trim()));
    let found: Vec<&(String, String)> = approved.iter().filter(wanted).collect();
    match (name, &*found) {
        (Some(name), []) => {
            let text = format!("nothing that begins with `{name}` is trusted here; `zk trust` lists what is");
            return Err(Failure::usage(text));
        }
        (Some(name), [_, _, ..]) if !found.iter().any(|(_, at)| at == name) => {
            let text = format!("`{name}` is the beginning of {} names; give more of one", found.len());
            return Err(Failure::usage(text));
        }
        (_, _) => {}
    }
    let exact = |at: &str| name.is_none_or(|name| found.len() == 1 || at == name);
    let mut lines = Vec::new();
    for (kind, at) in found.iter().filter(|(_, at)| exact(at)) {
        work.machine.trust.revoke(&work.project, kind, at).map_err(Failure::failed)?;
        lines.push("not trusted any more:".to_owned());
        lines.extend(rows(at));
    }
    if lines.is_empty() {
        lines.push(format!("nothing of {} was trusted", work.project.display()));
    }
    print(&work.machine, &lines)
}

/// Formats the settings of a file, with a row for each line of each value.
pub(crate) fn values(file: &ProjectFile) -> Vec<String> {
    file.values.iter().flat_map(|(name, value)| rows(&format!("{name} = {value}"))).collect()
}

/// Formats a text in rows that show every character.
fn rows(text: &str) -> Vec<String> {
    visible_lines(text).iter().map(|row| format!("│ {row}")).collect()
}
