use std::io;
use std::path::PathBuf;

use zk_chat::ChatError;

/// Failure to run the person's shell.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// A shell with zk attached is running around this one.
    #[error(
        "this is a shell of zk already (instance {instance}): call the agent here, or start another one inside with --nested"
    )]
    Nested {
        /// Id of the running instance.
        instance: String,
    },
    /// Standard input or output is not a terminal.
    #[error("a shell needs a terminal at standard input and output")]
    NoTerminal,
    /// The shell could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// Program of the shell.
        program: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The terminal, or a thread for it, cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[source] io::Error),
    /// The conversation cannot be prepared.
    #[error(transparent)]
    Chat(#[from] ChatError),
}
