use zk_core::service::{HostFiles, HostRead, Trust, TrustItem, visible_line};
use zk_memory::MEMORY_FILE;
use zk_skills::{SkillSource, TRUST_COMMAND, command_files, command_trust_name, place};

use super::rows;
use crate::agents;
use crate::app::Workplace;
use crate::args::actions::TrustAction;
use crate::compose::sessions::memory;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::skills;

/// Maximum size of a command file in bytes.
pub(super) const MAX_COMMAND: usize = 256 * 1024;

/// Lists the project's skills with their approval; `add` approves them first.
pub(super) fn skill_lines(
    work: &Workplace,
    settings: &Settings,
    action: &TrustAction,
) -> Outcome<Vec<String>> {
    let set = skills::find(work, settings);
    let shadowed = set.shadowed.iter().map(|(skill, _)| skill);
    let all = set.skills.iter().chain(&set.untrusted).chain(shadowed);
    let mut lines = Vec::new();
    for skill in all.filter(|skill| skill.source == SkillSource::Project) {
        let state = match action {
            TrustAction::Add => {
                skills::approve(work, skill).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Status | TrustAction::Remove { .. } if skills::is_approved(work, skill) => "trusted",
            TrustAction::Status | TrustAction::Remove { .. } => "not trusted: it is not used",
        };
        lines.push(visible_line(&format!("{}: {state}", place(skill))));
        lines.extend(rows(&format!("{}: {}", skill.name(), skill.manifest.description)));
        lines.extend(
            zk_skills::suspicions(skill, &work.machine.host_files).iter().flat_map(|warning| rows(warning)),
        );
    }
    Ok(lines)
}

/// Shows the facts of the project's `MEMORY.md` with its approval; `add` approves it first.
pub(super) fn memory_lines(work: &Workplace, action: &TrustAction) -> Outcome<Vec<String>> {
    let Some(found) = memory::of_project(work) else { return Ok(Vec::new()) };
    let state = match action {
        TrustAction::Add => {
            memory::approve(work, &found).map_err(Failure::failed)?;
            "trusted from now on, as it is"
        }
        TrustAction::Status | TrustAction::Remove { .. } if memory::is_approved(work, &found) => "trusted",
        TrustAction::Status | TrustAction::Remove { .. } => "not trusted: nothing of it is recalled",
    };
    let mut lines = vec![format!("{MEMORY_FILE}: {state}")];
    lines.extend(found.facts.iter().flat_map(|fact| rows(fact)));
    Ok(lines)
}

/// Lists the project's sub-agents with their approval; `add` approves them first.
pub(super) fn agent_lines(work: &Workplace, action: &TrustAction) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    for file in agents::of_project(work) {
        let state = match action {
            TrustAction::Add => {
                agents::approve(work, &file).map_err(Failure::failed)?;
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

/// Lists the project's command files that run commands, with their approval; `add` approves them first.
pub(super) fn command_lines(work: &Workplace, action: &TrustAction) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    for file in command_files(&work.cwd, &work.project, &[], &work.machine.host_files) {
        let read = work.machine.host_files.read(&file.path, &HostRead::whole(MAX_COMMAND).own_only());
        let Ok(bytes) = read.map(|read| read.bytes) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains("!`") {
            continue;
        }
        let name = command_trust_name(&file, &work.project);
        let item = TrustItem { project: &work.project, kind: TRUST_COMMAND, name: &name, bytes: &bytes };
        let state = match action {
            TrustAction::Add => {
                work.machine.trust.approve(&item).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Status | TrustAction::Remove { .. } if work.machine.trust.is_trusted(&item) => {
                "trusted"
            }
            TrustAction::Status | TrustAction::Remove { .. } => {
                "not trusted: commands in its text do not run"
            }
        };
        lines.push(visible_line(&format!("/{} ({name}): {state}", file.name)));
        lines.extend(rows(&text));
    }
    Ok(lines)
}
