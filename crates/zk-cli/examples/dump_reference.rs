//! Prints the reference pages of the program as one JSON object, the text of each by its path: what `cargo xtask docs` keeps in `docs`.

use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let pages = serde_json::json!(zk_cli::reference_pages());
    Ok(writeln!(stdout(), "{pages}")?)
}
