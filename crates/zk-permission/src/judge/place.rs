use std::path::{Component, Path, PathBuf};

/// The most directories that a text may go through before nobody knows where it is.
const MAX_DIRECTORIES: usize = 8;

/// Directories in which a text may be while it runs; nothing once nobody knows.
#[derive(Clone)]
pub(super) struct Whereabouts(Option<Vec<PathBuf>>);

impl Whereabouts {
    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// All places that a path may mean.
    pub(super) fn of(&self, path: &Path) -> Option<Vec<PathBuf>> {
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        self.0.as_ref().map(|all| all.iter().map(|cwd| cwd.join(path)).collect())
    }

    /// Goes to `target` by a `cd` that may also have failed.
    pub(super) fn go(&mut self, target: &str) {
        let target = Path::new(target);
        // The shell takes `..` by text, everybody else by the directory: after a link they disagree.
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

    /// Whether the working directory is still the one that the command starts in.
    pub(super) fn is_only_start(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.len() == 1)
    }

    /// The start, and nothing else so far.
    pub(super) fn start(cwd: &Path) -> Self {
        Self(Some(vec![cwd.to_owned()]))
    }

    /// Nobody knows.
    pub(super) fn unknown() -> Self {
        Self(None)
    }
}
