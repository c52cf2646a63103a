use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zk_core::model::SessionId;

/// A small project in bash whose tests fail: a quantity is not counted.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("project/README.md")),
    ("lib/basket.sh", include_str!("project/lib/basket.sh")),
    ("test.sh", include_str!("project/test.sh")),
];

/// The project in a directory of its own, removed with this value.
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
    /// Writes it into a new directory below the temporary one; with `keep` it stays there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn unpack(keep: bool) -> io::Result<Self> {
        let name = format!("zk-demo-{}", SessionId::fresh());
        let dir = std::env::temp_dir().canonicalize()?.join(name);
        // Not recursive: a directory that somebody else made is an error.
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

    /// Returns the directory of the project.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if !self.keep {
            // A directory that cannot be removed stays in the temporary one.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
