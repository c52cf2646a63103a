use serde_json::Value;

use crate::node::Key;
use crate::suggest::either;

/// Describes why a value is invalid for a key, to follow the key's name; `None` if it is valid.
pub(crate) fn describe_mismatch(key: &Key, value: &toml::Value) -> Option<String> {
    if fits(&key.schema, value) {
        return None;
    }
    Some(match (enum_values(&key.schema), value) {
        (Some(words), toml::Value::String(word)) if key.expected.is_none() => {
            format!("cannot be `{word}`; use {}", either(&words))
        }
        _ => format!("must be {}", expected(key)),
    })
}

/// Describes the valid values of a key: `true or false`.
pub(crate) fn expected(key: &Key) -> String {
    key.expected.clone().unwrap_or_else(|| describe_schema(&key.schema))
}

/// Values of an enumeration.
pub(crate) fn enum_values(schema: &Value) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}

fn describe_schema(schema: &Value) -> String {
    if let Some(words) = enum_values(schema) {
        return either(&words);
    }
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let least = number("minimum").or_else(|| number("exclusiveMinimum"));
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "a text in quotes".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => "a list of texts in quotes".to_owned(),
        Some("object") => "a table".to_owned(),
        Some(kind @ ("integer" | "number")) => {
            let what = if kind == "integer" { "a whole number" } else { "a number" };
            match (least, number("maximum")) {
                (Some(least), Some(most)) if most < f64::from(u32::MAX) => {
                    format!("{what} from {least} to {most}")
                }
                (Some(least), _) => format!("{what} from {least}"),
                (None, Some(most)) if most < f64::from(u32::MAX) => format!("{what} up to {most}"),
                (None, _) => what.to_owned(),
            }
        }
        Some(_) | None => "another value".to_owned(),
    }
}

/// Whether a value is valid for a schema, including patterns and bounds of nested values.
fn fits(schema: &Value, value: &toml::Value) -> bool {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        return choices.iter().any(|choice| fits(choice, value));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().any(|word| word.as_str().is_some_and(|word| Some(word) == value.as_str()));
    }
    match (schema.get("type").and_then(Value::as_str), value) {
        (Some("string"), toml::Value::String(text)) => matches(schema, text),
        (Some("boolean"), toml::Value::Boolean(_)) => true,
        (Some("integer" | "number"), toml::Value::Integer(number)) => is_within(schema, *number as f64),
        (Some("number"), toml::Value::Float(number)) => number.is_finite() && is_within(schema, *number),
        (Some("array"), toml::Value::Array(items)) => {
            schema.get("items").is_none_or(|schema| items.iter().all(|item| fits(schema, item)))
        }
        (Some("object"), toml::Value::Table(table)) => {
            let named = schema.get("properties");
            table.iter().all(|(name, value)| {
                named.and_then(|named| named.get(name)).is_none_or(|schema| fits(schema, value))
            })
        }
        (None, _) => true,
        (Some(_), _) => false,
    }
}

fn is_within(schema: &Value, number: f64) -> bool {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("exclusiveMinimum").is_none_or(|least| number > least)
}

fn matches(schema: &Value, text: &str) -> bool {
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return true };
    regex_lite::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}
