//! Edits of the context by the provider, such as compaction.

use serde_json::Value;

use super::AnthropicOptions;
use crate::wire::endpoint::SetupError;

/// Returns the beta features that the options for context edits require.
///
/// # Errors
/// [`SetupError::Options`] when the options are invalid.
pub(super) fn betas(options: &AnthropicOptions, name: &str) -> Result<Vec<String>, SetupError> {
    let wrong = |reason: &str| SetupError::Options { name: name.to_owned(), reason: reason.to_owned() };
    if options.hosted_tools.iter().any(|tool| kind(tool).is_none()) {
        return Err(wrong("each of `hosted_tools` has to be an object with a `type`"));
    }
    let Some(asked) = &options.context_management else { return Ok(Vec::new()) };
    let edits = asked.get("edits").and_then(Value::as_array);
    let kinds: Option<Vec<&str>> = edits.and_then(|edits| edits.iter().map(kind).collect());
    let kinds = kinds.ok_or_else(|| {
        wrong("`context_management` has to be an object with `edits`, a list of objects with a `type`")
    })?;
    let (compactions, others): (Vec<&str>, Vec<&str>) =
        kinds.into_iter().partition(|kind| kind.starts_with("compact_"));
    let mut betas = Vec::new();
    if !others.is_empty() {
        betas.push("context-management-2025-06-27".to_owned());
    }
    if !compactions.is_empty() {
        betas.push("compact-2026-01-12".to_owned());
    }
    Ok(betas)
}

fn kind(value: &Value) -> Option<&str> {
    value.get("type").and_then(Value::as_str)
}
