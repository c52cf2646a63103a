use std::ops::ControlFlow;
use std::path::Path;

use tokio_util::sync::CancellationToken;
use zk_core::model::ToolError;
use zk_core::service::{FileKind, PathError, Paths, Resolved, WalkOptions, WalkReport};

use crate::work::{go_on, path_error};

/// Visits the files below `base` in the order of their names, until `visit` has enough or the run is stopped.
pub(crate) fn files(
    paths: &dyn Paths,
    base: &Resolved,
    ignored: bool,
    stop: &CancellationToken,
    visit: &mut dyn FnMut(Resolved) -> ControlFlow<()>,
) -> Result<WalkReport, ToolError> {
    let report = paths.walk(base, &WalkOptions { ignored }, &mut |entry| {
        if stop.is_cancelled() {
            return ControlFlow::Break(());
        }
        match entry.kind {
            FileKind::File => visit(entry.at),
            FileKind::Directory | FileKind::Link | FileKind::Other => ControlFlow::Continue(()),
        }
    });
    go_on(stop)?;
    report.map_err(|error| path_error(&error))
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
pub(crate) fn base(paths: &dyn Paths, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
    let at = paths.resolve(cwd, path)?;
    paths.stat(&at)?;
    Ok(at)
}
