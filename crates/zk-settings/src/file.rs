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
        Err(HostFileError::ForeignOwner { uid }) => return Ok(FileRead::Foreign(foreign(path, uid))),
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| cannot(&"it is not UTF-8"))?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        SettingsError(format!("cannot read {}: invalid TOML: {error}", path.display()))
    })?;
    Ok(FileRead::Table { table, bytes: file.bytes })
}

fn foreign(path: &Path, uid: u32) -> String {
    format!(
        "{} is not read: it belongs to another user (uid {uid}); if you trust it, make it yours with chown",
        path.display()
    )
}

/// Reads a preset: the settings file `NAME.toml` of a directory of presets; nothing if there is none.
///
/// # Errors
/// As [`read_file`], and one that is somebody else's: without it more could be allowed.
pub fn read_preset(
    files: &dyn HostFiles,
    layer: Layer,
    path: &Path,
) -> Result<Option<(toml::Table, Vec<u8>)>, SettingsError> {
    match read_file(files, layer, path, false)? {
        FileRead::Table { bytes, .. } if bytes.is_empty() => Ok(None),
        FileRead::Table { table, bytes } => Ok(Some((table, bytes))),
        FileRead::Foreign(why) => Err(SettingsError(why)),
    }
}

/// A file whose text is one setting.
#[derive(Debug)]
pub enum TextRead {
    /// Text of the file, without what surrounds it.
    Text {
        /// The text.
        text: String,
        /// Bytes of the file.
        bytes: Vec<u8>,
    },
    /// No file, or an empty one.
    Nothing,
    /// Message about a file that is somebody else's, so it is left out.
    Foreign(String),
}

/// Reads a file of at most `max_bytes` whose text is one setting.
///
/// # Errors
/// One that is not a regular file, too large or no UTF-8.
pub fn read_text(
    files: &dyn HostFiles,
    layer: Layer,
    path: &Path,
    max_bytes: usize,
) -> Result<TextRead, SettingsError> {
    let cannot =
        |why: &dyn std::fmt::Display| SettingsError(format!("cannot read {}: {why}", path.display()));
    let how = HostRead { own_only: layer.is_project(), ..HostRead::whole(max_bytes) };
    let bytes = match files.read(path, &how) {
        Ok(file) => file.bytes,
        Err(error) if error.is_missing() => return Ok(TextRead::Nothing),
        Err(HostFileError::ForeignOwner { uid }) => return Ok(TextRead::Foreign(foreign(path, uid))),
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| cannot(&"it is not UTF-8"))?.trim().to_owned();
    Ok(if text.is_empty() { TextRead::Nothing } else { TextRead::Text { text, bytes } })
}
