use std::path::Path;

use zk_core::service::{HostFileError, HostFiles, HostRead};

use crate::error::SettingsError;
use crate::layers::Layer;

/// The most a settings file may have, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Content of a settings file.
#[derive(Debug)]
pub enum FileRead {
    /// Table of the file; an empty one when there is no file and none is needed.
    Table {
        /// Table of the whole file.
        table: toml::Table,
        /// Bytes of the file.
        bytes: Vec<u8>,
    },
    /// Message about a file that is somebody else's, so it is left out.
    Foreign(String),
}

/// Reads the settings file of a layer.
///
/// # Errors
/// One that is not a regular file, too large or no TOML: what it was to forbid may not be allowed by damaging it.
pub fn read_file(
    files: &dyn HostFiles,
    layer: Layer,
    path: &Path,
    needed: bool,
) -> Result<FileRead, SettingsError> {
    let how = HostRead { own_only: layer.is_project(), ..HostRead::whole(MAX_FILE_BYTES) };
    let cannot = |why: &dyn std::fmt::Display| {
        SettingsError(format!("cannot read the settings file {}: {why}", path.display()))
    };
    let file = match files.read(path, &how) {
        Ok(file) => file,
        Err(error) if !needed && error.is_missing() => {
            return Ok(FileRead::Table { table: toml::Table::new(), bytes: Vec::new() });
        }
        Err(HostFileError::ForeignOwner { uid }) => {
            return Ok(FileRead::Foreign(format!(
                "{} is not read: it belongs to another user (uid {uid}); if you trust it, make it yours with chown",
                path.display()
            )));
        }
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| cannot(&"it is not UTF-8"))?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        SettingsError(format!("cannot read {}: invalid TOML: {error}", path.display()))
    })?;
    Ok(FileRead::Table { table, bytes: file.bytes })
}
