use std::path::{Path, PathBuf};

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::Skill;

/// Maximum number of files of a skill.
const MAX_FILES: usize = 512;

/// Maximum number of bytes of a skill's files together.
const MAX_BYTES: usize = 16 << 20;

/// Maximum number of levels of directories in a skill.
const MAX_DEPTH: usize = 6;

/// Files of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Canonical path of the directory.
    pub dir: PathBuf,
    /// Sorted paths of the files, relative to the directory.
    pub files: Vec<PathBuf>,
}

/// Reason why the files of a skill cannot be approved.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// There are too many files.
    #[error("{dir} has more than {MAX_FILES} files", dir = .dir.display())]
    TooMany {
        /// Directory of the skill.
        dir: PathBuf,
    },
    /// The files are too large.
    #[error("the files of {dir} have more than {MAX_BYTES} bytes together", dir = .dir.display())]
    TooLarge {
        /// Directory of the skill.
        dir: PathBuf,
    },
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// A file of the skill cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: HostFileError,
    },
}

impl Bundle {
    /// Lists the files of a skill; an inline skill has none. Links are not followed, and directories that
    /// begin with a dot or contain dependencies (`node_modules`) are skipped. `SKILL.md` counts even as a
    /// link, since its text is approved with the files.
    ///
    /// # Errors
    /// `BundleError`.
    pub fn of(skill: &Skill) -> Result<Self, BundleError> {
        let mut bundle = Self { dir: skill.dir.clone().unwrap_or_default(), files: Vec::new() };
        if skill.dir.is_some() {
            bundle.walk(Path::new(""), 0)?;
            let own = PathBuf::from(&skill.file);
            if !bundle.files.contains(&own) {
                bundle.files.push(own);
            }
            bundle.files.sort();
        }
        Ok(bundle)
    }

    fn walk(&mut self, below: &Path, depth: usize) -> Result<(), BundleError> {
        let dir = self.dir.join(below);
        let failed = |source| BundleError::Io { path: dir.clone(), source };
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let kind = entry.file_type().map_err(failed)?;
            let is_hidden = name.to_string_lossy().starts_with('.');
            if kind.is_dir() {
                if !is_hidden && name != "node_modules" && depth < MAX_DEPTH {
                    self.walk(&below.join(&name), depth + 1)?;
                }
            } else if kind.is_file() {
                if self.files.len() == MAX_FILES {
                    return Err(BundleError::TooMany { dir: self.dir.clone() });
                }
                self.files.push(below.join(&name));
            }
        }
        Ok(())
    }

    /// Whether the canonical `path` is one of the files; others are not approved.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        path.strip_prefix(&self.dir).is_ok_and(|below| self.files.iter().any(|file| file == below))
    }

    /// Files besides `SKILL.md`, as listed to a model.
    #[must_use]
    pub fn resources(&self) -> Vec<String> {
        let is_skill = |path: &Path| path.parent() == Some(Path::new("")) && is_skill_file(path);
        let files = self.files.iter().filter(|path| !is_skill(path));
        files.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Names and contents of all files as one byte string, for approval.
    ///
    /// # Errors
    /// `BundleError`.
    pub fn bytes(&self, files: &dyn HostFiles) -> Result<Vec<u8>, BundleError> {
        let mut bytes = Vec::new();
        for file in &self.files {
            let path = self.dir.join(file);
            let how = HostRead { beneath: Some(self.dir.clone()), ..HostRead::whole(MAX_BYTES).own_only() };
            let read = files.read(&path, &how);
            let content = read.map_err(|source| BundleError::File { path, source })?.bytes;
            // Each file has its length before it, so that one file cannot imitate two.
            let name = file.to_string_lossy();
            bytes.extend_from_slice(format!("{}:{name}\0{}\0", name.len(), content.len()).as_bytes());
            bytes.extend_from_slice(&content);
            if bytes.len() > MAX_BYTES {
                return Err(BundleError::TooLarge { dir: self.dir.clone() });
            }
        }
        Ok(bytes)
    }
}

fn is_skill_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(super::SKILL_FILE))
}
