//! Named sub-agents: Markdown files of the project and the person, and those of the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zk_agent::{AgentDefinition, SpawnOptions};
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{HostFiles, HostRead, Trust, TrustItem, visible_line};
use zk_skills::{MarkdownFields, tool_names};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::model_name;

/// The kind that agents of a project are approved as.
const TRUST_KIND: &str = "agent";

/// Directories of a project that hold agents.
const PROJECT: [&str; 2] = [".zk/agents", ".claude/agents"];

/// The most a file may have, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The most agents that are told to a model.
const MOST: usize = 30;

/// The file of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentFile {
    /// The path relative to the project, or the whole path of one of the person's.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether it counts: the person's always, those of the project once approved.
    pub(crate) is_trusted: bool,
    of_project: bool,
}

impl AgentFile {
    fn item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: TRUST_KIND, name: &self.name, bytes: &self.bytes }
    }

    /// Describes the agent for a person before they approve it.
    pub(crate) fn describe(&self) -> String {
        match self.read() {
            Ok(agent) => format!("{}: {}", agent.name, agent.description),
            Err(why) => why,
        }
    }

    /// The agent, with its model as the file calls it.
    fn read(&self) -> Result<AgentDefinition, String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let file =
            MarkdownFields::read(&text).ok_or("it has no frontmatter with `name` and `description`")?;
        let stem = Path::new(&self.name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = file.text("name").unwrap_or(stem).to_owned();
        let is_usable = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_usable) {
            return Err(format!(
                "its name `{}` has other characters than letters, digits and -_.:",
                visible_line(&name)
            ));
        }
        let description = file.text("description").ok_or("it has no `description`")?.to_owned();
        let tools = file.fields.contains_key("tools").then(|| file.words("tools"));
        let turns = file.text("max_turns").or(file.text("maxTurns")).or(file.text("max-turns"));
        let max_turns = turns.map(|turns| {
            turns.parse().map_err(|_| format!("its `max_turns` is `{}`; give a number", visible_line(turns)))
        });
        Ok(AgentDefinition {
            name,
            description,
            prompt: file.body.trim().to_owned(),
            tools: tools.map(|names| canonical(&names)).transpose()?,
            model: file.text("model").filter(|model| *model != "inherit").map(str::to_owned),
            thinking: thinking(file.text("thinking").or(file.text("effort")))?,
            max_turns: max_turns.transpose()?,
            preset: None,
        })
    }
}

fn thinking(level: Option<&str>) -> Result<Option<ThinkingRequest>, String> {
    let Some(level) = level else { return Ok(None) };
    let level = level.parse().map_err(|_| {
        let levels = ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", ");
        format!("its `thinking` is `{}`; there are {levels}", visible_line(level))
    })?;
    Ok(Some(ThinkingRequest { level, budget: None }))
}

/// Tools by zk's names for them.
fn canonical(names: &[String]) -> Result<Vec<String>, String> {
    let mut tools = Vec::new();
    for name in names {
        let known = tool_names(name);
        if known.is_empty() {
            let name = visible_line(name);
            return Err(format!(
                "its tool `{name}` has a pattern; name the tool, and put the pattern into [permissions]"
            ));
        }
        tools.extend(known);
    }
    Ok(tools)
}

/// An agent of the command line, as other programs write it, too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    description: String,
    prompt: String,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default, alias = "maxTurns")]
    max_turns: Option<u32>,
}

/// The agents of `--agents`: JSON, or a file of it.
pub(crate) fn given(text: &str, files: &dyn HostFiles) -> Outcome<Vec<AgentDefinition>> {
    let usage = |why: String| {
        let shape = "{\"NAME\": {\"description\": \"…\", \"prompt\": \"…\"}}";
        Failure::usage(format!("--agents: {why}; give {shape}, or a file of it"))
    };
    let json = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        let read = files.read(Path::new(text), &HostRead::whole(MAX_BYTES));
        let file = read.map_err(|error| usage(format!("cannot read {text}: {error}")))?;
        String::from_utf8_lossy(&file.bytes).into_owned()
    };
    let given: BTreeMap<String, Given> =
        serde_json::from_str(&json).map_err(|error| usage(error.to_string()))?;
    let agent = |(name, given): (String, Given)| {
        let wrong = |why: String| usage(format!("of `{}`, {why}", visible_line(&name)));
        Ok(AgentDefinition {
            tools: given.tools.map(|names| canonical(&names)).transpose().map_err(wrong)?,
            thinking: thinking(given.thinking.as_deref()).map_err(wrong)?,
            description: given.description,
            prompt: given.prompt,
            model: given.model.filter(|model| model != "inherit"),
            max_turns: given.max_turns,
            preset: None,
            name,
        })
    };
    given.into_iter().map(agent).collect()
}

/// All files of agents: those of the project from the working directory up, then the person's.
pub(crate) fn files(app: &AppContext) -> Vec<AgentFile> {
    let mut found = Vec::new();
    let top = if app.cwd.starts_with(&app.project) { &app.project } else { &app.cwd };
    for dir in app.cwd.ancestors().take_while(|dir| dir.starts_with(top)) {
        for kind in PROJECT {
            look(app, &dir.join(kind), Some(top), &mut found);
        }
    }
    for dir in user_dirs(app) {
        look(app, &dir, None, &mut found);
    }
    found
}

fn user_dirs(app: &AppContext) -> Vec<PathBuf> {
    let own = app.dirs.config.as_ref().map(|dir| dir.join("agents"));
    let others = app.env.path("HOME").map(|home| home.join(".claude/agents"));
    own.into_iter().chain(others).collect()
}

fn look(app: &AppContext, dir: &Path, fence: Option<&Path>, found: &mut Vec<AgentFile>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    for path in paths {
        let how = HostRead { beneath: fence.map(Path::to_path_buf), ..HostRead::whole(MAX_BYTES).own_only() };
        let Ok(file) = app.host_files.read(&path, &how) else { continue };
        let name = match fence {
            Some(_) => path.strip_prefix(&app.project).unwrap_or(&path).display().to_string(),
            None => path.display().to_string(),
        };
        let mut file = AgentFile { name, bytes: file.bytes, is_trusted: true, of_project: fence.is_some() };
        file.is_trusted = fence.is_none() || app.trust.is_trusted(&file.item(&app.project));
        found.push(file);
    }
}

/// The agents of this project that nobody approved.
pub(crate) fn untrusted(app: &AppContext) -> Vec<AgentFile> {
    files(app).into_iter().filter(|file| !file.is_trusted).collect()
}

/// The agents of this project.
pub(crate) fn of_project(app: &AppContext) -> Vec<AgentFile> {
    files(app).into_iter().filter(|file| file.of_project).collect()
}

/// Approves an agent of this project as it is.
pub(crate) fn approve(app: &AppContext, file: &AgentFile) -> Result<(), String> {
    app.trust.approve(&file.item(&app.project)).map_err(|error| error.to_string())
}

/// Returns what sub-agents may be and do. Of each name the first counts: the command line, the project, the
/// person.
pub(crate) fn options(app: &AppContext, provider: &str) -> SpawnOptions {
    let mut agents: Vec<AgentDefinition> = Vec::new();
    let mut untrusted = Vec::new();
    let read = files(app).into_iter().filter_map(|file| {
        if !file.is_trusted {
            untrusted.push(file.name);
            return None;
        }
        file.read()
            .inspect_err(|why| {
                app.notices
                    .show(&format!("warning: the agent {} is left out: {why}", visible_line(&file.name)));
            })
            .ok()
    });
    for mut agent in app.agents.iter().cloned().chain(read) {
        if agents.iter().any(|known| known.name == agent.name) {
            continue;
        }
        if agents.len() == MOST {
            let text = format!("warning: no more than {MOST} agents are used; the others are left out from");
            app.notices.show(&format!("{text} `{}` on", visible_line(&agent.name)));
            break;
        }
        agent.model = agent.model.filter(|model| {
            // A name of another provider's model: the parent's will do.
            let other = model_name::other_provider(&app.settings, Some(provider), model);
            if other.is_some() {
                app.notices.show(&format!(
                    "warning: the agent {} asks for {}, which is another provider's; it has the conversation's model",
                    visible_line(&agent.name),
                    visible_line(model)
                ));
            }
            other.is_none()
        });
        agent.model = agent.model.map(|model| model_name::id_at(&app.settings, provider, &model));
        agents.push(agent);
    }
    if !untrusted.is_empty() {
        app.notices.show(&format!(
            "warning: agents of this project are not trusted, so they are not used: {}. Read them, then run `zk trust add`",
            visible_line(&untrusted.join(", "))
        ));
    }
    SpawnOptions { agents, ..app.settings.agents.options() }
}
