//! Prints the JSON Schema of the patches: what `cargo xtask docs` keeps in `docs/reference/schemas`.

use std::error::Error;
use std::io::{Write, stdout};

use schemars::generate::SchemaSettings;
use serde_json::json;
use zk_view::{PATCH_VERSION, Patch};

fn main() -> Result<(), Box<dyn Error>> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Patch>();
    let mut schema = serde_json::to_value(schema)?;
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("version".into(), json!(PATCH_VERSION));
    }
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, &json!({ "view-patches": schema }))?;
    writeln!(out)?;
    Ok(())
}
