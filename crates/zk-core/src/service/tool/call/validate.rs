use crate::events::Coercion;
use serde_json::{Map, Number, Value};

/// Maximum depth of references and unions that are followed in a schema.
const MAX_DEPTH: usize = 8;

/// Valid arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Coerced arguments.
    pub args: Value,
    /// Conversions that were made.
    pub coercions: Vec<Coercion>,
}

/// Checks arguments against the top level of a JSON Schema, and coerces common mistakes of models: words and
/// digits for booleans, digits for numbers, JSON text for arrays and objects, numbers and booleans for
/// strings. A required field that is missing or null is an error.
///
/// Deeper levels are checked by the tool.
///
/// # Errors
/// One readable line for each invalid argument.
///
/// ```
/// use serde_json::json;
/// use zk_core::service::validate;
///
/// let schema = json!({"type": "object", "properties": {"limit": {"type": "integer"}}});
/// let fits = validate(&json!({"limit": "20"}), &schema).unwrap();
/// assert_eq!(fits.args, json!({"limit": 20}));
/// assert_eq!(fits.coercions.len(), 1);
/// ```
pub fn validate(args: &Value, schema: &Value) -> Result<Validated, Vec<String>> {
    let Value::Object(given) = args else {
        return Err(vec![format!("the arguments must be a JSON object, not {}", kind_of(args))]);
    };
    let mut issues: Vec<String> = required_fields(schema)
        .filter(|key| given.get(*key).is_none_or(Value::is_null))
        .map(|key| format!("`{key}` is required"))
        .collect();
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut fitting = given.clone();
    let mut coercions = Vec::new();
    for (key, value) in given {
        let Some(property) = properties.get(key) else { continue };
        // A null optional argument counts as absent.
        if value.is_null() || fits_schema(value, property, schema) {
            continue;
        }
        match coerce(value, property, schema) {
            Some(to) => {
                fitting.insert(key.clone(), to.clone());
                coercions.push(Coercion { key: key.clone(), from: value.clone(), to });
            }
            None => issues.push(format!(
                "`{key}` must be {}, not {}",
                describe_types(property, schema),
                describe_value(value)
            )),
        }
    }
    if issues.is_empty() { Ok(Validated { args: Value::Object(fitting), coercions }) } else { Err(issues) }
}

fn required_fields(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the alternatives of a property's schema: itself, its reference target, or the branches of its
/// union.
fn branches<'a>(property: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    branches_within(property, root, MAX_DEPTH)
}

/// Returns the alternatives down to the depth limit, beyond which any value fits: a schema may come from
/// anywhere and refer to itself.
fn branches_within<'a>(property: &'a Value, root: &'a Value, depth: usize) -> Vec<&'a Value> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(target) = property.get("$ref").and_then(Value::as_str) {
        return target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .map_or_else(Vec::new, |found| branches_within(found, root, depth));
    }
    match property.get("anyOf").or_else(|| property.get("oneOf")).and_then(Value::as_array) {
        Some(all) => all.iter().flat_map(|one| branches_within(one, root, depth)).collect(),
        None => vec![property],
    }
}

/// Returns the JSON types that one alternative of a schema allows; empty if it allows all.
fn allowed_types(branch: &Value) -> Vec<&str> {
    match branch.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

fn fits_schema(value: &Value, property: &Value, root: &Value) -> bool {
    let branches = branches(property, root);
    branches.is_empty() || branches.iter().any(|branch| fits_branch(value, branch))
}

fn fits_branch(value: &Value, branch: &Value) -> bool {
    if let Some(allowed) = branch.get("enum").and_then(Value::as_array) {
        return allowed.contains(value);
    }
    if let Some(only) = branch.get("const") {
        return only == value;
    }
    let types = allowed_types(branch);
    types.is_empty() || types.iter().any(|kind| has_type(value, kind))
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn coerce(value: &Value, property: &Value, root: &Value) -> Option<Value> {
    branches(property, root).into_iter().find_map(|branch| {
        let candidates = allowed_types(branch).into_iter().filter_map(|kind| convert_to_type(value, kind));
        candidates.into_iter().find(|candidate| fits_branch(candidate, branch))
    })
}

fn convert_to_type(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(Value::Bool(true)),
            "false" | "no" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        ("integer", Value::String(text)) => {
            let text = text.trim();
            text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
        }
        ("number", Value::String(text)) => {
            let number = text.trim().parse::<f64>().ok()?;
            text.trim()
                .parse::<i64>()
                .map(Value::from)
                .ok()
                .or_else(|| Number::from_f64(number).map(Value::Number))
        }
        ("array", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_array),
        ("object", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_object),
        // JSON Schema takes 3.0 as an integer; the tool's Rust types do not.
        ("integer", Value::Number(number)) => {
            number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| Value::from(n as i64))
        }
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(flag)) => Some(Value::String(flag.to_string())),
        _ => None,
    }
}

fn describe_types(property: &Value, root: &Value) -> String {
    let words: Vec<String> = branches(property, root)
        .into_iter()
        .flat_map(|branch| match branch.get("enum").and_then(Value::as_array) {
            Some(allowed) => allowed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            None => allowed_types(branch).into_iter().map(str::to_owned).collect(),
        })
        .collect();
    words.join(" or ")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn describe_value(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        text
    } else {
        format!("{}…", text.chars().take(60).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn sample_schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "flag": {"type": "boolean"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "name": {"type": "string"},
                "list": {"type": "array"},
                "map": {"type": "object"},
                "maybe": {"type": ["integer", "null"]},
                "mode": {"enum": ["files", "content"]},
                "edit": {"$ref": "#/$defs/Edit"},
            },
            "required": ["name"],
            "$defs": {"Edit": {"type": "object"}},
        })
    }

    #[test]
    fn a_required_field_that_is_null_fails_outright() {
        assert_eq!(
            validate(&json!({"name": null}), &sample_schema()),
            Err(vec!["`name` is required".to_owned()])
        );
        assert_eq!(validate(&json!({}), &sample_schema()), Err(vec!["`name` is required".to_owned()]));
    }

    #[test]
    fn words_digits_and_json_text_are_converted_at_the_top_level() {
        let args = json!({
            "name": 5, "flag": "Yes", "count": "7", "ratio": "0.5", "list": "[1]", "map": "{\"a\":1}",
            "maybe": "3", "edit": "{}",
        });
        let fits = validate(&args, &sample_schema()).unwrap();
        let expected = json!({
            "name": "5", "flag": true, "count": 7, "ratio": 0.5, "list": [1], "map": {"a": 1}, "maybe": 3,
            "edit": {},
        });
        assert_eq!(fits.args, expected);
        assert_eq!(fits.coercions.len(), 8);
    }

    #[test]
    fn nothing_is_reported_when_nothing_was_converted() {
        let fits = validate(&json!({"name": "a", "maybe": null, "other": 1}), &sample_schema()).unwrap();
        assert_eq!(fits.coercions, []);
    }

    #[test]
    fn an_unconvertible_value_is_reported_with_the_expected_type() {
        let issues =
            validate(&json!({"name": "a", "count": "many", "mode": "lines"}), &sample_schema()).unwrap_err();
        assert_eq!(
            issues,
            [
                "`count` must be integer, not \"many\"",
                "`mode` must be \"files\" or \"content\", not \"lines\""
            ]
        );
    }

    #[test]
    fn a_whole_number_with_a_fraction_becomes_an_integer() {
        let fits = validate(&json!({"name": "a", "count": 3.0}), &sample_schema()).unwrap();
        assert_eq!(fits.args["count"], json!(3));
        assert!(validate(&json!({"name": "a", "count": 3.5}), &sample_schema()).is_err());
    }

    #[test]
    fn a_recursive_schema_is_followed_to_the_depth_limit() {
        let endless = json!({"properties": {
            "a": {"$ref": "#/properties/a"},
            "b": {"anyOf": [{"$ref": "#/properties/b"}, {"$ref": "#/properties/b"}]},
        }});
        let args = json!({"a": 1, "b": 2});
        assert_eq!(validate(&args, &endless).unwrap().args, args);
    }

    #[test]
    fn nested_values_are_left_alone() {
        let nested = json!({"type": "object", "properties": {"map": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
        let args = json!({"map": {"n": "1"}});
        assert_eq!(validate(&args, &nested).unwrap().args, args);
    }

    proptest! {
        #[test]
        fn validated_arguments_need_no_second_coercion(count in any::<i64>(), flag in any::<bool>(), text in ".*") {
            let args = json!({"name": text, "count": count.to_string(), "flag": flag.to_string()});
            let first = validate(&args, &sample_schema()).unwrap();
            let second = validate(&first.args, &sample_schema()).unwrap();
            prop_assert_eq!(second.coercions.len(), 0);
            prop_assert_eq!(second.args, first.args);
        }
    }
}
