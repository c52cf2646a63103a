use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
use zk_core::service::{FileKind, Files, PathError, Resolved, WalkOptions, WalkReport};
use zk_exec::WorkspaceFiles;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn walk(paths: &WorkspaceFiles, from: &str, ignored: bool) -> (Vec<String>, WalkReport) {
    let at = paths.resolve(&paths.roots()[0], from).unwrap();
    let mut names = Vec::new();
    let report = paths.walk(&at, &WalkOptions { ignored, ..WalkOptions::default() }, &mut |entry| {
        if entry.kind == FileKind::File {
            names.push(entry.at.shown);
        }
        ControlFlow::Continue(())
    });
    (names, report.unwrap())
}

#[test]
fn a_walk_is_in_the_order_of_names_and_ends_when_there_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b/z", "b/a/x", "a", "c", "b.txt", ".git/config", ".hidden/f"] {
        put(dir.path(), name, "");
    }
    symlink(dir.path().join("b"), dir.path().join("link")).unwrap();
    for paths in [
        WorkspaceFiles::new([dir.path()]).unwrap(),
        WorkspaceFiles::new([dir.path()]).unwrap().without_openat2(),
    ] {
        assert_eq!(walk(&paths, ".", false).0, [".hidden/f", "a", "b/a/x", "b/z", "b.txt", "c"]);
        assert_eq!(walk(&paths, "b", false).0, ["b/a/x", "b/z"]);
        assert_eq!(walk(&paths, "b/z", false).0, ["b/z"]);
        let mut seen = 0;
        let at = paths.resolve(dir.path(), ".").unwrap();
        let stop = &mut |_| {
            seen += 1;
            ControlFlow::Break(())
        };
        paths.walk(&at, &WalkOptions::default(), stop).unwrap();
        assert_eq!(seen, 1);
        let missing = Resolved { path: at.path.join("missing"), shown: "missing".into() };
        let error = paths.walk(&missing, &WalkOptions::default(), &mut |_| ControlFlow::Continue(()));
        assert!(matches!(error, Err(PathError::Missing { .. })));
    }
}

#[test]
fn ignore_files_hold_as_git_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, ".git/info/exclude", "excluded\n");
    put(&root, ".gitignore", "\u{feff}*.log\n/target/\n!keep.log\nsub/only\n");
    put(&root, "src/.gitignore", "!wanted.log\n*.tmp\n");
    put(&root, ".ignore", "*.plain\n!really.tmp\n");
    put(&root, "nested/.git/HEAD", "");
    for name in [
        "a.log",
        "keep.log",
        "target/x",
        "src/target/x",
        "src/wanted.log",
        "src/other.log",
        "src/a.tmp",
        "src/really.tmp",
        "a.tmp",
        "a.plain",
        "excluded",
        "src/excluded",
        "sub/only",
        "src/sub/only",
        "nested/a.log",
        "nested/a.plain",
    ] {
        put(&root, name, "");
    }
    let paths = WorkspaceFiles::new([&root]).unwrap();
    let files = |from: &str, ignored: bool| {
        let mut names = walk(&paths, from, ignored).0;
        names.retain(|name| !name.ends_with("ignore"));
        names
    };
    let src = ["src/really.tmp", "src/sub/only", "src/target/x", "src/wanted.log"];
    assert_eq!(files("src", false), src, "the rules above the start hold");
    // Git's rules end at the next repository, those of `.ignore` do not.
    let all = [["a.tmp", "keep.log", "nested/a.log"].as_slice(), &src].concat();
    assert_eq!(files(".", false), all);
    assert_eq!(files(".", true).len(), 16);
    // A workspace inside of the repository.
    let inner = WorkspaceFiles::new([root.join("src")]).unwrap();
    let mut names = walk(&inner, ".", false).0;
    names.retain(|name| !name.ends_with("ignore"));
    assert_eq!(names, src.map(|name| name.trim_start_matches("src/")));
}

#[test]
fn an_ignore_file_that_never_ends_is_not_used_and_nothing_waits() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "repository/.git/HEAD", "");
    put(&root, "repository/inner/a", "");
    put(&root, "repository/inner/.git/info/x", "");
    let work = root.join("repository/inner");
    mkfifoat(CWD, work.join(".gitignore"), Mode::from_raw_mode(0o600)).unwrap();
    mkfifoat(CWD, work.join(".git/info/exclude"), Mode::from_raw_mode(0o600)).unwrap();
    symlink("/dev/zero", work.join(".ignore")).unwrap();
    let (names, report) = walk(&WorkspaceFiles::new([&work]).unwrap(), ".", false);
    assert_eq!(names, ["a"]);
    assert_eq!(report.notices.len(), 3, "{report:?}");
    assert!(report.notices[1].contains(".gitignore are not used: it is a pipe"), "{report:?}");
    // Above the workspace, and too large.
    fs::remove_dir_all(work.join(".git")).unwrap();
    for name in [".gitignore", ".ignore"] {
        fs::remove_file(work.join(name)).unwrap();
    }
    mkfifoat(CWD, root.join("repository/.gitignore"), Mode::from_raw_mode(0o600)).unwrap();
    fs::File::create(work.join(".ignore")).unwrap().set_len(300 << 20).unwrap();
    let (names, report) = walk(&WorkspaceFiles::new([&work]).unwrap(), ".", false);
    assert_eq!(names, [".ignore", "a"]);
    assert_eq!(report.notices.len(), 2, "{report:?}");
    assert!(report.notices[1].contains("larger than 1048576 bytes"), "{report:?}");
}

/// One thread swaps directories for links to the outside and back while others walk. `ZK_SWAPS` sets how often;
/// the whole campaign is 1,000,000.
#[test]
#[expect(clippy::disallowed_methods, reason = "the size of the campaign is the tester's choice")]
fn a_walk_names_nothing_outside_whatever_is_swapped_in() {
    let swaps: u32 = std::env::var("ZK_SWAPS").map_or(10_000, |swaps| swaps.parse().unwrap());
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let root = base.path().join("root");
    let outside = base.path().join("outside");
    for dir in ["dir/deep/er", "other"] {
        fs::create_dir_all(root.join(dir)).unwrap();
        fs::create_dir_all(outside.join(dir)).unwrap();
    }
    for (at, name) in [(&root, "inside"), (&outside, "canary")] {
        for dir in ["", "dir", "dir/deep", "dir/deep/er"] {
            fs::write(at.join(dir).join(name), "").unwrap();
            fs::write(at.join(dir).join(".gitignore"), "x").unwrap();
        }
    }
    symlink(&outside, root.join("link")).unwrap();
    let paths =
        [WorkspaceFiles::new([&root]).unwrap(), WorkspaceFiles::new([&root]).unwrap().without_openat2()];
    let (done, swapped) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for dir in ["dir", "dir/deep"] {
                    let _ = renameat_with(CWD, root.join(dir), CWD, root.join("link"), RenameFlags::EXCHANGE);
                    let _ = renameat_with(CWD, root.join(dir), CWD, root.join("link"), RenameFlags::EXCHANGE);
                    swapped.fetch_add(2, Ordering::Relaxed);
                }
            }
        });
        let mut walks = 0;
        while swapped.load(Ordering::Relaxed) < swaps || walks < 100 {
            for paths in &paths {
                for from in [".", "dir", "dir/deep"] {
                    let at = Resolved { path: paths.roots()[0].join(from), shown: from.into() };
                    let _ = paths.walk(&at, &WalkOptions::default(), &mut |entry| {
                        let name = entry.at.path.file_name().unwrap();
                        if name == "canary" {
                            done.store(true, Ordering::Relaxed);
                            panic!("{} is outside", entry.at.shown);
                        }
                        ControlFlow::Continue(())
                    });
                    // The answer about a missing name is not from outside either.
                    let near = Resolved { path: at.path.join("canarx"), shown: "canarx".into() };
                    let hint = paths.open(&near, None).err().unwrap().to_string();
                    if hint.contains("canary") {
                        done.store(true, Ordering::Relaxed);
                        panic!("{hint}");
                    }
                }
            }
            walks += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}
