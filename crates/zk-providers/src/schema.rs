//! Tool schemas as providers take them.

use serde_json::{Map, Value};

/// `schema` as an object schema without the fields that only editors read.
pub(crate) fn object(schema: &Value) -> Value {
    let mut fields = match schema {
        Value::Object(fields) => fields.clone(),
        // `true` is a schema too, but none that a provider takes for arguments.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    fields.remove("$schema");
    fields.entry("type").or_insert_with(|| "object".into());
    fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Value::Object(fields)
}
