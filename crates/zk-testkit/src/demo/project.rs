use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zk_core::model::SessionId;

/// Small bash project with failing tests: a quantity is not counted.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("project/README.md")),
    ("lib/basket.sh", include_str!("project/lib/basket.sh")),
    ("test.sh", include_str!("project/test.sh")),
];

/// Project in its own directory, which is removed on drop.
///
/// ```
/// use zk_testkit::demo::Project;
///
/// let project = Project::unpack(false)?;
/// assert!(project.dir().join("test.sh").exists());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Project {
    dir: PathBuf,
    keep: bool,
}

impl Project {
    /// Writes the project into a new temporary directory; with `keep` it is not removed.
    ///
    /// # Errors
    /// When the project cannot be written.
    pub fn unpack(keep: bool) -> io::Result<Self> {
        let name = format!("zk-demo-{}", SessionId::fresh());
        let dir = std::env::temp_dir().canonicalize()?.join(name);
        // Not recursive, so that an existing directory of another user is an error.
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let project = Self { dir, keep };
        for (path, text) in FILES {
            let path = project.dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(project)
    }

    /// Directory of the project.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if !self.keep {
            // On failure the directory stays among the temporary files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
