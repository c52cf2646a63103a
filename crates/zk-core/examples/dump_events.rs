//! Prints the event catalogue as JSON. `cargo xtask docs` generates `docs/reference/events.md` from this
//! output.

use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, &zk_core::events::catalogue())?;
    writeln!(out)?;
    Ok(())
}
