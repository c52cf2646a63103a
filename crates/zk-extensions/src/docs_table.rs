//! Tests that hold the page for authors to the code.

use std::path::Path;

use serde_json::Value;
use zk_core::events::catalogue;

use crate::abilities::{askable, askable_names};
use crate::extension::METHODS;
use crate::protocol_schema;

/// Types of replies that are read from JSON.
const REPLIES: [&str; 7] = [
    "InputReply",
    "Value",
    "PermissionReply",
    "Ruling",
    "ResultPatch",
    "SessionBeforeReply",
    "BTreeMap<String, Offer>",
];

/// Page for authors; nothing in a package, which has no pages.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn page() -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/extensions.md");
    let page = std::fs::read_to_string(path).ok();
    if page.is_none() {
        println!("skipped: no docs/extensions.md beside the crate");
    }
    page
}

#[test]
fn every_event_whose_reply_is_data_can_be_asked_and_stands_in_the_table() {
    let Some(page) = page() else { return };
    let (all, by_projects) = (askable_names(false), askable_names(true));
    for event in catalogue() {
        let reply = event.reply.rsplit("::").next().unwrap_or_default();
        assert_eq!(REPLIES.contains(&reply), askable(event.name).is_some(), "{}: {reply}", event.name);
    }
    for name in &all {
        let limit = if by_projects.contains(name) { "" } else { " (not of a project)" };
        assert!(page.contains(&format!("| `{name}` | asks{limit} |")), "{name}");
    }
    let rows = page.lines().filter(|line| line.contains("| asks")).count();
    assert_eq!(rows, all.len());
}

#[test]
fn every_method_and_every_kind_of_registration_is_on_the_page() {
    let Some(page) = page() else { return };
    let schema = protocol_schema();
    let keys = |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
    let methods = keys(&schema["from_extension"]).unwrap_or_default();
    let mut known: Vec<&str> = METHODS.to_vec();
    known.sort_unstable();
    assert_eq!(methods, known, "the schema has the methods that zk answers");
    for method in methods.iter().filter(|method| !["ping", "tool/progress"].contains(&method.as_str())) {
        assert!(page.contains(&format!("`{method}`")), "{method}");
    }
    let kinds = keys(&schema["$defs"]["Registrations"]["properties"]).unwrap_or_default();
    assert_eq!(kinds.len(), 8);
    for kind in kinds {
        assert!(page.contains(&kind), "{kind}");
    }
}

#[test]
fn the_examples_of_the_page_are_the_files() {
    let Some(page) = page() else { return };
    for file in ["abilities.py", "abilities.mjs", "backend.py", "backend.mjs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/examples").join(file);
        let code = std::fs::read_to_string(path).unwrap();
        assert!(page.contains(&code), "{file}");
    }
}
