//! Named sub-agents in Markdown files of a project or a person, and in JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{HostFileError, HostFiles, HostRead, Trust, TrustItem, visible_line};

use crate::skill::BundlePlace;
use crate::skill::markdown_fields::{MarkdownFields, tool_names};

/// Kind of a project's agents in the trust store.
const TRUST_KIND: &str = "agent";

/// Directories of a project that contain agents.
const PROJECT_DIRS: [&str; 2] = [".zk/agents", ".claude/agents"];

/// Largest agent file, in bytes.
pub const MAX_AGENT_FILE_BYTES: usize = 256 * 1024;

/// Longest agent name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Fields of an agent, from a file or JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFields {
    /// Name by which a model calls the agent.
    pub name: String,
    /// Description for the model that calls the agent.
    pub description: String,
    /// System prompt.
    pub prompt: String,
    /// Tools under zk's names; `None` for the parent's tools.
    pub tools: Option<Vec<String>>,
    /// Model as written; `None` for the parent's model.
    pub model: Option<String>,
    /// Thinking level; `None` for the parent's.
    pub thinking: Option<ThinkingRequest>,
    /// Maximum number of turns of a run.
    pub max_turns: Option<u32>,
    /// Whether the agent writes to a copy of the project.
    pub isolation: bool,
}

/// Reason why an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentFileError {
    /// The file does not begin with a frontmatter.
    #[error("it has no frontmatter with `name` and `description`")]
    NoFrontmatter,
    /// The name has characters that a call cannot contain.
    #[error("its name `{0}` has other characters than letters, digits and -_.:")]
    Name(String),
    /// The description is missing.
    #[error("it has no `description`")]
    NoDescription,
    /// The limit of turns is no number.
    #[error("its `max_turns` is `{0}`; give a number")]
    MaxTurns(String),
    /// The isolation is unknown.
    #[error("its `isolation` is `{0}`; `worktree` is the only one")]
    Isolation(String),
    /// The thinking level is unknown.
    #[error("its `thinking` is `{level}`; there are {levels}")]
    Thinking {
        /// Level as written.
        level: String,
        /// Known levels.
        levels: String,
    },
    /// A tool is restricted by a pattern; such rules belong in the permission settings.
    #[error("its tool `{0}` has a pattern; name the tool, and put the pattern into [permissions]")]
    ToolPattern(String),
    /// The JSON has a wrong form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] HostFileError),
    /// An agent in a JSON document cannot be used.
    #[error("of `{name}`, {error}")]
    Of {
        /// Name of the agent.
        name: String,
        /// Reason why the agent cannot be used.
        error: Box<AgentFileError>,
    },
}

/// Directories that are searched for agents.
#[derive(Clone, Debug)]
pub struct AgentRoots<'a> {
    /// Working directory of the agent, where the search begins.
    pub cwd: &'a Path,
    /// Root of the project, where the search ends.
    pub project: &'a Path,
    /// The person's own directories, in order of precedence.
    pub user: Vec<PathBuf>,
}

/// The file of an agent.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// Path relative to the project, or the full path of a file of the person.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether the file may be used: always for the person's files, after approval for the project's.
    pub is_trusted: bool,
    /// Whether the file belongs to the project.
    pub is_of_project: bool,
}

impl AgentFile {
    /// Item of the trust store for this file, as an agent of `project`.
    #[must_use]
    pub fn trust_item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: TRUST_KIND, name: &self.name, bytes: &self.bytes }
    }

    /// Description of the agent for the approving person.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.read() {
            Ok(agent) => format!("{}: {}", agent.name, agent.description),
            Err(error) => error.to_string(),
        }
    }

    /// Parses the agent. Its model is as written in the file.
    ///
    /// # Errors
    /// [`AgentFileError`] for the first invalid field.
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
            thinking: parse_thinking(file.text("thinking").or(file.text("effort")))?,
            max_turns: max_turns.transpose()?,
            isolation: is_isolated(file.text("isolation"))?,
        })
    }
}

fn is_isolated(written: Option<&str>) -> Result<bool, AgentFileError> {
    match written {
        None | Some("none") => Ok(false),
        Some("worktree") => Ok(true),
        Some(other) => Err(AgentFileError::Isolation(visible_line(other))),
    }
}

fn parse_thinking(level: Option<&str>) -> Result<Option<ThinkingRequest>, AgentFileError> {
    let Some(level) = level else { return Ok(None) };
    let level = level.parse().map_err(|_| AgentFileError::Thinking {
        level: visible_line(level),
        levels: ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", "),
    })?;
    Ok(Some(ThinkingRequest { level, budget: None }))
}

/// Tools under zk's names.
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

/// Agent in JSON, in the form that other programs use, too.
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
    #[serde(default)]
    isolation: Option<String>,
}

/// Parses a JSON object of agents by name.
///
/// # Errors
/// [`AgentFileError`] for the first invalid agent.
pub fn parse_agents(json: &str) -> Result<Vec<AgentFields>, AgentFileError> {
    let written: BTreeMap<String, WrittenAgent> = serde_json::from_str(json)?;
    let agent = |(name, written): (String, WrittenAgent)| {
        let of = |error| AgentFileError::Of { name: visible_line(&name), error: Box::new(error) };
        Ok(AgentFields {
            tools: written.tools.map(|names| own_tool_names(&names)).transpose().map_err(of)?,
            thinking: parse_thinking(written.thinking.as_deref()).map_err(of)?,
            isolation: is_isolated(written.isolation.as_deref()).map_err(of)?,
            description: written.description,
            prompt: written.prompt,
            model: written.model.filter(|model| model != "inherit"),
            max_turns: written.max_turns,
            name,
        })
    };
    written.into_iter().map(agent).collect()
}

/// Finds agent files: the project's, from the working directory upwards, then the person's. A project's file
/// may be used if `trust` has exactly its bytes. Blocks on the file system.
pub fn agent_files(roots: &AgentRoots<'_>, files: &dyn HostFiles, trust: &dyn Trust) -> Vec<AgentFile> {
    let mut found = Vec::new();
    let top = if roots.cwd.starts_with(roots.project) { roots.project } else { roots.cwd };
    for dir in roots.cwd.ancestors().take_while(|dir| dir.starts_with(top)) {
        for kind in PROJECT_DIRS {
            find_agents_in(&dir.join(kind), Some(top), roots.project, files, &mut found);
        }
    }
    for dir in &roots.user {
        find_agents_in(dir, None, roots.project, files, &mut found);
    }
    for file in &mut found {
        file.is_trusted = !file.is_of_project || trust.is_trusted(&file.trust_item(roots.project));
    }
    found
}

/// Reads an agent of a bundle. Its name gets the bundle's as a prefix, and variables in its prompt are
/// replaced by directories.
///
/// # Errors
/// [`AgentFileError`] for a file that cannot be read, and for the first invalid field.
pub fn bundle_agent(
    path: &Path,
    place: &BundlePlace,
    files: &dyn HostFiles,
) -> Result<AgentFields, AgentFileError> {
    let how = HostRead { beneath: Some(place.root.clone()), ..HostRead::whole(MAX_AGENT_FILE_BYTES) };
    let bytes = files.read(path, &how)?.bytes;
    let name = path.display().to_string();
    let mut fields = AgentFile { name, bytes, is_trusted: true, is_of_project: false }.read()?;
    fields.name = format!("{}:{}", place.name, fields.name);
    for (variable, value) in &place.variables {
        fields.prompt = fields.prompt.replace(&format!("${{{variable}}}"), value);
    }
    Ok(fields)
}

fn find_agents_in(
    dir: &Path,
    fence: Option<&Path>,
    project: &Path,
    files: &dyn HostFiles,
    found: &mut Vec<AgentFile>,
) {
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
