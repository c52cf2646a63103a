//! Converts schemas of answers to the subset that providers enforce strictly.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::catalogue::schema_limits::SchemaLimits;

/// Keywords with information for people only.
const ANNOTATIONS: &[&str] =
    &["$comment", "$id", "$schema", "default", "deprecated", "examples", "readOnly", "title", "writeOnly"];
/// Keywords that no provider enforces: they are moved into the description.
const UNENFORCED: &[&str] = &[
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "uniqueItems",
];

/// Returns `schema` in the strict form; `None` if it cannot be expressed, for example because of free keys,
/// recursion or unrestricted values.
pub(crate) fn strict(schema: &Value, limits: SchemaLimits) -> Option<Value> {
    let mut reader = Reader { root: schema, within: BTreeSet::new(), optional: 0, unions: 0 };
    let Value::Object(mut strict) = reader.convert(schema)? else { return None };
    if !strict.contains_key("properties") {
        return None;
    }
    for name in ["$defs", "definitions"] {
        if let Some(Value::Object(all)) = schema.get(name) {
            let read: Option<Map<String, Value>> =
                all.iter().map(|(name, one)| Some((name.clone(), reader.convert(one)?))).collect();
            strict.insert(name.to_owned(), Value::Object(read?));
        }
    }
    let fits = reader.optional <= limits.optional && reader.unions <= limits.unions;
    (fits && !(limits.all_required && reader.optional > 0)).then_some(Value::Object(strict))
}

struct Reader<'a> {
    root: &'a Value,
    /// References on the current path, to detect recursion.
    within: BTreeSet<&'a str>,
    optional: usize,
    unions: usize,
}

impl<'a> Reader<'a> {
    fn convert(&mut self, schema: &'a Value) -> Option<Value> {
        let fields = schema.as_object()?;
        if let Some(target) = fields.get("$ref") {
            return self.resolve_reference(target.as_str()?);
        }
        let mut out = Map::new();
        let mut notes = Vec::new();
        for (name, value) in fields {
            match name.as_str() {
                "$defs" | "definitions" | "required" | "additionalProperties" => {}
                name if ANNOTATIONS.contains(&name) => {}
                name if UNENFORCED.contains(&name) => notes.push(format!("{name}: {value}")),
                "type" => {
                    self.unions += usize::from(value.is_array());
                    out.insert(name.clone(), value.clone());
                }
                "description" | "enum" | "const" => {
                    out.insert(name.clone(), value.clone());
                }
                "items" => {
                    out.insert(name.clone(), self.convert(value)?);
                }
                "anyOf" | "oneOf" => {
                    self.unions += 1;
                    let branches: Option<Vec<Value>> =
                        value.as_array()?.iter().map(|branch| self.convert(branch)).collect();
                    out.insert("anyOf".to_owned(), branches?.into());
                }
                "properties" => {
                    let read: Option<Map<String, Value>> = value
                        .as_object()?
                        .iter()
                        .map(|(name, one)| Some((name.clone(), self.convert(one)?)))
                        .collect();
                    out.insert(name.clone(), Value::Object(read?));
                }
                _ => return None,
            }
        }
        self.convert_object(fields, &mut out)?;
        let is = |kind: &str| match out.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(several)) => several.iter().any(|one| one == kind),
            _ => false,
        };
        let says = ["type", "enum", "const", "anyOf"].iter().any(|name| out.contains_key(*name));
        if !says || (is("array") && !out.contains_key("items")) {
            return None;
        }
        if !notes.is_empty() {
            let existing = out.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = format!("{existing} ({})", notes.join(", "));
            out.insert("description".to_owned(), description.trim_start().into());
        }
        Some(Value::Object(out))
    }

    /// Converts an object schema, with exactly the named keys.
    fn convert_object(&mut self, fields: &Map<String, Value>, out: &mut Map<String, Value>) -> Option<()> {
        let is_object = fields.get("type").is_some_and(|kind| *kind == "object" || is_object_type(kind));
        let Some(properties) = out.get("properties").and_then(Value::as_object) else {
            return (!is_object).then_some(());
        };
        if out.contains_key("anyOf") {
            return None;
        }
        let is_open = fields.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
        if is_open || properties.is_empty() {
            return None;
        }
        let required: Vec<Value> =
            fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_required = |name: &&String| required.iter().any(|other| *other == ***name);
        self.optional += properties.len() - properties.keys().filter(is_required).count();
        if !fields.contains_key("type") {
            out.insert("type".to_owned(), "object".into());
        }
        out.insert("required".to_owned(), required.into());
        out.insert("additionalProperties".to_owned(), false.into());
        Some(())
    }

    /// Resolves a reference, unless it is recursive.
    fn resolve_reference(&mut self, target: &'a str) -> Option<Value> {
        let is_known = target.starts_with("#/$defs/") || target.starts_with("#/definitions/");
        let found = self.root.pointer(target.strip_prefix('#')?).filter(|_| is_known)?;
        if !self.within.insert(target) {
            return None;
        }
        // Properties and unions of the target are counted at its definition only.
        let (optional, unions) = (self.optional, self.unions);
        self.convert(found)?;
        (self.optional, self.unions) = (optional, unions);
        self.within.remove(target);
        Some(Value::Object(Map::from_iter([("$ref".to_owned(), target.into())])))
    }
}

fn is_object_type(kind: &Value) -> bool {
    kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::strict;
    use crate::catalogue::schema_limits::{COMPLETIONS, MESSAGES};

    fn object(properties: impl Into<Value>, required: &[&str]) -> Value {
        json!({"type": "object", "properties": properties.into(), "required": required})
    }

    #[test]
    fn annotations_are_left_out_and_unenforced_keywords_are_described() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Answer", "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "description": "How many"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 3},
            },
            "required": ["n", "tags"],
            "$defs": {"tag": {"title": "Tag", "type": "string"}},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer", "description": "How many (minimum: 1)"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "description": "(maxItems: 3)"},
            },
            "required": ["n", "tags"],
            "additionalProperties": false,
            "$defs": {"tag": {"type": "string"}},
        });
        for limits in [MESSAGES, COMPLETIONS] {
            assert_eq!(strict(&schema, limits), Some(expected.clone()));
        }
    }

    #[test]
    fn schemas_that_the_strict_form_cannot_express_are_refused() {
        let text = json!({"type": "string"});
        let node =
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]});
        let mut recursive = object(json!({"first": {"$ref": "#/$defs/node"}}), &["first"]);
        recursive["$defs"] = json!({"node": node});
        let many = |count: usize| -> Value { (0..count).map(|n| (format!("p{n}"), text.clone())).collect() };
        let mut open = object(json!({"a": text}), &["a"]);
        open["additionalProperties"] = json!(true);
        let mut either = object(json!({"a": text}), &["a"]);
        either["anyOf"] = json!([either.clone(), object(json!({"b": text}), &["b"])]);
        for (what, schema, messages, completions) in [
            ("all required", object(json!({"a": text}), &["a"]), true, true),
            ("one optional", object(json!({"a": text}), &[]), true, false),
            ("24 optional", object(many(24), &[]), true, false),
            ("25 optional", object(many(25), &[]), false, false),
            ("a union", object(json!({"a": {"type": ["string", "null"]}}), &["a"]), true, true),
            ("free keys", open, false, false),
            ("any object", object(json!({"a": {"type": "object"}}), &["a"]), false, false),
            ("anything", object(json!({"a": {}}), &["a"]), false, false),
            ("a list of anything", object(json!({"a": {"type": "array"}}), &["a"]), false, false),
            ("recursion", recursive, false, false),
            ("a reference to nothing", object(json!({"a": {"$ref": "#/$defs/b"}}), &["a"]), false, false),
            (
                "a condition",
                object(json!({"a": {"type": "string", "not": {"const": "b"}}}), &["a"]),
                false,
                false,
            ),
            ("no object", text.clone(), false, false),
            ("alternatives with keys in common", either, false, false),
        ] {
            let can = [MESSAGES, COMPLETIONS].map(|limits| strict(&schema, limits).is_some());
            assert_eq!(can, [messages, completions], "{what}");
        }
    }
}
