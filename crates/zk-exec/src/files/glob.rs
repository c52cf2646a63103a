use globset::{GlobBuilder, GlobMatcher};
use zk_core::service::PathError;

/// Compiles a pattern for paths relative to the start of a search.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, PathError> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    let unusable = |error: globset::Error| PathError::Pattern { what: "glob".into(), why: error.to_string() };
    Ok(built.map_err(unusable)?.compile_matcher())
}
