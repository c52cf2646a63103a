use std::collections::BTreeSet;

use zk_core::events::catalogue;
use zk_core::kernel::OnError;

use crate::samples::samples;

#[test]
fn the_catalogue_names_every_event_once() {
    let names: Vec<_> = catalogue().iter().map(|event| event.name).collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    for name in [
        "context:transform",
        "provider:payload",
        "provider:response",
        "agent:before-start",
        "message:end",
        "tool:gate",
        "tool:transform",
        "input",
        "user:bash",
        "resources:discover",
        "session:before-compact",
        "session:before-tree",
        "session:before-switch",
        "session:before-fork",
        "model:select",
        "thinking:select",
        "agent:start",
        "agent:done",
        "turn:before",
        "turn:after",
        "tool:before",
        "tool:after",
    ] {
        assert!(unique.contains(&name), "{name} is missing");
    }
}

#[test]
fn every_event_and_every_field_of_it_is_described() {
    for event in catalogue() {
        let schema = event.schema.as_value();
        assert!(schema["description"].as_str().is_some_and(|text| text.ends_with('.')), "{}", event.name);
        let fields = schema["properties"].as_object().map_or(0, serde_json::Map::len);
        assert!(fields > 0, "{} carries nothing", event.name);
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(schema["description"].is_string(), "{}.{field} has no description", event.name);
        }
    }
}

// Events that can forbid or must be stored fail closed; events are observe-only on purpose.
#[test]
fn the_modes_and_policies_of_the_catalogue_are_as_documented() {
    for event in catalogue() {
        let closed = matches!(
            event.name,
            "tool:prepare" | "tool:gate" | "tool:begin" | "tool:end" | "tool-results:after"
        ) || matches!(
            event.name,
            "session:start" | "session:messages" | "session:open-turn" | "session:end"
        ) || matches!(event.name, "permission:request" | "permission:decided");
        assert_eq!(event.on_error == OnError::Throw, closed, "{}", event.name);
        assert_eq!(event.mode == "Notify", event.reply == "()", "{}", event.name);
    }
}

// Law: every event is data.
#[test]
fn every_event_serialises_as_its_schema_says() {
    let samples = samples();
    for doc in catalogue() {
        let event = samples.iter().find(|event| event.name() == doc.name);
        let event = event.unwrap_or_else(|| panic!("{} has no sample in samples.rs", doc.name));
        let value = event.to_json().unwrap();
        let object = value.as_object().unwrap_or_else(|| panic!("{} is no object: {value}", doc.name));
        let properties = doc.schema.as_value()["properties"].as_object().unwrap();
        for field in object.keys() {
            assert!(properties.contains_key(field), "{}.{field} is not in the schema", doc.name);
        }
        for field in doc.schema.as_value()["required"].as_array().into_iter().flatten() {
            assert!(object.contains_key(field.as_str().unwrap()), "{} lacks {field}", doc.name);
        }
        let mut bytes = Vec::new();
        event.write_json(&mut bytes).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap(), value);
    }
    assert_eq!(samples.len(), catalogue().len());
}
