use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::{MAX_DEPTH, MAX_FILES, Tree, TreeError, TreeFile};

/// Directory of git in a repository, which is not part of a bundle.
const GIT_DIR: &str = ".git";

impl Tree {
    /// Reads all files below a directory, except `.git`. A link is replaced by its target, which must be
    /// inside. Blocks on the file system.
    ///
    /// # Errors
    /// [`TreeError`] for the first file that cannot be part of a bundle.
    pub fn read_dir(dir: &Path, files: &dyn HostFiles) -> Result<Self, TreeError> {
        let root = dir.canonicalize().map_err(|error| io(dir, error))?;
        let mut tree = Self::default();
        tree.walk((&root, &root), "", files, &mut { MAX_FILES })?;
        Ok(tree)
    }

    fn walk(
        &mut self,
        (root, dir): (&Path, &Path),
        below: &str,
        files: &dyn HostFiles,
        left: &mut usize,
    ) -> Result<(), TreeError> {
        if below.split('/').count() > MAX_DEPTH {
            return Err(TreeError::TooDeep(below.to_owned()));
        }
        for entry in fs::read_dir(dir).map_err(|error| io(dir, error))? {
            let entry = entry.map_err(|error| io(dir, error))?;
            let (path, name) = (entry.path(), entry.file_name());
            if name == GIT_DIR {
                continue;
            }
            let Some(name) = name.to_str() else {
                return Err(TreeError::Name(name.to_string_lossy().into_owned()));
            };
            let below = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(|error| io(&path, error))?;
            let real = if kind.is_symlink() { link_target(root, dir, &path)? } else { path.clone() };
            let meta = fs::metadata(&real).map_err(|error| io(&path, error))?;
            if meta.is_dir() {
                // Links can make the same directory occur many times, so entries are counted.
                *left = left.checked_sub(1).ok_or(TreeError::TooMany)?;
                self.walk((root, &real), &below, files, left)?;
                continue;
            }
            let how = HostRead {
                beneath: Some(root.to_path_buf()),
                ..HostRead::whole(self.remaining_bytes().max(1))
            };
            let bytes = match files.read(&path, &how) {
                Ok(file) => file.bytes,
                Err(HostFileError::TooLarge { .. }) => return Err(TreeError::TooLarge { last: below }),
                Err(source) => return Err(TreeError::Read { path, source }),
            };
            let is_executable = meta.permissions().mode() & 0o111 != 0;
            self.insert(&below, TreeFile { bytes, is_executable })?;
        }
        Ok(())
    }

    /// Writes all files below a new directory that only its owner can enter. Blocks on the file system.
    ///
    /// # Errors
    /// [`TreeError::Write`], also when the directory exists.
    pub fn write_to(&self, dir: &Path) -> Result<(), TreeError> {
        let wrong = |path: &Path, source| TreeError::Write { path: path.to_path_buf(), source };
        if let Some(parent) = dir.parent() {
            create_private_dirs(parent, true).map_err(|source| wrong(parent, source))?;
        }
        create_private_dirs(dir, false).map_err(|source| wrong(dir, source))?;
        for (path, file) in self.files() {
            let to = dir.join(path);
            let parent = to.parent().unwrap_or(dir);
            create_private_dirs(parent, true).map_err(|source| wrong(parent, source))?;
            let mode = if file.is_executable { 0o700 } else { 0o600 };
            let made = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&to);
            made.and_then(|mut made| made.write_all(&file.bytes)).map_err(|source| wrong(&to, source))?;
        }
        Ok(())
    }
}

fn create_private_dirs(dir: &Path, recursive: bool) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(recursive).mode(0o700).create(dir)
}

/// Returns the target of the symbolic link `link` in `dir`. The target must be inside of the bundle, and must
/// not contain the link.
fn link_target(root: &Path, dir: &Path, link: &Path) -> Result<PathBuf, TreeError> {
    let leads_out = || TreeError::LeadsOut { path: link.to_path_buf() };
    let real = link.canonicalize().map_err(|_| leads_out())?;
    let is_circle = dir.starts_with(&real);
    let is_of_git = real.strip_prefix(root).is_ok_and(|below| below.starts_with(GIT_DIR));
    if !real.starts_with(root) || is_circle || is_of_git {
        return Err(leads_out());
    }
    Ok(real)
}

fn io(path: &Path, error: std::io::Error) -> TreeError {
    TreeError::Read { path: path.to_path_buf(), source: HostFileError::Io(error) }
}
