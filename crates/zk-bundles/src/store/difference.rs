//! Changes between two versions of a bundle.

use zk_core::model::UnifiedDiff;
use zk_core::service::visible_line;

use crate::tree::{Tree, TreeFile};

/// Maximum number of lines of all changed files that are shown.
const MAX_LINES: usize = 2000;

/// Number of unchanged lines around a change.
const CONTEXT_LINES: usize = 1;

/// Difference between two versions of a bundle, as lines for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Lines, safe to be shown.
    pub lines: Vec<String>,
    /// Number of files that are added, removed or changed.
    pub files: usize,
}

impl Difference {
    /// Compares the files of two versions.
    #[must_use]
    pub fn between(old: &Tree, new: &Tree) -> Self {
        let mut difference = Self::default();
        for (path, file) in old.files() {
            match new.get(path) {
                None => difference.add_file_line("removed", path),
                Some(other) if other != file => difference.add_changed_file(path, file, other),
                Some(_) => {}
            }
        }
        for (path, file) in new.files().filter(|(path, _)| old.get(path).is_none()) {
            difference.add_file_line("added", path);
            difference.add_diff_lines(&TreeFile::default(), file);
        }
        let total = difference.lines.len();
        if total > MAX_LINES {
            difference.lines.truncate(MAX_LINES);
            difference.lines.push(format!("… and {} more lines", total - MAX_LINES));
        }
        difference
    }

    fn add_file_line(&mut self, what: &str, path: &str) {
        self.files += 1;
        self.lines.push(format!("{what} {}", visible_line(path)));
    }

    fn add_changed_file(&mut self, path: &str, old: &TreeFile, new: &TreeFile) {
        let what = match (old.is_executable, new.is_executable) {
            (false, true) => "changed, and made a program:",
            (true, false) => "changed, and no program any more:",
            (true, true) | (false, false) => "changed",
        };
        self.add_file_line(what, path);
        self.add_diff_lines(old, new);
    }

    fn add_diff_lines(&mut self, old: &TreeFile, new: &TreeFile) {
        let texts = (std::str::from_utf8(&old.bytes), std::str::from_utf8(&new.bytes));
        let (Ok(old), Ok(new)) = texts else {
            self.lines.push("  (no text)".to_owned());
            return;
        };
        let unified = UnifiedDiff::new(old, new).keep_context(CONTEXT_LINES).to_string();
        self.lines.extend(unified.lines().map(|line| format!("  {}", visible_line(line))));
    }
}
