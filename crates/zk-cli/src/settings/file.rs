use std::path::Path;

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::Layer;
use crate::exit::{Failure, Outcome};

/// The most a settings file may have.
const MAX_BYTES: usize = 1 << 20;

/// Content of a settings file.
#[derive(Debug)]
pub(super) enum Read {
    /// Table of the file; an empty one when there is no file and none is needed.
    Table { table: toml::Table, bytes: Vec<u8> },
    /// Message about a file that is somebody else's, so it is left out.
    Foreign(String),
}

/// Reads the settings file of a layer. One that is not a regular file, too large or no TOML is an error: what
/// it was to forbid may not be allowed by damaging it.
pub(super) fn read(files: &dyn HostFiles, layer: Layer, path: &Path, needed: bool) -> Outcome<Read> {
    let how = HostRead { own_only: layer.is_project(), ..HostRead::whole(MAX_BYTES) };
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("cannot read the settings file {}: {why}", path.display()))
    };
    let file = match files.read(path, &how) {
        Ok(file) => file,
        Err(error) if !needed && error.is_missing() => {
            return Ok(Read::Table { table: toml::Table::new(), bytes: Vec::new() });
        }
        Err(HostFileError::ForeignOwner { uid }) => {
            return Ok(Read::Foreign(format!(
                "{} is not read: it belongs to another user (uid {uid}); if you trust it, make it yours with chown",
                path.display()
            )));
        }
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| cannot(&"it is not UTF-8"))?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        Failure::usage(format!("cannot read {}: invalid TOML: {error}", path.display()))
    })?;
    Ok(Read::Table { table, bytes: file.bytes })
}
