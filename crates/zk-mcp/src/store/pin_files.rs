use std::path::PathBuf;
use std::sync::Arc;

use zk_core::service::{StateFileError, StateFiles};

use super::pins::PinStore;

/// Size limit of an accepted list of tools in bytes.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Store of accepted tool lists as files of a directory that only its owner can write to. A file that belongs
/// to another user, is writable by others or cannot be read counts as not accepted.
#[derive(Debug)]
pub struct FilePins {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl FilePins {
    /// Creates a store in the directory `dir`, which is created on the first write.
    #[must_use]
    pub fn new(dir: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { dir, files }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

impl PinStore for FilePins {
    fn load(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.path(key);
        self.files.read(&path, MAX_LIST_BYTES).map_err(|error| match error {
            StateFileError::Unusable { path, why } => {
                format!("{}: {why}; repair or remove it", path.display())
            }
            error @ (StateFileError::Busy { .. } | StateFileError::Io { .. }) => error.to_string(),
        })
    }

    fn save(&self, key: &str, listing: &[u8]) -> Result<(), String> {
        self.files.replace(&self.path(key), listing).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use zk_exec::LocalStateFiles;

    use super::*;

    #[test]
    fn what_was_accepted_is_kept_and_a_file_that_others_can_write_accepts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let pins = FilePins::new(dir.path().join("a/b"), Arc::new(LocalStateFiles::default()));
        assert_eq!(pins.load("x"), Ok(None));
        pins.save("x", b"{}").unwrap();
        pins.save("x", b"{1}").unwrap();
        assert_eq!(pins.load("x"), Ok(Some(b"{1}".to_vec())));
        let path = pins.path("x");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(pins.load("x").unwrap_err().contains("others can write"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(pins.load("x").is_err());
    }
}
