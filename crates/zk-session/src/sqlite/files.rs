use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zk_core::model::SessionId;
use zk_core::service::{StoreError, make_private_dir};

use super::row::hash::fnv1a;
use crate::find::is_valid_id;

/// Files of one session: `<id>.db`, SQLite's side files, the lock, and damaged files that were kept.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    id: SessionId,
}

impl Files {
    /// Files of session `id` in the folder of the project at `cwd`.
    pub(crate) fn of_project(root: &Path, cwd: &Path, id: &SessionId) -> Self {
        Self { dir: root.join(project_key(&canonical(cwd))), id: id.clone() }
    }

    /// Finds the files of session `id`, in whichever project's folder.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the root cannot be read.
    pub(crate) fn find(root: &Path, id: &SessionId) -> Result<Option<Self>, StoreError> {
        if !is_valid_id(id) {
            return Ok(None);
        }
        for dir in folders(root)? {
            let files = Self { dir, id: id.clone() };
            let there = files.db().exists() || files.has_lone_log() || files.recovery().exists();
            if there || files.kept_last().is_some() {
                return Ok(Some(files));
            }
        }
        Ok(None)
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.named(".db")
    }

    /// Whether there is a write-ahead log while its database is empty. SQLite deletes such a log at the first
    /// access, reads included.
    pub(crate) fn has_lone_log(&self) -> bool {
        let length = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
        length(&self.db()) == 0 && length(&self.log()) > 0
    }

    /// Path of the write-ahead log.
    pub(crate) fn log(&self) -> PathBuf {
        with_suffix(&self.db(), "-wal")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.named(".lock")
    }

    pub(crate) fn quarantine(&self) -> PathBuf {
        self.named(".db.quarantine")
    }

    /// Path at which the readable part of a damaged file is collected before it replaces the file.
    pub(crate) fn recovery(&self) -> PathBuf {
        self.named(".recovery")
    }

    /// Path of a temporary database that is rebuilt from a write-ahead log alone.
    pub(crate) fn image(&self) -> PathBuf {
        self.named(".image")
    }

    fn kept_path(&self, n: u32) -> PathBuf {
        self.named(&format!(".damaged-{n}"))
    }

    /// Path of the damaged file that was put aside last.
    pub(crate) fn kept_last(&self) -> Option<PathBuf> {
        (1..).map(|n| self.kept_path(n)).take_while(|path| path.exists()).last()
    }

    /// Moves the database and its log away, to an unused name.
    ///
    /// # Errors
    /// [`StoreError::Io`] when it cannot be moved; it then stays in place.
    pub(crate) fn put_aside(&self) -> Result<PathBuf, StoreError> {
        let Some(kept) = (1..)
            .map(|n| self.kept_path(n))
            .find(|path| !path.exists() && !with_suffix(path, "-wal").exists())
        else {
            return Err(StoreError::Failed(format!("no free name to keep {} under", self.db().display())));
        };
        let db = self.db();
        let moved = |from: PathBuf, to: PathBuf| match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Io { doing: "put aside", path: from, source: error })
            }
            _ => Ok(()),
        };
        // A log without its database is moved last.
        if self.has_lone_log() {
            moved(db.clone(), kept.clone())?;
        }
        // The log goes first: next to another database it would be replayed into that database.
        moved(with_suffix(&db, "-wal"), with_suffix(&kept, "-wal"))?;
        moved(with_suffix(&db, "-journal"), with_suffix(&kept, "-journal"))?;
        moved(db.clone(), kept.clone())?;
        remove(&with_suffix(&db, "-shm"))?;
        Ok(kept)
    }

    /// Moves the database of a closed session into its project's folder under `root`.
    ///
    /// # Errors
    /// [`StoreError`] when the move fails, or part of the session is still in its log.
    #[expect(clippy::disallowed_methods, reason = "a store has a thread of its own")]
    pub(crate) fn move_to(&self, root: &Path) -> Result<(), StoreError> {
        let (db, dir) = (self.db(), root.join(self.dir.file_name().unwrap_or_default()));
        let has_bytes = |path: PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        if has_bytes(self.log()) || has_bytes(with_suffix(&db, "-journal")) {
            return Err(StoreError::Failed(format!(
                "the log of {} is not folded into it; try again",
                db.display()
            )));
        }
        let moved = || {
            make_private_dir(&dir)?;
            fs::rename(&db, dir.join(format!("{}.db", self.id)))?;
            fs::File::open(&dir)?.sync_all()
        };
        moved().map_err(|source| StoreError::Io { doing: "move", path: db.clone(), source })?;
        // Side files of earlier readers.
        ["-wal", "-shm"].iter().try_for_each(|suffix| remove(&with_suffix(&db, suffix)))
    }

    /// Removes all files of the session, kept damaged ones included.
    ///
    /// # Errors
    /// [`StoreError::Io`] for the first file that cannot be removed.
    pub(crate) fn remove_all(&self) -> Result<(), StoreError> {
        let db = self.db();
        for suffix in ["-wal", "-shm", "-journal"] {
            remove(&with_suffix(&db, suffix))?;
        }
        remove(&self.quarantine())?;
        remove(&self.recovery())?;
        remove(&self.image())?;
        while let Some(kept) = self.kept_last() {
            remove(&with_suffix(&kept, "-wal"))?;
            remove(&with_suffix(&kept, "-journal"))?;
            remove(&kept)?;
        }
        remove(&db)
    }

    fn named(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(self.id.as_str());
        name.push(suffix);
        self.dir.join(name)
    }
}

/// Session found in a folder.
#[derive(Debug)]
pub(crate) enum Listed {
    /// Session with a database.
    Db(Files),
    /// Session of which only a damaged file that was put aside remains.
    Kept(Files, PathBuf),
}

/// All sessions of the store, or of the project at `cwd`.
///
/// # Errors
/// [`StoreError::Io`] when the root cannot be read. Unreadable folders are skipped.
pub(crate) fn all(root: &Path, cwd: Option<&Path>) -> Result<Vec<Listed>, StoreError> {
    let dirs = match cwd {
        Some(cwd) => vec![root.join(project_key(&canonical(cwd)))],
        None => folders(root)?,
    };
    let mut found = Vec::new();
    for dir in dirs {
        let Ok(names) = fs::read_dir(&dir) else { continue };
        for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let files = |id: &str| Files { dir: dir.clone(), id: SessionId::from(id) };
            if let Some(id) = name.strip_suffix(".db") {
                found.push(Listed::Db(files(id)));
            } else if let Some(id) = name.strip_suffix(".db-wal") {
                let files = files(id);
                if !files.db().exists() && files.has_lone_log() {
                    found.push(Listed::Db(files));
                }
            } else if let Some(id) = name.strip_suffix(".damaged-1") {
                let files = files(id);
                if let (false, Some(kept)) = (files.db().exists(), files.kept_last()) {
                    found.push(Listed::Kept(files, kept));
                }
            }
        }
    }
    Ok(found)
}

fn folders(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(root) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => {
            Err(StoreError::Io { doing: "list the sessions in", path: root.to_path_buf(), source })
        }
    }
}

/// Canonical path of the directory; unchanged if it does not exist.
pub(crate) fn canonical(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf())
}

/// Name of a project's folder: the directory's name, and a hash that tells directories of one name apart.
fn project_key(cwd: &Path) -> String {
    let name = cwd.file_name().unwrap_or_default().to_string_lossy();
    let slug: String = name
        .chars()
        .take(32)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let slug = if slug.is_empty() { "root" } else { &slug };
    format!("{slug}-{:012x}", fnv1a(&[cwd.as_os_str().as_bytes()]) >> 16)
}

/// Path with a suffix after the file name, as SQLite names its side files.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes a file; a missing file is no error.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Io { doing: "remove", path: path.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_folder_is_readable_and_unique() {
        let key = |path: &str| project_key(Path::new(path));
        assert!(key("/home/me/My Project!").starts_with("my-project--"));
        assert_ne!(key("/a/zk"), key("/b/zk"));
        assert!(key("/").starts_with("root-"));
    }

    #[test]
    fn an_id_that_is_no_file_name_is_no_session() {
        for id in ["", "..", "../x", "a/b", "a.db", "ü", &"x".repeat(101)] {
            assert!(!is_valid_id(&SessionId::from(id)), "{id:?}");
        }
        assert!(is_valid_id(&SessionId::fresh()));
    }
}
