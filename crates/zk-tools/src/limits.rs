//! The caps that hold whatever a call asks for: one table, so that a process stays small under all of them.

/// Bytes of one result, as the model gets it.
pub(crate) const RESULT_BYTES: usize = 1 << 20;

/// Bytes of all results of one turn together.
pub(crate) const TURN_BYTES: usize = 4 << 20;

/// Bytes of one line that `grep` shows.
pub(crate) const SHOWN_LINE_BYTES: usize = 500;

/// Bytes of a command's output that a person is shown while it runs.
pub(crate) const WATCHED_BYTES: usize = 1 << 20;

/// Names that one `list_files` shows.
pub(crate) const LISTED_NAMES: usize = 1_000;
