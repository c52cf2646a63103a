//! Prints the JSON Schema of the lines of a bridge: what `cargo xtask docs` keeps in `docs/reference/schemas`.

use std::error::Error;
use std::io::{Write, stdout};

use schemars::generate::SchemaSettings;
use serde_json::json;
use zk_hooks::{BRIDGE_VERSION, EventLine, Hello, Lost, ReplyLine};

fn main() -> Result<(), Box<dyn Error>> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let lines = json!({
        "event": generator.subschema_for::<EventLine<'_>>(),
        "bridge:hello": generator.subschema_for::<Hello>(),
        "bridge:lost": generator.subschema_for::<Lost>(),
        "reply": generator.subschema_for::<ReplyLine>(),
    });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lines of a hook bridge",
        "version": BRIDGE_VERSION,
        "properties": lines,
        "$defs": generator.take_definitions(true),
    });
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, &json!({ "hook-bridge": schema }))?;
    writeln!(out)?;
    Ok(())
}
