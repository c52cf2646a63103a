use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Extension keys of a section's JSON Schema, declared with `#[schemars(extend(…))]`, that control the
/// treatment of a setting.
pub mod mark {
    /// `false`: files of a project must not set the key.
    pub const BY_PROJECTS: &str = "x-by-projects";
    /// `true`: the value is never shown.
    pub const SECRET: &str = "x-secret";
    /// `true`: the value is never shown and kept out of all tables, only in
    /// [`Entry::key`](crate::Entry::key).
    pub const CREDENTIAL: &str = "x-credential";
    /// `true`, for a table: a misspelt key in the table, or a misspelt name of the table, is an error.
    pub const GUARDED: &str = "x-guarded";
    /// `true`: an invalid value is ignored with a warning, except on the command line.
    pub const LENIENT: &str = "x-lenient";
    /// `"append"`: the lists of all layers add up instead of overriding each other.
    pub const MERGE: &str = "x-merge";
    /// List of former paths of the key, such as `["tools.shell_limit"]`, with `*` for any name. A value at such a path
    /// is the key's, with a warning that names both; [`renamed_key`](crate::renamed_key) changes the file.
    pub const FORMER: &str = "x-former";
    /// Description of valid values, to follow "must be", for cases that the type does not describe.
    pub const EXPECTED: &str = "x-expected";
}

/// A node in the tree of settings.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Table(Table),
    Key(Box<Key>),
    /// A table that its owner checks; contains its description.
    Free(String),
}

/// A table of settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) description: String,
    pub(crate) named: BTreeMap<String, Node>,
    /// Node for all other names.
    pub(crate) any: Option<Box<Node>>,
    pub(crate) marks: Marks,
}

/// One setting.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// JSON Schema of the value, without marks, description and default.
    pub(crate) schema: Value,
    pub(crate) description: String,
    pub(crate) default: Option<Value>,
    pub(crate) expected: Option<String>,
    /// Former paths of the key.
    pub(crate) former: Vec<String>,
    pub(crate) marks: Marks,
}

/// Marks of a setting, from its section's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) by_projects: Option<bool>,
    pub(crate) is_secret: bool,
    pub(crate) is_credential: bool,
    pub(crate) is_guarded: bool,
    pub(crate) is_lenient: bool,
    pub(crate) appends: bool,
}

impl Marks {
    fn take(schema: &mut Map<String, Value>) -> Self {
        let mut flag = |name: &str| schema.remove(name).and_then(|value| value.as_bool());
        Self {
            by_projects: flag(mark::BY_PROJECTS),
            is_secret: flag(mark::SECRET).unwrap_or_default(),
            is_credential: flag(mark::CREDENTIAL).unwrap_or_default(),
            is_guarded: flag(mark::GUARDED).unwrap_or_default(),
            is_lenient: flag(mark::LENIENT).unwrap_or_default(),
            appends: schema.remove(mark::MERGE).is_some_and(|value| value == "append"),
        }
    }
}

impl Node {
    /// Builds the node that a JSON Schema with inlined definitions describes.
    pub(crate) fn of_schema(schema: Value) -> Self {
        let Value::Object(mut schema) = schema else { return Self::Free(String::new()) };
        let marks = Marks::take(&mut schema);
        let text = |value: Option<Value>| match value {
            // The reference page shows a paragraph as one line.
            Some(Value::String(text)) => text.replace('\n', " "),
            Some(_) | None => String::new(),
        };
        let description = text(schema.remove("description"));
        let expected = Some(text(schema.remove(mark::EXPECTED))).filter(|text| !text.is_empty());
        let former = match schema.remove(mark::FORMER) {
            Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(_) | None => Vec::new(),
        };
        let default = schema.remove("default").filter(|value| !value.is_null());
        simplify(&mut schema);
        let properties = schema.remove("properties");
        let any = schema.remove("additionalProperties");
        if schema.get("type").is_none_or(|kind| kind != "object") {
            let schema = Value::Object(schema);
            return Self::Key(Box::new(Key { schema, description, default, expected, former, marks }));
        }
        let named: BTreeMap<String, Self> = match properties {
            Some(Value::Object(named)) => {
                named.into_iter().map(|(name, schema)| (name, Self::of_schema(schema))).collect()
            }
            Some(_) | None => BTreeMap::new(),
        };
        let any = match any {
            Some(schema @ Value::Object(_)) => Some(Box::new(Self::of_schema(schema))),
            Some(_) | None => None,
        };
        if named.is_empty() && any.is_none() && !marks.is_guarded {
            return Self::Free(description);
        }
        Self::Table(Table { description, named, any, marks })
    }

    /// Returns the JSON Schema of the node.
    pub(crate) fn json(&self) -> Value {
        let mut schema = Map::new();
        match self {
            Self::Free(description) => {
                schema.insert("type".into(), "object".into());
                describe(&mut schema, description);
            }
            Self::Key(key) => {
                if let Value::Object(of_type) = &key.schema {
                    schema = of_type.clone();
                }
                describe(&mut schema, &key.description);
                if let Some(default) = &key.default {
                    schema.insert("default".into(), default.clone());
                }
            }
            Self::Table(table) => {
                schema.insert("type".into(), "object".into());
                describe(&mut schema, &table.description);
                if !table.named.is_empty() {
                    let named = table.named.iter().map(|(name, node)| (name.clone(), node.json())).collect();
                    schema.insert("properties".into(), Value::Object(named));
                }
                if let Some(any) = &table.any {
                    schema.insert("additionalProperties".into(), any.json());
                }
            }
        }
        Value::Object(schema)
    }
}

impl Table {
    /// Table with one node.
    pub(crate) fn of_one(name: &str, node: Node) -> Self {
        Self { named: BTreeMap::from([(name.to_owned(), node)]), ..Self::default() }
    }

    /// Returns the node of a name in this table.
    pub(crate) fn at(&self, name: &str) -> Option<&Node> {
        self.named.get(name).or(self.any.as_deref())
    }

    /// Merges another section's keys into this table.
    ///
    /// # Errors
    /// A key that both sections have.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), String> {
        if self.description.is_empty() {
            self.description = other.description;
        }
        self.marks.is_guarded |= other.marks.is_guarded;
        self.marks.by_projects = self.marks.by_projects.or(other.marks.by_projects);
        self.any = self.any.take().or(other.any);
        for (name, node) in other.named {
            match (self.named.get_mut(&name), node) {
                (None, node) => {
                    self.named.insert(name, node);
                }
                (Some(Node::Table(own)), Node::Table(other)) => own.merge(other)?,
                (Some(_), _) => return Err(name),
            }
        }
        Ok(())
    }
}

fn describe(schema: &mut Map<String, Value>, description: &str) {
    if !description.is_empty() {
        schema.insert("description".into(), description.into());
    }
}

/// Removes `null`, which TOML lacks, and merges a choice of constants into one enumeration.
fn simplify(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    // Choice of values in an enumeration.
    if let Some(Value::Array(choices)) = schema.remove("anyOf") {
        let mut choices: Vec<Value> = choices
            .into_iter()
            .filter(|choice| choice.get("type").is_none_or(|kind| kind != "null"))
            .collect();
        match (choices.pop(), choices.is_empty()) {
            (Some(Value::Object(mut only)), true) => {
                only.remove("description");
                schema.extend(only);
            }
            (last, _) => {
                choices.extend(last);
                schema.insert("anyOf".into(), Value::Array(choices));
            }
        }
    }
    if let Some(Value::Array(choices)) = schema.get("oneOf") {
        let words: Option<Vec<Value>> = choices.iter().map(|choice| choice.get("const").cloned()).collect();
        if let Some(words) = words {
            schema.remove("oneOf");
            schema.insert("enum".into(), Value::Array(words));
        }
    }
    if schema.contains_key("enum") {
        schema.remove("type");
    }
    let format = schema.remove("format");
    if format.is_some_and(|format| format == "uint32") {
        schema.entry("maximum").or_insert(u32::MAX.into());
    }
    schema.remove("title");
}
