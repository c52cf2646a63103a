use zk_core::service::{HostFiles, HostRead, Trust, TrustItem, visible_line, visible_lines};
use zk_permission::PermissionGate;
use zk_skills::{SkillSource, TRUST_COMMAND, command_files, command_trust_name, place};

use super::print;
use crate::agents;
use crate::app::AppContext;
use crate::args::actions::TrustAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::ProjectFile;
use crate::skills;

/// The most that is read of a command file, in bytes.
const MAX_COMMAND: usize = 256 * 1024;

/// Shows, approves or revokes what was approved in this project.
pub(crate) fn trust(app: &AppContext, action: &TrustAction) -> Outcome<Exit> {
    if let Some(problem) = app.trust.problem() {
        return Err(Failure::failed(problem));
    }
    let project = visible_line(&app.project.display().to_string());
    let mut lines = Vec::new();
    match action {
        TrustAction::Remove { name } => return remove(app, name.as_deref()),
        TrustAction::Add => {
            for file in &app.settings.project_files {
                app.trust.approve(&file.item(&app.project)).map_err(Failure::failed)?;
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
    lines.extend(skill_lines(app, action)?);
    lines.extend(agent_lines(app, action)?);
    lines.extend(command_lines(app, action)?);
    if lines.is_empty() {
        lines.push(format!("{project} has no settings, skills, agents or commands of its own"));
    }
    let approved = app.trust.approved(&app.project).map_err(Failure::failed)?;
    let calls = approved.iter().filter(|(kind, _)| kind == PermissionGate::TRUST_KIND);
    let calls: Vec<String> = calls.flat_map(|(_, name)| rows(name)).collect();
    if !calls.is_empty() {
        lines.push("calls that always run here (`zk trust remove` revokes):".to_owned());
        lines.extend(calls);
    }
    print(app, &lines)
}

/// The skills of the project, which `add` approves.
fn skill_lines(app: &AppContext, action: &TrustAction) -> Outcome<Vec<String>> {
    let set = skills::find(app);
    let shadowed = set.shadowed.iter().map(|(skill, _)| skill);
    let all = set.skills.iter().chain(&set.untrusted).chain(shadowed);
    let mut lines = Vec::new();
    for skill in all.filter(|skill| skill.source == SkillSource::Project) {
        let state = match action {
            TrustAction::Add => {
                skills::approve(app, skill).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Status | TrustAction::Remove { .. } if skills::is_approved(app, skill) => "trusted",
            TrustAction::Status | TrustAction::Remove { .. } => "not trusted: it is not used",
        };
        lines.push(visible_line(&format!("{}: {state}", place(skill))));
        lines.extend(rows(&format!("{}: {}", skill.name(), skill.manifest.description)));
        lines.extend(skills::suspicions(app, skill).iter().flat_map(|warning| rows(warning)));
    }
    Ok(lines)
}

/// The sub-agents of the project, which `add` approves.
fn agent_lines(app: &AppContext, action: &TrustAction) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    for file in agents::of_project(app) {
        let state = match action {
            TrustAction::Add => {
                agents::approve(app, &file).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Status | TrustAction::Remove { .. } if file.is_trusted => "trusted",
            TrustAction::Status | TrustAction::Remove { .. } => "not trusted: it is not used",
        };
        lines.push(visible_line(&format!("{}: {state}", file.name)));
        lines.extend(rows(&file.describe()));
    }
    Ok(lines)
}

/// The command files of the project that run something, which `add` approves. The others are text.
fn command_lines(app: &AppContext, action: &TrustAction) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    for file in command_files(&app.cwd, &app.project, &[], &app.host_files) {
        let read = app.host_files.read(&file.path, &HostRead::whole(MAX_COMMAND).own_only());
        let Ok(bytes) = read.map(|read| read.bytes) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains("!`") {
            continue;
        }
        let name = command_trust_name(&file, &app.project);
        let item = TrustItem { project: &app.project, kind: TRUST_COMMAND, name: &name, bytes: &bytes };
        let state = match action {
            TrustAction::Add => {
                app.trust.approve(&item).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Status | TrustAction::Remove { .. } if app.trust.is_trusted(&item) => "trusted",
            TrustAction::Status | TrustAction::Remove { .. } => {
                "not trusted: commands in its text do not run"
            }
        };
        lines.push(visible_line(&format!("/{} ({name}): {state}", file.name)));
        lines.extend(rows(&text));
    }
    Ok(lines)
}

/// Revokes everything of the project, or what begins with `name`.
fn remove(app: &AppContext, name: Option<&str>) -> Outcome<Exit> {
    let approved = app.trust.approved(&app.project).map_err(Failure::failed)?;
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
        app.trust.revoke(&app.project, kind, at).map_err(Failure::failed)?;
        lines.push("not trusted any more:".to_owned());
        lines.extend(rows(at));
    }
    if lines.is_empty() {
        lines.push(format!("nothing of {} was trusted", app.project.display()));
    }
    print(app, &lines)
}

/// Lists the values that a file sets, a row for each line of each value.
pub(crate) fn values(file: &ProjectFile) -> Vec<String> {
    file.values.iter().flat_map(|(name, value)| rows(&format!("{name} = {value}"))).collect()
}

/// A text in rows, with everything in it visible.
fn rows(text: &str) -> Vec<String> {
    visible_lines(text).iter().map(|row| format!("│ {row}")).collect()
}
