use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zk_core::service::StateFiles;

use super::eras::{EraStore, ServerEra};

/// Maximum age of a stored era, since a server may support a newer one later.
const MAX_ERA_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Size limit of a file with an era in bytes.
const MAX_ERA_BYTES: usize = 1024;

/// Store of eras as files of a directory.
#[derive(Debug)]
pub struct FileEras {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl FileEras {
    /// Creates a store in the directory `dir`, which is created on the first write.
    #[must_use]
    pub fn new(dir: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { dir, files }
    }
}

impl EraStore for FileEras {
    fn load(&self, identity: &str) -> Option<ServerEra> {
        let path = self.dir.join(identity);
        let written = std::fs::metadata(&path).ok()?.modified().ok()?;
        // A time in the future, after the clock was set back, counts as fresh.
        let is_fresh = written.elapsed().map_or(true, |age| age < MAX_ERA_AGE);
        let name = self.files.read(&path, MAX_ERA_BYTES).ok().flatten().filter(|_| is_fresh)?;
        ServerEra::from_name(std::str::from_utf8(&name).ok()?.trim())
    }

    fn save(&self, identity: &str, era: ServerEra) {
        // If storing fails, the era is probed again.
        let _ = self.files.replace(&self.dir.join(identity), era.as_str().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use zk_exec::LocalStateFiles;

    use super::*;

    #[test]
    fn an_era_is_kept_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let eras = FileEras::new(dir.path().join("a"), Arc::new(LocalStateFiles::default()));
        assert_eq!(eras.load("x"), None);
        eras.save("x", ServerEra::Modern);
        eras.save("x", ServerEra::EventStream);
        assert_eq!(eras.load("x"), Some(ServerEra::EventStream));
        let file = File::options().write(true).open(dir.path().join("a/x")).unwrap();
        file.set_modified(SystemTime::now() - 2 * MAX_ERA_AGE).unwrap();
        assert_eq!(eras.load("x"), None);
    }
}
