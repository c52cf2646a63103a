use std::fmt;

use super::{MAX_COMMANDS, MAX_SCRIPT_BYTES};

/// Reason why a shell text cannot be judged, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct NotUnderstood {
    /// Offset in bytes, from 0.
    pub at: usize,
    /// Syntax that is not judged.
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
    /// An invisible character, a character that reorders text, or a Unicode blank, which does not separate
    /// words in a shell.
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

/// Maximum length of a word that a message quotes, in characters.
const MAX_QUOTED_CHARS: usize = 40;

impl NotUnderstood {
    /// Explains to a person why the effect of a text is unpredictable, with the obstructing word.
    #[must_use]
    pub fn explain(&self, text: &str) -> String {
        let word = || {
            let is_between = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&');
            let before = text.get(..self.at).unwrap_or_default();
            let after = text.get(self.at..).unwrap_or_default();
            let begin = before.rfind(is_between).map_or(0, |at| at + 1);
            let end = self.at + after.find(is_between).unwrap_or(after.len());
            let word = text.get(begin..end).unwrap_or_default();
            match word.char_indices().nth(MAX_QUOTED_CHARS) {
                Some((cut, _)) => format!("`{}…`", word.get(..cut).unwrap_or_default()),
                None => format!("`{word}`"),
            }
        };
        let why = match self.what {
            Obstacle::Glob(_) => format!("it uses a wildcard ({})", word()),
            Obstacle::Expansion(_) => format!("it uses a variable or another command's output ({})", word()),
            Obstacle::Brace(_) => format!("it uses braces ({})", word()),
            Obstacle::Tilde => format!("it names a home directory ({})", word()),
            Obstacle::Parenthesis(_) => "it uses a sub-shell or a function".to_owned(),
            Obstacle::HereDocument => "it carries a text of its own (`<<`)".to_owned(),
            Obstacle::Background => "it starts something in the background (`&`)".to_owned(),
            Obstacle::OpenQuote(quote) => format!("a quote is not closed ({quote})"),
            Obstacle::NotAscii(_) | Obstacle::Backslash => format!("{} ({})", self.what, word()),
            Obstacle::Operator | Obstacle::Redirection | Obstacle::NetworkFile => {
                format!("it has {} ({})", self.what, word())
            }
            Obstacle::Reserved => format!("it is more than plain commands ({})", word()),
            Obstacle::Assignment => format!("it sets a variable for what follows ({})", word()),
            Obstacle::TooLong | Obstacle::TooManyCommands => self.what.to_string(),
            Obstacle::Empty | Obstacle::Control(_) | Obstacle::Invisible(_) => {
                format!("it has {}", self.what)
            }
            Obstacle::NoCommand | Obstacle::Unfinished => format!("it has {}", self.what),
        };
        format!("cannot be judged: {why}")
    }
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
