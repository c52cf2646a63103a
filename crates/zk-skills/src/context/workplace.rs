use std::path::{Path, PathBuf};

use zk_core::service::HostFiles;

use crate::instructions::project;

/// Working directory of a conversation and its project, both as canonical paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workplace {
    pub(crate) cwd: PathBuf,
    /// Root of the working directory's project.
    pub(crate) project: PathBuf,
}

impl Workplace {
    pub(crate) fn new(cwd: &Path, project: &Path) -> Self {
        Self { cwd: cwd.to_path_buf(), project: project.to_path_buf() }
    }

    /// Workplace of a conversation that started here and now works in `cwd`: in the same project, or in that
    /// of `cwd`. Directories that do not exist on this machine are ignored. Blocks on the file system.
    pub(crate) fn moved(&self, cwd: Option<PathBuf>, files: &dyn HostFiles) -> Self {
        match cwd {
            Some(cwd) if cwd == self.cwd || !cwd.is_dir() => self.clone(),
            Some(cwd) if cwd.starts_with(&self.project) => Self::new(&cwd, &self.project),
            Some(cwd) => Self { project: project(&cwd, files).root, cwd },
            None => self.clone(),
        }
    }
}
