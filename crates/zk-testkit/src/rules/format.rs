//! Limits of schemas for structured output.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Checked, Rule, is_tool_name, reject, text_of};

/// Keywords that a provider rejects, and the largest sizes that it accepts.
pub(super) struct Limits {
    refused: &'static [&'static str],
    optional: usize,
    unions: usize,
    recursion: bool,
}

/// Limits of Anthropic for schemas in `output_config.format`.
pub(super) const ANTHROPIC: Limits = Limits {
    refused: &[
        "allOf",
        "else",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "if",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "patternProperties",
        "then",
        "uniqueItems",
    ],
    optional: 24,
    unions: 16,
    recursion: false,
};

/// Limits of OpenAI for schemas with `strict`; others are not limited.
pub(super) const OPENAI: Limits = Limits {
    refused: &[
        "allOf",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "patternProperties",
        "then",
    ],
    optional: 0,
    unions: usize::MAX,
    recursion: true,
};

/// Checks a schema as a provider does before it compiles it.
pub(super) fn check(schema: Option<&Value>, limits: &Limits) -> Checked {
    let Some(root) = schema.filter(|schema| schema.is_object()) else {
        return reject(Rule::Output, "the format has no `schema`");
    };
    if root.get("type").is_none_or(|kind| kind != "object") || root.get("anyOf").is_some() {
        return reject(Rule::Output, "schema must be a JSON Schema of 'type: \"object\"'");
    }
    let mut seen = Seen { root, limits, within: BTreeSet::new(), optional: 0, unions: 0 };
    seen.check_schema(root, "schema")?;
    if seen.optional > limits.optional {
        let message = format!("Schemas contains too many optional parameters ({})", seen.optional);
        return reject(Rule::Output, message);
    }
    if seen.unions > limits.unions {
        let message = format!("Schemas contains too many parameters with union types ({})", seen.unions);
        return reject(Rule::Output, message);
    }
    Ok(())
}

/// Checks an output format by the rules of both OpenAI APIs.
pub(super) fn check_openai(asked: &Value) -> Checked {
    if !text_of(asked, "name").is_some_and(is_tool_name) {
        return reject(Rule::Output, "Missing or illegal 'name' of the format.");
    }
    match asked.get("strict") {
        Some(Value::Bool(true)) => check(asked.get("schema"), &OPENAI),
        Some(_) | None => Ok(()),
    }
}

struct Seen<'a> {
    root: &'a Value,
    limits: &'a Limits,
    within: BTreeSet<&'a str>,
    optional: usize,
    unions: usize,
}

impl<'a> Seen<'a> {
    fn check_schema(&mut self, schema: &'a Value, place: &str) -> Checked {
        let Some(fields) = schema.as_object() else {
            return reject(Rule::Output, format!("{place}: a schema is an object"));
        };
        if let Some(name) = self.limits.refused.iter().find(|name| fields.contains_key(**name)) {
            return reject(Rule::Output, format!("{place}: '{name}' is not permitted"));
        }
        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
            return self.check_reference(target, place);
        }
        let types = fields.get("type").into_iter().flat_map(|kind| match kind {
            Value::Array(several) => several.iter().collect::<Vec<_>>(),
            one => vec![one],
        });
        if types.into_iter().any(|kind| kind == "object") {
            self.check_object(fields, place)?;
        }
        self.unions +=
            usize::from(fields.contains_key("anyOf") || fields.get("type").is_some_and(Value::is_array));
        let branches = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
        for inner in branches.chain(fields.get("items")) {
            self.check_schema(inner, &format!("{place}.items"))?;
        }
        Ok(())
    }

    fn check_object(&mut self, fields: &'a Map<String, Value>, place: &str) -> Checked {
        if fields.get("additionalProperties") != Some(&Value::Bool(false)) {
            let message =
                format!("{place}: For 'object' type, 'additionalProperties' must be explicitly set to false");
            return reject(Rule::Output, message);
        }
        let required: Vec<&Value> =
            fields.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.iter().any(|other| *other == name);
            if !is_required && self.limits.optional == 0 {
                let message = format!(
                    "{place}: 'required' is required to be supplied and to be an array including every key in \
                     properties. Missing '{name}'."
                );
                return reject(Rule::Output, message);
            }
            self.optional += usize::from(!is_required);
            self.check_schema(property, &format!("{place}.{name}"))?;
        }
        Ok(())
    }

    fn check_reference(&mut self, target: &'a str, place: &str) -> Checked {
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(found) = found else {
            return reject(
                Rule::Output,
                format!("{place}: reference to component '{target}' which was not found"),
            );
        };
        if !self.within.insert(target) {
            return match self.limits.recursion {
                true => Ok(()),
                false => reject(Rule::Output, format!("{place}: Recursive schemas are not supported")),
            };
        }
        self.check_schema(found, target)?;
        self.within.remove(target);
        Ok(())
    }
}
