use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zk_core::service::{FileKind, Files, PathError, Resolved, SearchMode, SearchQuery, WalkOptions};
use zk_exec::WorkspaceFiles;

fn workspace() -> (TempDir, PathBuf, WorkspaceFiles) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap();
    (dir, root, paths)
}

fn read(paths: &WorkspaceFiles, cwd: &Path, path: &str) -> Result<String, PathError> {
    let mut text = String::new();
    paths.open(&paths.resolve(cwd, path)?, None)?.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn different_spellings_of_one_file_resolve_alike() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/a.rs"), "").unwrap();
    symlink("src", root.join("link")).unwrap();
    symlink("src/a.rs", root.join("alias")).unwrap();
    let absolute = root.join("src/a.rs");
    let spellings = [
        "src/a.rs",
        "./src//a.rs",
        "src/../src/a.rs",
        "link/a.rs",
        "alias",
        "@src/a.rs",
        "link/../src/./a.rs",
    ];
    for spelling in spellings.into_iter().chain(absolute.to_str()) {
        let at = paths.resolve(&root, spelling).unwrap();
        assert_eq!((at.path.as_path(), at.shown.as_str()), (absolute.as_path(), "src/a.rs"), "{spelling}");
    }
    assert_eq!(paths.resolve(&root.join("src"), "a.rs").unwrap().shown, "src/a.rs");
    assert_eq!(paths.resolve(&root, ".").unwrap().shown, ".");
}

#[test]
fn a_name_that_begins_with_an_at_sign_is_found() {
    let (_dir, root, paths) = workspace();
    fs::write(root.join("@types"), "at").unwrap();
    fs::write(root.join("types"), "plain").unwrap();
    assert_eq!(read(&paths, &root, "@types").unwrap(), "at");
    fs::remove_file(root.join("@types")).unwrap();
    assert_eq!(read(&paths, &root, "@types").unwrap(), "plain");
}

#[test]
fn the_home_directory_counts_only_if_it_is_known_and_inside() {
    let (_dir, root, paths) = workspace();
    fs::write(root.join("notes"), "here").unwrap();
    assert!(matches!(paths.resolve(&root, "~/notes"), Err(PathError::Invalid { .. })));
    let outside = WorkspaceFiles::new([&root]).unwrap().home("/root");
    assert!(matches!(outside.resolve(&root, "~/notes"), Err(PathError::Outside { .. })));
    let inside = WorkspaceFiles::new([&root]).unwrap().home(&root);
    assert_eq!(read(&inside, &root, "~/notes").unwrap(), "here");
    assert!(matches!(inside.resolve(&root, "~root"), Ok(at) if at.shown == "~root"), "a name like any other");
}

#[test]
fn a_missing_file_has_a_hint() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/config.yaml"), "").unwrap();
    fs::write(root.join("src/Main.rs"), "").unwrap();
    let error = |path| read(&paths, &root, path).unwrap_err().to_string();
    assert_eq!(error("src/config.yml"), "`src/config.yml` does not exist; did you mean `config.yaml`?");
    assert_eq!(error("src/main.rs"), "`src/main.rs` does not exist; did you mean `Main.rs`?");
    assert_eq!(error("src/unlike"), "`src/unlike` does not exist");
    assert_eq!(error("lib/deep/x.rs"), "`lib/deep/x.rs` does not exist; there is no directory `lib`");
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let fifo = rustix::fs::CWD;
    rustix::fs::mknodat(
        fifo,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for (name, what) in [("dir", "a directory"), ("pipe", "a pipe"), ("socket", "a socket")] {
        let error = read(&paths, &root, name).unwrap_err().to_string();
        assert_eq!(error, format!("`{name}` is {what}, not a regular file"));
        let at = paths.resolve(&root, name).unwrap();
        assert!(matches!(paths.write(&at, b"x"), Err(PathError::Kind { .. })), "{name}");
    }
    assert!(matches!(paths.resolve(&root, "file/below"), Err(PathError::Kind { .. })));
    let file = paths.resolve(&root, "file").unwrap();
    assert!(matches!(paths.list(&file), Err(PathError::Kind { .. })));
}

#[test]
fn a_directory_is_listed_with_kinds_in_order() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("b")).unwrap();
    fs::write(root.join("a"), "12345").unwrap();
    symlink("/etc/passwd", root.join("c")).unwrap();
    let found: Vec<_> = paths
        .list(&paths.resolve(&root, ".").unwrap())
        .unwrap()
        .into_iter()
        .map(|(name, stat)| (name, stat.kind, stat.kind == FileKind::File && stat.len == 5))
        .collect();
    let expected = [
        ("a".to_owned(), FileKind::File, true),
        ("b".to_owned(), FileKind::Directory, false),
        ("c".to_owned(), FileKind::Link, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_write_makes_missing_directories() {
    let (_dir, root, paths) = workspace();
    let at = paths.resolve(&root, "a/b/c.txt").unwrap();
    assert!(paths.write(&at, b"one").unwrap().created);
    assert!(!paths.write(&at, b"two").unwrap().created);
    assert_eq!(fs::read(root.join("a/b/c.txt")).unwrap(), b"two");
    assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 1, "nothing temporary is left");
}

#[test]
fn a_write_keeps_mode_and_attributes() {
    let (_dir, root, paths) = workspace();
    let file = root.join("run.sh");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4751)).unwrap();
    let attribute = rustix::fs::setxattr(&file, "user.zk-test", b"kept", rustix::fs::XattrFlags::empty());
    paths.write(&paths.resolve(&root, "run.sh").unwrap(), b"new").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o4751);
    if attribute.is_ok() {
        let mut value = [0_u8; 16];
        let len = rustix::fs::getxattr(&file, "user.zk-test", &mut value).unwrap();
        assert_eq!(&value[..len], b"kept");
    }
}

#[test]
fn a_write_keeps_the_owner() {
    let (_dir, root, paths) = workspace();
    let file = root.join("theirs");
    fs::write(&file, "old").unwrap();
    if std::os::unix::fs::chown(&file, Some(12_345), Some(12_345)).is_err() {
        println!("skipped: giving a file away needs root");
        return;
    }
    paths.write(&paths.resolve(&root, "theirs").unwrap(), b"new").unwrap();
    let kept = fs::metadata(&file).unwrap();
    assert_eq!((kept.uid(), kept.gid()), (12_345, 12_345));
}

#[test]
fn a_write_through_a_link_keeps_the_link() {
    let (_dir, root, paths) = workspace();
    fs::write(root.join("target"), "old").unwrap();
    symlink("target", root.join("link")).unwrap();
    symlink("not-yet", root.join("dangling")).unwrap();
    paths.write(&paths.resolve(&root, "link").unwrap(), b"new").unwrap();
    paths.write(&paths.resolve(&root, "dangling").unwrap(), b"made").unwrap();
    assert_eq!(fs::read(root.join("target")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("not-yet")).unwrap(), b"made");
    for link in ["link", "dangling"] {
        assert!(fs::symlink_metadata(root.join(link)).unwrap().is_symlink());
    }
}

#[test]
fn a_write_never_changes_another_name_of_the_file() {
    let (_dir, root, paths) = workspace();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("original"), "theirs").unwrap();
    if fs::hard_link(outside.path().join("original"), root.join("name")).is_err() {
        println!("skipped: the two directories are on different file systems");
        return;
    }
    assert_eq!(read(&paths, &root, "name").unwrap(), "theirs");
    paths.write(&paths.resolve(&root, "name").unwrap(), b"ours").unwrap();
    assert_eq!(fs::read(outside.path().join("original")).unwrap(), b"theirs");
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a full disk needs a file system of its own, which only root may mount");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = c"size=64k";
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("tmpfs", dir.path(), "tmpfs", flags, Some(options)).is_err() {
        println!("skipped: mounting is not allowed here");
        return;
    }
    let root = dir.path().canonicalize().unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap();
    fs::write(root.join("file"), "old").unwrap();
    let error = paths.write(&paths.resolve(&root, "file").unwrap(), &[0; 200_000]).unwrap_err();
    let kept = fs::read(root.join("file")).unwrap();
    let names = fs::read_dir(&root).unwrap().count();
    drop(paths);
    rustix::mount::unmount(&root, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(error.to_string().starts_with("cannot write `file`: No space left"), "{error}");
    assert_eq!((kept.as_slice(), names), (b"old".as_slice(), 1));
}

#[test]
fn a_directory_that_may_only_be_read_is_only_read() {
    let (_dir, root, _) = workspace();
    let results = tempfile::tempdir().unwrap();
    fs::write(results.path().join("log"), "text").unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap().read_only(results.path()).unwrap();
    let log = results.path().canonicalize().unwrap().join("log");
    let at = paths.resolve(&root, log.to_str().unwrap()).unwrap();
    assert!(paths.open(&at, None).is_ok());
    let error = paths.write(&at, b"x").unwrap_err().to_string();
    assert!(error.ends_with("it may only be read"), "{error}");
    assert_eq!(paths.roots(), [root]);
}

#[test]
fn a_directory_without_write_permission_gives_a_clear_error() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write everywhere");
        return;
    }
    let (_dir, root, paths) = workspace();
    fs::write(root.join("file"), "old").unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).unwrap();
    let error = paths.write(&paths.resolve(&root, "file").unwrap(), b"new").unwrap_err();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(error.to_string(), "cannot make a new file beside `file`: Permission denied (os error 13)");
}

#[test]
fn a_part_of_a_file_is_read_without_the_rest() {
    let (_dir, root, paths) = workspace();
    fs::write(root.join("ten"), "0123456789").unwrap();
    let at = paths.resolve(&root, "ten").unwrap();
    for (range, part) in [(2..5, "234"), (8..900, "89"), (20..30, ""), (3..3, "")] {
        let mut text = String::new();
        paths.open(&at, Some(range.clone())).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, part, "{range:?}");
    }
}

#[test]
fn the_identity_of_a_file_is_that_of_all_its_names() {
    let (_dir, root, paths) = workspace();
    fs::write(root.join("one"), "").unwrap();
    fs::write(root.join("two"), "").unwrap();
    fs::hard_link(root.join("one"), root.join("other")).unwrap();
    let identity = |name: &str| paths.stat(&paths.resolve(&root, name).unwrap()).unwrap().identity;
    assert_eq!(identity("one"), identity("other"));
    assert_ne!(identity("one"), identity("two"));
}

#[test]
fn a_search_finds_lines_where_the_files_are() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/a.rs"), "one\nneedle\n").unwrap();
    fs::write(root.join("b.txt"), "needle\n").unwrap();
    let from = paths.resolve(&root, ".").unwrap();
    let query = SearchQuery {
        pattern: "n.*e".into(),
        ignore_case: false,
        mode: SearchMode::Content,
        context: 0,
        walk: WalkOptions { only: Some("**/*.rs".into()), ..WalkOptions::default() },
        skip: 0,
        wanted: 10,
        max_bytes: 1000,
        line_bytes: 100,
    };
    let stop = CancellationToken::new();
    let found = paths.search(&from, &query, &stop).unwrap();
    assert_eq!(found.results, ["src/a.rs:1:one", "src/a.rs:2:needle"]);
    let wrong = SearchQuery { pattern: "(".into(), ..query };
    assert!(matches!(paths.search(&from, &wrong, &stop), Err(PathError::Pattern { .. })));
}

#[test]
fn a_watch_tells_of_changes_until_it_is_dropped_and_only_of_what_may_be_read() {
    let (_dir, root, paths) = workspace();
    fs::create_dir(root.join("src")).unwrap();
    let (told, changes) = std::sync::mpsc::channel();
    let at = paths.resolve(&root, "src").unwrap();
    let changed = move |at: &Resolved| drop(told.send(at.shown.clone()));
    let watch = paths.watch(&at, Arc::new(changed)).unwrap();
    fs::write(root.join("outside"), "x").unwrap();
    fs::write(root.join("src/new"), "x").unwrap();
    assert_eq!(changes.recv_timeout(std::time::Duration::from_secs(20)).unwrap(), "src/new");
    drop(watch);
    assert!(changes.iter().all(|shown| shown.starts_with("src")), "its end closes the channel");
    let missing = paths.resolve(&root, "missing").unwrap();
    assert!(matches!(paths.watch(&missing, Arc::new(|_| ())), Err(PathError::Missing { .. })));
}

#[test]
fn a_path_that_is_missing_from_far_above_is_answered_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap();
    let at = paths.resolve(&root, &format!("gone/{}x", "deeper/".repeat(200))).unwrap();
    let error = paths.open(&at, None).err().unwrap().to_string();
    assert!(error.contains("there is no directory `gone`"), "{error}");
}

/// Whether files below `root` are read from memory: not on every file system.
fn has_cached_reads(paths: &WorkspaceFiles, root: &Path) -> bool {
    fs::write(root.join("probe"), "probe").unwrap();
    read(paths, root, "probe").unwrap();
    let found = (0..1_000).any(|_| paths.read_cached(root, "probe", 100).is_some());
    fs::remove_file(root.join("probe")).unwrap();
    found
}

#[test]
fn a_read_from_memory_is_that_of_the_usual_way_or_none() {
    let (_dir, root, _) = workspace();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("key"), "outside").unwrap();
    fs::create_dir_all(root.join("src/.ssh")).unwrap();
    for (name, text) in
        [("src/a.rs", "fn a() {}\n"), ("empty", ""), ("big", "0123456789"), ("src/.ssh/id", "secret")]
    {
        fs::write(root.join(name), text).unwrap();
    }
    fs::write(root.join("hidden"), "hidden").unwrap();
    fs::write(root.join("twice"), "twice").unwrap();
    fs::hard_link(root.join("twice"), root.join("again")).unwrap();
    symlink("src", root.join("link")).unwrap();
    symlink("src/a.rs", root.join("alias")).unwrap();
    symlink(outside.path(), root.join("out")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap().home(&root).hidden(root.join("hidden"));
    let supported = has_cached_reads(&paths, &root);
    let absolute = root.join("src/a.rs");
    for path in [
        "src/a.rs",
        "./src//a.rs",
        "empty",
        "src/../big",
        "@src/a.rs",
        "~/big",
        "link/a.rs",
        "alias",
        "twice",
    ]
    .into_iter()
    .chain(absolute.to_str())
    {
        let usual = read(&paths, &root, path).unwrap();
        let at = paths.resolve(&root, path).unwrap();
        let is_plain = !path.contains("..")
            && !path.starts_with(['@', '~'])
            && !["link/a.rs", "alias", "twice"].contains(&path);
        // The kernel occasionally gives up on a path because of renames elsewhere.
        let tries = if supported && is_plain { 1_000 } else { 1 };
        let cached = (0..tries).find_map(|_| paths.read_cached(&root, path, 10));
        assert_eq!(cached.is_some(), supported && is_plain, "{path}");
        if let Some(cached) = cached {
            let stat = paths.stat(&at).unwrap();
            assert_eq!((cached.at, cached.stat, cached.bytes), (at, stat, usual.into_bytes()), "{path}");
        }
    }
    let outside = outside.path().join("key");
    for path in [
        "",
        ".",
        "src",
        "none",
        "pipe",
        "big/x",
        "out/key",
        "hidden",
        "src/.ssh/id",
        "src/.SSH/id",
        "../x",
        "/etc/passwd",
        "/proc/self/environ",
        "a\0b",
    ]
    .into_iter()
    .chain(outside.to_str())
    {
        assert_eq!(paths.read_cached(&root, path, 100), None, "{path}");
    }
    assert_eq!(paths.read_cached(&root, "big", 9), None, "more than was asked for");
    assert_eq!(paths.read_cached(&root.join("link"), "a.rs", 100), None, "the directory is a link");
    let walking = WorkspaceFiles::new([&root]).unwrap().without_openat2();
    assert_eq!(walking.read_cached(&root, "big", 100), None);
}

#[test]
fn a_read_from_memory_is_of_the_root_that_was_opened_and_of_no_other_by_its_name() {
    let (_dir, base, _) = workspace();
    let root = base.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "this one").unwrap();
    let paths = WorkspaceFiles::new([&root]).unwrap();
    let supported = has_cached_reads(&paths, &root);
    assert_eq!((0..1_000).any(|_| paths.read_cached(&root, "file", 100).is_some()), supported);
    fs::rename(&root, base.join("moved")).unwrap();
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "another").unwrap();
    assert_eq!(paths.read_cached(&root, "file", 100), None);
    fs::remove_dir_all(&root).unwrap();
    symlink(base.join("moved"), &root).unwrap();
    assert_eq!(paths.read_cached(&root, "file", 100), None);
}
