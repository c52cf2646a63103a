use std::borrow::Cow;
use std::path::Path;

use zk_core::service::{Trust, TrustItem};

use crate::layers::{Layer, Origin, dotted, flatten};

/// A file of the project, which counts only once a person has approved exactly these bytes.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Path of the file, relative to the project.
    pub name: Cow<'static, str>,
    /// Kind of the file for [`Trust`].
    pub kind: &'static str,
    /// Bytes that are approved.
    pub bytes: Vec<u8>,
    /// Layer of what it sets.
    pub layer: Layer,
    /// Settings of the file, each with its path.
    pub leaves: Vec<(Vec<String>, toml::Value)>,
    /// Rows that a person reads before they approve it.
    pub values: Vec<(String, toml::Value)>,
    /// Whether its bytes were approved.
    pub trusted: bool,
}

impl ProjectFile {
    /// A file that sets nothing yet.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, kind: &'static str, layer: Layer, bytes: Vec<u8>) -> Self {
        let (leaves, values) = (Vec::new(), Vec::new());
        Self { name: name.into(), kind, bytes, layer, leaves, values, trusted: false }
    }

    /// Lets it set what a table has.
    #[must_use]
    pub fn with_table(self, table: toml::Table) -> Self {
        let leaves = flatten(table);
        let rows = leaves.iter().map(|(key, value)| (dotted(key), value.clone())).collect();
        Self { leaves, ..self }.with_rows(rows)
    }

    /// Adds rows that a person reads before they approve it.
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<(String, toml::Value)>) -> Self {
        self.values.extend(rows);
        self
    }

    /// Asks the store whether its bytes were approved.
    #[must_use]
    pub fn checked(mut self, trust: &dyn Trust, project: &Path) -> Self {
        self.trusted = trust.is_trusted(&self.item(project));
        self
    }

    /// Returns the item that has to be approved.
    #[must_use]
    pub fn item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: self.kind, name: &self.name, bytes: &self.bytes }
    }

    /// Returns the origin of what the file sets.
    #[must_use]
    pub fn origin(&self, project: &Path) -> Origin {
        Origin { layer: self.layer, place: project.join(&*self.name).display().to_string() }
    }

    /// Warns that nobody approved the file, so that what it sets is ignored.
    #[must_use]
    pub fn untrusted_warning(&self, project: &Path) -> String {
        let names: Vec<String> = self.values.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!(
            "{} is not trusted, so what it sets is ignored: {}. Read it, then run `zk trust add`",
            project.join(&*self.name).display(),
            names.join(", ")
        )
    }
}
