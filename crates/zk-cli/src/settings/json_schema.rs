use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{KEYS, Kind};

/// The version of the settings' shape: the second part grows with what is added, the first with what is taken away.
const VERSION: &str = "1.21";

/// The JSON Schema of a settings file.
pub(crate) fn json_schema() -> Value {
    let mut root = Table::default();
    for key in KEYS {
        root.add(key.path.split('.'), of_kind(key.kind));
    }
    root.add(["plugins", "*"].into_iter(), json!({ "type": "object" }));
    for event in zk_hooks::HookEvent::ALL {
        root.add(["hooks", event.name()].into_iter(), hooks_of_an_event());
    }
    for table in ["oauth", "options", "extra_body"] {
        root.add(["providers", "*", table].into_iter(), json!({ "type": "object" }));
    }
    let mut schema = root.schema();
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".into(), json!("Settings of zk"));
        schema.insert("version".into(), json!(VERSION));
    }
    schema
}

/// The hooks of one event: a command with what it is for, or several below one matcher.
fn hooks_of_an_event() -> Value {
    let command = json!({
        "type": { "type": "string" },
        "command": { "type": "string" },
        "timeout": { "type": "number", "exclusiveMinimum": 0, "maximum": 3600 },
    });
    let mut group = command.clone();
    if let Value::Object(group) = &mut group {
        group.insert("matcher".into(), json!({ "type": "string" }));
        let several = json!({ "type": "array", "items": { "type": "object", "properties": command } });
        group.insert("hooks".into(), several);
    }
    json!({ "type": "array", "items": { "type": "object", "properties": group } })
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Context => json!({ "type": "string", "pattern": zk_exec::ContextName::PATTERN }),
        Kind::Network => {
            let hosts = json!({ "type": "array", "items": { "type": "string" } });
            json!({ "anyOf": [{ "enum": super::schema::NETWORKS }, hosts] })
        }
        Kind::OneOf(words) => json!({ "enum": words }),
        Kind::Count => json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
        Kind::Whole => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Price => json!({ "type": "number", "minimum": 0 }),
        Kind::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Dollars => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Kind::Paths => json!({ "type": "array", "items": { "type": "string", "pattern": "^(/|~/)" } }),
        Kind::Texts | Kind::Efforts | Kind::Names | Kind::Rules => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
    }
}

/// A table of the settings on the way to its schema.
#[derive(Default)]
struct Table {
    named: BTreeMap<String, Node>,
    /// Node under any name.
    any: Option<Box<Node>>,
}

enum Node {
    Table(Table),
    Value(Value),
}

impl Table {
    fn add<'a>(&mut self, mut path: impl Iterator<Item = &'a str>, schema: Value) {
        let Some(name) = path.next() else { return };
        let rest: Vec<&str> = path.collect();
        let node = self.node(name);
        if rest.is_empty() {
            *node = Node::Value(schema);
        } else if let Node::Table(table) = node {
            table.add(rest.into_iter(), schema);
        }
    }

    fn node(&mut self, name: &str) -> &mut Node {
        let empty = || Node::Table(Self::default());
        if name == "*" {
            return self.any.get_or_insert_with(|| Box::new(empty()));
        }
        self.named.entry(name.to_owned()).or_insert_with(empty)
    }

    fn schema(self) -> Value {
        let named: Map<String, Value> =
            self.named.into_iter().map(|(name, node)| (name, node.schema())).collect();
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        if !named.is_empty() {
            schema.insert("properties".into(), Value::Object(named));
        }
        if let Some(any) = self.any {
            schema.insert("additionalProperties".into(), any.schema());
        }
        Value::Object(schema)
    }
}

impl Node {
    fn schema(self) -> Value {
        match self {
            Self::Table(table) => table.schema(),
            Self::Value(schema) => schema,
        }
    }
}
