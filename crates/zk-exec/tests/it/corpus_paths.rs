//! Paths that lead out of a workspace, for whoever reaches files by them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(crate) const CANARY: &str = "canary: untouched";

/// Workspace with links of every kind out of it, and the outside directory with the canary.
pub(crate) fn trap() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, outside) = (base.join("root"), base.join("outside"));
    for made in [root.join("src/deep/er"), outside.join("dir"), base.join("root-twin")] {
        fs::create_dir_all(made).unwrap();
    }
    for canary in [outside.join("canary"), outside.join("dir/canary"), base.join("root-twin/canary")] {
        fs::write(canary, CANARY).unwrap();
    }
    fs::write(root.join("file"), "inside").unwrap();
    let out = |path: &str| outside.join(path);
    for (name, leads_to) in [
        ("to_file", out("canary")),
        ("to_dir", out("")),
        ("to_missing", out("new-file")),
        ("to_root", PathBuf::from("/")),
        ("to_proc", PathBuf::from("/proc/self/root")),
        ("to_cwd", PathBuf::from("/proc/self/cwd")),
        ("to_parent", PathBuf::from("..")),
        ("relative", PathBuf::from("../outside/canary")),
        ("twin", PathBuf::from("../root-twin")),
        ("chain1", PathBuf::from("chain2")),
        ("chain2", PathBuf::from("src/chain3")),
        ("src/chain3", PathBuf::from("../../outside/dir")),
        ("src/up", PathBuf::from("../..")),
        ("src/deep/far", PathBuf::from("../../../outside")),
        ("loop1", PathBuf::from("loop2")),
        ("loop2", PathBuf::from("loop1")),
        ("self", PathBuf::from("self")),
        ("inside_link", PathBuf::from("src")),
    ] {
        symlink(leads_to, root.join(name)).unwrap();
    }
    (dir, root, outside)
}

/// Paths that lead outside, or nowhere.
pub(crate) fn escapes(root: &Path, outside: &Path) -> Vec<String> {
    let abs = |path: PathBuf| path.to_str().unwrap().to_owned();
    let mut all: Vec<String> = [
        "..",
        "../",
        "../outside",
        "../outside/canary",
        "../outside/dir",
        "../outside/new",
        "../root-twin/canary",
        "../root-twin",
        "./..",
        "./../outside/canary",
        "src/../../outside/canary",
        "src/../..",
        "src/deep/../../../outside/canary",
        "src/deep/er/../../../../outside/canary",
        "src/./.././../outside/./canary",
        "src//..//..//outside//canary",
        "missing/../../outside/canary",
        "missing/deep/../../../outside/canary",
        "missing/../..",
        "file/../../outside/canary",
        "to_file",
        "./to_file",
        "src/../to_file",
        "to_dir",
        "to_dir/",
        "to_dir/canary",
        "to_dir/dir/canary",
        "to_dir/new",
        "to_dir/..",
        "to_dir/../root-twin/canary",
        "to_missing",
        "to_root",
        "to_root/etc/passwd",
        "to_root/etc/shadow",
        "to_root/tmp/new",
        "to_proc",
        "to_proc/etc/passwd",
        "to_cwd",
        "to_cwd/Cargo.toml",
        "to_cwd/new",
        "to_parent",
        "to_parent/outside/canary",
        "to_parent/root-twin/canary",
        "to_parent/../etc/passwd",
        "relative",
        "twin",
        "twin/canary",
        "twin/new",
        "chain1",
        "chain1/canary",
        "chain2/canary",
        "src/chain3/canary",
        "src/chain3/new",
        "src/up",
        "src/up/outside/canary",
        "src/deep/far/canary",
        "inside_link/up/outside/canary",
        "inside_link/deep/far/canary",
        "inside_link/../../outside/canary",
        "inside_link/chain3/canary",
        "loop1",
        "loop2",
        "self",
        "self/x",
        "loop1/../../outside/canary",
        "~",
        "~/canary",
        "~/.ssh/id_rsa",
        "~/../outside",
        "/",
        "//",
        "/etc",
        "/etc/passwd",
        "/etc/shadow",
        "/etc/../etc/passwd",
        "//etc/passwd",
        "///etc///passwd",
        "/proc/self/environ",
        "/proc/self/cwd",
        "/proc/self/cwd/x",
        "/proc/self/root",
        "/proc/self/root/etc/passwd",
        "/proc/self/exe",
        "/proc/self/fd",
        "/proc/self/fd/0",
        "/proc/self/fd/3",
        "/proc/self/mem",
        "/proc/self/maps",
        "/proc/thread-self/environ",
        "/proc/1/root",
        "/proc/1/environ",
        "/proc/kcore",
        "/dev/null",
        "/dev/zero",
        "/dev/random",
        "/dev/tty",
        "/dev/stdin",
        "/dev/fd/0",
        "/dev/full",
        "/dev/tcp/127.0.0.1/80",
        "/sys/kernel",
        "/tmp/zk-corpus-new",
        "/root/.ssh/id_rsa",
        "/home",
        "/var/run/docker.sock",
        "@/etc/passwd",
        "@../outside/canary",
        "@to_file",
        "@~/x",
        "",
        "\0",
        "file\0",
        "../outside/canary\0.rs",
        "file\0/../../outside/canary",
        "\0/etc/passwd",
    ]
    .map(str::to_owned)
    .into();
    for path in [
        outside.join("canary"),
        outside.join("new"),
        outside.join("dir/../canary"),
        root.join("../outside/canary"),
        root.join("to_dir/canary"),
        root.join("src/../../outside/canary"),
        root.join("src/chain3/canary"),
        root.parent().unwrap().to_owned(),
        root.parent().unwrap().join("root-twin/canary"),
        root.parent().unwrap().join("rootless"),
    ] {
        all.push(abs(path));
    }
    all.push(format!("{}-twin/canary", abs(root.to_owned())));
    all.push(format!("{}/../root-twin/canary", abs(root.to_owned())));
    all.push(format!("{}etc/passwd", "../".repeat(64)));
    all.push(format!("{}{}outside/canary", "src/../".repeat(200), "../"));
    all.push(format!("{}etc/passwd", "to_parent/".repeat(30)));
    all
}

/// Checks that the outside is unchanged.
pub(crate) fn outside_is_untouched(root: &Path, outside: &Path) {
    for canary in [outside.join("canary"), outside.join("dir/canary"), root.join("../root-twin/canary")] {
        assert_eq!(fs::read_to_string(canary).unwrap(), CANARY);
    }
    let mut names: Vec<_> = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["canary", "dir"], "nothing new outside");
}
