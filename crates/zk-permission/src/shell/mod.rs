//! Parser for the shell commands that can be judged: a strict subset of bash, and a reason for refusing any
//! other text.

pub(crate) mod lexer;
mod obstacle;
pub(crate) mod parser;

pub use obstacle::{NotUnderstood, Obstacle};

use lexer::MAX_SCRIPT_BYTES;
pub(crate) use lexer::{ANY_CHARACTER, ANY_TEXT};

/// Maximum number of commands in one text.
pub const MAX_COMMANDS: usize = 50;

/// Shell text of which every command is known: words, quotes without expansion, `&&`, `||`, `;`, `|`, line
/// ends, comments and redirections to literal paths.
///
/// The result describes `bash --noprofile --norc -c TEXT` in a UTF-8 or C locale, and in an environment
/// without `BASH_ENV`, `BASH_FUNC_*`, `SHELLOPTS`, `BASHOPTS`, `PS4` and `CDPATH`. Globs, braces, variables,
/// substitutions, here documents, functions, background jobs and control structures are refused on purpose.
///
/// ```
/// use zk_permission::Script;
///
/// let script = Script::parse("cargo test -p 'my crate' && git push > log.txt")?;
/// assert_eq!(script.commands[0].words, ["cargo", "test", "-p", "my crate"]);
/// assert_eq!(script.commands[1].redirects[0].path(), Some("log.txt"));
///
/// let why = Script::parse("ls $(rm -rf .)").unwrap_err();
/// assert_eq!(why.to_string(), "byte 3: an expansion or substitution, `$`");
/// # Ok::<(), zk_permission::NotUnderstood>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Commands in the order of the text; at least one.
    pub commands: Vec<Command>,
}

/// One simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments with quotes removed; at least one word.
    pub words: Vec<String>,
    /// Variables that are set before the program.
    pub assignments: Vec<Assignment>,
    /// Redirections in order.
    pub redirects: Vec<Redirect>,
    /// Connector to the command before.
    pub connector: Connector,
    /// Offset of the command in the text, in bytes.
    pub at: usize,
}

/// Variable that is set for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// Connector between a command and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// First command of the text.
    First,
    /// `;` or a line end.
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
}

/// Redirection of input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// `< path`
    Read {
        /// Path of the file.
        path: String,
    },
    /// `> path` and `>> path`, possibly after a descriptor number.
    Write {
        /// Path of the file.
        path: String,
        /// Whether output is appended to the file.
        appends: bool,
    },
    /// Duplicated descriptor such as `2>&1`: no file.
    Duplicate,
}

impl Redirect {
    /// Path of the file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Write { path, .. } => Some(path),
            Self::Duplicate => None,
        }
    }
}

impl Script {
    /// Parses a shell text.
    ///
    /// # Errors
    /// [`NotUnderstood`] for everything outside the subset, and for text that bash itself refuses.
    pub fn parse(text: &str) -> Result<Self, NotUnderstood> {
        parser::parse(text, false)
    }

    /// Variant of [`Script::parse`] that accepts file name patterns: words contain [`lexer::ANY_TEXT`] and
    /// [`lexer::ANY_CHARACTER`] in their place.
    pub(crate) fn parse_with_patterns(text: &str) -> Result<Self, NotUnderstood> {
        parser::parse(text, true)
    }

    /// Program and arguments if the text can be executed without a shell: a single command, no builtin,
    /// without redirections and assignments.
    #[must_use]
    pub fn argv(&self) -> Option<&[String]> {
        let [command] = self.commands.as_slice() else { return None };
        let program = command.words.first()?;
        let is_plain = command.redirects.is_empty() && command.assignments.is_empty();
        (is_plain && !is_builtin(program) && program != "time").then_some(&command.words)
    }
}

/// Quotes an argument so that [`Script::parse`] and every shell read it back unchanged.
#[must_use]
pub fn quote(word: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'+' | b',' | b'@' | b'%')
    };
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes the arguments of a command and joins them with blanks.
#[must_use]
pub fn quote_all<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word.as_ref())).collect();
    words.join(" ")
}

/// Whether a name is a builtin of bash.
pub(crate) fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// Builtins of bash, sorted.
const BUILTINS: [&str; 60] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_builtins_is_sorted_for_its_search() {
        assert!(BUILTINS.is_sorted());
        assert!(is_builtin("cd") && is_builtin("unset") && is_builtin(".") && !is_builtin("ls"));
    }
}
