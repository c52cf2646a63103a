//! Tools for the live shell.

mod definitions;
mod read_shell;
mod run_in_shell;
mod shown;

pub(crate) use read_shell::ReadShell;
pub(crate) use run_in_shell::RunInShell;
