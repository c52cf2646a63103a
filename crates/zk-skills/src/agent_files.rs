//! Named sub-agents as Markdown files of a project and a person, and as JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{HostFiles, HostRead, Trust, TrustItem, visible_line};

use crate::skill::markdown_fields::{MarkdownFields, tool_names};

/// Kind under which agents of a project are approved in the trust store.
const TRUST_KIND: &str = "agent";

/// Directories of a project that hold agents.
const PROJECT_DIRS: [&str; 2] = [".zk/agents", ".claude/agents"];

/// Size limit of a file with an agent, in bytes.
pub const MAX_AGENT_FILE_BYTES: usize = 256 * 1024;

/// Length limit of the name of an agent, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Fields of an agent, by whatever it was written with.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFields {
    /// Name by which a model asks for it.
    pub name: String,
    /// Description for the model that asks for it.
    pub description: String,
    /// System prompt.
    pub prompt: String,
    /// Tools by zk's names for them; nothing for those of the parent.
    pub tools: Option<Vec<String>>,
    /// Model as it is written; nothing for that of the parent.
    pub model: Option<String>,
    /// Level of thinking; nothing for that of the parent.
    pub thinking: Option<ThinkingRequest>,
    /// Limit of its turns.
    pub max_turns: Option<u32>,
}

/// Reason why an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentFileError {
    /// The file does not begin with a frontmatter.
    #[error("it has no frontmatter with `name` and `description`")]
    NoFrontmatter,
    /// The name has characters that no call can have.
    #[error("its name `{0}` has other characters than letters, digits and -_.:")]
    Name(String),
    /// No description says what it is for.
    #[error("it has no `description`")]
    NoDescription,
    /// The limit of turns is no number.
    #[error("its `max_turns` is `{0}`; give a number")]
    MaxTurns(String),
    /// There is no such level of thinking.
    #[error("its `thinking` is `{level}`; there are {levels}")]
    Thinking {
        /// The level as it is written.
        level: String,
        /// The levels there are.
        levels: String,
    },
    /// A tool is limited by a pattern, which is a matter of permissions.
    #[error("its tool `{0}` has a pattern; name the tool, and put the pattern into [permissions]")]
    ToolPattern(String),
    /// The JSON has another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// One agent of a JSON document cannot be used.
    #[error("of `{name}`, {error}")]
    Of {
        /// The agent.
        name: String,
        /// Reason why it cannot be used.
        error: Box<AgentFileError>,
    },
}

/// Places that are searched for agents.
#[derive(Clone, Debug)]
pub struct AgentRoots<'a> {
    /// The directory that the agent works in: the innermost place that is searched.
    pub cwd: &'a Path,
    /// The root of the project: the outermost one.
    pub project: &'a Path,
    /// The person's own directories, the first before the others.
    pub user: Vec<PathBuf>,
}

/// The file of an agent.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// The path relative to the project, or the whole path of one of the person's.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether it counts: the person's always, those of the project once approved.
    pub is_trusted: bool,
    /// Whether it is the project's.
    pub is_of_project: bool,
}

impl AgentFile {
    /// The file as an item of the trust store, for an agent of `project`.
    #[must_use]
    pub fn trust_item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: TRUST_KIND, name: &self.name, bytes: &self.bytes }
    }

    /// Describes the agent for a person before they approve it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.read() {
            Ok(agent) => format!("{}: {}", agent.name, agent.description),
            Err(error) => error.to_string(),
        }
    }

    /// Reads the agent, with its model as the file calls it.
    ///
    /// # Errors
    /// [`AgentFileError`] for the first field that cannot be used.
    pub fn read(&self) -> Result<AgentFields, AgentFileError> {
        let text = String::from_utf8_lossy(&self.bytes);
        let file = MarkdownFields::read(&text).ok_or(AgentFileError::NoFrontmatter)?;
        let stem = Path::new(&self.name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = file.text("name").unwrap_or(stem).to_owned();
        let is_usable = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_usable) {
            return Err(AgentFileError::Name(visible_line(&name)));
        }
        let description = file.text("description").ok_or(AgentFileError::NoDescription)?.to_owned();
        let tools = file.fields.contains_key("tools").then(|| file.words("tools"));
        let turns = file.text("max_turns").or(file.text("maxTurns")).or(file.text("max-turns"));
        let max_turns =
            turns.map(|turns| turns.parse().map_err(|_| AgentFileError::MaxTurns(visible_line(turns))));
        Ok(AgentFields {
            name,
            description,
            prompt: file.body.trim().to_owned(),
            tools: tools.map(|names| own_tool_names(&names)).transpose()?,
            model: file.text("model").filter(|model| *model != "inherit").map(str::to_owned),
            thinking: thinking(file.text("thinking").or(file.text("effort")))?,
            max_turns: max_turns.transpose()?,
        })
    }
}

fn thinking(level: Option<&str>) -> Result<Option<ThinkingRequest>, AgentFileError> {
    let Some(level) = level else { return Ok(None) };
    let level = level.parse().map_err(|_| AgentFileError::Thinking {
        level: visible_line(level),
        levels: ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", "),
    })?;
    Ok(Some(ThinkingRequest { level, budget: None }))
}

/// Tools by zk's names for them.
fn own_tool_names(names: &[String]) -> Result<Vec<String>, AgentFileError> {
    let mut tools = Vec::new();
    for name in names {
        let known = tool_names(name);
        if known.is_empty() {
            return Err(AgentFileError::ToolPattern(visible_line(name)));
        }
        tools.extend(known);
    }
    Ok(tools)
}

/// An agent as JSON, as other programs write it, too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAgent {
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

/// Reads the agents of a JSON document, an object of them by their names.
///
/// # Errors
/// [`AgentFileError`] for the first one that cannot be used.
pub fn parse_agents(json: &str) -> Result<Vec<AgentFields>, AgentFileError> {
    let written: BTreeMap<String, WrittenAgent> = serde_json::from_str(json)?;
    let agent = |(name, written): (String, WrittenAgent)| {
        let of = |error| AgentFileError::Of { name: visible_line(&name), error: Box::new(error) };
        Ok(AgentFields {
            tools: written.tools.map(|names| own_tool_names(&names)).transpose().map_err(of)?,
            thinking: thinking(written.thinking.as_deref()).map_err(of)?,
            description: written.description,
            prompt: written.prompt,
            model: written.model.filter(|model| model != "inherit"),
            max_turns: written.max_turns,
            name,
        })
    };
    written.into_iter().map(agent).collect()
}

/// Finds the files of agents: those of the project from the working directory up, then the person's. The project's count
/// as far as `trust` has exactly their bytes. Blocks for as long as the file system does.
pub fn agent_files(roots: &AgentRoots<'_>, files: &dyn HostFiles, trust: &dyn Trust) -> Vec<AgentFile> {
    let mut found = Vec::new();
    let top = if roots.cwd.starts_with(roots.project) { roots.project } else { roots.cwd };
    for dir in roots.cwd.ancestors().take_while(|dir| dir.starts_with(top)) {
        for kind in PROJECT_DIRS {
            look(&dir.join(kind), Some(top), roots.project, files, &mut found);
        }
    }
    for dir in &roots.user {
        look(dir, None, roots.project, files, &mut found);
    }
    for file in &mut found {
        file.is_trusted = !file.is_of_project || trust.is_trusted(&file.trust_item(roots.project));
    }
    found
}

fn look(dir: &Path, fence: Option<&Path>, project: &Path, files: &dyn HostFiles, found: &mut Vec<AgentFile>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    for path in paths {
        let how = HostRead {
            beneath: fence.map(Path::to_path_buf),
            ..HostRead::whole(MAX_AGENT_FILE_BYTES).own_only()
        };
        let Ok(file) = files.read(&path, &how) else { continue };
        let name = match fence {
            Some(_) => path.strip_prefix(project).unwrap_or(&path).display().to_string(),
            None => path.display().to_string(),
        };
        found.push(AgentFile { name, bytes: file.bytes, is_trusted: false, is_of_project: fence.is_some() });
    }
}
