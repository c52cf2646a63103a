//! Prepares schemas of answers for servers that make a grammar of them.

use serde_json::Value;

/// Largest count that is kept: a grammar repeats a rule as often as it says.
const MAX_COUNT: u64 = 256;

/// Keywords with a count.
const COUNTS: [&str; 4] = ["maxItems", "maxLength", "minItems", "minLength"];

/// Keywords that are left out: llama.cpp rejects a pattern without anchors, and knows few formats.
const UNKNOWN: [&str; 4] = ["$schema", "$id", "format", "pattern"];

/// Returns the schema without what such a server rejects. The answer is validated in any case.
pub(crate) fn loose(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let is_kept = |(name, value): &(&String, &Value)| {
                let is_keyword = !value.is_object() && !value.is_array();
                let is_large =
                    COUNTS.contains(&name.as_str()) && value.as_u64().is_some_and(|n| n > MAX_COUNT);
                !(is_keyword && (is_large || UNKNOWN.contains(&name.as_str())))
            };
            let kept = fields.iter().filter(is_kept);
            kept.map(|(name, value)| {
                // Values are data, not schemas.
                let is_data = matches!(name.as_str(), "const" | "enum" | "default" | "examples");
                (name.clone(), if is_data { value.clone() } else { loose(value) })
            })
            .collect()
        }
        Value::Array(items) => items.iter().map(loose).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_keywords_that_a_loose_server_rejects_are_removed() {
        let schema = json!({
            "$schema": "x", "type": "object",
            "properties": {
                "pattern": {"type": "string", "pattern": "a", "maxLength": 9000, "minLength": 1},
                "format": {"enum": [{"pattern": "kept"}]},
            },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1},
                "format": {"enum": [{"pattern": "kept"}]},
            },
        });
        assert_eq!(loose(&schema), expected);
    }
}
