use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use zk_core::service::{HostFiles, HostRead};
use zk_exec::LocalHostFiles;
use zk_mcp::PinStore;

use crate::sessions::make_private;
use crate::trust::write_atomically;

/// The most an accepted list of tools may have, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Accepted lists of tools as files of a directory that only its owner can write to. One that is of another user,
/// writable by others or not to be read accepts nothing.
#[derive(Debug)]
pub(crate) struct FilePins {
    dir: PathBuf,
    files: LocalHostFiles,
}

impl FilePins {
    pub(crate) fn new(dir: PathBuf, files: LocalHostFiles) -> Self {
        Self { dir, files }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

impl PinStore for FilePins {
    fn load(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.path(key);
        let unusable = |why: String| format!("{}: {why}; repair or remove it", path.display());
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.mode() & 0o022 != 0 => {
                return Err(unusable("others can write to it".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        }
        let file = self.files.read(&path, &HostRead::whole(MAX_BYTES).own_only());
        file.map(|file| Some(file.bytes)).map_err(|error| unusable(error.to_string()))
    }

    fn save(&self, key: &str, listing: &[u8]) -> Result<(), String> {
        let path = self.path(key);
        let kept = make_private(&self.dir).and_then(|()| write_atomically(&path, &self.dir, listing));
        kept.map_err(|error| format!("cannot write {}: {error}", path.display()))
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
