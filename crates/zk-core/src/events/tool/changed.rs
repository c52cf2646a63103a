#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::events::notify;
use crate::model::TurnId;

/// The tools of a run changed from this turn on: tools were added, removed, changed or unlocked. Also
/// announced when a tool had to be left out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolsChanged {
    /// Id of the first turn with the changed tools.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Changes since the last request, sorted by name.
    pub changes: Vec<ToolChange>,
    /// Whether the tool list in the request changed, so that the provider's prompt cache misses. Lazy tools
    /// that come and go make no difference.
    pub breaks_prefix: bool,
    /// Canonical names of the tools offered now, in the order of the request.
    pub tools: Vec<String>,
    /// Registered tools that cannot be offered.
    pub left_out: Vec<ToolLeftOut>,
}
notify!(ToolsChanged, "tools:changed");

/// A change of one tool of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolChange {
    /// The tool's canonical name.
    pub name: String,
    /// Source that registered the tool; for a removed tool, the source that had registered it.
    pub source: String,
    /// Kind of the change.
    pub kind: ToolChangeKind,
}

/// Kind of change to a tool of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChangeKind {
    /// The tool was registered. It goes to the end of the request's list.
    Added,
    /// The tool was unregistered, or is no longer part of this run.
    Removed,
    /// The description, schema, disclosure or source of the tool changed. It keeps its place in the list.
    Changed,
    /// The tool is lazy and this run asked for it. It goes to the end of the request's list.
    Unlocked,
    /// The tool is lazy, and only an earlier run had asked for it.
    Locked,
}

/// A registered tool that a run cannot offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolLeftOut {
    /// Canonical name of the tool.
    pub name: String,
    /// Source that registered the tool.
    pub source: String,
    /// Reason for which the tool is left out, and how to fix that.
    pub reason: String,
}
