//! The shell commands that can be judged: a strict subset of bash, and a reason for everything else.

pub(crate) mod lexer;
mod obstacle;
pub(crate) mod parser;

pub use obstacle::{NotUnderstood, Obstacle};

use lexer::MAX_SCRIPT_BYTES;
pub(crate) use lexer::{ANY_CHARACTER, ANY_TEXT};

/// The most commands one text may have.
pub const MAX_COMMANDS: usize = 50;

/// A shell text of which every command is known: words, quotes without expansion, `&&`, `||`, `;`, `|`, line
/// ends, comments and redirections to literal paths.
///
/// The script says what `bash --noprofile --norc -c TEXT` does, in a UTF-8 or C locale and with an
/// environment without `BASH_ENV`, `BASH_FUNC_*`, `SHELLOPTS`, `BASHOPTS`, `PS4`, `CDPATH`. Globs, braces,
/// variables, substitutions, here documents, functions, background jobs and control structures are not
/// understood, on purpose.
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
    /// The commands in the order in which they are written; at least one.
    pub commands: Vec<Command>,
}

/// One simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments, after the quotes were taken away; at least one word.
    pub words: Vec<String>,
    /// `NAME=value` before the program.
    pub assignments: Vec<Assignment>,
    /// Redirections of the command, in order.
    pub redirects: Vec<Redirect>,
    /// Connector between the command before and this one.
    pub connector: Connector,
    /// Offset of its begin, in bytes.
    pub at: usize,
}

/// A variable set for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// Connection of a command to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// Nothing: it is the first.
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

/// Source of input or target of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// `< path`
    Read {
        /// The file.
        path: String,
    },
    /// `> path` and `>> path`, with a number before it if there was one.
    Write {
        /// The file.
        path: String,
        /// Whether the file keeps what it had.
        appends: bool,
    },
    /// `2>&1` and its like: no file.
    Duplicate,
}

impl Redirect {
    /// The file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Write { path, .. } => Some(path),
            Self::Duplicate => None,
        }
    }
}

impl Script {
    /// Reads a shell text.
    ///
    /// # Errors
    /// [`NotUnderstood`] for everything outside the subset, also for what bash itself would refuse.
    pub fn parse(text: &str) -> Result<Self, NotUnderstood> {
        parser::parse(text, false)
    }

    /// Parses as [`Script::parse`] does, with patterns for file names: [`lexer::ANY_TEXT`] and
    /// [`lexer::ANY_CHARACTER`] stand in the words for what they match.
    pub(crate) fn parse_with_patterns(text: &str) -> Result<Self, NotUnderstood> {
        parser::parse(text, true)
    }

    /// Program and arguments if the whole text is one command without redirection or assignment, and not one
    /// that the shell itself carries out: it can be executed without a shell.
    #[must_use]
    pub fn argv(&self) -> Option<&[String]> {
        let [command] = self.commands.as_slice() else { return None };
        let program = command.words.first()?;
        let is_plain = command.redirects.is_empty() && command.assignments.is_empty();
        (is_plain && !is_builtin(program) && program != "time").then_some(&command.words)
    }
}

/// Quotes an argument so that [`Script::parse`] and every shell read it back as it is.
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

/// Quotes all arguments of a command and joins them.
#[must_use]
pub fn quote_all<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word.as_ref())).collect();
    words.join(" ")
}

/// Whether bash carries this command out itself.
pub(crate) fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// Sorted.
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
