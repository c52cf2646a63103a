use std::str::FromStr;

use crate::plain::Screen;
use crate::term::TerminalEnv;

/// Form in which a conversation is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// Closed rows scroll away with the terminal's own scrolling, the rest is redrawn below them.
    Inline,
    /// All of the terminal, with scrolling of its own.
    Full,
    /// Labelled lines, nothing of which is ever redrawn.
    Plain,
}

impl ScreenKind {
    /// The screen that was asked for, or the inline one; plain lines on a terminal that cannot move its cursor and for
    /// whoever set `ACCESSIBLE`.
    pub fn chosen(asked: Option<Self>, env: &TerminalEnv) -> Self {
        match asked {
            _ if Self::is_plain_only(env) => Self::Plain,
            Some(kind) => kind,
            None if env.is_accessible() => Self::Plain,
            None => Self::Inline,
        }
    }

    /// Whether the terminal cannot erase, so that only the plain screen works on it.
    pub fn is_plain_only(env: &TerminalEnv) -> bool {
        !Screen::stdout(env).is_capable()
    }
}

impl FromStr for ScreenKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "inline" => Ok(Self::Inline),
            "full" => Ok(Self::Full),
            "plain" => Ok(Self::Plain),
            name => Err(format!("there is no screen `{name}`: it is inline, full or plain")),
        }
    }
}
