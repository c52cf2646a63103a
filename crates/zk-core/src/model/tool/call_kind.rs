use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Effects};

/// Kind of work that a tool call does, for icons and groups in a front-end. Permissions rest on [`Effects`]
/// instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Shows files or other contents.
    Read,
    /// Searches files or other contents.
    Search,
    /// Changes files.
    Edit,
    /// Runs a program.
    Execute,
    /// Gets data from the network.
    Fetch,
    /// Asks the person a question.
    Ask,
    /// Keeps a plan or list of the agent itself.
    Plan,
    /// Delegates work to another agent.
    Delegate,
    /// Something else.
    #[default]
    Other,
}

impl CallKind {
    /// Whether the kind of work is unknown.
    #[must_use]
    pub fn is_other(&self) -> bool {
        matches!(self, Self::Other)
    }

    /// Returns the kind in one word, for a person: `read`, `search`, `edit`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Edit => "edit",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Ask => "ask",
            Self::Plan => "plan",
            Self::Delegate => "delegate",
            Self::Other => "other",
        }
    }

    /// Derives the kind from a call's effects, for a tool that does not declare a kind.
    ///
    /// ```
    /// use zk_core::model::{CallKind, Effects};
    ///
    /// assert_eq!(CallKind::of(&Effects::reads(["a"])), CallKind::Read);
    /// assert_eq!(CallKind::of(&Effects::Unknown), CallKind::Other);
    /// ```
    #[must_use]
    pub fn of(effects: &Effects) -> Self {
        let Effects::Known { list } = effects else { return Self::Other };
        let kinds = list.iter().map(|effect| match effect {
            Effect::Reads { .. } => (0, Self::Read),
            Effect::Network { .. } => (1, Self::Fetch),
            Effect::Writes { .. } => (2, Self::Edit),
            Effect::Executes { .. } | Effect::LeavesContext { .. } => (3, Self::Execute),
        });
        kinds.max_by_key(|(weight, _)| *weight).map_or(Self::Other, |(_, kind)| kind)
    }
}

/// Place in a file that a tool call is about, for a front-end that follows along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallLocation {
    /// The path, as the call names it.
    pub path: PathBuf,
    /// The line, from 1, if the call is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Effects {
    /// Returns each path that the call reads or writes, once.
    #[must_use]
    pub fn locations(&self) -> Vec<CallLocation> {
        let Self::Known { list } = self else { return Vec::new() };
        let paths = list.iter().flat_map(|effect| match effect {
            Effect::Reads { paths } | Effect::Writes { paths } => paths.as_slice(),
            Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => &[],
        });
        let mut found: Vec<CallLocation> = Vec::new();
        for path in paths {
            if found.iter().all(|known| known.path != *path) {
                found.push(CallLocation { path: path.clone(), line: None });
            }
        }
        found
    }
}
