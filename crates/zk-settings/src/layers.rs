use std::collections::BTreeMap;
use std::fmt;

use secrecy::SecretString;

/// Layer of settings. Later ones outrank earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Built into the program.
    Default,
    /// Variables of the environment.
    Environment,
    /// The person's own file.
    User,
    /// A file that the project shares.
    Project,
    /// A file of one person in the project.
    ProjectLocal,
    /// A preset of the project.
    ProjectPreset,
    /// A preset of the person, or of zk.
    Preset,
    /// Flags, and the file that a flag names.
    CommandLine,
    /// The file of whoever administers the machine.
    Managed,
}

impl Layer {
    /// Whether whoever wrote the project could have set it.
    #[must_use]
    pub fn is_project(self) -> bool {
        match self {
            Self::Project | Self::ProjectLocal | Self::ProjectPreset => true,
            Self::Default
            | Self::User
            | Self::Environment
            | Self::Preset
            | Self::CommandLine
            | Self::Managed => false,
        }
    }
}

/// Origin of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Layer of the value.
    pub layer: Layer,
    /// The file, the flag or the variable.
    pub place: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Layer::Default => f.write_str("default"),
            Layer::User => write!(f, "user: {}", self.place),
            Layer::Project => write!(f, "project: {}", self.place),
            Layer::ProjectLocal => write!(f, "project-local: {}", self.place),
            Layer::ProjectPreset | Layer::Preset => write!(f, "preset: {}", self.place),
            Layer::Environment => write!(f, "environment: {}", self.place),
            Layer::CommandLine => write!(f, "command line: {}", self.place),
            Layer::Managed => write!(f, "managed: {}", self.place),
        }
    }
}

/// One setting: a value that is no table.
#[derive(Clone)]
pub struct Entry {
    /// Empty for a credential.
    pub value: toml::Value,
    /// A credential, which nothing but its owner is given.
    pub key: Option<SecretString>,
    /// Origin of the value.
    pub origin: Origin,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the value: it may be a secret.
        f.debug_struct("Entry").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns the value if it is a text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.as_str()
    }
}

/// The leaves of the merged tables. Keeping leaves makes the merge deep and gives each its own origin.
#[derive(Clone, Default)]
pub(crate) struct Layers(BTreeMap<Vec<String>, Entry>);

impl Layers {
    /// Puts a value over what is there, also over a table or under what was a value. A credential stays apart from tables.
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

    /// Whether a higher layer says something about `key`, what is below it or what it is below.
    pub(crate) fn is_outranked(&self, key: &[String], layer: Layer) -> bool {
        let related = |old: &[String]| old.starts_with(key) || key.starts_with(old);
        self.0.iter().any(|(old, entry)| related(old) && entry.origin.layer > layer)
    }

    pub(crate) fn at(&self, key: &[String]) -> Option<&Entry> {
        self.0.get(key)
    }

    /// The value at a path written with dots.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.at(&key.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[String], &Entry)> {
        self.0.iter().map(|(key, entry)| (key.as_slice(), entry))
    }
}

/// The leaves of a table, each with its path. An empty table is a leaf: it says that something is there.
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

/// A path as TOML writes it.
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
