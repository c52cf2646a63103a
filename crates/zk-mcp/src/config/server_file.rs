use std::path::Path;

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::server_config::{ServerConfig, ServerConfigError};

/// File of a project with its servers, which other programs read too.
pub const PROJECT_FILE: &str = ".mcp.json";

/// Maximum size of a file of servers, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Reason why a file of servers cannot be used as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ServerFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] HostFileError),
    /// The file has another shape.
    #[error("{0}")]
    Shape(String),
}

/// Reads the servers of a file that a person named, one by one, so that an invalid one does not affect the others.
///
/// # Errors
/// [`ServerFileError`].
pub fn servers_of_file(
    files: &dyn HostFiles,
    path: &Path,
) -> Result<Vec<Result<ServerConfig, ServerConfigError>>, ServerFileError> {
    let file = files.read(path, &HostRead::whole(MAX_BYTES))?;
    ServerConfig::read_file(&file.bytes).map_err(ServerFileError::Shape)
}

/// Reads the servers of a project's [`PROJECT_FILE`] at `path`; none if there is no such file. A server may only start
/// once a person approved it.
///
/// # Errors
/// [`ServerFileError`].
pub fn servers_of_project(
    files: &dyn HostFiles,
    path: &Path,
) -> Result<Vec<Result<ServerConfig, ServerConfigError>>, ServerFileError> {
    match files.read(path, &HostRead::whole(MAX_BYTES).own_only()) {
        Ok(file) => ServerConfig::read_file(&file.bytes).map_err(ServerFileError::Shape),
        Err(error) if error.is_missing() => Ok(Vec::new()),
        // The sandbox reserves a missing file's name with an empty directory.
        Err(HostFileError::NotRegular { .. }) if path.is_dir() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
