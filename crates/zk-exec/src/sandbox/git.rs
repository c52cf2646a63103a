//! Files of a repository that a command must not change, lest the person's next git command runs a program of
//! the command.

use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::{HostFiles, HostRead};

use super::places::{Placeholder, Places, is_empty};
use crate::LocalHostFiles;

/// Maximum number of levels below a `modules` directory that are searched for submodules.
const MODULE_DEPTH: usize = 4;
/// Largest file of git that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Adds the rules for the repository whose work tree is `tree`.
///
/// Objects, references, the index and the logs stay writable, so that `git commit` works in the sandbox.
pub(super) fn protect_tree(tree: &Path, is_root: bool, places: &mut Places) {
    let dot_git = tree.join(".git");
    let found = fs::symlink_metadata(&dot_git);
    let Some(found) = found.ok().filter(|found| !(found.is_dir() && is_empty(&dot_git))) else {
        if is_root {
            // A repository made here would affect the git commands of the person who works here next.
            places.placeholders.push(Placeholder::Directory(dot_git.clone()));
            places.read_only.push(dot_git);
            places.placeholders.push(Placeholder::Directory(tree.join("HEAD")));
            places.read_only.push(tree.join("HEAD"));
        }
        return;
    };
    if found.is_symlink() {
        places.limits.push(format!("{} is a link, which can be replaced", dot_git.display()));
        if let Ok(target) = dot_git.canonicalize() {
            protect_directory(&target, places);
        }
    } else if found.is_dir() {
        protect_directory(&dot_git, places);
    } else {
        places.read_only.push(dot_git.clone());
        protect_worktree(tree, &dot_git, places);
    }
}

/// Adds the git directory of a linked worktree or submodule: its `.git` file names the directory, and commits
/// write there.
fn protect_worktree(tree: &Path, dot_git: &Path, places: &mut Places) {
    let Some(own) = named_in(dot_git, Some("gitdir:"), tree) else { return };
    if is_own_of_submodule(&own, tree) {
        places.writable.push(own.clone());
        return protect_directory(&own, places);
    }
    // The git directory must name this work tree in turn, since the `.git` file may have come with the
    // project.
    let names_back = named_in(&own.join("gitdir"), None, &own).is_some_and(|back| back == dot_git);
    let common = named_in(&own.join("commondir"), None, &own);
    let Some(common) = common.filter(|common| names_back && own.starts_with(common.join("worktrees"))) else {
        return;
    };
    places.writable.push(common.clone());
    protect_directory(&common, places);
}

/// Whether `own` is the git directory of the submodule with the work tree `tree`: it lies in a `modules`
/// directory of a repository, and its `core.worktree` names the tree.
fn is_own_of_submodule(own: &Path, tree: &Path) -> bool {
    let is_module = own.ancestors().skip(1).any(|above| above.ends_with("modules"))
        && own.components().any(|part| part.as_os_str() == ".git");
    is_module && work_tree(own).is_some_and(|named| named == tree)
}

/// Work tree that the `config` of a git directory names, as a physical path.
fn work_tree(dir: &Path) -> Option<PathBuf> {
    let text = read(&dir.join("config"))?;
    let named = text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("worktree").then(|| value.trim().to_owned())
    })?;
    dir.join(named).canonicalize().ok()
}

/// Whether git finds the work tree of a git directory without the `config` file: the tree's `.git` file names
/// the directory.
fn is_named_by_tree(dir: &Path) -> bool {
    let tree = work_tree(dir);
    tree.is_some_and(|tree| {
        named_in(&tree.join(".git"), Some("gitdir:"), &tree).is_some_and(|own| own == dir)
    })
}

/// Physical path that a file of git contains.
fn named_in(file: &Path, before: Option<&str>, base: &Path) -> Option<PathBuf> {
    let text = read(file)?;
    let text = before.map_or(Some(text.as_str()), |before| text.strip_prefix(before))?.trim();
    base.join(text).canonicalize().ok()
}

/// Reads a small file of git. The project controls the file, which may be a pipe, a device, or endless.
fn read(file: &Path) -> Option<String> {
    let read = LocalHostFiles::new().read(file, &HostRead::whole(MAX_BYTES)).ok()?;
    Some(String::from_utf8_lossy(&read.bytes).into_owned())
}

/// Whether git takes this `.git` for a repository. A directory without `HEAD` is the rest of a failed `git
/// init`, which a second `git init` completes.
pub(super) fn is_initialised(dot_git: &Path) -> bool {
    let found = fs::symlink_metadata(dot_git);
    found.is_ok_and(|found| !found.is_dir() || fs::symlink_metadata(dot_git.join("HEAD")).is_ok())
}

/// Whether a directory is the work tree of a repository, judged by the file names that git looks for.
pub(super) fn is_repository(tree: &Path) -> bool {
    let dot_git = tree.join(".git");
    dot_git.is_file() || fs::symlink_metadata(dot_git.join("HEAD")).is_ok()
}

/// Adds the rules for one git directory.
pub(super) fn protect_directory(dir: &Path, places: &mut Places) {
    let file = dir.join("config");
    let config = match fs::symlink_metadata(&file) {
        // An unreadable file may contain any setting.
        Ok(_) => read(&file).map_or_else(|| "worktreeconfig".to_owned(), |text| text.to_lowercase()),
        Err(_) => String::new(),
    };
    // A mount point cannot be renamed, so it cannot be replaced.
    places.pins.push(dir.to_owned());
    if fs::symlink_metadata(&file).is_err() {
        places.placeholders.push(Placeholder::File(file, ""));
    }
    for name in ["config", "config.worktree"] {
        places.read_only.push(dir.join(name));
    }
    if config.contains("worktreeconfig") {
        places.placeholders.push(Placeholder::File(dir.join("config.worktree"), ""));
    }
    for name in ["hooks", "info"] {
        places.placeholders.push(Placeholder::Directory(dir.join(name)));
        places.read_only.push(dir.join(name));
    }
    let common = dir.join("commondir");
    if (config.contains("worktree =") || config.contains("worktree=")) && !is_named_by_tree(dir) {
        // Git ignores `commondir` if this file exists.
        places.placeholders.push(Placeholder::Name(common.clone()));
    } else {
        // The file states the default explicitly.
        places.placeholders.push(Placeholder::File(common.clone(), ".\n"));
    }
    places.read_only.push(common);
    for linked in subdirectories(&dir.join("worktrees")) {
        places.pins.push(linked.clone());
        for name in ["commondir", "gitdir", "config.worktree"] {
            places.read_only.push(linked.join(name));
        }
        protect_modules(&linked.join("modules"), MODULE_DEPTH, places);
    }
    protect_modules(&dir.join("modules"), MODULE_DEPTH, places);
}

fn protect_modules(dir: &Path, depth: usize, places: &mut Places) {
    for module in subdirectories(dir) {
        if module.join("HEAD").exists() {
            protect_directory(&module, places);
        } else if depth > 0 {
            protect_modules(&module, depth - 1, places);
        }
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().take(256).flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Rules for a tree; panics if a file blocks their computation.
    fn rules(tree: &Path) -> Places {
        let (found, there) = mpsc::channel();
        let tree = tree.to_owned();
        std::thread::spawn(move || {
            let mut places = Places::default();
            protect_tree(&tree, true, &mut places);
            found.send(places)
        });
        there.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn pipes_and_devices_in_the_place_of_files_of_git_hold_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = |path: &Path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        };
        let (piped, endless, linked) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        for tree in [&piped, &endless] {
            fs::create_dir_all(tree.join(".git/objects")).unwrap();
        }
        pipe(&piped.join(".git/config"));
        symlink("/dev/zero", endless.join(".git/config")).unwrap();
        fs::create_dir(&linked).unwrap();
        pipe(&linked.join(".git"));
        for tree in [&piped, &endless] {
            let own = Placeholder::File(tree.join(".git/config.worktree"), "");
            assert!(rules(tree).placeholders.contains(&own), "what cannot be read may say anything");
        }
        assert_eq!(rules(&linked).read_only, [linked.join(".git")]);
    }
}
