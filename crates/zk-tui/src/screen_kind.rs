use std::str::FromStr;

use crate::plain::Screen;
use crate::term::TerminalEnv;

/// Kind of screen for a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// Closed rows scroll away with the terminal's own scrolling; the rows below them are redrawn.
    Inline,
    /// Whole terminal, with its own scrolling.
    Full,
    /// Labelled lines that are never redrawn.
    Plain,
}

impl ScreenKind {
    /// Screen to use: the requested one, by default the inline one; plain lines on a terminal without cursor
    /// movement and if `ACCESSIBLE` is set.
    pub fn chosen(asked: Option<Self>, env: &TerminalEnv) -> Self {
        match asked {
            _ if Self::is_plain_only(env) => Self::Plain,
            Some(kind) => kind,
            None if env.is_accessible() => Self::Plain,
            None => Self::Inline,
        }
    }

    /// Whether only the plain screen works, since the terminal cannot erase.
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
