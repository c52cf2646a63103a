use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use zk_core::service::visible_line;
use zk_mcp::McpServers;
use zk_skills::{
    Bundle, Diagnostic, SKILL_FILE, Skill, SkillRoots, SkillSet, SkillSource, Skills, discover, place,
    skill_at, validate,
};
use zk_view::ViewDriver;

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::actions::SkillsAction;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use zk_settings::suggest;

use crate::sessions::Session;
use crate::skills;

/// Directory of a project that `add` and `new` fill.
const PROJECT: &str = ".agents/skills";

/// Lists, shows, checks and manages skills.
pub(crate) fn skills(app: &AppContext, action: &SkillsAction) -> Outcome<Exit> {
    match action {
        SkillsAction::List { json } => list(app, *json),
        SkillsAction::Show { name } => show(app, name),
        SkillsAction::Check { paths, json } => check(app, paths, *json),
        SkillsAction::Add { path, project } => add(app, path, *project),
        SkillsAction::Remove { name, project } => remove(app, name, *project),
        SkillsAction::New { name, project } => new(app, name, *project),
    }
}

/// Time limit of MCP servers to list their skills for a person who asks for all.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Finds the skills with those that plugins and MCP servers have, for which servers are started.
fn find_all(app: &AppContext) -> Outcome<SkillSet> {
    let has_others = !app.settings.additions.plugins.is_empty() || !app.settings.mcp_servers().0.is_empty();
    if !has_others || !app.settings.skills.enabled {
        return Ok(skills::find(app));
    }
    runtime()?.block_on(async {
        let host = HostOptions { ui: None, questions: None, allow_all: false, view: ViewDriver::new() };
        let bus = compose::bus(app, &Session::default(), host).await?;
        bus.warm_up();
        if let Some(servers) = bus.service::<McpServers>() {
            servers.skills_ready(LIST_TIMEOUT).await;
        }
        let found = match bus.service::<Skills>() {
            Some(skills) => Some(skills.reload(&bus.cx()).await),
            None => None,
        };
        bus.close().await;
        let found = found.transpose().map_err(Failure::failed)?;
        Ok(found.map_or_else(|| skills::find(app), |set| SkillSet::clone(&set)))
    })
}

/// One skill of a list.
struct Row {
    name: String,
    path: String,
    source: SkillSource,
    state: &'static str,
    about: String,
    valid: bool,
    diagnostics: Vec<String>,
}

impl Row {
    fn of(skill: &Skill, state: &'static str) -> Self {
        Self {
            name: skill.name().to_owned(),
            path: address(skill),
            source: skill.source,
            state,
            about: skill.manifest.description.split_whitespace().collect::<Vec<_>>().join(" "),
            valid: true,
            diagnostics: skill.diagnostics.iter().map(ToString::to_string).collect(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "path": self.path,
            "source": self.source,
            "valid": self.valid,
            "diagnostics": self.diagnostics,
            "state": self.state,
            "description": self.about,
        })
    }
}

/// Returns the place of a skill, or the address where it is to be had.
fn address(skill: &Skill) -> String {
    skill.served.as_ref().map_or_else(|| place(skill), |served| served.entry.uri.clone())
}

fn rows(set: &SkillSet) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for skill in &set.skills {
        let state = if skill.manifest.disable_model_invocation { "for you only" } else { "offered" };
        rows.push(Row::of(skill, state));
    }
    rows.extend(set.untrusted.iter().map(|skill| Row::of(skill, "not trusted")));
    for (skill, first) in &set.shadowed {
        let mut row = Row::of(skill, "shadowed");
        row.diagnostics.push(format!("warning: {first} has the same name and is used"));
        rows.push(row);
    }
    for broken in &set.broken {
        rows.push(Row {
            name: broken.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: broken.path.display().to_string(),
            source: broken.source,
            state: "not usable",
            about: String::new(),
            valid: false,
            diagnostics: vec![broken.diagnostic.to_string()],
        });
    }
    rows
}

fn list(app: &AppContext, json: bool) -> Outcome<Exit> {
    let set = find_all(app)?;
    let mut rows = rows(&set);
    rows.extend(skills::left_out_of(app, &set).into_iter().map(|left| Row {
        name: left.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: left.path.display().to_string(),
        source: left.source,
        state: "left out",
        about: String::new(),
        valid: false,
        diagnostics: vec![left.why.into_owned()],
    }));
    if json {
        return print_json(app, rows.iter().map(Row::json).collect());
    }
    let mut lines = Vec::new();
    for row in &rows {
        let about: String = row.about.chars().take(100).collect();
        let line = format!("{:<24} {:<10} {:<12} {about}", row.name, row.source.as_str(), row.state);
        // Blanks of the table's own columns are no secret of a skill.
        lines.push(visible_line(line.trim_end_matches(' ')));
        lines.extend(row.diagnostics.iter().map(|fault| visible_line(&format!("  {}: {fault}", row.path))));
    }
    if lines.is_empty() {
        lines.push(
            "there are no skills; `zk skills new NAME` makes one, `zk skills add DIR` copies one".to_owned(),
        );
    }
    if rows.iter().any(|row| row.state == "not trusted") {
        lines.push("skills of this project count once you read them and run `zk trust add`".to_owned());
    }
    print(app, &lines)
}

fn print_json(app: &AppContext, rows: Vec<Value>) -> Outcome<Exit> {
    let text = serde_json::to_string_pretty(&Value::Array(rows)).map_err(Failure::failed)?;
    print(app, &text.lines().map(str::to_owned).collect::<Vec<_>>())
}

fn show(app: &AppContext, name: &str) -> Outcome<Exit> {
    let set = find_all(app)?;
    let all = || set.skills.iter().chain(&set.untrusted);
    let Some(skill) = all().find(|skill| skill.name() == name) else {
        let hint = suggest::did_you_mean(name, all().map(|skill| skill.name()));
        return Err(Failure::usage(format!("there is no skill `{name}`{hint}; `zk skills list` shows all")));
    };
    let mut lines = vec![
        format!("name: {}", skill.name()),
        format!("description: {}", skill.manifest.description),
        format!("source: {}", skill.source.as_str()),
        format!("place: {}", address(skill)),
    ];
    let manifest = &skill.manifest;
    for (key, value) in [
        ("license", &manifest.license),
        ("compatibility", &manifest.compatibility),
        ("model", &manifest.model),
        ("thinking", &manifest.thinking),
    ] {
        lines.extend(value.iter().map(|value| format!("{key}: {value}")));
    }
    lines.extend(manifest.allowed_tools.iter().map(|tools| format!("allowed tools: {}", tools.join(", "))));
    if skill.source == SkillSource::Project {
        let state =
            if skills::is_approved(app, skill) { "trusted" } else { "not trusted, so it is not used" };
        lines.push(format!("trust: {state}"));
    }
    lines.extend(skill.diagnostics.iter().map(Diagnostic::to_string));
    lines.extend(skills::suspicions(app, skill));
    if let Some(served) = &skill.served {
        lines.extend(served.entry.files.iter().map(|(uri, _)| format!("file: {uri}")));
        lines.push(format!("its text is read from {} when it is used", served.host));
        return print(app, &lines.iter().map(|line| visible_line(line)).collect::<Vec<_>>());
    }
    let bundle = Bundle::of(skill).map_err(Failure::failed)?;
    lines.extend(bundle.resources().iter().map(|file| format!("file: {file}")));
    let lines: Vec<String> = lines.iter().map(|line| visible_line(line)).collect();
    let text = zk_skills::body(skill, &app.host_files).map_err(Failure::failed)?;
    print(app, &[lines, vec![String::new()], text.lines().map(str::to_owned).collect()].concat())
}

fn check(app: &AppContext, paths: &[PathBuf], json: bool) -> Outcome<Exit> {
    let mut rows = Vec::new();
    if paths.is_empty() {
        rows = self::rows(&find_all(app)?);
    }
    let mut all = None;
    for path in paths {
        let dir = match app.cwd.join(path).canonicalize() {
            Ok(dir) => dir,
            Err(error) => match named(app, path, &mut all)? {
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
        // One directory is a skill, or should be; any other is looked through.
        let roots = SkillRoots { configured: vec![dir.clone()], ..SkillRoots::default() };
        let below = if is_skill { Vec::new() } else { self::rows(&discover(&roots, &app.host_files, None)) };
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
        row.diagnostics = validate(Path::new(&row.path), &app.host_files);
        row.valid = row.diagnostics.is_empty();
    }
    let exit = if rows.iter().all(|row| row.valid) { Exit::Done } else { Exit::Failed };
    if json {
        print_json(app, rows.iter().map(Row::json).collect())?;
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
    print(app, &lines)?;
    Ok(exit)
}

/// The skill that is found here under a name; `all` keeps what was found, which may take servers.
fn named(app: &AppContext, name: &Path, all: &mut Option<SkillSet>) -> Outcome<Option<Row>> {
    let all = match all {
        Some(all) => all,
        None => all.insert(find_all(app)?),
    };
    Ok(rows(all).into_iter().find(|row| Path::new(&row.name) == name && row.state != "shadowed"))
}

/// The directory of skills to change.
fn home(app: &AppContext, project: bool) -> Outcome<PathBuf> {
    if project {
        return Ok(app.project.join(PROJECT));
    }
    let own = app.dirs.config.as_ref().map(|config| config.join("skills"));
    own.ok_or_else(|| {
        Failure::usage("there is no place for your skills: set HOME or ZK_HOME, or add --project")
    })
}

fn add(app: &AppContext, path: &Path, project: bool) -> Outcome<Exit> {
    let from = app.cwd.join(path);
    let from = from.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let skill = skill_at(&from, &app.host_files)
        .map_err(|why| Failure::usage(format!("{} is no skill: {}", from.display(), why.message)))?;
    let skill = &skill;
    let to = home(app, project)?.join(skill.name());
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
            // Half a skill is none.
            let _ = std::fs::remove_dir_all(&to);
            return Err(Failure::failed(format!("cannot copy {}: {error}", file.display())));
        }
    }
    let next = if project { "; `zk trust add` lets it count" } else { "" };
    let mut lines = vec![format!("{} is now in {}{next}", skill.name(), to.display())];
    lines.extend(skills::suspicions(app, skill).iter().map(|warning| visible_line(warning)));
    print(app, &lines)
}

fn remove(app: &AppContext, name: &str, project: bool) -> Outcome<Exit> {
    let home = home(app, project)?;
    let set = skills::find(app);
    let all = set.skills.iter().chain(&set.untrusted).chain(set.shadowed.iter().map(|(skill, _)| skill));
    let real = home.canonicalize().unwrap_or(home);
    let own = |skill: &&std::sync::Arc<Skill>| {
        skill.name() == name && skill.dir.as_ref().is_some_and(|dir| dir.parent() == Some(&*real))
    };
    // One that cannot be read can be removed all the same, by its directory.
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
    print(app, &[format!("removed {}", dir.display())])
}

fn new(app: &AppContext, name: &str, project: bool) -> Outcome<Exit> {
    let faults = zk_skills::name_faults(name, name);
    if name.is_empty() || !faults.is_empty() {
        let text = format!("`{name}` is no name for a skill: {}", faults.join("; "));
        return Err(Failure::usage(text));
    }
    let dir = home(app, project)?.join(name);
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
    print(app, &[format!("made {}; fill it in{next}", file.display())])
}
