use std::path::{Component, Path, PathBuf};

/// Maximum number of possible working directories; with more, the directory counts as unknown.
const MAX_DIRECTORIES: usize = 8;

/// Possible working directories of a running text; `None` if unknown.
#[derive(Clone)]
pub(super) struct Whereabouts(Option<Vec<PathBuf>>);

impl Whereabouts {
    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// All places that a path may refer to.
    pub(super) fn of(&self, path: &Path) -> Option<Vec<PathBuf>> {
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        self.0.as_ref().map(|all| all.iter().map(|cwd| cwd.join(path)).collect())
    }

    /// Applies a `cd` to `target`, which may also fail.
    pub(super) fn change_directory(&mut self, target: &str) {
        let target = Path::new(target);
        // After a link, the shell resolves `..` by text and other programs by directory.
        let is_plain = !target.components().any(|part| part == Component::ParentDir);
        let gone = self.of(target).filter(|_| is_plain);
        self.0 = match (self.0.take(), gone) {
            (Some(mut all), Some(gone)) if all.len() + gone.len() <= MAX_DIRECTORIES => {
                let before = all.clone();
                all.extend(gone.into_iter().filter(|place| !before.contains(place)));
                Some(all)
            }
            _ => None,
        };
    }

    /// Whether the working directory is certainly still the initial one.
    pub(super) fn is_unchanged(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.len() == 1)
    }

    /// The initial directory alone.
    pub(super) fn start(cwd: &Path) -> Self {
        Self(Some(vec![cwd.to_owned()]))
    }

    /// Unknown directory.
    pub(super) fn unknown() -> Self {
        Self(None)
    }
}
