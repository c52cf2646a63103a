use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::{Map, Value};
use zk_core::model::{Concurrency, Effects, ToolSpec};

/// Specification of a tool whose arguments are a `T`.
pub(crate) fn spec<T: JsonSchema>(name: &str, description: &str) -> Arc<ToolSpec> {
    ToolSpec::of::<T>(name, description)
}

/// Specification of a tool whose argument descriptions `change` adapts to the host's options.
pub(crate) fn spec_with<T: JsonSchema>(
    name: &str,
    description: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Arc<ToolSpec> {
    let mut spec = ToolSpec::clone(&spec::<T>(name, description));
    if let Some(Value::Object(arguments)) = spec.schema.get_mut("properties") {
        change(arguments);
    }
    Arc::new(spec)
}

/// Sets the description of an argument.
pub(crate) fn describe(arguments: &mut Map<String, Value>, name: &str, text: String) {
    if let Some(Value::Object(argument)) = arguments.get_mut(name) {
        argument.insert("description".to_owned(), text.into());
    }
}

/// `path` of a search or listing; the working directory by default.
pub(crate) fn folder(args: &Value) -> &str {
    args.get("path").and_then(Value::as_str).unwrap_or(".")
}

/// Effects of a call that reads `path`.
pub(crate) fn reads(args: &Value) -> Effects {
    Effects::reads([folder(args)])
}

/// Summary of a search for `pattern`, with its path if given.
pub(crate) fn search_summary(verb: &str, args: &Value) -> String {
    let pattern = text(args, "pattern");
    match args.get("path").and_then(Value::as_str) {
        Some(path) => format!("{verb} {pattern} in {path}"),
        None => format!("{verb} {pattern}"),
    }
}

/// Effects of a call that writes the file `path`.
pub(crate) fn writes(args: &Value) -> Effects {
    args.get("path").and_then(Value::as_str).map_or(Effects::Unknown, |path| Effects::writes([path]))
}

/// String argument for a summary, where arguments are not validated; empty if missing.
pub(crate) fn text<'a>(args: &'a Value, key: &str) -> &'a str {
    args.get(key).and_then(Value::as_str).unwrap_or("?")
}

/// Concurrency of a call that changes the file `path`: in order with other calls on that file, parallel to
/// the rest.
///
/// The key is the file's base name. Resolving the file's identity would need the file system; the base name
/// is coarser and the same for all spellings: `./a/x.rs`, `a/x.rs` and `/repo/a/x.rs` wait for each other. A
/// file with another name, through a link, is protected by the lock inside of the tool.
pub(crate) fn concurrency_of_change(args: &Value) -> Concurrency {
    let name = text(args, "path").trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" | "." | ".." | "?" => Concurrency::Exclusive,
        name => Concurrency::Resources(vec![format!("file:{}", name.trim_start_matches('@').to_lowercase())]),
    }
}
