use std::path::{Path, PathBuf};

use zk_core::service::HostFiles;

use crate::instructions::project;

/// Working directory of a conversation and its project, both canonical.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workplace {
    pub(crate) cwd: PathBuf,
    /// The root of the project of that.
    pub(crate) project: PathBuf,
}

impl Workplace {
    pub(crate) fn new(cwd: &Path, project: &Path) -> Self {
        Self { cwd: cwd.to_path_buf(), project: project.to_path_buf() }
    }

    /// Returns the workplace of a conversation that began here and works in `cwd` by now: in the same
    /// project, or in that of `cwd`. A directory that this machine does not have is not followed. Calls block
    /// for as long as the file system does.
    pub(crate) fn moved(&self, cwd: Option<PathBuf>, files: &dyn HostFiles) -> Self {
        match cwd {
            Some(cwd) if cwd == self.cwd || !cwd.is_dir() => self.clone(),
            Some(cwd) if cwd.starts_with(&self.project) => Self::new(&cwd, &self.project),
            Some(cwd) => Self { project: project(&cwd, files).root, cwd },
            None => self.clone(),
        }
    }
}
