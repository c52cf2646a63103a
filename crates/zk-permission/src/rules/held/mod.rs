mod appeared;

use std::fs;
use std::path::{Path, PathBuf};

pub use appeared::{DeniedFiles, HideFiles};

use super::{Access, Rule};

/// Maximum number of names checked for one pattern.
const MAX_NAMES: usize = 20_000;

/// Mounts by which a sandbox enforces a denial for every command.
///
/// ```
/// use std::path::Path;
/// use zk_permission::{Decision, HeldPaths, Layer, Rule, RuleBase};
///
/// let base = RuleBase { root: "/project".into(), home: None };
/// let rule = Rule::parse(Layer::User, Decision::Deny, "write(/elsewhere/**)", &base).unwrap();
/// assert_eq!(HeldPaths::of(&rule, &[Path::new("/project")]), Some(HeldPaths::default()));
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeldPaths {
    /// Files and directories to hide.
    pub hidden: Vec<PathBuf>,
    /// Files and directories that cannot be written.
    pub protected: Vec<PathBuf>,
}

impl HeldPaths {
    /// Mounts for a rule, in a sandbox with these writable directories; `None` if it cannot enforce the rule.
    #[must_use]
    pub fn of(rule: &Rule, writable: &[&Path]) -> Option<Self> {
        let (access, below) = rule.denied_below()?;
        match (access, rule.denied_tree()) {
            (Access::Write, Some((_, tree))) => {
                if !writable.iter().any(|root| tree.starts_with(root) || root.starts_with(tree)) {
                    return Some(Self::default());
                }
                let can_be_mounted =
                    exists_plainly(tree) && !writable.iter().any(|root| root.starts_with(tree));
                can_be_mounted.then(|| Self { protected: vec![tree.to_owned()], ..Self::default() })
            }
            // A missing name could be created.
            (Access::Write, None) => None,
            (Access::Read, Some((_, tree))) => {
                // A missing file is hidden as soon as it is created.
                let is_plain = exists_plainly(tree) || is_absent_plainly(tree);
                let can_be_mounted = is_plain && !writable.iter().any(|root| root.starts_with(tree));
                can_be_mounted.then(|| Self { hidden: vec![tree.to_owned()], ..Self::default() })
            }
            (Access::Read, None) => {
                let hidden = matching_files(rule, below)?;
                Some(Self { hidden, ..Self::default() })
            }
        }
    }
}

/// Whether a path is a file or a directory and leads through no link.
fn exists_plainly(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| real == path)
}

/// Whether a path does not exist, and no link leads to it.
fn is_absent_plainly(path: &Path) -> bool {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    !is_there(&path) && path.ancestors().find(is_there).is_some_and(exists_plainly)
}

/// Files below a directory that a rule hides; `None` if there are too many names, or a link.
fn matching_files(rule: &Rule, below: &Path) -> Option<Vec<PathBuf>> {
    find_matching(rule, below, &mut |_| ())
}

/// Variant of [`matching_files`] that calls `passed` for each directory before reading it.
fn find_matching(rule: &Rule, below: &Path, passed: &mut dyn FnMut(&Path)) -> Option<Vec<PathBuf>> {
    if below.symlink_metadata().is_err() {
        return Some(Vec::new());
    }
    if !exists_plainly(below) {
        return None;
    }
    let (mut found, mut todo, mut left) = (Vec::new(), vec![below.to_owned()], MAX_NAMES);
    while let Some(directory) = todo.pop() {
        passed(&directory);
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            left = left.checked_sub(1)?;
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            if rule.is_about_file(Access::Read, &path) {
                if kind.is_symlink() {
                    return None;
                }
                found.push(path);
            } else if kind.is_dir() {
                todo.push(path);
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Layer, RuleBase};

    #[test]
    fn existing_paths_are_mounted_and_a_path_that_a_command_could_create_is_not_held() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        for directory in ["private", "secrets", "sub"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        for file in [".env", "sub/.env", "sub/a.rs"] {
            fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("private", root.join("link")).unwrap();
        let base = RuleBase { root: root.clone(), home: None };
        let held = |text: &str| {
            let rule = Rule::parse(Layer::User, Decision::Deny, text, &base).unwrap();
            HeldPaths::of(&rule, &[&root]).map(|mut held| {
                held.hidden.sort();
                held
            })
        };
        let hidden = |names: &[&str]| {
            Some(HeldPaths {
                hidden: names.iter().map(|name| root.join(name)).collect(),
                ..HeldPaths::default()
            })
        };
        assert_eq!(held("read(private/**)"), hidden(&["private"]));
        assert_eq!(held("read(.env)"), hidden(&[".env"]));
        assert_eq!(held("read(**/.env)"), hidden(&[".env", "sub/.env"]));
        assert_eq!(held("read(missing/**)"), hidden(&["missing"]));
        assert_eq!(held("read(link/missing/**)"), None, "nobody can tell where that is");
        let protected = Some(HeldPaths { protected: vec![root.join("secrets")], ..HeldPaths::default() });
        assert_eq!(held("write(secrets/**)"), protected);
        assert_eq!(held("write(/elsewhere/**)"), Some(HeldPaths::default()), "nothing is written there");
        for text in
            ["write(missing/**)", "write(**/*.lock)", "write(**)", "read(**)", "read(link/**)", "git push **"]
        {
            assert_eq!(held(text), None, "{text}");
        }
    }
}
