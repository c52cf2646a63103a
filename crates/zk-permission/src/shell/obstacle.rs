use std::fmt;

use super::{MAX_COMMANDS, MAX_SCRIPT_BYTES};

/// Reason why a shell text cannot be judged, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct NotUnderstood {
    /// Offset in bytes, from 0.
    pub at: usize,
    /// Obstacle at this position.
    pub what: Obstacle,
}

/// Syntax outside the subset of the shell that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// More than 4 KB.
    TooLong,
    /// More than 50 commands.
    TooManyCommands,
    /// No command.
    Empty,
    /// A NUL, a carriage return or another control character.
    Control(char),
    /// An invisible character, one that reorders text, or a blank that the shell does not treat as such.
    Invisible(char),
    /// An unquoted non-ASCII letter: locales differ about it.
    NotAscii(char),
    /// A variable, a substitution or `$'…'`: `$` or a backtick.
    Expansion(char),
    /// A pattern for file names.
    Glob(char),
    /// A brace: a list, a group or a function body.
    Brace(char),
    /// A home directory.
    Tilde,
    /// A backslash at the end of a line or of the text, or before a character that locales treat differently.
    Backslash,
    /// An unclosed quote.
    OpenQuote(char),
    /// A sub-shell, a function or a process substitution.
    Parenthesis(char),
    /// A here document or here string.
    HereDocument,
    /// A command in the background.
    Background,
    /// An operator outside the subset, such as `|&`, `&>`, `<>`, `;;`.
    Operator,
    /// A redirection without a literal path, or of another file descriptor than 0, 1 and 2.
    Redirection,
    /// A file name that bash takes for a network connection.
    NetworkFile,
    /// A reserved word of the shell, such as `if` or `!`.
    Reserved,
    /// An assignment without a command, which would last.
    Assignment,
    /// A redirection without a command.
    NoCommand,
    /// An operator without a command on both sides.
    Unfinished,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the command has more than {MAX_SCRIPT_BYTES} bytes"),
            Self::TooManyCommands => write!(f, "more than {MAX_COMMANDS} commands"),
            Self::Empty => f.write_str("no command"),
            Self::Control(found) => write!(f, "the control character U+{:04X}", u32::from(*found)),
            Self::Invisible(found) => write!(f, "the invisible character U+{:04X}", u32::from(*found)),
            Self::NotAscii(found) => write!(f, "`{found}` without quotes"),
            Self::Expansion(found) => write!(f, "an expansion or substitution, `{found}`"),
            Self::Glob(found) => write!(f, "a pattern for file names, `{found}`"),
            Self::Brace(found) => write!(f, "a brace, `{found}`"),
            Self::Tilde => f.write_str("a home directory, `~`"),
            Self::Backslash => f.write_str("a backslash before a line end or a character that is not ASCII"),
            Self::OpenQuote(quote) => write!(f, "a quote that is not closed, {quote}"),
            Self::Parenthesis(found) => write!(f, "a sub-shell, function or substitution, `{found}`"),
            Self::HereDocument => f.write_str("a here document or here string"),
            Self::Background => f.write_str("a command in the background, `&`"),
            Self::Operator => f.write_str("an operator that is not judged"),
            Self::Redirection => f.write_str("a redirection that is not to a literal path"),
            Self::NetworkFile => f.write_str("a redirection to a network connection"),
            Self::Reserved => f.write_str("a word of the shell's grammar"),
            Self::Assignment => f.write_str("an assignment without a command"),
            Self::NoCommand => f.write_str("a redirection without a command"),
            Self::Unfinished => f.write_str("an operator without a command beside it"),
        }
    }
}
