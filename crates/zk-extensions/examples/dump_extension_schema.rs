//! Prints the JSON Schema of the protocol: what `cargo xtask docs` keeps in `docs/reference/schemas`.

use std::error::Error;
use std::io::{Write, stdout};

use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, &json!({ "extension": zk_extensions::protocol_schema() }))?;
    writeln!(out)?;
    Ok(())
}
