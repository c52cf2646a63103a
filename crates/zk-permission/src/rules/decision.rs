use std::fmt;
use std::str::FromStr;

/// Decision on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Call that runs.
    Allow,
    /// A person is asked.
    Ask,
    /// Call that does not run.
    Deny,
}

impl Decision {
    /// `allow`, `ask` or `deny`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Text that is no [`Decision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use allow, ask or deny")]
pub struct UnknownDecision;

impl FromStr for Decision {
    type Err = UnknownDecision;

    fn from_str(name: &str) -> Result<Self, UnknownDecision> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|decision| decision.name() == name)
            .ok_or(UnknownDecision)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
