#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::events::notify;
use crate::model::TurnId;

/// The tools of a run are not those of the request before, from this turn on: some came, went, changed or were
/// unlocked. Also announced when a tool had to be left out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolsChanged {
    /// The turn.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Changes since the request before, in the order of the names.
    pub changes: Vec<ToolChange>,
    /// Whether the tools in the request differ, so that no provider's cache of its prefix fits any more. Lazy
    /// tools that come and go do not make a difference.
    pub breaks_prefix: bool,
    /// The tools the model is offered now, by their canonical names, in the order of the request.
    pub tools: Vec<String>,
    /// Tools that cannot be offered.
    pub left_out: Vec<ToolLeftOut>,
}
notify!(ToolsChanged, "tools:changed");

/// A change of one tool of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolChange {
    /// The tool's canonical name.
    pub name: String,
    /// Source that registered the tool, or had registered it.
    pub source: String,
    /// Kind of the change.
    pub kind: ToolChangeKind,
}

/// Kind of change to a tool of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChangeKind {
    /// The tool was registered. It stands behind all others in the request.
    Added,
    /// The tool is registered no more, or is no tool of this run.
    Removed,
    /// The tool's description, schema, disclosure or owner is another. It keeps its place.
    Changed,
    /// The tool is lazy, and this run asked for it. It stands behind all others in the request.
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
    /// Reason for which it is left out, and what to do about it.
    pub reason: String,
}
