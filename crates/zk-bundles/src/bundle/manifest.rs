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

/// Keys whose values are texts.
const TEXT_KEYS: [&str; 8] =
    ["displayName", "version", "description", "homepage", "repository", "license", "category", "icon"];

/// Keys of unsupported parts, with their names for a person.
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
    /// Hooks in addition to `hooks/hooks.json`.
    pub(crate) hooks: Vec<Written>,
    /// Servers in addition to `.mcp.json`.
    pub(crate) servers: Vec<Written>,
    /// Unsupported parts.
    pub(crate) unserved: Vec<String>,
    /// Notes for the author.
    pub(crate) notes: Vec<String>,
}

/// Commands of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Files and directories.
    Paths(Vec<String>),
    /// Names with their files and descriptions.
    Named(Vec<(String, String, Option<String>)>),
}

/// Part in a file of its own, or in the manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
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
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
        let Value::Object(fields) = value else { return Err(wrong("it is no JSON object")) };
        let name = fields.get("name").ok_or_else(|| wrong("it has no `name`"))?;
        let name = name.as_str().ok_or_else(|| wrong("`name` must be a text"))?;
        if !is_bundle_name(name) {
            return Err(wrong(format!(
                "`{}` is no name for a plugin: use letters, digits, `-`, `_` and `.`",
                visible_line(name)
            )));
        }
        let mut manifest = Self { name: name.to_owned(), ..Self::default() };
        manifest.read_texts(&fields)?;
        manifest.commands = fields.get("commands").map(commands).transpose()?;
        manifest.agents = fields.get("agents").map(agents).transpose()?;
        manifest.skills =
            fields.get("skills").map(|value| paths("skills", value)).transpose()?.unwrap_or_default();
        manifest.hooks =
            fields.get("hooks").map(|value| written("hooks", value)).transpose()?.unwrap_or_default();
        let servers = fields.get("mcpServers").map(|value| written("mcpServers", value)).transpose()?;
        manifest.servers = servers.unwrap_or_default();
        manifest.options = fields.get("userConfig").map(options).transpose()?.unwrap_or_default();
        for (key, what) in UNSERVED_KEYS {
            if fields.get(key).is_some_and(|value| !is_empty(value)) {
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
                return Err(wrong(format!("`{key}` must be a text")));
            }
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        (self.version, self.description) = (text("version"), text("description"));
        if let Some(author) = fields.get("author") {
            let name = author.as_object().and_then(|author| author.get("name")).and_then(Value::as_str);
            let why = || wrong("`author` must be an object with a text `name`");
            self.author = Some(name.ok_or_else(why)?.to_owned());
        }
        for key in ["keywords", "tags"] {
            let is_texts =
                |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
            if fields.get(key).is_some_and(|value| !is_texts(value)) {
                return Err(wrong(format!("`{key}` must be a list of texts")));
            }
        }
        Ok(())
    }
}

fn wrong(why: impl Into<String>) -> BundleError {
    BundleError::Manifest { why: why.into() }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Path below the bundle's root: it begins with `./` and has no `..`.
pub(crate) fn below_root(key: &str, text: &str) -> Result<String, BundleError> {
    let refused = |why: &str| wrong(format!("`{key}` has the path `{}`, which {why}", visible_line(text)));
    let below = text.strip_prefix("./").ok_or_else(|| refused("does not begin with `./`"))?;
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") || below.contains('\\') {
        return Err(refused("leads out of the plugin"));
    }
    Ok(parts.join("/"))
}

fn paths(key: &str, value: &Value) -> Result<Vec<String>, BundleError> {
    let one = |value: &Value| {
        let text =
            value.as_str().ok_or_else(|| wrong(format!("`{key}` must be a path or a list of paths")))?;
        below_root(key, text)
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Ok(vec![one(value)?])
        }
    }
}

fn agents(value: &Value) -> Result<Vec<String>, BundleError> {
    let paths = paths("agents", value)?;
    match paths.iter().find(|path| !path.ends_with(".md")) {
        Some(path) => {
            Err(wrong(format!("`agents` has the path `./{}`, which is no .md file", visible_line(path))))
        }
        None => Ok(paths),
    }
}

fn commands(value: &Value) -> Result<Commands, BundleError> {
    let Value::Object(named) = value else { return Ok(Commands::Paths(paths("commands", value)?)) };
    let one = |(name, command): (&String, &Value)| {
        let source = command.get("source").and_then(Value::as_str);
        let shown = visible_line(name);
        let source = source.ok_or_else(|| wrong(format!("the command `{shown}` has no text `source`")))?;
        let description = command.get("description").and_then(Value::as_str).map(str::to_owned);
        Ok((name.clone(), below_root("commands", source)?, description))
    };
    named.iter().map(one).collect::<Result<_, _>>().map(Commands::Named)
}

fn written(key: &str, value: &Value) -> Result<Vec<Written>, BundleError> {
    let one = |value: &Value| match value {
        Value::String(path) => below_root(key, path).map(Written::File),
        Value::Object(_) => Ok(Written::Inline(value.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(wrong(format!("`{key}` must be a path, an object, or a list of these")))
        }
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Ok(vec![one(value)?])
        }
    }
}

fn options(value: &Value) -> Result<BTreeMap<String, OptionField>, BundleError> {
    let fields = value.as_object().ok_or_else(|| wrong("`userConfig` must be an object"))?;
    let one = |(key, field): (&String, &Value)| {
        let shown = visible_line(key);
        let field =
            field.as_object().ok_or_else(|| wrong(format!("`userConfig.{shown}` must be an object")))?;
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
