use std::io;

/// Error of a terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Nothing more can be written to it.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
    /// Nothing more can be read from it.
    #[error("cannot read from the terminal: {0}")]
    Read(io::Error),
    /// The person typed nothing, and left.
    #[error("nothing was typed")]
    GivenUp,
    /// Lines cannot be edited on it.
    #[error("cannot edit lines: {0}")]
    LineEditor(String),
}
