use std::path::PathBuf;
use std::time::Duration;

use zk_core::service::StateFiles as _;
use zk_exec::LocalStateFiles;
use zk_mcp::{EraStore, ServerEra};

use crate::own_files;

/// Time for which an era is taken for the present one: a server may come to speak a newer one.
const FRESH: Duration = Duration::from_secs(7 * 24 * 3600);

/// Eras of servers as files of a directory.
#[derive(Debug)]
pub(crate) struct FileEras {
    dir: PathBuf,
}

impl FileEras {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
}

impl EraStore for FileEras {
    fn load(&self, identity: &str) -> Option<ServerEra> {
        let path = self.dir.join(identity);
        let written = std::fs::metadata(&path).ok()?.modified().ok()?;
        // A clock that was set back makes it no older.
        let is_fresh = written.elapsed().map_or(true, |age| age < FRESH);
        let name = own_files::read_text(&path, own_files::RECORD).ok().filter(|_| is_fresh)?;
        ServerEra::from_name(name.trim())
    }

    fn save(&self, identity: &str, era: ServerEra) {
        // One that cannot be kept is probed again.
        let _ = LocalStateFiles::default().replace(&self.dir.join(identity), era.as_str().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn an_era_is_kept_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let eras = FileEras::new(dir.path().join("a"));
        assert_eq!(eras.load("x"), None);
        eras.save("x", ServerEra::Modern);
        eras.save("x", ServerEra::EventStream);
        assert_eq!(eras.load("x"), Some(ServerEra::EventStream));
        let file = File::options().write(true).open(dir.path().join("a/x")).unwrap();
        file.set_modified(SystemTime::now() - 2 * FRESH).unwrap();
        assert_eq!(eras.load("x"), None);
    }
}
