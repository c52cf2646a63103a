//! Types of the clients of `zk rpc`, made from its schema.

mod python;
mod typescript;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// Page that has the schema.
const SCHEMA: &str = "docs/reference/schemas/rpc.json";

/// Files of the clients that are generated, from the pages of schemas.
pub(super) fn pages(schemas: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let (_, text) =
        schemas.iter().find(|(path, _)| path == SCHEMA).context("the schema of `zk rpc` is missing")?;
    let schema: Value = serde_json::from_str(text).context("the schema of `zk rpc` is no JSON")?;
    Ok(vec![
        ("clients/typescript/src/types.ts".to_owned(), typescript::file(&schema)),
        ("clients/python/src/zk_rpc/types.py".to_owned(), python::file(&schema)),
    ])
}

/// Name that a reference ends with.
fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// Schemas of which a value has one.
fn choices(schema: &Value) -> Option<&Vec<Value>> {
    schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())
}

/// Fields of an object, each with whether it has to be there.
fn fields(schema: &Value) -> Vec<(&str, &Value, bool)> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    all.map(|(name, of)| (name.as_str(), of, required.contains(&name.as_str()))).collect()
}

/// Names of the types that a value may have.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn object<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    schema[name].as_object().unwrap_or(&NOTHING).iter()
}

/// First paragraph of the words on a schema, on one line.
fn words(schema: &Value) -> Option<String> {
    let text = schema["description"].as_str()?.split("\n\n").next()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "methods": { "a/b": {
                "params": { "$ref": "#/$defs/Params" }, "result": { "$ref": "#/$defs/Choice" }, "role": "viewer"
            } },
            "notifications": { "n": { "$ref": "#/$defs/Params" } },
            "$defs": {
                "Params": {
                    "description": "Words on it.\n\nMore.", "type": "object", "required": ["id"],
                    "properties": {
                        "id": { "type": "integer" }, "lines": { "type": "array", "items": { "type": "string" } },
                        "may": { "type": ["string", "null"] }
                    }
                },
                "Choice": { "oneOf": [
                    { "type": "object", "required": ["kind"], "properties": { "kind": { "const": "one" } } },
                    { "type": "object", "required": ["kind"], "properties": { "kind": { "const": "two" } }, "$ref": "#/$defs/Params" }
                ] },
                "Again": { "$ref": "#/$defs/Level" },
                "Level": { "enum": ["low", "high"], "type": "string" }
            }
        })
    }

    #[test]
    fn a_schema_becomes_types_of_typescript() {
        let file = typescript::file(&schema());
        for expected in [
            "/** Words on it. */\nexport type Params = {\n  id: number;\n  lines?: Array<string>;\n  may?: string | null;\n};",
            "export type Choice = {\n  kind: \"one\";\n} | (Params & {\n  kind: \"two\";\n});",
            "export type Level = \"low\" | \"high\";",
            "  \"a/b\": { params: Params; result: Choice };",
        ] {
            assert!(file.contains(expected), "{expected}\n{file}");
        }
    }

    #[test]
    fn a_schema_becomes_types_of_python() {
        let file = python::file(&schema());
        for expected in [
            "class _Params(TypedDict):\n    id: int\n",
            "class Params(_Params, total=False):\n    \"\"\"Words on it.\"\"\"\n\n    lines: list[str]\n    may: Optional[str]\n",
            "class ChoiceOne(TypedDict):\n    kind: Literal[\"one\"]\n",
            "class ChoiceTwo(Params):\n    kind: Literal[\"two\"]\n",
            "Choice = Union[ChoiceOne, ChoiceTwo]",
            "Level = Literal[\"low\", \"high\"]\n\n\nAgain = Level",
        ] {
            assert!(file.contains(expected), "{expected}\n{file}");
        }
    }
}
