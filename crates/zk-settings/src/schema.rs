use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::expect::{describe_mismatch, enum_values, expected};
use crate::layers::{Layer, dotted};
use crate::node::{Key, Marks, Node, Table};
use crate::section::Section;
use crate::suggest::{did_you_mean, either};

/// Note in the reference for a key that project files must not set.
const NOT_BY_PROJECTS: &str = " Not by a project's files.";

/// Maximum number of letters in which a name may differ from a guarded table's to count as misspelt.
const MAX_TABLE_ERRORS: usize = 2;

/// Schema of all settings: the sections of all crates, each at its table.
///
/// A section is a documented struct with [`DeserializeOwned`], [`JsonSchema`] and a default for each field.
/// Its field names are keys, its doc comments the reference, its types and bounds the checks;
/// [`mark`](crate::mark) lists further declarations.
///
/// Tables are built from their sections when a key of theirs is first looked up, so that a start pays for the
/// tables that its files set.
#[derive(Clone, Default)]
pub struct Schema {
    sections: Vec<Section>,
    /// Tables without a section, by name.
    fixed: BTreeMap<String, Node>,
    rules: Vec<CheckRule>,
    built: Built,
}

/// Parts of the schema that were built already.
#[derive(Clone, Default)]
struct Built {
    /// Keys of the sections at the top level.
    top: OnceLock<Table>,
    /// Tables at the top level, by name.
    tables: BTreeMap<String, OnceLock<Node>>,
    whole: OnceLock<Table>,
}

/// A check beyond types, added by the program that composes the sections. Its result, if any, overrides all
/// other checks.
pub type CheckRule = Arc<dyn Fn(&[String], &toml::Value, Layer) -> Option<Check> + Send + Sync>;

/// Error: two sections have the same key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two sections have the key `{key}` in the table `{table}`: each key has one owner")]
pub struct DuplicateKey {
    /// Table of the second section.
    pub table: &'static str,
    /// Name of the key.
    pub key: String,
}

/// Result of checking one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The value is valid.
    Valid,
    /// The value is kept, with this warning.
    Warn(String),
    /// The value is ignored, with this warning.
    Ignored(String),
    /// The value is an error that ends the program.
    Invalid(String),
}

impl Check {
    /// Returns the result for a key that project files must not set.
    #[must_use]
    pub fn not_by_projects(name: &str) -> Self {
        Self::Ignored(format!(
            "`{name}` is ignored: a project's files cannot say where requests go or what may run; \
             put it into your own settings"
        ))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Schema {
    /// Adds a section at a table: `""` is the top level, `"providers.*"` any table below `providers`.
    /// [`checked`](Self::checked) tells whether another section has one of its keys.
    #[must_use]
    pub fn section<T: JsonSchema + DeserializeOwned>(mut self, table: &'static str) -> Self {
        let section = Section::of::<T>(table);
        self.sections.push(section);
        (self.built.top, self.built.whole) = Default::default();
        let name = section.first_name();
        if !name.is_empty() {
            self.built.tables.insert(name.to_owned(), OnceLock::new());
        }
        self
    }

    /// Builds all sections; a test of the program that composes them calls it once.
    ///
    /// # Errors
    /// [`DuplicateKey`] if two sections have one key.
    pub fn checked(self) -> Result<Self, DuplicateKey> {
        let mut root = Table::default();
        for section in &self.sections {
            let table = section.table;
            root.merge(section.at_table()).map_err(|key| DuplicateKey { table, key })?;
            // A fixed table would hide the keys of the section.
            if let Some(name) = root.named.keys().find(|name| self.fixed.contains_key(*name)) {
                return Err(DuplicateKey { table, key: name.clone() });
            }
        }
        Ok(self)
    }

    /// Adds a table of free tables, such as `[plugins.NAME]`, each of which its consumer checks.
    #[must_use]
    pub fn free(self, table: &'static str, description: &str) -> Self {
        let any = Some(Box::new(Node::Free(String::new())));
        let description = description.to_owned();
        self.with_node(table, Node::Table(Table { description, any, ..Table::default() }))
    }

    /// Adds a check beyond types.
    #[must_use]
    pub fn rule(mut self, rule: CheckRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Reserves a table: any key in it is an error.
    #[must_use]
    pub fn reserved(self, table: &'static str) -> Self {
        let marks = Marks { is_guarded: true, by_projects: Some(false), ..Marks::default() };
        self.with_node(table, Node::Table(Table { marks, ..Table::default() }))
    }

    fn with_node(mut self, table: &'static str, node: Node) -> Self {
        self.fixed.insert(table.to_owned(), node);
        self
    }

    /// Keys of the sections at the top level.
    fn top(&self) -> &Table {
        self.built.top.get_or_init(|| self.merged(|section| section.first_name().is_empty()))
    }

    /// Returns the node of a name at the top level.
    fn node(&self, name: &str) -> Option<&Node> {
        if let Some(fixed) = self.fixed.get(name) {
            return Some(fixed);
        }
        let Some(built) = self.built.tables.get(name) else { return self.top().at(name) };
        Some(built.get_or_init(|| {
            let mut table = self.merged(|section| section.first_name() == name);
            let own = self.top().named.get(name).cloned();
            // A key of the top level with the name of a table is found by `checked`.
            let _ = own.map(|node| table.merge(Table::of_one(name, node)));
            table.named.remove(name).unwrap_or(Node::Table(table))
        }))
    }

    /// All keys of all sections.
    pub(crate) fn whole(&self) -> &Table {
        self.built.whole.get_or_init(|| {
            let mut whole = self.merged(|_| true);
            whole.named.extend(self.fixed.clone());
            whole
        })
    }

    fn merged(&self, is_wanted: impl Fn(&Section) -> bool) -> Table {
        let mut merged = Table::default();
        for section in self.sections.iter().filter(|section| is_wanted(section)) {
            // A key that two sections have is found by `checked`.
            let _ = merged.merge(section.at_table());
        }
        merged
    }

    fn key(&self, path: &[String]) -> Option<&Key> {
        match self.at(path)? {
            Node::Key(key) => Some(key),
            Node::Table(_) | Node::Free(_) => None,
        }
    }

    fn at(&self, path: &[String]) -> Option<&Node> {
        let (first, names) = path.split_first()?;
        names.iter().try_fold(self.node(first)?, |node, name| match node {
            Node::Table(table) => table.at(name),
            Node::Key(_) | Node::Free(_) => None,
        })
    }

    /// Whether a section, or a table without one, has the path.
    pub(crate) fn is_known(&self, path: &[String]) -> bool {
        self.at(path).is_some() || self.is_free(path)
    }

    /// Whether a key, not a table, is on the way to the path.
    fn is_below_key(&self, path: &[String]) -> bool {
        (1..path.len()).any(|length| path.get(..length).is_some_and(|path| self.key(path).is_some()))
    }

    /// Whether the path lies in a free table.
    fn is_free(&self, path: &[String]) -> bool {
        (1..path.len())
            .any(|length| matches!(path.get(..length).and_then(|path| self.at(path)), Some(Node::Free(_))))
    }

    /// Whether a value is never shown: a marked value, a value in a marked table, or any key with the name of
    /// a credential.
    pub(crate) fn is_secret(&self, path: &[String]) -> bool {
        let is_marked = |length| match path.get(..length).and_then(|path| self.at(path)) {
            Some(Node::Key(key)) => key.marks.is_secret || key.marks.is_credential,
            Some(Node::Table(table)) => table.marks.is_secret,
            Some(Node::Free(_)) | None => false,
        };
        (1..=path.len()).any(is_marked) || path.last().is_some_and(|last| has_credential(self.whole(), last))
    }

    /// Whether a value is a credential, kept out of all tables.
    pub(crate) fn is_credential(&self, path: &[String]) -> bool {
        self.key(path).is_some_and(|key| key.marks.is_credential)
    }

    /// Whether the lists of all layers add up.
    pub(crate) fn is_appended(&self, path: &[String]) -> bool {
        self.key(path).is_some_and(|key| key.marks.appends)
    }

    /// Whether the value is an empty table with known keys, which sets nothing.
    pub(crate) fn is_empty_table(&self, path: &[String], value: &toml::Value) -> bool {
        let has_keys = |table: &Table| {
            !table.named.is_empty()
                || table.marks.is_guarded
                || matches!(table.any.as_deref(), Some(Node::Key(_)))
        };
        value.as_table().is_some_and(toml::Table::is_empty)
            && matches!(self.at(path), Some(Node::Table(table)) if has_keys(table))
    }

    /// Whether project files may set the key, by its own mark or else that of the nearest table around it.
    fn may_be_set_by_projects(&self, path: &[String]) -> bool {
        let marks = (1..=path.len()).rev().filter_map(|length| match self.at(path.get(..length)?)? {
            Node::Key(key) => key.marks.by_projects,
            Node::Table(table) => table.marks.by_projects,
            Node::Free(_) => None,
        });
        marks.into_iter().next().unwrap_or(true)
    }

    /// Checks one value of a layer.
    #[must_use]
    pub fn check(&self, path: &[String], value: &toml::Value, layer: Layer) -> Check {
        let name = dotted(path);
        if layer.is_project() && !self.may_be_set_by_projects(path) {
            return Check::not_by_projects(&name);
        }
        if let Some(check) = self.rules.iter().find_map(|rule| rule(path, value, layer)) {
            return check;
        }
        if self.is_free(path) {
            return Check::Valid;
        }
        let key = match self.at(path) {
            None if self.is_below_key(path) => {
                let over = path.first().map_or("", String::as_str);
                return Check::Ignored(format!("unknown setting `{name}`: `{over}` is a value and no table"));
            }
            None => {
                let Some(present) = self.present_path(path) else {
                    return self.check_unknown_key(&name, path);
                };
                return Check::Warn(format!("`{name}` is called `{}` now", dotted(&present)));
            }
            // The keys of a table are checked one by one.
            Some(Node::Free(_) | Node::Table(_)) if value.is_table() => return Check::Valid,
            Some(Node::Table(table)) if path.len() == 1 && !table.marks.is_guarded => {
                return Check::Ignored(format!("`{name}` must be a table: [{name}]; the value is left out"));
            }
            Some(Node::Free(_) | Node::Table(_)) => {
                return Check::Invalid(format!("`{name}` must be a table: [{name}]"));
            }
            Some(Node::Key(key)) => key,
        };
        if key.marks.is_lenient && layer != Layer::CommandLine && describe_mismatch(key, value).is_some() {
            return Check::Ignored(format!(
                "`{name}` cannot be {value}: what it is without this line holds; use {}",
                enum_values(&key.schema).map_or_else(|| expected(key), |words| either(&words))
            ));
        }
        // The section's type gives a better message for a string than a pattern does.
        let is_owners = value.is_str() && key.schema.get("pattern").is_some();
        if let Some(why) = describe_mismatch(key, value).filter(|_| !is_owners) {
            return Check::Invalid(format!("`{name}` {why}"));
        }
        self.probe(path, value).map_or(Check::Valid, |why| {
            let why = why.trim();
            Check::Invalid(match value {
                toml::Value::String(text) => format!("`{name}` cannot be `{text}`: {why}"),
                _ => format!("`{name}`: {why}"),
            })
        })
    }

    /// Describes why the section's type rejects a value that has the right shape.
    fn probe(&self, path: &[String], value: &toml::Value) -> Option<String> {
        self.sections.iter().find_map(|section| {
            let inside = path_below(path, section.table)?;
            let (last, tables) = inside.split_last()?;
            let leaf = toml::Table::from_iter([(last.clone(), value.clone())]);
            let table = tables.iter().rev().fold(leaf, |inner, name| {
                toml::Table::from_iter([(name.clone(), toml::Value::Table(inner))])
            });
            (section.read)(table).err().map(|error| error.message().to_owned())
        })
    }

    fn check_unknown_key(&self, name: &str, path: &[String]) -> Check {
        let table = path.first().map_or("", String::as_str);
        // A part that matches any name cannot be the misspelt one.
        let pattern = match path {
            [table, _, rest @ ..] if !rest.is_empty() => {
                dotted(&[&[table.clone(), "*".to_owned()], rest].concat())
            }
            _ => name.to_owned(),
        };
        let pattern = pattern.replace("\"*\"", "*");
        let keys = self.names();
        let near = keys.iter().map(String::as_str).filter(|path| path.contains('*') == pattern.contains('*'));
        let text = format!("unknown setting `{name}`{}", did_you_mean(&pattern, near));
        if self.is_nearly_guarded(table) { Check::Invalid(text) } else { Check::Warn(text) }
    }

    /// Whether the table is guarded, or its name may be a misspelling of a guarded table's.
    fn is_nearly_guarded(&self, name: &str) -> bool {
        let is_guarded = |node: &Node| matches!(node, Node::Table(table) if table.marks.is_guarded);
        match self.node(name) {
            Some(node) => is_guarded(node),
            None => self.whole().named.iter().any(|(guarded, node)| {
                is_guarded(node) && strsim::osa_distance(&name.to_lowercase(), guarded) <= MAX_TABLE_ERRORS
            }),
        }
    }

    /// Returns the names of all keys, with `*` for any name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut visit = |path: &str, node: &Node| {
            if matches!(node, Node::Key(_)) {
                names.push(path.to_owned());
            }
        };
        visit_nodes("", self.whole(), &mut visit);
        names
    }

    /// Returns the JSON Schema of a settings file.
    #[must_use]
    pub fn json(&self, title: &str, version: &str) -> Value {
        let mut schema = Node::Table(self.whole().clone()).json();
        if let Value::Object(schema) = &mut schema {
            schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
            schema.insert("title".into(), title.into());
            schema.insert("version".into(), version.into());
        }
        schema
    }

    /// Returns the reference of all settings in Markdown: the keys of each table with values, defaults and
    /// descriptions.
    #[must_use]
    pub fn reference(&self) -> String {
        let mut tables: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        let mut visit = |path: &str, node: &Node| {
            let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
            let table = table.to_owned();
            match node {
                Node::Table(inner) => match inner.any.as_deref().filter(|_| inner.named.is_empty()) {
                    Some(Node::Key(key)) => {
                        let key = Key { description: inner.description.clone(), ..(**key).clone() };
                        let row = self.reference_row(path, &format!("{name}.NAME"), &key);
                        tables.entry(table).or_default().1.push(row);
                    }
                    Some(Node::Table(_) | Node::Free(_)) | None => {
                        tables.entry(path.to_owned()).or_default().0.clone_from(&inner.description);
                    }
                },
                Node::Free(description) => {
                    let remark =
                        if self.may_be_set_by_projects(&parts_of(path)) { "" } else { NOT_BY_PROJECTS };
                    let row = format!("| `{name}` | a table | | {}{remark} |", cell(description));
                    tables.entry(table).or_default().1.push(row);
                }
                Node::Key(_) if name == "*" => {}
                Node::Key(key) => {
                    tables.entry(table).or_default().1.push(self.reference_row(path, name, key));
                }
            }
        };
        visit_nodes("", self.whole(), &mut visit);
        let mut page = String::new();
        for (table, (description, rows)) in tables {
            if rows.is_empty() {
                continue;
            }
            if !table.is_empty() {
                page.push_str(&format!("\n## `[{table}]`\n"));
            }
            if !description.is_empty() {
                page.push_str(&format!("\n{description}\n"));
            }
            page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
            page.push_str(&rows.join("\n"));
            page.push('\n');
        }
        page
    }

    fn reference_row(&self, path: &str, name: &str, key: &Key) -> String {
        let default = key.default.as_ref().map_or(String::new(), |value| format!("`{value}`"));
        let mut meaning = cell(&key.description);
        if !self.may_be_set_by_projects(&parts_of(path)) {
            meaning.push_str(NOT_BY_PROJECTS);
        }
        if key.marks.appends {
            meaning.push_str(" The lists of all files hold.");
        }
        format!("| `{name}` | {} | {default} | {meaning} |", cell(&expected(key)))
    }
}

/// Whether the table has a credential of this name.
fn has_credential(table: &Table, name: &str) -> bool {
    table.named.iter().any(|(key, node)| match node {
        Node::Key(own) => own.marks.is_credential && key == name,
        Node::Table(inner) => has_credential(inner, name),
        Node::Free(_) => false,
    }) || matches!(table.any.as_deref(), Some(Node::Table(inner)) if has_credential(inner, name))
}

fn parts_of(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

/// Formats the text of a Markdown table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the part of a path below a table, in whose name `*` matches any name.
fn path_below<'a>(path: &'a [String], table: &str) -> Option<&'a [String]> {
    let mut rest = path;
    for part in table.split('.').filter(|part| !part.is_empty()) {
        let (first, others) = rest.split_first()?;
        if part != "*" && part != first {
            return None;
        }
        rest = others;
    }
    Some(rest)
}

pub(crate) fn visit_nodes(path: &str, table: &Table, visit: &mut dyn FnMut(&str, &Node)) {
    let named = table.named.iter().map(|(name, node)| (name.as_str(), node));
    for (name, node) in named.chain(table.any.as_deref().map(|node| ("*", node))) {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        visit(&path, node);
        if let Node::Table(inner) = node {
            visit_nodes(&path, inner, visit);
        }
    }
}
