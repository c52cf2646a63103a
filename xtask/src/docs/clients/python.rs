use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{choices, fields, object, reference, types, words};

/// Classes and aliases of all types. Annotations are texts until somebody asks, so that their order is free, but for what a
/// class extends and an alias names; then each can be evaluated by Python 3.9.
pub(super) fn file(schema: &Value) -> String {
    let mut out = String::from(
        "\"\"\"Types of the messages, made by `cargo xtask docs` from the schema of `zk rpc`.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, Literal, Optional, TypedDict, Union\n",
    );
    let root = Map::new();
    let root = schema["$defs"].as_object().unwrap_or(&root);
    for (name, of) in root.iter().filter(|(_, of)| is_class(of)) {
        class(&mut out, name, "TypedDict", of);
    }
    let mut made: BTreeSet<&str> =
        root.iter().filter(|(_, of)| is_class(of)).map(|(name, _)| name.as_str()).collect();
    for (name, of) in root.iter().filter(|(_, of)| !is_class(of)) {
        alias_behind_its_parts(&mut out, name, of, root, &mut made);
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

/// A class; fields that may be absent are in one that extends the class of the others.
fn class(out: &mut String, name: &str, base: &str, schema: &Value) {
    let all = fields(schema);
    let (needed, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, _, is_required)| *is_required);
    let write = |out: &mut String, head: &str, help: Option<&str>, fields: &[(&str, &Value, bool)]| {
        let _ = write!(out, "\n\nclass {head}:\n");
        if let Some(help) = help {
            let _ = write!(out, "    \"\"\"{}\"\"\"\n\n", help.replace('\\', "\\\\"));
        }
        for (field, of, _) in fields {
            let _ = writeln!(out, "    {field}: {}", of_schema(of));
        }
    };
    let help = words(schema);
    if free.is_empty() {
        write(out, &format!("{name}({base})"), help.as_deref(), &needed);
    } else if needed.is_empty() {
        write(out, &format!("{name}({base}, total=False)"), help.as_deref(), &free);
    } else {
        write(out, &format!("_{name}({base})"), None, &needed);
        write(out, &format!("{name}(_{name}, total=False)"), help.as_deref(), &free);
    }
}

/// A type with choices, and before it the aliases that it names.
fn alias_behind_its_parts<'a>(
    out: &mut String,
    name: &'a str,
    schema: &'a Value,
    root: &'a Map<String, Value>,
    made: &mut BTreeSet<&'a str>,
) {
    if !made.insert(name) {
        return;
    }
    let mut named = BTreeSet::new();
    names_in(schema, &mut named);
    for part in named {
        if let Some((part, of)) = root.get_key_value(part) {
            alias_behind_its_parts(out, part, of, root, made);
        }
    }
    alias(out, name, schema, root);
}

/// Names of the types that a schema refers to.
fn names_in<'a>(schema: &'a Value, names: &mut BTreeSet<&'a str>) {
    names.extend(reference(schema));
    match schema {
        Value::Object(all) => all.values().for_each(|of| names_in(of, names)),
        Value::Array(all) => all.iter().for_each(|of| names_in(of, names)),
        _ => {}
    }
}

/// A type with choices: an object among them becomes a class, named by what tells it from the others.
fn alias(out: &mut String, name: &str, schema: &Value, root: &Map<String, Value>) {
    let Some(all) = choices(schema) else {
        let _ = write!(out, "\n\n{name} = {}\n", of_schema(schema));
        return;
    };
    let mut names = Vec::new();
    for one in all {
        let tag = fields(one).into_iter().find_map(|(_, of, _)| of.get("const")?.as_str());
        match tag {
            Some(tag) if !fields(one).is_empty() => {
                let own = format!("{name}{}", camel(tag));
                let base = reference(one).filter(|base| root.get(*base).is_some_and(is_class));
                class(out, &own, base.unwrap_or("TypedDict"), one);
                names.push(own);
            }
            Some(_) | None => names.push(of_schema(one)),
        }
    }
    let _ = write!(out, "\n\n{name} = {}\n", union(&names));
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
        return union(&all.iter().map(of_schema).collect::<Vec<_>>());
    }
    union(&types(schema).into_iter().map(|name| of_type(name, schema)).collect::<Vec<_>>())
}

/// One of several types, as Python 3.9 has it.
fn union(all: &[String]) -> String {
    let some: Vec<&str> = all.iter().map(String::as_str).filter(|name| *name != "None").collect();
    let joined = match some.as_slice() {
        [] if all.is_empty() => return "Any".to_owned(),
        [] => return "None".to_owned(),
        [one] => (*one).to_owned(),
        some => format!("Union[{}]", some.join(", ")),
    };
    if some.len() == all.len() { joined } else { format!("Optional[{joined}]") }
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
