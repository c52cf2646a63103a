//! Tool schemas as Gemini reads them.

use serde_json::{Map, Value};

/// `schema` without `const`, which Gemini does not heed: one allowed value says the same.
pub(super) fn parameters(schema: &Value) -> Value {
    let mut schema = crate::schema::object(schema);
    rewrite(&mut schema);
    schema
}

/// Which keywords hold schemas, and how.
const ONE: &[&str] = &["additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];
const MANY: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems", "items"];
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

fn rewrite(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if let Some(only) = fields.remove("const") {
        fields.insert("enum".into(), Value::Array(vec![only]));
    }
    let each = |fields: &mut Map<String, Value>, keys: &[&str], change: fn(&mut Value)| {
        for key in keys {
            if let Some(value) = fields.get_mut(*key) {
                change(value);
            }
        }
    };
    each(fields, ONE, rewrite);
    each(fields, MANY, |value| match value {
        Value::Array(schemas) => schemas.iter_mut().for_each(rewrite),
        one => rewrite(one),
    });
    each(fields, NAMED, |value| {
        if let Value::Object(schemas) = value {
            schemas.values_mut().for_each(rewrite);
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parameters;

    #[test]
    fn const_becomes_an_enum_wherever_a_schema_stands_and_nowhere_else() {
        let schema = json!({
            "$schema": "x", "type": "object",
            "properties": {
                "const": {"type": "string", "default": {"const": 1}},
                "kind": {"const": "a"},
                "list": {"type": "array", "items": {"anyOf": [{"const": 1}, {"const": null}]}},
            },
            "additionalProperties": false,
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "const": {"type": "string", "default": {"const": 1}},
                "kind": {"enum": ["a"]},
                "list": {"type": "array", "items": {"anyOf": [{"enum": [1]}, {"enum": [null]}]}},
            },
            "additionalProperties": false,
        });
        assert_eq!(parameters(&schema), expected);
    }
}
