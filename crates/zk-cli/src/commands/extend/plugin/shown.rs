//! Description of a bundle for a person who decides about trust.

use std::path::Path;

use zk_bundles::{Bundle, Fetched, Tree};
use zk_core::service::visible_line;
use zk_skills::{AgentFile, MarkdownFields, Skill, SkillSource};

use crate::bundles;

/// Description of a usable bundle in lines, and its faults.
pub(super) struct Shown {
    pub(super) lines: Vec<String>,
    pub(super) faults: Vec<String>,
}

/// Names a bundle with its version and author.
pub(super) fn title(bundle: &Bundle) -> String {
    let manifest = &bundle.manifest;
    let version = manifest.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let author = manifest.author.as_ref().map(|author| format!(" by {author}")).unwrap_or_default();
    let about = manifest.description.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
    visible_line(&format!("{}{version}{author}{about}", manifest.name))
}

/// Describes all contents of a bundle. Variables are shown unexpanded.
///
/// # Errors
/// In words, if its hooks or servers cannot be used: it is not to be added then.
pub(super) fn describe(fetched: &Fetched) -> Result<Shown, String> {
    let bundle = &fetched.bundle;
    let mut shown = Shown { lines: vec![title(bundle)], faults: Vec::new() };
    let mut left_out: Vec<String> = Vec::new();
    let placed = bundles::bundle_without_directory(bundle);
    let project = Path::new("${CLAUDE_PROJECT_DIR}");
    let hooks = bundles::hooks(&placed, project).map_err(|error| error.to_string())?;
    let (servers, wrong) = bundles::servers(&placed, project);
    if let Some(error) = wrong.first() {
        return Err(error.to_string());
    }
    let mut list = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            shown.lines.push(format!("{what}: {}", visible_line(&names.join(", "))));
        }
    };
    list("commands", bundle.commands.iter().map(|command| format!("/{}", command.name)).collect());
    list("agents", agents(fetched, &mut left_out, &mut shown.faults));
    list("skills", skills(&fetched.tree, bundle, &mut left_out));
    if !hooks.is_empty() {
        shown.lines.push("hooks, programs that run with your rights at these events:".to_owned());
        let rows = hooks
            .hooks
            .iter()
            .map(|hook| visible_line(&format!("{} for {}: {}", hook.event, hook.matcher, hook.command)));
        shown.lines.extend(rows.map(|row| format!("  {row}")));
    }
    if !servers.is_empty() {
        shown.lines.push("MCP servers, programs that run with your rights, or addresses:".to_owned());
        let rows = servers.iter().map(|server| format!("{}: {}", server.name, server.summary()));
        shown.lines.extend(rows.map(|row| format!("  {}", visible_line(&row))));
    }
    let names = bundle.environment_names();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().collect();
        shown.lines.push(format!("its servers are given of your environment: {}", names.join(", ")));
    }
    for (key, option) in &bundle.manifest.options {
        let title = option.title.as_deref().unwrap_or_default();
        let value = match (&option.default, option.is_sensitive) {
            (_, true) => format!("a secret; `--set {key}` asks for it"),
            (Some(default), false) => format!("`{default}` unless set"),
            (None, false) => "no default".to_owned(),
        };
        shown.lines.push(visible_line(&format!("option {key}: {title} ({value})")));
    }
    if !bundle.unserved.is_empty() {
        let parts = visible_line(&bundle.unserved.join(", "));
        shown.lines.push(format!("zk does not serve: {parts}"));
    }
    left_out.extend(hooks.warnings.iter().cloned());
    left_out.extend(bundle.notes.iter().cloned());
    shown.lines.extend(left_out.iter().map(|note| format!("note: {}", visible_line(note))));
    Ok(shown)
}

/// Returns the names of agents; unusable ones are left out.
fn agents(fetched: &Fetched, left_out: &mut Vec<String>, faults: &mut Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    for part in &fetched.bundle.agents {
        let bytes = fetched.tree.get(&part.path).map(|file| file.bytes.clone()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let file = AgentFile { name: part.path.clone(), bytes, is_trusted: true, is_of_project: false };
        match file.read() {
            Ok(agent) => names.push(format!("{}:{}", fetched.bundle.name(), agent.name)),
            Err(why) => left_out.push(format!("the agent {} is left out: {why}", part.path)),
        }
        if MarkdownFields::read(&text).is_some_and(|file| file.fields.is_empty()) {
            faults.push(format!("the frontmatter of {} is no YAML", part.path));
        }
    }
    names
}

/// Returns the names of skills; unusable ones are left out.
fn skills(tree: &Tree, bundle: &Bundle, left_out: &mut Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    for dir in &bundle.skills {
        let path = if dir.is_empty() { "SKILL.md".to_owned() } else { format!("{dir}/SKILL.md") };
        let bytes = tree.get(&path).map(|file| file.bytes.as_slice()).unwrap_or_default();
        match Skill::inline(&*String::from_utf8_lossy(bytes), SkillSource::Bundle) {
            Ok(skill) => {
                let own = dir.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(bundle.name());
                let name = if skill.name().is_empty() { own } else { skill.name() };
                names.push(format!("{}:{name}", bundle.name()));
            }
            Err(why) => left_out.push(format!("the skill {path} is left out: {}", why.message)),
        }
    }
    names
}
