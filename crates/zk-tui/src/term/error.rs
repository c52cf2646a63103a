use std::io;

/// Error of a terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Write error.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
    /// Read error.
    #[error("cannot read from the terminal: {0}")]
    Read(io::Error),
    /// The person cancelled without typing.
    #[error("nothing was typed")]
    GivenUp,
    /// Lines cannot be edited on it.
    #[error("cannot edit lines: {0}")]
    LineEditor(String),
}
