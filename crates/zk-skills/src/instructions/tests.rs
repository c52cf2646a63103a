use std::fs;
use std::os::unix::fs::symlink;

use zk_exec::LocalHostFiles;

use super::*;

fn instructions(cwd: &Path, root: &Path) -> Instructions {
    super::instructions(cwd, root, &LocalHostFiles::new())
}

fn project_root(cwd: &Path) -> PathBuf {
    project(cwd, &LocalHostFiles::new()).root
}

fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap().join("project");
    let cwd = root.join("crates/inner");
    fs::create_dir_all(&cwd).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    (temp, root, cwd)
}

fn texts(found: &Instructions) -> Vec<&str> {
    found.files.iter().map(|file| file.text.as_str()).collect()
}

#[test]
fn files_come_from_the_root_down_one_for_each_directory() {
    let (_temp, root, cwd) = tree();
    fs::write(root.join("AGENTS.md"), "root\n").unwrap();
    fs::write(root.join("crates/CLAUDE.md"), "middle").unwrap();
    fs::write(cwd.join("AGENTS.md"), "\n\ninner").unwrap();
    fs::write(cwd.join("CLAUDE.md"), "not this one").unwrap();
    assert_eq!(texts(&instructions(&cwd, &root)), ["root", "middle", "inner"]);
}

#[test]
fn the_project_root_is_the_nearest_git_work_tree() {
    let (temp, root, cwd) = tree();
    assert_eq!(project_root(&cwd), root);
    let outside = temp.path().canonicalize().unwrap();
    if !outside.ancestors().any(|dir| dir.join(".git").exists()) {
        assert_eq!(project_root(&outside), outside);
    }
}

#[test]
fn nothing_above_the_root_is_read() {
    let (temp, root, cwd) = tree();
    fs::write(temp.path().join("AGENTS.md"), "above").unwrap();
    assert_eq!(instructions(&cwd, &root), Instructions::default());
}

#[test]
fn without_a_common_root_only_the_working_directory_counts() {
    let (temp, root, cwd) = tree();
    let other = temp.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("AGENTS.md"), "other").unwrap();
    fs::write(root.join("AGENTS.md"), "root").unwrap();
    assert_eq!(texts(&instructions(&other, &root)), ["other"]);
    assert_eq!(texts(&instructions(&cwd, &root)), ["root"]);
}

#[test]
fn a_link_to_a_file_already_read_counts_once() {
    let (_temp, root, cwd) = tree();
    fs::write(root.join("AGENTS.md"), "one").unwrap();
    symlink(root.join("AGENTS.md"), cwd.join("CLAUDE.md")).unwrap();
    assert_eq!(texts(&instructions(&cwd, &root)), ["one"]);
}

#[test]
fn a_link_that_leads_out_of_the_project_is_not_followed() {
    let (temp, root, cwd) = tree();
    fs::write(temp.path().join("secret"), "secret").unwrap();
    symlink(temp.path().join("secret"), cwd.join("AGENTS.md")).unwrap();
    let found = instructions(&cwd, &root);
    assert!(found.files.is_empty());
    assert!(found.skipped[0].why.contains("leads out of"), "{found:?}");
}

#[test]
fn empty_files_and_directories_do_not_count() {
    let (_temp, root, cwd) = tree();
    fs::write(root.join("AGENTS.md"), " \n").unwrap();
    fs::create_dir(cwd.join("AGENTS.md")).unwrap();
    let found = instructions(&cwd, &root);
    assert!(found.files.is_empty());
    assert_eq!(found.skipped[0].why, "it is a directory, not a regular file");
}

#[test]
fn all_files_together_stay_below_the_limit_and_characters_stay_whole() {
    let (_temp, root, cwd) = tree();
    fs::write(root.join("AGENTS.md"), format!("x{}", "é".repeat(MAX_BYTES))).unwrap();
    fs::write(cwd.join("AGENTS.md"), "late").unwrap();
    let found = instructions(&cwd, &root);
    let file = &found.files[0];
    assert!(file.cut);
    assert_eq!(file.text.len(), MAX_BYTES - 1);
    assert!(!file.text.contains('\u{fffd}'));
    assert_eq!(found.files.len() + found.skipped.len(), 2);
}

#[test]
fn a_pipe_or_an_endless_device_is_skipped_and_nothing_waits() {
    let (_temp, root, cwd) = tree();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("AGENTS.md"), mode).unwrap();
    symlink("/dev/zero", cwd.join("AGENTS.md")).unwrap();
    let found = instructions(&cwd, &root);
    assert!(found.files.is_empty());
    assert_eq!(found.skipped[0].why, "it is a pipe, not a regular file");
    assert!(found.skipped[1].why.contains("leads out of"), "{found:?}");
}

#[test]
fn a_repository_of_another_user_brings_no_instructions() {
    let (_temp, root, cwd) = tree();
    fs::write(root.join("AGENTS.md"), "obey").unwrap();
    fs::write(cwd.join("AGENTS.md"), "obey too").unwrap();
    let theirs = [root.join(".git"), cwd.join("AGENTS.md")];
    if theirs.iter().any(|path| std::os::unix::fs::chown(path, Some(12_345), None).is_err()) {
        println!("skipped: only root can give files away");
        return;
    }
    let files = LocalHostFiles::new();
    let found = project(&cwd, &files);
    assert_eq!(found.root, cwd);
    assert_eq!(found.foreign.unwrap().why, "it belongs to another user (uid 12345)");
    let found = instructions(&cwd, &cwd);
    assert!(found.files.is_empty());
    assert_eq!(found.skipped[0].why, "it belongs to another user (uid 12345)");
    assert_eq!(project(&cwd, &files.trusting(12_345)).root, root);
}
