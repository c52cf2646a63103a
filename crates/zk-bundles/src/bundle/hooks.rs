use serde_json::{Map, Value};
use zk_core::service::visible_line;

use super::manifest::ManifestPart;
use super::{Bundle, BundleError, HookPart};
use crate::tree::Tree;

/// Path of the standard hooks file in a bundle.
const HOOKS_FILE: &str = "hooks/hooks.json";

/// Fields of a hook that zk supports. Other fields are removed, with a note.
const HOOK_FIELDS: [&str; 5] = ["type", "command", "timeout", "async", "statusMessage"];

/// Maximum time limit of a hook, in seconds.
const MAX_HOOK_SECONDS: f64 = 3600.0;

/// Reads `hooks/hooks.json` and the hooks in the manifest.
pub(super) fn read_hooks(bundle: &mut Bundle, tree: &Tree) -> Result<(), BundleError> {
    let mut files = Vec::new();
    if tree.get(HOOKS_FILE).is_some() {
        files.push(HOOKS_FILE.to_owned());
    }
    let mut inline = Vec::new();
    for written in bundle.manifest.hooks.clone() {
        match written {
            ManifestPart::Inline(value) => inline.push(value),
            // The manifest may also name the standard file, which is read already.
            ManifestPart::File(path) if files.contains(&path) => {}
            ManifestPart::File(path) => files.push(path),
        }
    }
    for place in files {
        let Some(file) = tree.get(&place) else {
            bundle.note_missing_path("hooks", &place);
            continue;
        };
        let wrong = |why: String| BundleError::Part { place: place.clone(), why };
        let value: Value =
            serde_json::from_slice(&file.bytes).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
        let events = value.get("hooks").and_then(Value::as_object);
        let events = events.ok_or_else(|| wrong("it has no object `hooks` with its events".to_owned()))?;
        let is_event = |key: &String| key.starts_with(|c: char| c.is_ascii_uppercase());
        let outside = value.as_object().and_then(|top| top.keys().find(|key| is_event(key)));
        if let Some(event) = outside {
            let why = format!("the event `{}` stands outside of `hooks`", visible_line(event));
            return Err(wrong(why));
        }
        add_hooks(bundle, &place, events);
    }
    for value in inline {
        let events = value.get("hooks").unwrap_or(&value).as_object().cloned().unwrap_or_default();
        add_hooks(bundle, "plugin.json: hooks", &events);
    }
    Ok(())
}

fn add_hooks(bundle: &mut Bundle, place: &str, events: &Map<String, Value>) {
    let mut kept = Map::new();
    for (event, groups) in events {
        let Value::Array(groups) = groups else {
            kept.insert(event.clone(), groups.clone());
            continue;
        };
        let groups = groups.iter().map(|group| supported_fields(group, event, &mut bundle.notes)).collect();
        kept.insert(event.clone(), Value::Array(groups));
    }
    if !kept.is_empty() {
        bundle.hooks.push(HookPart { place: place.to_owned(), events: Value::Object(kept) });
    }
}

/// Matcher and hooks of a group, without fields that have no effect.
fn supported_fields(group: &Value, event: &str, notes: &mut Vec<String>) -> Value {
    let (Some(fields), Some(hooks)) = (group.as_object(), group.get("hooks").and_then(Value::as_array))
    else {
        return group.clone();
    };
    let mut note =
        |key: &str| notes.push(format!("{event}: `{}` of a hook has no effect", visible_line(key)));
    for key in fields.keys().filter(|key| !["matcher", "hooks"].contains(&key.as_str())) {
        note(key);
    }
    let mut kept = Map::new();
    kept.extend(fields.get("matcher").map(|matcher| ("matcher".to_owned(), matcher.clone())));
    let hooks = hooks.iter().map(|hook| {
        // Hooks of other types are not run, so their fields are not checked.
        let is_command = hook.get("type").is_none_or(|kind| kind == "command");
        let Some(fields) = hook.as_object().filter(|_| is_command) else { return hook.clone() };
        let (mut known, unknown): (Map<_, _>, Map<_, _>) =
            fields.clone().into_iter().partition(|(key, _)| HOOK_FIELDS.contains(&key.as_str()));
        unknown.keys().for_each(|key| note(key));
        // Such a value is probably in milliseconds by mistake.
        if known.get("timeout").and_then(Value::as_f64).is_some_and(|seconds| seconds > MAX_HOOK_SECONDS) {
            known.insert("timeout".to_owned(), MAX_HOOK_SECONDS.into());
        }
        Value::Object(known)
    });
    kept.insert("hooks".to_owned(), hooks.collect());
    Value::Object(kept)
}
