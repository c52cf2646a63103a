//! Places of a conversation's skills, by the settings.

use std::path::PathBuf;
use std::sync::Arc;

use zk_core::kernel::{Bus, Plugin};
use zk_core::service::Trust;
use zk_core::service::visible_line;
use zk_exec::WorkspaceFiles;
use zk_exec::settings::at_home;
use zk_skills::{
    Diagnostic, LeftOutSkill, Skill, SkillApproval, SkillFiles, SkillRoots, SkillSet, SkillsOptions,
    SkillsPlugin, discover, left_out,
};

use crate::app::{Machine, Workplace};
use crate::settings::Settings;

/// Returns the person's skill directories, in order of precedence.
pub(crate) fn user_dirs(machine: &Machine) -> Vec<PathBuf> {
    let home = machine.env.path("HOME");
    let below = |dir: &str| home.as_ref().map(|home| home.join(dir));
    let own = machine.dirs.config.as_ref().map(|config| config.join("skills"));
    [below(".agents/skills"), own, below(".zk/skills"), below(".claude/skills")]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the person's command directories.
pub(crate) fn command_dirs(work: &Workplace) -> Vec<PathBuf> {
    let machine = &work.machine;
    if !work.scope.has_own_parts() {
        return Vec::new();
    }
    let own = machine.dirs.config.as_ref().map(|config| config.join("commands"));
    own.into_iter().chain(machine.env.path("HOME").map(|home| home.join(".claude/commands"))).collect()
}

/// Returns the directories that are searched for skills.
pub(crate) fn roots(work: &Workplace, settings: &Settings) -> SkillRoots {
    let own = &settings.skills;
    let home = work.machine.env.path("HOME");
    let has_own = work.scope.has_own_parts();
    let path = |path: &String| at_home(path, home.as_deref()).unwrap_or_else(|| PathBuf::from(path));
    SkillRoots {
        cwd: work.cwd.clone(),
        project: work.project.clone(),
        configured: own.paths.iter().filter(|_| has_own).map(path).collect(),
        user: if has_own { user_dirs(&work.machine) } else { Vec::new() },
        bundles: crate::bundles::skills(settings, &work.project),
        inline: inline_skills(settings).0,
        exclude: own.exclude.clone(),
        only: own.only.clone(),
        without_project: !own.project || !work.scope.has_project(),
    }
}

/// Returns the skills in the settings that this start uses, and the unusable ones with the reasons.
fn inline_skills(settings: &Settings) -> (Vec<Skill>, Vec<(String, Diagnostic)>) {
    let (mut skills, mut wrong) = settings.skills.inline_skills();
    skills.retain(|skill| settings.takes_inline_skill(skill.name()));
    wrong.retain(|(name, _)| settings.takes_inline_skill(name));
    (skills, wrong)
}

/// Returns the plugin for skills, unless they are switched off. Their files are watched in attended conversations.
pub(crate) fn plugin(work: &Workplace, settings: &Settings, attended: bool) -> Option<Arc<dyn Plugin>> {
    if !settings.skills.enabled {
        return None;
    }
    for (name, why) in inline_skills(settings).1 {
        let text = format!("warning: `skills.inline.{}` is not used: {}", visible_line(&name), why.message);
        work.machine.notices.show(&text);
    }
    let mut options = SkillsOptions::new(roots(work, settings));
    options.watched = attended;
    if let Some(max) = settings.skills.max_active {
        options.max_active = max as usize;
    }
    Some(Arc::new(SkillsPlugin::new(options)))
}

/// Watches the existing directories of the person's skills.
pub(crate) fn watch_own(work: &Workplace, settings: &Settings, bus: &Bus) {
    let roots = roots(work, settings);
    let dirs: Vec<PathBuf> =
        roots.configured.into_iter().chain(roots.user).filter(|dir| dir.is_dir()).collect();
    if !dirs.is_empty()
        && let Ok(files) = WorkspaceFiles::new(dirs)
    {
        bus.scope("skill-files").provide_service(Arc::new(SkillFiles(Arc::new(files))));
    }
}

/// Finds the skills on disk, without asking servers.
pub(crate) fn find(work: &Workplace, settings: &Settings) -> SkillSet {
    discover(&roots(work, settings), &work.machine.host_files, Some(&*work.machine.trust))
}

/// Returns each `SKILL.md` that is in no list of `set`, with the reason.
pub(crate) fn left_out_of(work: &Workplace, settings: &Settings, set: &SkillSet) -> Vec<LeftOutSkill> {
    left_out(&roots(work, settings), set, &work.machine.host_files)
}

/// Returns the unapproved skills of this project; other directories are not searched.
pub(crate) fn untrusted(work: &Workplace, settings: &Settings) -> Vec<Arc<Skill>> {
    let roots = SkillRoots { configured: Vec::new(), user: Vec::new(), ..roots(work, settings) };
    if roots.without_project || !settings.skills.enabled {
        return Vec::new();
    }
    discover(&roots, &work.machine.host_files, Some(&*work.machine.trust)).untrusted
}

/// Approves exactly the present content of a project's skill.
pub(crate) fn approve(work: &Workplace, skill: &Skill) -> Result<(), String> {
    let approval = SkillApproval::of(skill, &work.project, &work.machine.host_files)
        .map_err(|error| error.to_string())?;
    approval
        .items(&work.project)
        .iter()
        .try_for_each(|item| work.machine.trust.approve(item))
        .map_err(|error| error.to_string())
}

/// Whether exactly the present content of a project's skill is approved.
pub(crate) fn is_approved(work: &Workplace, skill: &Skill) -> bool {
    let approval = SkillApproval::of(skill, &work.project, &work.machine.host_files);
    approval.is_ok_and(|approval| approval.is_given(&work.project, &*work.machine.trust))
}
