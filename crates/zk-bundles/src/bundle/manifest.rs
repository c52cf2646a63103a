//! `.claude-plugin/plugin.json`, as data.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use zk_core::service::visible_line;

use super::{BundleError, is_bundle_name};

/// Path of the manifest in a bundle.
pub(crate) const MANIFEST_FILE: &str = ".claude-plugin/plugin.json";

/// Keys that a manifest may have; others are ignored with a note.
const KNOWN_KEYS: [&str; 32] = [
    "$schema",
    "name",
    "displayName",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "category",
    "tags",
    "icon",
    "source",
    "strict",
    "defaultEnabled",
    "engines",
    "dependencies",
    "settings",
    "userConfig",
    "commands",
    "agents",
    "skills",
    "hooks",
    "mcpServers",
    "lspServers",
    "outputStyles",
    "themes",
    "monitors",
    "workflows",
    "channels",
    "experimental",
];

/// Keys of the manifest whose values are strings.
const TEXT_KEYS: [&str; 8] =
    ["displayName", "version", "description", "homepage", "repository", "license", "category", "icon"];

/// Keys of the manifest for parts that zk does not support, with their names for a person.
const UNSERVED_KEYS: [(&str, &str); 9] = [
    ("lspServers", "language servers"),
    ("outputStyles", "output styles"),
    ("themes", "themes"),
    ("monitors", "monitors"),
    ("workflows", "workflows"),
    ("channels", "channels"),
    ("settings", "settings for the host"),
    ("dependencies", "plugins that it depends on"),
    ("experimental", "experimental parts"),
];

/// Fields of a manifest. Paths are below the bundle's root, without `./`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Name of the bundle.
    pub name: String,
    /// Version as written.
    pub version: Option<String>,
    /// Description for a person.
    pub description: Option<String>,
    /// Name of the author.
    pub author: Option<String>,
    /// Options that a person may set, by key.
    pub options: BTreeMap<String, OptionField>,
    /// Commands that replace the directory `commands`.
    pub(crate) commands: Option<Commands>,
    /// Agents that replace the directory `agents`.
    pub(crate) agents: Option<Vec<String>>,
    /// Directories of skills in addition to the directory `skills`.
    pub(crate) skills: Vec<String>,
    /// Hooks in addition to those of `hooks/hooks.json`.
    pub(crate) hooks: Vec<ManifestPart>,
    /// MCP servers in addition to those of `.mcp.json`.
    pub(crate) servers: Vec<ManifestPart>,
    /// Unsupported parts.
    pub(crate) unserved: Vec<String>,
    /// Notes for the author.
    pub(crate) notes: Vec<String>,
}

/// Commands that a manifest lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Files and directories.
    Paths(Vec<String>),
    /// Names with their files and descriptions.
    Named(Vec<(String, String, Option<String>)>),
}

/// Hooks or servers of a manifest: in a separate file, or inline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ManifestPart {
    /// Path of the file.
    File(String),
    /// Value in the manifest.
    Inline(Value),
}

/// Option that a person may set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionField {
    /// Title for a person.
    pub title: Option<String>,
    /// Default value.
    pub default: Option<String>,
    /// Whether the value is a secret.
    pub is_sensitive: bool,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// [`BundleError`] for broken JSON, a wrong type of a known key, and a path that is not below the bundle.
    pub fn read(bytes: &[u8]) -> Result<Self, BundleError> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| invalid_manifest(format!("it is no JSON: {error}")))?;
        let Value::Object(fields) = value else { return Err(invalid_manifest("it is no JSON object")) };
        let name = fields.get("name").ok_or_else(|| invalid_manifest("it has no `name`"))?;
        let name = name.as_str().ok_or_else(|| invalid_manifest("`name` must be a text"))?;
        if !is_bundle_name(name) {
            return Err(invalid_manifest(format!(
                "`{}` is no name for a plugin: use letters, digits, `-`, `_` and `.`",
                visible_line(name)
            )));
        }
        let mut manifest = Self { name: name.to_owned(), ..Self::default() };
        manifest.read_texts(&fields)?;
        manifest.commands = fields.get("commands").map(parse_commands).transpose()?;
        manifest.agents = fields.get("agents").map(parse_agents).transpose()?;
        manifest.skills =
            fields.get("skills").map(|value| parse_paths("skills", value)).transpose()?.unwrap_or_default();
        manifest.hooks =
            fields.get("hooks").map(|value| parse_parts("hooks", value)).transpose()?.unwrap_or_default();
        let servers = fields.get("mcpServers").map(|value| parse_parts("mcpServers", value)).transpose()?;
        manifest.servers = servers.unwrap_or_default();
        manifest.options = fields.get("userConfig").map(parse_options).transpose()?.unwrap_or_default();
        for (key, what) in UNSERVED_KEYS {
            if fields.get(key).is_some_and(|value| !is_empty_value(value)) {
                manifest.unserved.push(format!("{what} (`{key}`)"));
            }
        }
        let unknown = fields.keys().filter(|key| !KNOWN_KEYS.contains(&key.as_str()));
        manifest
            .notes
            .extend(unknown.map(|key| format!("`{}` is no known key and is ignored", visible_line(key))));
        Ok(manifest)
    }

    fn read_texts(&mut self, fields: &Map<String, Value>) -> Result<(), BundleError> {
        for key in TEXT_KEYS {
            if fields.get(key).is_some_and(|value| !value.is_string()) {
                return Err(invalid_manifest(format!("`{key}` must be a text")));
            }
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        (self.version, self.description) = (text("version"), text("description"));
        if let Some(author) = fields.get("author") {
            let name = author.as_object().and_then(|author| author.get("name")).and_then(Value::as_str);
            let why = || invalid_manifest("`author` must be an object with a text `name`");
            self.author = Some(name.ok_or_else(why)?.to_owned());
        }
        for key in ["keywords", "tags"] {
            let is_texts =
                |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
            if fields.get(key).is_some_and(|value| !is_texts(value)) {
                return Err(invalid_manifest(format!("`{key}` must be a list of texts")));
            }
        }
        Ok(())
    }
}

fn invalid_manifest(why: impl Into<String>) -> BundleError {
    BundleError::Manifest { why: why.into() }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Checks that a path begins with `./` and has no `..`; returns it without the `./`.
pub(crate) fn below_root(key: &str, text: &str) -> Result<String, BundleError> {
    let refused =
        |why: &str| invalid_manifest(format!("`{key}` has the path `{}`, which {why}", visible_line(text)));
    let below = text.strip_prefix("./").ok_or_else(|| refused("does not begin with `./`"))?;
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") || below.contains('\\') {
        return Err(refused("leads out of the plugin"));
    }
    Ok(parts.join("/"))
}

fn parse_paths(key: &str, value: &Value) -> Result<Vec<String>, BundleError> {
    let one = |value: &Value| {
        let text = value
            .as_str()
            .ok_or_else(|| invalid_manifest(format!("`{key}` must be a path or a list of paths")))?;
        below_root(key, text)
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Ok(vec![one(value)?])
        }
    }
}

fn parse_agents(value: &Value) -> Result<Vec<String>, BundleError> {
    let paths = parse_paths("agents", value)?;
    match paths.iter().find(|path| !path.ends_with(".md")) {
        Some(path) => Err(invalid_manifest(format!(
            "`agents` has the path `./{}`, which is no .md file",
            visible_line(path)
        ))),
        None => Ok(paths),
    }
}

fn parse_commands(value: &Value) -> Result<Commands, BundleError> {
    let Value::Object(named) = value else { return Ok(Commands::Paths(parse_paths("commands", value)?)) };
    let one = |(name, command): (&String, &Value)| {
        let source = command.get("source").and_then(Value::as_str);
        let shown = visible_line(name);
        let source =
            source.ok_or_else(|| invalid_manifest(format!("the command `{shown}` has no text `source`")))?;
        let description = command.get("description").and_then(Value::as_str).map(str::to_owned);
        Ok((name.clone(), below_root("commands", source)?, description))
    };
    named.iter().map(one).collect::<Result<_, _>>().map(Commands::Named)
}

fn parse_parts(key: &str, value: &Value) -> Result<Vec<ManifestPart>, BundleError> {
    let one = |value: &Value| match value {
        Value::String(path) => below_root(key, path).map(ManifestPart::File),
        Value::Object(_) => Ok(ManifestPart::Inline(value.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(invalid_manifest(format!("`{key}` must be a path, an object, or a list of these")))
        }
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Ok(vec![one(value)?])
        }
    }
}

fn parse_options(value: &Value) -> Result<BTreeMap<String, OptionField>, BundleError> {
    let fields = value.as_object().ok_or_else(|| invalid_manifest("`userConfig` must be an object"))?;
    let one = |(key, field): (&String, &Value)| {
        let shown = visible_line(key);
        let field = field
            .as_object()
            .ok_or_else(|| invalid_manifest(format!("`userConfig.{shown}` must be an object")))?;
        let default = match field.get("default") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let title = field.get("title").or(field.get("description")).and_then(Value::as_str);
        let is_sensitive = field.get("sensitive").and_then(Value::as_bool).unwrap_or(false);
        Ok((key.clone(), OptionField { title: title.map(str::to_owned), default, is_sensitive }))
    };
    fields.iter().map(one).collect()
}
