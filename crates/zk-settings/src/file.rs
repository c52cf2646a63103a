use std::path::Path;

use zk_core::service::{HostFileError, HostFiles, HostRead};

use crate::error::SettingsError;
use crate::layers::Layer;

/// Size limit of a settings file in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Result of reading a settings file.
#[derive(Debug)]
pub enum FileRead {
    /// The file was read, or is missing and optional (an empty table).
    Table {
        /// Parsed table of the whole file.
        table: toml::Table,
        /// Raw bytes of the file.
        bytes: Vec<u8>,
    },
    /// The file belongs to another user and is ignored, for the reason in this message.
    Foreign(String),
}

/// Reads the settings file of a layer.
///
/// # Errors
/// The file is not regular, too large or no valid TOML. Ignoring a damaged file could allow more than it was
/// meant to.
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
            return Ok(FileRead::Foreign(foreign_file_message(path, uid)));
        }
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| cannot(&"it is not UTF-8"))?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        SettingsError(format!("cannot read {}: invalid TOML: {error}", path.display()))
    })?;
    Ok(FileRead::Table { table, bytes: file.bytes })
}

fn foreign_file_message(path: &Path, uid: u32) -> String {
    format!(
        "{} is not read: it belongs to another user (uid {uid}); if you trust it, make it yours with chown",
        path.display()
    )
}

/// Reads a preset, the settings file `NAME.toml` in a directory of presets; `None` if it does not exist.
///
/// # Errors
/// The errors of [`read_file`], and a file of another user: ignoring it could allow more than it was meant
/// to.
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

/// Result of reading a file whose text is the value of one setting.
#[derive(Debug)]
pub enum TextRead {
    /// The file was read.
    Text {
        /// Trimmed text of the file.
        text: String,
        /// Raw bytes of the file.
        bytes: Vec<u8>,
    },
    /// The file is missing or empty.
    Nothing,
    /// The file belongs to another user and is ignored, for the reason in this message.
    Foreign(String),
}

/// Reads a file of at most `max_bytes` whose text is the value of one setting.
///
/// # Errors
/// The file is not regular, too large or no valid UTF-8.
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
        Err(HostFileError::ForeignOwner { uid }) => {
            return Ok(TextRead::Foreign(foreign_file_message(path, uid)));
        }
        Err(error) => return Err(cannot(&error)),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| cannot(&"it is not UTF-8"))?.trim().to_owned();
    Ok(if text.is_empty() { TextRead::Nothing } else { TextRead::Text { text, bytes } })
}
