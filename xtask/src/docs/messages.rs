use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::schema::{cell, definition, of_type, prose};

/// Protocols with the schema of each, and the words above its messages.
const PROTOCOLS: [(&str, &str, &str); 2] = [
    (
        "rpc",
        "Messages of `zk rpc`",
        "What programs that drive zk send and get; [its page](../rpc.md) says how it goes.",
    ),
    (
        "extension",
        "Messages of extensions",
        "What zk and its extensions send each other; [their page](../extensions.md) says how it goes.",
    ),
];
/// Lists of messages in the schemas, and who sends them.
const LISTS: [(&str, &str); 4] = [
    ("methods", "Requests of a client"),
    ("from_zk", "Sent by zk"),
    ("from_extension", "Sent by the extension"),
    ("notifications", "Notifications of zk"),
];

/// Pages of the messages of both protocols, from their schemas.
pub(super) fn pages(schemas: &[(String, String)]) -> anyhow::Result<Vec<(String, String)>> {
    PROTOCOLS
        .into_iter()
        .map(|(name, title, about)| {
            let page = page(&super::schemas::named(schemas, name)?, title, about)?;
            Ok((format!("docs/reference/{name}-messages.md"), page))
        })
        .collect()
}

fn page(schema: &Value, title: &str, about: &str) -> anyhow::Result<String> {
    let version = schema["version"].as_str().unwrap_or_default();
    let mut page = format!(
        "# {title}\n\n{about} Version {version}; generated from its [schema](schemas.md) by `cargo xtask docs`, do not edit.\n"
    );
    for (list, title) in LISTS {
        if let Some(messages) = schema[list].as_object() {
            write!(page, "\n## {title}\n\n{}", table(messages))?;
        }
    }
    if let Some(codes) = schema["errors"].as_object() {
        write!(page, "\n## Errors\n\n| code | name |\n|---|---|\n")?;
        for (name, code) in codes {
            writeln!(page, "| {code} | `{name}` |")?;
        }
    }
    write!(page, "\n## Types\n")?;
    for (name, schema) in schema["$defs"].as_object().into_iter().flatten() {
        write!(page, "\n### Type `{name}`\n\n{}", definition(schema))?;
    }
    Ok(page)
}

fn table(messages: &Map<String, Value>) -> String {
    let mut table = "| message | params | result | |\n|---|---|---|---|\n".to_owned();
    for (name, message) in messages {
        let params = if message.get("$ref").is_some() { message } else { &message["params"] };
        let result = message.get("result").map(of_type).unwrap_or_default();
        let role = message["role"].as_str().map(|role| format!(" Least role: {role}.")).unwrap_or_default();
        let about = format!("{}{role}", cell(&prose(message)));
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| `{name}` | {} | {result} | {} |", of_type(params), about.trim());
    }
    table
}
