//! Parts of a bundle, as plain data.

mod hooks;
pub(crate) mod manifest;
pub(crate) mod placed;
mod servers;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zk_core::service::visible_line;

use crate::tree::{Tree, TreeError};
use manifest::{Commands, MANIFEST_FILE, Manifest};

/// Longest name of a bundle, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Files and directories in a bundle that only other programs use, with their names for a person.
const UNSERVED_PLACES: [(&str, &str); 7] = [
    ("output-styles", "output styles"),
    ("themes", "themes"),
    ("monitors", "monitors"),
    ("workflows", "workflows"),
    (".lsp.json", "language servers"),
    ("settings.json", "settings for the host"),
    ("bin", "programs for the PATH of commands"),
];

/// Reason why files are not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The manifest cannot be used.
    #[error(".claude-plugin/plugin.json: {why}")]
    Manifest {
        /// Description of the error.
        why: String,
    },
    /// A file of hooks or servers cannot be used.
    #[error("{place}: {why}")]
    Part {
        /// Path of the file, or the manifest's key.
        place: String,
        /// Description of the error.
        why: String,
    },
    /// The directory's name cannot be the name of a bundle without a manifest.
    #[error("`{0}` is no name for a plugin; give it a .claude-plugin/plugin.json with a `name`")]
    Name(String),
    /// The directory contains no part of a bundle.
    #[error("it has no plugin.json, and no commands, agents, skills, hooks or MCP servers: it is no plugin")]
    Nothing,
    /// The files cannot be a bundle.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Command in a file: `plugin:command`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPart {
    /// Name with the bundle's name as a prefix.
    pub name: String,
    /// Path of the file below the root.
    pub path: String,
    /// Description in the manifest, which overrides the file's.
    pub description: Option<String>,
}

/// Agent in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPart {
    /// Path of the file below the root.
    pub path: String,
}

/// Hooks of one file, or of the manifest: lists of matchers by event.
#[derive(Clone, Debug, PartialEq)]
pub struct HookPart {
    /// Path of the file, or the manifest's key.
    pub place: String,
    /// Matchers by event.
    pub events: Value,
}

/// MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPart {
    /// Name: `plugin:BUNDLE:SERVER`.
    pub name: String,
    /// Definition as in `.mcp.json`.
    pub definition: Value,
}

/// Contents of a bundle. The texts of commands, agents and skills are not read yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// Fields of the manifest.
    pub manifest: Manifest,
    /// Commands.
    pub commands: Vec<CommandPart>,
    /// Agents.
    pub agents: Vec<AgentPart>,
    /// Directories of skills below the root; empty for the root itself.
    pub skills: Vec<String>,
    /// Hooks.
    pub hooks: Vec<HookPart>,
    /// MCP servers.
    pub servers: Vec<ServerPart>,
    /// Unsupported parts, for a person.
    pub unserved: Vec<String>,
    /// Notes for the author: unknown keys, missing paths, and names that cannot be typed.
    pub notes: Vec<String>,
    /// SHA-256 of all files.
    pub digest: String,
}

/// Whether a text can be a bundle's name.
#[must_use]
pub fn is_bundle_name(name: &str) -> bool {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_usable)
}

impl Bundle {
    /// Reads the bundle in a tree. Without a manifest it has the name of its directory.
    ///
    /// # Errors
    /// [`BundleError`] for a manifest, hooks or servers that cannot be used, and for files that are no bundle.
    pub fn read(tree: &Tree, directory: &str) -> Result<Self, BundleError> {
        let mut manifest = match tree.get(MANIFEST_FILE) {
            Some(file) => Manifest::read(&file.bytes)?,
            None if is_bundle_name(directory) => {
                Manifest { name: directory.to_owned(), ..Manifest::default() }
            }
            None => return Err(BundleError::Name(visible_line(directory))),
        };
        let (unserved, notes) = (std::mem::take(&mut manifest.unserved), std::mem::take(&mut manifest.notes));
        let digest = tree.digest();
        let mut bundle = Self { manifest, unserved, notes, digest, ..Self::default() };
        bundle.find_commands(tree);
        bundle.find_agents(tree);
        bundle.find_skills(tree)?;
        hooks::read_hooks(&mut bundle, tree)?;
        servers::read_servers(&mut bundle, tree)?;
        for (place, what) in UNSERVED_PLACES {
            if tree.get(place).is_some() || tree.has_dir(place) {
                bundle.unserved.push(format!("{what} (`{place}`)"));
            }
        }
        if tree.get(MANIFEST_FILE).is_none() && bundle.is_empty() {
            return Err(BundleError::Nothing);
        }
        Ok(bundle)
    }

    /// Name of the bundle.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Whether the bundle has no supported part.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
            && self.agents.is_empty()
            && self.skills.is_empty()
            && self.hooks.is_empty()
            && self.servers.is_empty()
    }

    /// Names of environment variables that the definitions of servers use.
    #[must_use]
    pub fn environment_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        // A definition may contain a default value.
        let defaults = self.manifest.options.values().filter_map(|option| option.default.clone());
        let definitions = self.servers.iter().map(|server| server.definition.to_string());
        for text in definitions.chain(defaults) {
            for part in text.split("${").skip(1) {
                let name: String =
                    part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let is_closed = part.get(name.len()..).is_some_and(|rest| rest.starts_with(['}', ':']));
                if !name.is_empty() && is_closed && !name.starts_with("CLAUDE_") {
                    names.insert(name);
                }
            }
        }
        names
    }

    fn find_commands(&mut self, tree: &Tree) {
        let mut found: BTreeMap<String, CommandPart> = BTreeMap::new();
        let mut listed: Vec<(String, String, Option<String>)> = Vec::new();
        let in_dir = |dir: &str| -> Vec<(String, String, Option<String>)> {
            let files = tree.below(dir).filter_map(|(below, _)| {
                let name = below.strip_suffix(".md")?.replace('/', ":");
                let path = if dir.is_empty() { below.to_owned() } else { format!("{dir}/{below}") };
                Some((name, path, None))
            });
            files.collect()
        };
        match self.manifest.commands.clone() {
            None => listed.extend(in_dir("commands")),
            Some(Commands::Named(named)) => listed.extend(named),
            Some(Commands::Paths(paths)) => {
                for path in paths {
                    let file = path.rsplit('/').next().unwrap_or(&path);
                    match file.strip_suffix(".md").filter(|_| tree.get(&path).is_some()) {
                        Some(stem) => listed.push((stem.to_owned(), path, None)),
                        None => match in_dir(&path) {
                            files if files.is_empty() => self.note_missing_path("commands", &path),
                            files => listed.extend(files),
                        },
                    }
                }
            }
        }
        for (name, path, description) in listed {
            let is_typed = |c: char| c.is_alphanumeric() || "-_:.".contains(c);
            if name.is_empty() || !name.chars().all(is_typed) {
                self.notes.push(format!("{}: a command of that name cannot be typed", visible_line(&path)));
                continue;
            }
            if tree.get(&path).is_none() {
                self.note_missing_path("commands", &path);
                continue;
            }
            let name = format!("{}:{name}", self.manifest.name);
            found.entry(name.clone()).or_insert(CommandPart { name, path, description });
        }
        self.commands = found.into_values().collect();
    }

    fn find_agents(&mut self, tree: &Tree) {
        let paths: Vec<String> = match self.manifest.agents.clone() {
            Some(paths) => paths,
            None => {
                let files =
                    tree.below("agents").filter(|(path, _)| path.ends_with(".md") && !path.contains('/'));
                files.map(|(path, _)| format!("agents/{path}")).collect()
            }
        };
        for path in paths {
            match tree.get(&path) {
                Some(_) => self.agents.push(AgentPart { path }),
                None => self.note_missing_path("agents", &path),
            }
        }
    }

    fn find_skills(&mut self, tree: &Tree) -> Result<(), BundleError> {
        let mut dirs = BTreeSet::new();
        if tree.get("SKILL.md").is_some() {
            dirs.insert(String::new());
        }
        let listed = self.manifest.skills.clone();
        for dir in std::iter::once("skills".to_owned()).chain(listed.iter().cloned()) {
            if !dir.is_empty() && tree.get(&dir).is_some() {
                let why = format!(
                    "`skills` has the path `./{}`, which is a file, not a directory",
                    visible_line(&dir)
                );
                return Err(BundleError::Manifest { why });
            }
            let own = if dir.is_empty() { "SKILL.md".to_owned() } else { format!("{dir}/SKILL.md") };
            if tree.get(&own).is_some() {
                dirs.insert(dir);
                continue;
            }
            let below = tree.below(&dir).filter_map(|(path, _)| path.strip_suffix("/SKILL.md"));
            let below: Vec<String> = below.filter(|path| !path.contains('/')).map(str::to_owned).collect();
            if below.is_empty() && listed.contains(&dir) {
                self.note_missing_path("skills", &dir);
            }
            let join = |name| if dir.is_empty() { name } else { format!("{dir}/{name}") };
            dirs.extend(below.into_iter().map(join));
        }
        self.skills = dirs.into_iter().collect();
        Ok(())
    }

    fn note_missing_path(&mut self, key: &str, path: &str) {
        self.notes.push(format!("`{key}` names ./{}, which is not there", visible_line(path)));
    }
}
