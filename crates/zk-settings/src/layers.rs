use std::collections::BTreeMap;
use std::fmt;

use secrecy::SecretString;

/// Layer of settings; later layers override earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Defaults of the program.
    Default,
    /// Environment variables.
    Environment,
    /// The person's own settings file.
    User,
    /// The settings file that a project shares.
    Project,
    /// A person's private settings file within a project.
    ProjectLocal,
    /// The person's choice in a conversation, kept for the directory.
    Kept,
    /// A preset of the project.
    ProjectPreset,
    /// A preset of the person, or one built into zk.
    Preset,
    /// Command-line flags, and the file that a flag names.
    CommandLine,
    /// The settings file of the machine's administrator.
    Managed,
}

impl Layer {
    /// Whether an author of the project controls this layer.
    #[must_use]
    pub fn is_project(self) -> bool {
        match self {
            Self::Project | Self::ProjectLocal | Self::ProjectPreset => true,
            Self::Default
            | Self::User
            | Self::Environment
            | Self::Kept
            | Self::Preset
            | Self::CommandLine
            | Self::Managed => false,
        }
    }
}

/// Origin of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Layer of the value.
    pub layer: Layer,
    /// Name of the file, flag or environment variable.
    pub place: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Layer::Default => f.write_str("default"),
            Layer::User => write!(f, "user: {}", self.place),
            Layer::Project => write!(f, "project: {}", self.place),
            Layer::ProjectLocal => write!(f, "project-local: {}", self.place),
            Layer::Kept => write!(f, "kept for this directory: {}", self.place),
            Layer::ProjectPreset | Layer::Preset => write!(f, "preset: {}", self.place),
            Layer::Environment => write!(f, "environment: {}", self.place),
            Layer::CommandLine => write!(f, "command line: {}", self.place),
            Layer::Managed => write!(f, "managed: {}", self.place),
        }
    }
}

/// One setting: a value that is not a table.
#[derive(Clone)]
pub struct Entry {
    /// Value of the setting; empty for a credential.
    pub value: toml::Value,
    /// Value of a credential, stored separately so that only its consumer gets it.
    pub key: Option<SecretString>,
    /// Origin of the value.
    pub origin: Origin,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value is omitted, since it may be a secret.
        f.debug_struct("Entry").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns the value if it is a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.as_str()
    }
}

/// Leaves of the merged tables by path. Storing leaves makes the merge deep, and gives each value its own
/// origin.
#[derive(Clone, Default)]
pub(crate) struct Layers(BTreeMap<Vec<String>, Entry>);

impl Layers {
    /// Sets a value, and replaces any value or table at the path or on the way to it. A credential's text is
    /// stored separately, so that no table contains it.
    pub(crate) fn set(&mut self, key: Vec<String>, value: toml::Value, origin: Origin, is_credential: bool) {
        self.0.retain(|old, _| *old == key || !(old.starts_with(&key) || key.starts_with(old)));
        let entry = match value {
            toml::Value::String(text) if is_credential => {
                Entry { value: toml::Value::String(String::new()), key: Some(text.into()), origin }
            }
            value => Entry { value, key: None, origin },
        };
        self.0.insert(key, entry);
    }

    /// Whether a higher layer sets `key`, a key below it, or one of the tables it is in.
    pub(crate) fn is_outranked(&self, key: &[String], layer: Layer) -> bool {
        let related = |old: &[String]| old.starts_with(key) || key.starts_with(old);
        self.0.iter().any(|(old, entry)| related(old) && entry.origin.layer > layer)
    }

    pub(crate) fn at(&self, key: &[String]) -> Option<&Entry> {
        self.0.get(key)
    }

    /// Returns the value at a dotted path.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.at(&key.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[String], &Entry)> {
        self.0.iter().map(|(key, entry)| (key.as_slice(), entry))
    }
}

/// Returns the leaves of a table with their paths. An empty table is a leaf, since it shows that the table is
/// present.
#[must_use]
pub fn flatten(table: toml::Table) -> Vec<(Vec<String>, toml::Value)> {
    let mut leaves = Vec::new();
    let mut pending: Vec<(Vec<String>, toml::Value)> =
        table.into_iter().map(|(key, value)| (vec![key], value)).collect();
    while let Some((path, value)) = pending.pop() {
        match value {
            toml::Value::Table(table) if !table.is_empty() => {
                for (key, value) in table {
                    let mut path = path.clone();
                    path.push(key);
                    pending.push((path, value));
                }
            }
            value => leaves.push((path, value)),
        }
    }
    leaves.sort_by(|a, b| a.0.cmp(&b.0));
    leaves
}

/// Formats a path in TOML syntax.
#[must_use]
pub fn dotted(key: &[String]) -> String {
    let bare = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    let parts: Vec<String> = key
        .iter()
        .map(|part| if bare(part) { part.clone() } else { toml::Value::String(part.clone()).to_string() })
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_a_table_of_one_name_replace_each_other() {
        let mut layers = Layers::default();
        let origin = |layer| Origin { layer, place: String::new() };
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        layers.set(path("a"), 1.into(), origin(Layer::User), false);
        layers.set(path("a.b"), 2.into(), origin(Layer::Project), false);
        assert!(layers.get("a").is_none());
        layers.set(path("a"), 3.into(), origin(Layer::CommandLine), false);
        assert_eq!(layers.iter().count(), 1);
    }
}
