use std::fmt::Write as _;

use serde_json::Value;

use super::{choices, fields, object, reference, types, words};

/// Classes and aliases of all types. Annotations are texts until somebody asks, so that their order is free, but for what a
/// class extends.
pub(super) fn file(schema: &Value) -> String {
    let mut out = String::from(
        "\"\"\"Types of the messages, made by `cargo xtask docs` from the schema of `zk rpc`.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, Literal, NotRequired, TypeAlias, TypedDict\n",
    );
    let all: Vec<(&String, &Value)> = object(schema, "$defs").collect();
    for (name, of) in all.iter().filter(|(_, of)| is_class(of)) {
        class(&mut out, name, "TypedDict", of);
    }
    for (name, of) in all.iter().filter(|(_, of)| !is_class(of)) {
        alias(&mut out, name, of, schema);
    }
    out.push_str("\n\n# Params and result of each method.\nMETHODS = {\n");
    for (name, of) in object(schema, "methods") {
        let part = |part: &str| reference(&of[part]).unwrap_or("dict").to_owned();
        let _ = writeln!(out, "    \"{name}\": (\"{}\", \"{}\"),", part("params"), part("result"));
    }
    out.push_str("}\n");
    out
}

/// Whether a type is an object with fields and nothing else.
fn is_class(schema: &Value) -> bool {
    choices(schema).is_none() && reference(schema).is_none() && !fields(schema).is_empty()
}

fn class(out: &mut String, name: &str, base: &str, schema: &Value) {
    let _ = write!(out, "\n\nclass {name}({base}):\n");
    if let Some(words) = words(schema) {
        let _ = write!(out, "    \"\"\"{}\"\"\"\n\n", words.replace('\\', "\\\\"));
    }
    for (field, of, is_required) in fields(schema) {
        let of = of_schema(of);
        let of = if is_required { of } else { format!("NotRequired[{of}]") };
        let _ = writeln!(out, "    {field}: {of}");
    }
}

/// A type with choices: an object among them becomes a class, named by what tells it from the others.
fn alias(out: &mut String, name: &str, schema: &Value, root: &Value) {
    let Some(all) = choices(schema) else {
        let _ = write!(out, "\n\n{name}: TypeAlias = \"{}\"\n", of_schema(schema).replace('"', "'"));
        return;
    };
    let mut names = Vec::new();
    for one in all {
        let tag = fields(one).into_iter().find_map(|(_, of, _)| of.get("const")?.as_str());
        match tag {
            Some(tag) if !fields(one).is_empty() => {
                let own = format!("{name}{}", camel(tag));
                let base = reference(one).filter(|base| {
                    is_class(root.get("$defs").and_then(|all| all.get(base)).unwrap_or(&Value::Null))
                });
                class(out, &own, base.unwrap_or("TypedDict"), one);
                names.push(own);
            }
            Some(_) | None => names.push(of_schema(one)),
        }
    }
    let _ = write!(out, "\n\n{name}: TypeAlias = \"{}\"\n", names.join(" | ").replace('"', "'"));
}

fn of_schema(schema: &Value) -> String {
    if let Some(value) = schema.get("const") {
        return format!("Literal[{value}]");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return format!("Literal[{}]", values.join(", "));
    }
    if let Some(name) = reference(schema).filter(|_| fields(schema).is_empty()) {
        return name.to_owned();
    }
    if let Some(all) = choices(schema).filter(|_| fields(schema).is_empty()) {
        return all.iter().map(of_schema).collect::<Vec<_>>().join(" | ");
    }
    let all: Vec<String> = types(schema).into_iter().map(|name| of_type(name, schema)).collect();
    if all.is_empty() { "Any".to_owned() } else { all.join(" | ") }
}

fn of_type(name: &str, schema: &Value) -> String {
    match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => format!("list[{}]", of_schema(&schema["items"])),
        "object" => {
            let values = schema.get("additionalProperties").filter(|values| values.is_object());
            format!("dict[str, {}]", values.map_or_else(|| "Any".to_owned(), of_schema))
        }
        _ => "Any".to_owned(),
    }
}

fn camel(tag: &str) -> String {
    let part = |part: &str| {
        let mut chars = part.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    };
    tag.split(['_', '-']).map(part).collect()
}
