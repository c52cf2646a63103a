use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{Redactor, StateFileError, StateFiles};

use crate::config::{ExtensionConfig, sha256_hex};

/// Size in bytes at which a new log is started and the old one is kept as the previous log.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// Most bytes that are read of a log.
const MAX_READ_BYTES: usize = 2 << 20;

/// Standard error of extensions, in private files.
pub struct ExtensionLogs {
    dir: PathBuf,
    project: PathBuf,
    redactor: Arc<Redactor>,
    files: Arc<dyn StateFiles>,
}

impl fmt::Debug for ExtensionLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionLogs").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl ExtensionLogs {
    /// Creates the logs in `dir` for the person's extensions and those of `project`.
    #[must_use]
    pub fn new(dir: PathBuf, project: &Path, redactor: Arc<Redactor>, files: Arc<dyn StateFiles>) -> Self {
        Self { dir, project: project.to_owned(), redactor, files }
    }

    /// Path of the log of an extension.
    #[must_use]
    pub fn path(&self, extension: &ExtensionConfig) -> PathBuf {
        let name = &extension.name;
        let project = sha256_hex(self.project.as_os_str().as_encoded_bytes());
        self.dir.join(match extension.origin.is_project {
            false => format!("{name}.log"),
            true => format!("{name}-{}.log", project.chars().take(12).collect::<String>()),
        })
    }

    /// Appends to the log of an extension, without secrets. Failures are ignored.
    pub fn append(&self, extension: &ExtensionConfig, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let _ = self.append_to_file(&self.path(extension), &self.redactor.redact(&text));
    }

    fn append_to_file(&self, path: &Path, text: &str) -> Result<(), StateFileError> {
        if std::fs::metadata(path).is_ok_and(|found| found.len() > MAX_LOG_BYTES) {
            let failed = |source| StateFileError::Io { doing: "rename", path: path.to_owned(), source };
            std::fs::rename(path, path.with_extension("log.1")).map_err(failed)?;
        }
        self.files.append(path, text.as_bytes()).map(drop)
    }

    /// Reads the log of an extension; nothing if it printed nothing.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be read.
    pub fn read(&self, extension: &ExtensionConfig) -> Result<Option<String>, StateFileError> {
        let bytes = self.files.read(&self.path(extension), MAX_READ_BYTES)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
