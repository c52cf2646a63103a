use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use zk_core::service::{Files, Resolved};
use zk_exec::WorkspaceFiles;

const CANARY: &str = "canary: untouched";

/// How often a directory is swapped; the variable says it for the whole campaign.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn swaps_to_make() -> u32 {
    std::env::var("ZK_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

/// One thread swaps `dir` for a link to the outside and back while another reads, lists and writes below it.
fn race(door: impl Fn(WorkspaceFiles) -> WorkspaceFiles) {
    // In memory where there is such a place: this is about races, not about the disk.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("dir/file"), "inside").unwrap();
    fs::write(outside.join("file"), CANARY).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let root = root.canonicalize().unwrap();
    let paths = door(WorkspaceFiles::new([&root]).unwrap());
    let most = swaps_to_make();
    let (done, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (dir, link) = (root.join("dir"), root.join("link"));
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut reached = 0_u32;
        while swaps.load(Ordering::Relaxed) < most || reached == 0 {
            let at = Resolved { path: root.join("dir/file"), shown: "dir/file".into() };
            let found = paths.resolve(&root, "dir/file").ok();
            for at in found.into_iter().chain([at]) {
                if let Ok(mut file) = paths.open(&at, None) {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_ne!(text, CANARY, "the outside was read");
                    reached += 1;
                }
                let new = Resolved { path: at.path.with_file_name("new"), shown: "dir/new".into() };
                if reached.is_multiple_of(16) {
                    let _ = paths.write(&at, b"inside, written");
                    let _ = paths.write(&new, b"new");
                }
            }
            let dir = Resolved { path: root.join("dir"), shown: "dir".into() };
            if let Ok(names) = paths.list(&dir) {
                assert!(names.len() <= 3, "{names:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), CANARY);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing new outside");
}

#[test]
fn swapping_a_directory_for_a_link_never_leads_outside() {
    race(|paths| paths);
}

#[test]
fn swapping_a_directory_for_a_link_never_leads_outside_without_openat2() {
    race(WorkspaceFiles::without_openat2);
}
