use std::borrow::Cow;
use std::path::Path;

use zk_core::service::{Trust, TrustItem};

use crate::layers::{Layer, Origin, dotted, flatten};

/// A settings file of a project. Its values count only after a person approved exactly these bytes.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Path of the file, relative to the project.
    pub name: Cow<'static, str>,
    /// Kind of the item for [`Trust`].
    pub kind: &'static str,
    /// Bytes to approve.
    pub bytes: Vec<u8>,
    /// Layer of the file's values.
    pub layer: Layer,
    /// Values of the file with their paths.
    pub leaves: Vec<(Vec<String>, toml::Value)>,
    /// Rows to show to the person who approves the file.
    pub values: Vec<(String, toml::Value)>,
    /// Whether the bytes were approved.
    pub trusted: bool,
}

impl ProjectFile {
    /// Creates a file without values.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, kind: &'static str, layer: Layer, bytes: Vec<u8>) -> Self {
        let (leaves, values) = (Vec::new(), Vec::new());
        Self { name: name.into(), kind, bytes, layer, leaves, values, trusted: false }
    }

    /// Adds the values of a table.
    #[must_use]
    pub fn with_table(self, table: toml::Table) -> Self {
        let leaves = flatten(table);
        let rows = leaves.iter().map(|(key, value)| (dotted(key), value.clone())).collect();
        Self { leaves, ..self }.with_rows(rows)
    }

    /// Adds rows to show to the person who approves the file.
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<(String, toml::Value)>) -> Self {
        self.values.extend(rows);
        self
    }

    /// Looks up in `trust` whether the bytes were approved.
    #[must_use]
    pub fn checked(mut self, trust: &dyn Trust, project: &Path) -> Self {
        self.trusted = trust.is_trusted(&self.item(project));
        self
    }

    /// Returns the item to approve.
    #[must_use]
    pub fn item<'a>(&'a self, project: &'a Path) -> TrustItem<'a> {
        TrustItem { project, kind: self.kind, name: &self.name, bytes: &self.bytes }
    }

    /// Returns the origin of the file's values.
    #[must_use]
    pub fn origin(&self, project: &Path) -> Origin {
        Origin { layer: self.layer, place: project.join(&*self.name).display().to_string() }
    }

    /// Returns the warning that the file is not approved and its values are ignored.
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
