//! Bundle with its directories on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Bundle, ServerPart};

/// Environment variables with the directory of a bundle, and with the directory of its data.
const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";
const DATA_VARIABLE: &str = "CLAUDE_PLUGIN_DATA";
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// Prefix of the environment variables with the values of a bundle's options.
const OPTION_PREFIX: &str = "CLAUDE_PLUGIN_OPTION_";

/// Bundle with its directories and the values of its options.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedBundle {
    /// Parts of the bundle.
    pub bundle: Bundle,
    /// Canonical directory of the bundle.
    pub root: PathBuf,
    /// Directory for its data, which survives updates.
    pub data: PathBuf,
    /// Values of its options, by key.
    pub options: BTreeMap<String, String>,
}

/// Variables that are expanded in the texts of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    values: Vec<(String, String)>,
    options: BTreeMap<String, String>,
}

impl PlacedBundle {
    /// Full path of a file of the bundle.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        if below.is_empty() { self.root.clone() } else { self.root.join(below) }
    }

    /// Sets options from variables of zk's environment, so that secrets need not be stored in files.
    pub fn read_options(&mut self, lookup: &dyn Fn(&str) -> Option<String>) {
        for (key, field) in &self.bundle.manifest.options {
            let variable = option_variable(key);
            let value =
                lookup(&variable).or_else(|| self.options.get(key).cloned()).or(field.default.clone());
            if let Some(value) = value {
                self.options.insert(key.clone(), value);
            }
        }
    }

    /// Options without a value, by key.
    pub fn unset_options(&self) -> impl Iterator<Item = &str> {
        let keys = self.bundle.manifest.options.keys();
        keys.filter(|key| !self.options.contains_key(*key)).map(String::as_str)
    }

    /// Values of options that are secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let sensitive = self.bundle.manifest.options.iter().filter(|(_, field)| field.is_sensitive);
        sensitive.filter_map(|(key, _)| self.options.get(key)).map(String::as_str)
    }

    /// Returns the bundle's variables in this project.
    #[must_use]
    pub fn variables(&self, project: &Path) -> Variables {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let values = vec![
            (ROOT_VARIABLE.to_owned(), text(&self.root)),
            (DATA_VARIABLE.to_owned(), text(&self.data)),
            (PROJECT_VARIABLE.to_owned(), text(project)),
        ];
        Variables { values, options: self.options.clone() }
    }

    /// Returns the definition of a server with the bundle's variables expanded, and added to its environment.
    #[must_use]
    pub fn server_definition(&self, server: &ServerPart, project: &Path) -> Value {
        let variables = self.variables(project);
        let mut definition = variables.expand_all(&server.definition);
        let is_program = definition.get("command").is_some();
        if let Some(fields) = definition.as_object_mut().filter(|_| is_program) {
            let env = fields.entry("env").or_insert_with(|| json!({}));
            if let Some(env) = env.as_object_mut() {
                env.extend(variables.env().map(|(name, value)| (name, Value::String(value))));
            }
        }
        definition
    }
}

/// Name of the environment variable with the value of an option.
fn option_variable(key: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{OPTION_PREFIX}{}", key.chars().map(upper).collect::<String>())
}

impl Variables {
    /// Expands the variables of the bundle in a text, such as `${CLAUDE_PLUGIN_ROOT}`. Other variables are kept.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        let replaced =
            |text: String, (name, value): &(String, String)| text.replace(&format!("${{{name}}}"), value);
        self.values.iter().fold(text.to_owned(), replaced)
    }

    /// Expands variables like [`expand`](Self::expand), and `${user_config.KEY}`, in every text of a value.
    #[must_use]
    pub fn expand_all(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let option = |text: String, (key, value): (&String, &String)| {
                    text.replace(&format!("${{user_config.{key}}}"), value)
                };
                Value::String(self.options.iter().fold(self.expand(text), option))
            }
            Value::Array(items) => items.iter().map(|item| self.expand_all(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), self.expand_all(value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Directories of the bundle and of the project, each with the name of its variable. Options are not
    /// included.
    #[must_use]
    pub fn directories(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Environment of the bundle's processes.
    pub fn env(&self) -> impl Iterator<Item = (String, String)> {
        let options = self.options.iter().map(|(key, value)| (option_variable(key), value.clone()));
        self.values.iter().cloned().chain(options)
    }
}
