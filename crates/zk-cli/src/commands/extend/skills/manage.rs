use std::path::{Path, PathBuf};

use zk_core::service::visible_line;
use zk_skills::{Bundle, SKILL_FILE, Skill, skill_at};

use super::super::print;
use crate::app::Workplace;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;
use crate::skills;

/// Directory of the project's skills, for `zk skills add` and `zk skills new`.
pub(super) const PROJECT: &str = ".agents/skills";

/// Returns the directory of the project's or the person's skills.
pub(super) fn skills_dir(work: &Workplace, project: bool) -> Outcome<PathBuf> {
    if project {
        return Ok(work.project.join(PROJECT));
    }
    let own = work.machine.dirs.config.as_ref().map(|config| config.join("skills"));
    own.ok_or_else(|| {
        Failure::usage("there is no place for your skills: set HOME or ZK_HOME, or add --project")
    })
}

pub(super) fn add(work: &Workplace, path: &Path, project: bool) -> Outcome<Exit> {
    let from = work.cwd.join(path);
    let from = from.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let skill = skill_at(&from, &work.machine.host_files)
        .map_err(|why| Failure::usage(format!("{} is no skill: {}", from.display(), why.message)))?;
    let skill = &skill;
    let to = skills_dir(work, project)?.join(skill.name());
    if to.symlink_metadata().is_ok() {
        let text =
            format!("{} is there already; `zk skills remove {}` removes it", to.display(), skill.name());
        return Err(Failure::usage(text));
    }
    let bundle = Bundle::of(skill).map_err(Failure::failed)?;
    for file in &bundle.files {
        let target = to.join(file);
        let copied = std::fs::create_dir_all(target.parent().unwrap_or(&to))
            .and_then(|()| std::fs::copy(bundle.dir.join(file), &target));
        if let Err(error) = copied {
            // Removes an incompletely copied skill.
            let _ = std::fs::remove_dir_all(&to);
            return Err(Failure::failed(format!("cannot copy {}: {error}", file.display())));
        }
    }
    let next = if project { "; `zk trust add` lets it count" } else { "" };
    let mut lines = vec![format!("{} is now in {}{next}", skill.name(), to.display())];
    lines.extend(
        zk_skills::suspicions(skill, &work.machine.host_files).iter().map(|warning| visible_line(warning)),
    );
    print(&work.machine, &lines)
}

pub(super) fn remove(work: &Workplace, settings: &Settings, name: &str, project: bool) -> Outcome<Exit> {
    let home = skills_dir(work, project)?;
    let set = skills::find(work, settings);
    let all = set.skills.iter().chain(&set.untrusted).chain(set.shadowed.iter().map(|(skill, _)| skill));
    let real = home.canonicalize().unwrap_or(home);
    let own = |skill: &&std::sync::Arc<Skill>| {
        skill.name() == name && skill.dir.as_ref().is_some_and(|dir| dir.parent() == Some(&*real))
    };
    // An unreadable skill can still be removed by its directory's name.
    let plain = real.join(name);
    let is_plain = !name.contains('/') && name != "." && name != ".." && plain.join(SKILL_FILE).exists();
    let dir =
        all.into_iter().find(own).and_then(|skill| skill.dir.clone()).or_else(|| is_plain.then_some(plain));
    let Some(dir) = dir else {
        let text =
            format!("there is no skill `{name}` in {}; `zk skills list` shows where each is", real.display());
        return Err(Failure::usage(text));
    };
    let is_link = dir.symlink_metadata().is_ok_and(|data| data.is_symlink());
    let removed = if is_link { std::fs::remove_file(&dir) } else { std::fs::remove_dir_all(&dir) };
    removed.map_err(|error| Failure::failed(format!("cannot remove {}: {error}", dir.display())))?;
    print(&work.machine, &[format!("removed {}", dir.display())])
}

pub(super) fn new(work: &Workplace, name: &str, project: bool) -> Outcome<Exit> {
    let faults = zk_skills::name_faults(name, name);
    if name.is_empty() || !faults.is_empty() {
        let text = format!("`{name}` is no name for a skill: {}", faults.join("; "));
        return Err(Failure::usage(text));
    }
    let dir = skills_dir(work, project)?.join(name);
    let file = dir.join(SKILL_FILE);
    if file.exists() {
        return Err(Failure::usage(format!("{} is there already", file.display())));
    }
    let text = format!(
        "---\nname: {name}\ndescription: What it does, and when to use it. Models decide by this sentence alone.\n---\n\n\
         # {name}\n\nThe steps, in the order they are done. Longer material goes into references/, programs into \
         scripts/: a model reads and runs them when it needs them.\n"
    );
    let written = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))?;
    let next = if project { ", then run `zk trust add`" } else { "" };
    print(&work.machine, &[format!("made {}; fill it in{next}", file.display())])
}
