mod switch;

use std::fmt;
use std::str::FromStr;

pub use switch::{ModeError, ModeSwitch};

/// Range of calls that run without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Only what certainly only reads; everything else is denied, whatever rules allow.
    ReadOnly,
    /// Calls that only read and those that rules allow; a person is asked about everything else.
    #[default]
    Ask,
    /// As `ask`, and file tools change files of the workspace that no program is started from.
    AcceptEdits,
    /// As `accept-edits`, and inside a proven sandbox whatever the sandbox bounds; a person is asked about what
    /// leaves it, publishes, or may throw work away. Without a sandbox it is `ask`.
    Auto,
    /// Everything that no rule forbids.
    All,
}

impl Mode {
    /// All modes, the tightest first.
    pub const ALL: [Self; 5] = [Self::ReadOnly, Self::Ask, Self::AcceptEdits, Self::Auto, Self::All];

    /// Returns the name on command lines and in settings.
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

    /// Describes what runs without a question.
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

/// Error: there is no mode of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no permission mode `{0}`; the modes are read-only, ask, accept-edits, auto and all")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}
