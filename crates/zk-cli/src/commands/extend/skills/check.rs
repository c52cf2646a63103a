use std::path::{Path, PathBuf};

use zk_core::service::visible_line;
use zk_skills::{SkillRoots, SkillSet, SkillSource, discover, validate};

use super::super::print;
use super::rows::{Row, rows};
use super::{find_all, print_json};
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};

pub(super) fn check(app: &AppContext, paths: &[PathBuf], json: bool) -> Outcome<Exit> {
    let mut rows = Vec::new();
    if paths.is_empty() {
        rows = self::rows(&find_all(app)?);
    }
    let mut all = None;
    for path in paths {
        let dir = match app.work.cwd.join(path).canonicalize() {
            Ok(dir) => dir,
            Err(error) => match find_skill(app, path, &mut all)? {
                Some(row) => {
                    rows.push(row);
                    continue;
                }
                None => {
                    let hint = "; there is no skill of that name either, `zk skills list` shows all";
                    return Err(Failure::usage(format!("{}: {error}{hint}", path.display())));
                }
            },
        };
        let is_skill = ["SKILL.md", "skill.md"].iter().any(|name| dir.join(name).exists());
        // A directory with a `SKILL.md` is checked as one skill; any other is searched for skills.
        let roots = SkillRoots { configured: vec![dir.clone()], ..SkillRoots::default() };
        let below = if is_skill {
            Vec::new()
        } else {
            self::rows(&discover(&roots, &app.work.machine.host_files, None))
        };
        if below.is_empty() {
            rows.push(Row {
                name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                path: dir.display().to_string(),
                source: SkillSource::Configured,
                state: "checked",
                about: String::new(),
                valid: true,
                diagnostics: Vec::new(),
            });
        }
        rows.extend(below);
    }
    for row in rows.iter_mut().filter(|row| Path::new(&row.path).is_absolute()) {
        row.diagnostics = validate(Path::new(&row.path), &app.work.machine.host_files);
        row.valid = row.diagnostics.is_empty();
    }
    let exit = if rows.iter().all(|row| row.valid) { Exit::Done } else { Exit::Failed };
    if json {
        print_json(&app.work.machine, rows.iter().map(Row::json).collect())?;
        return Ok(exit);
    }
    let mut lines = Vec::new();
    for row in &rows {
        let verdict = if row.valid { "valid" } else { "not valid" };
        lines.push(visible_line(&format!("{}: {verdict}", row.path)));
        lines.extend(row.diagnostics.iter().map(|fault| visible_line(&format!("  {fault}"))));
    }
    if lines.is_empty() {
        lines.push("there are no skills to check".to_owned());
    }
    print(&app.work.machine, &lines)?;
    Ok(exit)
}

/// Finds a skill by its name. `all` caches the found skills, since finding them may start servers.
pub(super) fn find_skill(app: &AppContext, name: &Path, all: &mut Option<SkillSet>) -> Outcome<Option<Row>> {
    let all = match all {
        Some(all) => all,
        None => all.insert(find_all(app)?),
    };
    Ok(rows(all).into_iter().find(|row| Path::new(&row.name) == name && row.state != "shadowed"))
}
