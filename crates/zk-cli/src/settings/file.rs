use std::io::ErrorKind;
use std::path::Path;

use crate::exit::{Failure, Outcome};

/// The table in a settings file; an empty one when there is no file and none is needed.
pub(crate) fn read(path: &Path, needed: bool) -> Outcome<toml::Table> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if !needed && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(toml::Table::new());
        }
        Err(error) => {
            return Err(Failure::usage(format!("cannot read the settings file {}: {error}", path.display())));
        }
    };
    text.parse().map_err(|error: toml::de::Error| {
        Failure::usage(format!("the settings file {} is no valid TOML: {error}", path.display()))
    })
}
