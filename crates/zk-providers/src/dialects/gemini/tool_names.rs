//! Converts tool names: Gemini's must begin with a letter or an underscore.

use std::borrow::Cow;
use std::sync::Arc;

use zk_core::model::ToolSpec;

/// Returns the name to send for the tool `name`.
pub(super) fn to_wire(name: &str) -> Cow<'_, str> {
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '_' => Cow::Borrowed(name),
        Some(_) | None => Cow::Owned(format!("_{name}")),
    }
}

/// Returns the canonical name of the tool that Gemini calls `name`.
pub(super) fn to_canonical<'a>(name: &'a str, tools: &[Arc<ToolSpec>]) -> &'a str {
    let is_tool = |name: &str| tools.iter().any(|tool| tool.name == name);
    match name.strip_prefix('_') {
        Some(bare) if !is_tool(name) && is_tool(bare) => bare,
        Some(_) | None => name,
    }
}
