//! Converts tool schemas for Gemini.

use serde_json::{Map, Value};

/// Returns `schema` with `const` replaced by an `enum` of one value, since Gemini ignores `const`.
pub(super) fn parameters(schema: &Value) -> Value {
    let mut schema = crate::encode::tool_schema::object(schema);
    rewrite(&mut schema);
    schema
}

/// Keywords whose value is one schema.
const ONE: &[&str] = &["additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];
/// Keywords whose value is a list of schemas.
const MANY: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords whose value is a map of schemas.
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
