use std::path::PathBuf;

use zk_core::service::{StateFileError, StateFiles};
use zk_exec::{LocalHostFiles, LocalStateFiles};
use zk_mcp::PinStore;

/// The most an accepted list of tools may have, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Accepted lists of tools as files of a directory that only its owner can write to. One that is of another user,
/// writable by others or not to be read accepts nothing.
#[derive(Debug)]
pub(crate) struct FilePins {
    dir: PathBuf,
    files: LocalStateFiles,
}

impl FilePins {
    pub(crate) fn new(dir: PathBuf, files: LocalHostFiles) -> Self {
        Self { dir, files: LocalStateFiles::new(files) }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

impl PinStore for FilePins {
    fn load(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.path(key);
        self.files.read(&path, MAX_BYTES).map_err(|error| match error {
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

    use super::*;

    #[test]
    fn what_was_accepted_is_kept_and_a_file_that_others_can_write_accepts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let pins = FilePins::new(dir.path().join("a/b"), LocalHostFiles::new());
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
