//! Converts tool schemas to the form that providers accept.

use serde_json::{Map, Value};

/// Returns `schema` as an object schema without annotations for editors, and without alternatives at the top
/// level, which providers reject there: their properties are merged. Arguments are validated against the
/// original schema when they arrive.
pub(crate) fn object(schema: &Value) -> Value {
    let mut fields = match schema {
        Value::Object(fields) => fields.clone(),
        // `true` is a schema too, but providers do not accept it for arguments.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    fields.remove("$schema");
    for (name, all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        if let Some(Value::Array(branches)) = fields.remove(name) {
            merge(&mut fields, schema, &branches, all);
        }
    }
    fields.insert("type".to_owned(), "object".into());
    fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Value::Object(fields)
}

/// Merges the schemas `branches`: of `allOf` all requirements, of alternatives only the requirements that
/// they have in common.
fn merge(fields: &mut Map<String, Value>, root: &Value, branches: &[Value], all: bool) {
    let branches: Vec<&Value> = branches.iter().map(|branch| target(root, branch)).collect();
    for (name, property) in
        branches.iter().filter_map(|branch| branch.get("properties")?.as_object()).flatten()
    {
        let properties = fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.entry(name).or_insert_with(|| property.clone());
        }
    }
    let demands = |branch: &Value, name: &Value| {
        branch.get("required").and_then(Value::as_array).is_some_and(|names| names.contains(name))
    };
    let named = branches.iter().filter_map(|branch| branch.get("required")?.as_array()).flatten();
    let wanted: Vec<Value> =
        named.filter(|name| all || branches.iter().all(|branch| demands(branch, name))).cloned().collect();
    if wanted.is_empty() {
        return;
    }
    let required = fields.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(required) = required {
        for name in wanted {
            if !required.contains(&name) {
                required.push(name);
            }
        }
    }
}

/// Resolves a branch that is a reference within the schema; returns any other branch unchanged.
fn target<'a>(root: &'a Value, branch: &'a Value) -> &'a Value {
    let pointer = branch.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(branch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_object_becomes_one() {
        let empty = json!({"type": "object", "properties": {}});
        for schema in [json!(true), json!({}), json!({"type": "string"}), json!({"type": ["object", "null"]})]
        {
            assert_eq!(object(&schema), empty, "{schema}");
        }
    }

    #[test]
    fn alternatives_at_the_top_are_offered_together() {
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {}},
            "required": ["path", "n"]});
        let url = json!({"properties": {"url": {"type": "string"}, "n": {}}, "required": ["url", "n"]});
        let merged = |required: Value| {
            json!({"type": "object", "required": required, "$defs": {"url": url},
                "properties": {"path": {"type": "string"}, "url": {"type": "string"}, "n": {}}})
        };
        for (name, required) in
            [("anyOf", json!(["n"])), ("oneOf", json!(["n"])), ("allOf", json!(["path", "n", "url"]))]
        {
            let schema = json!({name: [path, {"$ref": "#/$defs/url"}], "$defs": {"url": url}});
            assert_eq!(object(&schema), merged(required), "{name}");
        }
    }

    #[test]
    fn properties_at_the_top_precede_those_of_any_of() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "anyOf": [{"required": ["b"]}, {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}]});
        assert_eq!(
            object(&schema),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]})
        );
    }
}
