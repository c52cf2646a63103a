use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Name of who registered something: a plugin, or the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(Arc<str>);

impl Source {
    /// A source called `name`.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
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

/// Order of a handler among the handlers of one event; inside a stage, registration order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Handlers before everybody: policy that must see the untouched event.
    Early,
    /// The default.
    #[default]
    Consumer,
    /// The harness's own gates, which see what consumers decided.
    Framework,
    /// Handlers after the harness's gates, before whoever has the last word: such as a hook that wants a
    /// person asked.
    Review,
    /// Handlers after everybody.
    Late,
}

/// Agents whose events a handler receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Events of the agent that the handler is registered with.
    #[default]
    Own,
    /// Events of that agent and of all its descendants, at any depth.
    Descendants,
}

/// Agent that an event belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The agent's name, unique among the agents of one tree.
    pub agent: Arc<str>,
    /// 0 for the root agent, one more for each generation of sub-agents.
    pub depth: u32,
}

impl Default for Origin {
    fn default() -> Self {
        Self { agent: Arc::from("main"), depth: 0 }
    }
}
