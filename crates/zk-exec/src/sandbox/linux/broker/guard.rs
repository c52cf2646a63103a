use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::io::Errno;

/// Guarded names, which no command may create, each in one directory.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// For each name, the directories in which it is guarded, by device and inode.
    names: HashMap<Vec<u8>, Vec<(u64, u64)>>,
}

impl Guard {
    /// Guards these paths. If the directory of a path is missing, its first missing parent is guarded
    /// instead.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut names: HashMap<Vec<u8>, Vec<(u64, u64)>> = HashMap::new();
        for path in paths {
            let found = path.ancestors().zip(path.ancestors().skip(1)).find_map(|(path, above)| {
                Some((path.file_name()?, std::fs::metadata(above).ok().filter(std::fs::Metadata::is_dir)?))
            });
            let Some((name, above)) = found else { continue };
            let directories = names.entry(fold_name(name.as_bytes())).or_default();
            let directory = (above.dev(), above.ino());
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Self { names }
    }

    /// Whether a name is guarded in any directory.
    pub(super) fn guards_name(&self, name: &[u8]) -> bool {
        self.names.contains_key(&fold_name(name))
    }

    pub(super) fn guards_in(&self, directory: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
        let Some(directories) = self.names.get(&fold_name(name)) else { return Ok(false) };
        let found = rustix::fs::fstat(directory)?;
        Ok(directories.contains(&(found.st_dev, found.st_ino)))
    }
}

/// Normalises a name for comparisons, since some file systems ignore the case of names.
fn fold_name(name: &[u8]) -> Vec<u8> {
    if name.starts_with(b".") { name.to_ascii_lowercase() } else { name.to_owned() }
}
