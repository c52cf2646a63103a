use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::ExportError;

/// Creates a file for a document. Other users cannot read it, and an existing file is never replaced.
///
/// ```
/// let dir = std::env::temp_dir().join(format!("zk-document-{}", std::process::id()));
/// std::fs::create_dir_all(&dir)?;
/// let path = dir.join("talk.html");
/// zk_transcripts::create_document(&path)?;
/// assert!(zk_transcripts::create_document(&path).is_err());
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExportError::Exists`], or [`ExportError::File`].
pub fn create_document(path: &Path) -> Result<File, ExportError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => ExportError::Exists(path.to_path_buf()),
        _ => ExportError::File { path: path.to_path_buf(), source },
    })
}
