use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use zk_compaction::{LineFile, LineStore};
use zk_exec::LocalStateFiles;
use zk_mcp::{EraStore, FileEras};

#[test]
fn no_store_waits_for_a_pipe_in_the_place_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let files = Arc::new(LocalStateFiles::default());
    let written = LineFile::new(pipe, Path::new("/a"), true, Arc::default(), files.clone());
    let eras = FileEras::new(dir.path().to_owned(), files);
    type Attempt = Box<dyn FnOnce() -> bool + Send>;
    let attempts: [(&str, Attempt); 2] = [
        ("earlier lines", Box::new(move || written.append(&["a".to_owned()]).is_err())),
        ("eras", Box::new(move || eras.load("pipe").is_none())),
    ];
    for (what, attempt) in attempts {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(attempt()));
        assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(true), "{what}");
    }
}
