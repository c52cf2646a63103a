mod switch;

use std::fmt;
use std::str::FromStr;

pub use switch::{ModeError, ModeSwitch, NameError};

/// Permission mode: which calls run without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Only calls that certainly only read; all others are denied, even if a rule allows them.
    ReadOnly,
    /// Read-only calls, and calls that a rule allows; all others need a question.
    #[default]
    Ask,
    /// As `ask`, and file tools may change files of the workspace, except those that start programs.
    AcceptEdits,
    /// As `accept-edits`, and all calls that a sandbox contains, if its self-test passed. Calls that leave
    /// the sandbox, publish, or may discard work need a question. Without a sandbox it is `ask`.
    Auto,
    /// All calls that no rule forbids.
    All,
}

impl Mode {
    /// All modes, the strictest first.
    pub const ALL: [Self; 5] = [Self::ReadOnly, Self::Ask, Self::AcceptEdits, Self::Auto, Self::All];

    /// Name on command lines and in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Auto => "auto",
            Self::All => "all",
        }
    }

    /// Describes the calls that run without a question.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::ReadOnly => "no changes, no commands that could change something",
            Self::Ask => "reads run; everything else asks",
            Self::AcceptEdits => "edits in this repository run; commands ask",
            Self::Auto => "commands run in the sandbox; what leaves it asks",
            Self::All => "nothing asks, except leaving the sandbox",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: no mode has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no permission mode `{0}`; the modes are read-only, ask, accept-edits, auto and all")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}
