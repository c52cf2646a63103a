use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Files, Resolved, SearchMode, SearchQuery, WalkOptions};
use zk_exec::WorkspaceFiles;

const CANARY: &str = "canary: untouched";
/// Unique name in the outside directory.
const OUTSIDE: &str = "canary-of-outside";

/// Number of swaps of a directory; the variable sets it for the whole campaign.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn swaps_to_make() -> u32 {
    std::env::var("ZK_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

/// One thread swaps `dir` for a link to the outside and back while another reads, lists, writes, walks and searches below it.
fn race(door: impl Fn(WorkspaceFiles) -> WorkspaceFiles) {
    // In memory where there is such a place: this is about races, not about the disk.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("dir/file"), "inside").unwrap();
    fs::write(outside.join("file"), CANARY).unwrap();
    fs::write(outside.join(OUTSIDE), CANARY).unwrap();
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
        let (mut reached, mut walked, mut searched, mut round) = (0_u32, 0_u32, 0_u32, 0_u32);
        while swaps.load(Ordering::Relaxed) < most || [reached, walked, searched].contains(&0) {
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
                assert!(names.iter().all(|(name, _)| name != OUTSIDE), "{names:?}");
            }
            round += 1;
            if round.is_multiple_of(8) {
                let top = Resolved { path: root.clone(), shown: ".".into() };
                for from in [&top, &dir] {
                    walked += walk(&paths, from);
                    searched += search(&paths, from);
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), CANARY);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2, "nothing new outside");
}

/// Number of walks that reached the inner file; fails if one leads outside.
fn walk(paths: &WorkspaceFiles, from: &Resolved) -> u32 {
    let mut inside = false;
    let options = WalkOptions { dates: true, ..WalkOptions::default() };
    let _ = paths.walk(from, &options, &mut |entry| {
        assert!(!entry.at.shown.contains(OUTSIDE), "the outside was walked: {entry:?}");
        inside |= entry.at.path.ends_with("file");
        ControlFlow::Continue(())
    });
    inside.into()
}

/// Whether a search found the text inside; it finds none outside.
fn search(paths: &WorkspaceFiles, from: &Resolved) -> u32 {
    let query = SearchQuery {
        pattern: "inside|canary".into(),
        ignore_case: false,
        mode: SearchMode::Content,
        context: 1,
        walk: WalkOptions::default(),
        skip: 0,
        wanted: 100,
        max_bytes: 10_000,
        line_bytes: 200,
    };
    let Ok(found) = paths.search(from, &query, &CancellationToken::new()) else { return 0 };
    let seen = |text: &str| found.results.iter().any(|line| line.contains(text));
    assert!(!seen("canary"), "the outside was searched: {found:?}");
    seen("inside").into()
}

#[test]
fn swapping_a_directory_for_a_link_never_leads_outside() {
    race(|paths| paths);
}

#[test]
fn swapping_a_directory_for_a_link_never_leads_outside_without_openat2() {
    race(WorkspaceFiles::without_openat2);
}

#[test]
fn swapping_a_directory_for_a_link_never_leads_a_read_from_memory_outside() {
    // On a disk, where there are such reads.
    let base = tempfile::tempdir().unwrap();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("dir/file"), "inside").unwrap();
    fs::write(outside.join("file"), CANARY).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let root = root.canonicalize().unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap();
    if (0..1_000).all(|_| paths.read_cached(&root, "dir/file", 100).is_none()) {
        println!("skipped: no reads from memory on the file system of the temporary directory");
        return;
    }
    let done = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (dir, link) = (root.join("dir"), root.join("link"));
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        // Asserted after the end of the other thread, which waits for this one.
        let reads = (0..20_000).filter_map(|_| paths.read_cached(&root, "dir/file", 100));
        let found: HashSet<Vec<u8>> = reads.map(|file| file.bytes).collect();
        done.store(true, Ordering::Relaxed);
        found
    });
    assert!(found.is_empty() || found == HashSet::from([b"inside".to_vec()]), "{found:?}");
}
