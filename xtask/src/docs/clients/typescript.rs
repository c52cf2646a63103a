use std::fmt::Write as _;

use serde_json::Value;

use super::{choices, fields, object, reference, types, words};

/// Declarations of all types, methods and notifications.
pub(super) fn file(schema: &Value) -> String {
    let mut out = String::from("// Made by `cargo xtask docs` from the schema of `zk rpc`.\n");
    for (name, of) in object(schema, "$defs") {
        let help = words(of).map(|words| format!("/** {words} */\n")).unwrap_or_default();
        let _ = write!(out, "\n{help}export type {name} = {};\n", of_schema(of, ""));
    }
    out.push_str("\n/** Params and result of each method. */\nexport interface Methods {\n");
    for (name, of) in object(schema, "methods") {
        let (params, result) = (of_schema(&of["params"], "  "), of_schema(&of["result"], "  "));
        let _ = writeln!(out, "  {}: {{ params: {params}; result: {result} }};", quoted(name));
    }
    out.push_str("}\n\n/** Params of each notification. */\nexport interface Notifications {\n");
    for (name, of) in object(schema, "notifications") {
        let _ = writeln!(out, "  {}: {};", quoted(name), of_schema(of, "  "));
    }
    out.push_str(
        "}\n\nexport type MethodName = keyof Methods;\nexport type NotificationName = keyof Notifications;\n",
    );
    out
}

fn of_schema(schema: &Value, indent: &str) -> String {
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    let mut parts: Vec<String> = reference(schema).map(str::to_owned).into_iter().collect();
    if !fields(schema).is_empty() {
        parts.push(of_fields(schema, indent));
    }
    if let Some(all) = choices(schema) {
        let all: Vec<String> = all.iter().map(|one| in_union(&of_schema(one, indent))).collect();
        parts.push(if parts.is_empty() { all.join(" | ") } else { format!("({})", all.join(" | ")) });
    }
    if parts.is_empty() {
        let all: Vec<String> = types(schema).into_iter().map(|name| of_type(name, schema, indent)).collect();
        return if all.is_empty() { "unknown".to_owned() } else { all.join(" | ") };
    }
    parts.join(" & ")
}

fn of_type(name: &str, schema: &Value, indent: &str) -> String {
    match name {
        "integer" => "number".to_owned(),
        "array" => format!("Array<{}>", of_schema(&schema["items"], indent)),
        "object" => {
            let values = schema.get("additionalProperties").filter(|values| values.is_object());
            match values {
                Some(values) => format!("Record<string, {}>", of_schema(values, indent)),
                None => "Record<string, unknown>".to_owned(),
            }
        }
        other => other.to_owned(),
    }
}

fn of_fields(schema: &Value, indent: &str) -> String {
    let deeper = format!("{indent}  ");
    let mut out = String::from("{\n");
    for (name, of, is_required) in fields(schema) {
        if let Some(words) = words(of) {
            let _ = writeln!(out, "{deeper}/** {words} */");
        }
        let mark = if is_required { "" } else { "?" };
        let _ = writeln!(out, "{deeper}{}{mark}: {};", field(name), of_schema(of, &deeper));
    }
    out.push_str(indent);
    out.push('}');
    out
}

/// A choice, in parentheses where it is an intersection.
fn in_union(text: &str) -> String {
    if text.contains("} & ") || text.contains(" & {") { format!("({text})") } else { text.to_owned() }
}

fn field(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
