use std::path::Path;

use zk_core::service::{Files, PathError, Resolved};

/// Splits a pattern into its literal leading directories and the rest: `src/*/x.rs` → `src`, `*/x.rs`.
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

/// Glob for paths below the search directory. A pattern without `/` matches at any depth, unless it is the
/// rest of a longer one.
pub(crate) fn glob_at_any_depth(pattern: &str, is_rest: bool) -> String {
    let any_depth = !is_rest && !pattern.contains('/');
    if any_depth { format!("**/{pattern}") } else { pattern.to_owned() }
}

/// Start of a search, if it exists.
pub(crate) fn base(files: &dyn Files, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
    let at = files.resolve(cwd, path)?;
    files.stat(&at)?;
    Ok(at)
}
