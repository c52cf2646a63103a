//! Checks whether providers accept a tool: one invalid name or schema makes them reject every request.

use std::sync::Arc;

use serde_json::Value;
use zk_core::kernel::{Bus, Item};
use zk_core::model::{AgentError, ToolSpec};
use zk_core::service::{CallPlace, Tool};

use super::Aliases;
use super::catch::catch_panic;
use crate::ToolSet;

/// Maximum nesting depth of an accepted schema, far beyond a model's understanding.
const MAX_DEPTH: usize = 64;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Checks the tools that are currently registered.
///
/// # Errors
/// [`AgentError::Usage`] that names the tool and the problem of its name or schema.
pub(crate) fn check_tools(bus: &Bus, set: &ToolSet, aliases: &Aliases) -> Result<(), AgentError> {
    let items = bus.items::<dyn Tool>();
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let mut offered = items.iter().filter(|item| set.offers(&item.name, &*item.value, &place));
    offered.try_for_each(|item| check_tool(item, aliases, None).map(drop)).map_err(AgentError::Usage)
}

/// Checks a tool and returns its specification under the name that the model sees. A specification equal to
/// `known` is not checked again.
///
/// # Errors
/// Reason for which the tool cannot be offered, and how to fix that.
pub(super) fn check_tool(
    item: &Item<dyn Tool>,
    aliases: &Aliases,
    known: Option<&Arc<ToolSpec>>,
) -> Result<Arc<ToolSpec>, String> {
    let name = &*item.name;
    let spec = catch_panic(|| aliases.spec(name, item.value.spec()))
        .ok_or_else(|| format!("tool `{name}` of `{}` panicked when asked what it is", item.source))?;
    if let Some(known) = known.filter(|known| ***known == *spec) {
        return Ok(known.clone());
    }
    aliases.check(name)?;
    check_name(&spec.name)?;
    check_schema(&spec.schema).map_err(|why| format!("the schema of tool `{name}` {why}"))?;
    Ok(spec)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_legal = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_legal {
        return Ok(());
    }
    Err(format!(
        "no provider takes `{name}` as the name of a tool: give it an alias of 1 to 64 letters, digits, `_` and `-`"
    ))
}

/// Checks that a schema describes an object and is a valid JSON Schema.
fn check_schema(schema: &Value) -> Result<(), String> {
    let is_object =
        schema.is_object() && schema.get("type").is_none_or(|kind| kind.as_str() == Some("object"));
    if !is_object {
        return Err(
            "does not describe an object: give it `\"type\": \"object\"` and its arguments as `properties`"
                .to_owned(),
        );
    }
    Check { root: schema }
        .check_subschema(schema, "#", 0)
        .map_err(|why| format!("is no valid JSON Schema: {why}"))
}

/// Checker of the keywords that all dialects of JSON Schema share; others are ignored.
struct Check<'a> {
    root: &'a Value,
}

impl Check<'_> {
    fn check_subschema(&self, schema: &Value, at: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(_) => return Ok(()),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(format!("`{at}` is {schema}, not an object or a boolean"));
            }
        };
        fields.iter().try_for_each(|(keyword, value)| self.check_keyword(keyword, value, at, depth))
    }

    fn check_keyword(&self, keyword: &str, value: &Value, at: &str, depth: usize) -> Result<(), String> {
        let place = || format!("{at}/{keyword}");
        let must_be = |what: &str| Err(format!("`{}` is {value}, not {what}", place()));
        match keyword {
            "type" => {
                let is_type = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
                let fits = match value {
                    Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_type),
                    kind => is_type(kind),
                };
                if fits { Ok(()) } else { must_be(&format!("one of {}", TYPES.join(", "))) }
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let Value::Object(schemas) = value else { return must_be("an object of schemas") };
                schemas.iter().try_for_each(|(name, schema)| {
                    self.check_subschema(schema, &format!("{}/{name}", place()), depth + 1)
                })
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => match value {
                Value::Array(schemas) if !schemas.is_empty() => self.check_list(schemas, &place(), depth),
                _ => must_be("a list of schemas"),
            },
            "items" => match value {
                Value::Array(schemas) => self.check_list(schemas, &place(), depth),
                schema => self.check_subschema(schema, &place(), depth + 1),
            },
            "additionalProperties"
            | "additionalItems"
            | "contains"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties" => self.check_subschema(value, &place(), depth + 1),
            "required" => match value.as_array() {
                Some(names) if names.iter().all(Value::is_string) => Ok(()),
                _ => must_be("a list of names"),
            },
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() => Ok(()),
                _ => must_be("a list of values"),
            },
            "minimum" | "maximum" | "multipleOf" if !value.is_number() => must_be("a number"),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
                if value.as_f64().is_none_or(|number| number < 0.0 || number.fract() != 0.0) =>
            {
                must_be("a count")
            }
            "description" | "title" | "pattern" | "format" if !value.is_string() => must_be("a text"),
            "$ref" => match value.as_str() {
                None => must_be("a text"),
                Some(target) => match target.strip_prefix('#') {
                    Some(path) if path.starts_with('/') && self.root.pointer(path).is_none() => {
                        Err(format!("`{}` names `{target}`, which is not there", place()))
                    }
                    Some(_) | None => Ok(()),
                },
            },
            _ => Ok(()),
        }
    }

    fn check_list(&self, schemas: &[Value], at: &str, depth: usize) -> Result<(), String> {
        let mut numbered = schemas.iter().enumerate();
        numbered
            .try_for_each(|(index, schema)| self.check_subschema(schema, &format!("{at}/{index}"), depth + 1))
    }
}
