use std::fmt;
use std::sync::Arc;

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

/// Name of the plugin or host that made a registration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(Arc<str>);

impl Source {
    /// Creates a source called `name`.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Position of a handler among the handlers of one event; within a stage, registration order counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Before all others: policies that must see the unchanged event.
    Early,
    /// The default stage, for ordinary plugins.
    #[default]
    Consumer,
    /// The harness's own gates, which see the decisions of the earlier stages.
    Framework,
    /// After the harness's gates and before the last stage, for example a hook that demands a person's
    /// decision.
    Review,
    /// After all others.
    Late,
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Early => "early",
            Self::Consumer => "consumer",
            Self::Framework => "framework",
            Self::Review => "review",
            Self::Late => "late",
        })
    }
}

/// Agents whose events a handler receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Events of the agent that the handler is registered with.
    #[default]
    Own,
    /// Events of the handler's agent and of all its descendants, at any depth.
    Descendants,
}

impl Serialize for Reach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Own => "own",
            Self::Descendants => "descendants",
        })
    }
}

/// Agent that an event belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the agent, unique within its tree.
    pub agent: Arc<str>,
    /// Depth in the tree: 0 for the root agent, 1 for its sub-agents.
    pub depth: u32,
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Origin", 2)?;
        fields.serialize_field("agent", &*self.agent)?;
        fields.serialize_field("depth", &self.depth)?;
        fields.end()
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self { agent: Arc::from("main"), depth: 0 }
    }
}
