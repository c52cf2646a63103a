use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::{Map, Value};
use zk_core::model::{Concurrency, Effects, ToolSpec};

/// The specification of a tool whose arguments are a `T`.
pub(crate) fn spec<T: JsonSchema>(name: &str, description: &str) -> Arc<ToolSpec> {
    ToolSpec::of::<T>(name, description)
}

/// A specification whose arguments `change` describes by what the host set.
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

/// Gives an argument its description.
pub(crate) fn describe(arguments: &mut Map<String, Value>, name: &str, text: String) {
    if let Some(Value::Object(argument)) = arguments.get_mut(name) {
        argument.insert("description".to_owned(), text.into());
    }
}

/// The `path` of a call that reads, which is the working directory unless it says otherwise.
pub(crate) fn folder(args: &Value) -> &str {
    args.get("path").and_then(Value::as_str).unwrap_or(".")
}

/// The effects of a call that reads `path`.
pub(crate) fn reads(args: &Value) -> Effects {
    Effects::reads([folder(args)])
}

/// Returns the summary of a search for `pattern`, with the place if the call names one.
pub(crate) fn search_summary(verb: &str, args: &Value) -> String {
    let pattern = text(args, "pattern");
    match args.get("path").and_then(Value::as_str) {
        Some(path) => format!("{verb} {pattern} in {path}"),
        None => format!("{verb} {pattern}"),
    }
}

/// The effects of a call that writes the file `path`.
pub(crate) fn writes(args: &Value) -> Effects {
    args.get("path").and_then(Value::as_str).map_or(Effects::Unknown, |path| Effects::writes([path]))
}

/// A string argument, for summaries: arguments are not checked there.
pub(crate) fn text<'a>(args: &'a Value, key: &str) -> &'a str {
    args.get(key).and_then(Value::as_str).unwrap_or("?")
}

/// A call that changes the file `path`: in order with the calls on that file, beside all others.
///
/// The key is the file's bare name. That is coarser than the file's identity, which takes the file system to
/// find out, and right for all of its spellings: `./a/x.rs`, `a/x.rs` and `/repo/a/x.rs` wait for each other.
/// A file reached under another name, through a link, is protected by the lock inside the tool.
pub(crate) fn changes(args: &Value) -> Concurrency {
    let name = text(args, "path").trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" | "." | ".." | "?" => Concurrency::Exclusive,
        name => Concurrency::Resources(vec![format!("file:{}", name.trim_start_matches('@').to_lowercase())]),
    }
}
