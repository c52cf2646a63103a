//! Prints the JSON Schemas of the session entries and events. `cargo xtask docs` writes them to
//! `docs/reference/schemas`.

use std::error::Error;
use std::io::{Write, stdout};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use zk_core::events::{EVENTS_VERSION, catalogue};
use zk_core::service::{ENTRY_VERSION, Entry};

fn main() -> Result<(), Box<dyn Error>> {
    let entry = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Entry>();
    let mut entries = serde_json::to_value(entry)?;
    if let Some(entries) = entries.as_object_mut() {
        entries.insert("version".into(), json!(ENTRY_VERSION));
    }
    let mut out = stdout().lock();
    let schemas = json!({ "session-entries": entries, "events": events()? });
    serde_json::to_writer_pretty(&mut out, &schemas)?;
    writeln!(out)?;
    Ok(())
}

/// Schema that accepts any event; the property `type` names it.
fn events() -> Result<Value, Box<dyn Error>> {
    let (mut one_of, mut types) = (Vec::new(), Map::new());
    for event in catalogue() {
        let mut schema = serde_json::to_value(&event.schema)?;
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("$schema");
            if let Some(Value::Object(own)) = schema.remove("$defs") {
                types.extend(own);
            }
            let properties = schema.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.insert("type".into(), json!({ "const": event.name }));
            }
        }
        one_of.push(schema);
    }
    Ok(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "version": EVENTS_VERSION,
        "oneOf": one_of,
        "$defs": types,
    }))
}
