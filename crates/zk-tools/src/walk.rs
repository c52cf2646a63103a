use std::path::Path;

use ignore::{DirEntry, WalkBuilder};
use zk_core::service::{Paths, Resolved};

/// The files below `base` in the order of their names, without following links.
///
/// Left out is what ignore files leave out, unless `ignored`, and `.git` always. What cannot be read is
/// passed over.
pub(crate) fn files(base: &Path, ignored: bool) -> impl Iterator<Item = DirEntry> {
    WalkBuilder::new(base)
        .hidden(false)
        .parents(!ignored)
        .ignore(!ignored)
        .git_ignore(!ignored)
        .git_exclude(!ignored)
        // Would depend on the environment of this process.
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
}

/// A file found below the resolved directory `base`.
pub(crate) fn below(roots: &[std::path::PathBuf], path: &Path) -> Resolved {
    let shown = roots.first().and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
    Resolved { path: path.to_owned(), shown: shown.display().to_string() }
}

/// Splits a pattern into the directories it begins with and the rest: `src/*/x.rs` → `src`, `*/x.rs`.
pub(crate) fn split_pattern(pattern: &str) -> (&str, &str) {
    let magic = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let literal = pattern.get(..magic).unwrap_or_default();
    match literal.rfind('/') {
        Some(0) => ("/", pattern.get(1..).unwrap_or_default()),
        Some(slash) => {
            (pattern.get(..slash).unwrap_or_default(), pattern.get(slash + 1..).unwrap_or_default())
        }
        None => ("", pattern),
    }
}

/// A matcher of paths relative to the directory searched. A pattern without `/` matches at any depth, unless
/// it is what is left of a longer one.
pub(crate) fn matcher(pattern: &str, is_rest: bool) -> Result<globset::GlobMatcher, globset::Error> {
    let any_depth = !is_rest && !pattern.contains('/');
    let pattern = if any_depth { format!("**/{pattern}") } else { pattern.to_owned() };
    Ok(globset::GlobBuilder::new(&pattern).literal_separator(true).build()?.compile_matcher())
}

/// Where a search starts.
pub(crate) fn base(
    paths: &dyn Paths,
    cwd: &Path,
    path: &str,
) -> Result<Resolved, zk_core::service::PathError> {
    let at = paths.resolve(cwd, path)?;
    paths.stat(&at)?;
    Ok(at)
}
