use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Description of a schema, without the brackets of rustdoc links.
pub(super) fn prose(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace("[`", "`").replace("`]", "`")
}

/// Table of an object's fields.
pub(super) fn fields(schema: &Value) -> String {
    let Some(all) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        return String::new();
    };
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut table = "| field | type | |\n|---|---|---|\n".to_owned();
    for (name, schema) in all {
        let mut about = cell(&prose(schema));
        if !required(name) && !accepts_null(schema) {
            about.push_str(" May be absent.");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| `{name}` | {} | {} |", of_type(schema), about.trim());
    }
    table
}

/// Describes a named type.
pub(super) fn definition(schema: &Value) -> String {
    let mut text = format!("{}\n", prose(schema));
    let variants = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let table = fields(schema);
    if let Some(variants) = variants {
        text.push_str("\nOne of:\n\n");
        for variant in variants {
            let _ = writeln!(text, "- {}", one_of(variant));
        }
    } else if !table.is_empty() {
        let _ = write!(text, "\n{table}");
    } else {
        let _ = writeln!(text, "\nIn JSON: {}.", of_type(schema));
    }
    text
}

/// Describes a variant of an enum in one line.
fn one_of(variant: &Value) -> String {
    let about = cell(&prose(variant));
    let mut parts: Vec<String> = Vec::new();
    if let Some(all) = variant["properties"].as_object() {
        parts.extend(all.iter().map(|(name, schema)| format!("`{name}`: {}", of_type(schema))));
        parts.extend(variant["$ref"].as_str().map(|name| format!("the fields of {}", reference(name))));
    } else {
        parts.push(of_type(variant));
    }
    if about.is_empty() { parts.join(", ") } else { format!("{}: {about}", parts.join(", ")) }
}

/// JSON type of a value, in words.
pub(super) fn of_type(schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return "any JSON".to_owned() };
    if let Some(name) = object.get("$ref").and_then(Value::as_str) {
        return reference(name);
    }
    if let Some(value) = object.get("const") {
        return format!("`{value}`");
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| object.get(*key)?.as_array());
    if let Some(all) = alternatives {
        return all.iter().map(of_type).collect::<Vec<_>>().join(" or ");
    }
    if let Some(all) = object.get("enum").and_then(Value::as_array) {
        return all.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or ");
    }
    match object.get("type") {
        Some(Value::String(name)) => named(name, object),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str).map(|name| named(name, object));
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn named(name: &str, schema: &Map<String, Value>) -> String {
    match name {
        "array" => match (schema.get("items"), schema.get("prefixItems").and_then(Value::as_array)) {
            (_, Some(parts)) => format!("[{}]", parts.iter().map(of_type).collect::<Vec<_>>().join(", ")),
            (Some(items), None) => format!("list of {}", of_type(items)),
            (None, None) => "list".to_owned(),
        },
        "object" => match schema.get("additionalProperties") {
            Some(values) if values.is_object() => format!("map of {}", of_type(values)),
            _ => "object".to_owned(),
        },
        name => name.to_owned(),
    }
}

fn reference(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("[`{name}`](#type-{})", name.to_lowercase())
}

fn accepts_null(schema: &Value) -> bool {
    let null = |value: &Value| value["type"] == "null" || value == "null";
    schema["type"].as_array().is_some_and(|all| all.iter().any(null))
        || schema["anyOf"].as_array().is_some_and(|all| all.iter().any(null))
}

/// Text for a table cell or a list line.
pub(super) fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
