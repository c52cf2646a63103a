//! Prints the JSON Schema of the lines of an exported session. `cargo xtask docs` writes it to `docs/reference/schemas`.

use std::error::Error;
use std::io::{Write, stdout};

use schemars::generate::SchemaSettings;
use serde_json::json;
use zk_transcripts::{TRANSCRIPT_VERSION, TranscriptLine};

fn main() -> Result<(), Box<dyn Error>> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<TranscriptLine>();
    let mut schema = serde_json::to_value(schema)?;
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("version".into(), json!(TRANSCRIPT_VERSION));
    }
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, &json!({ "transcript-lines": schema }))?;
    writeln!(out)?;
    Ok(())
}
