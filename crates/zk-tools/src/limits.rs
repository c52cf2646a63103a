//! Hard limits of results, whatever a call requests, which bound the process's memory.

/// Maximum number of bytes of one result.
pub(crate) const RESULT_BYTES: usize = 1 << 20;

/// Maximum number of bytes of all results of a turn together.
pub(crate) const TURN_BYTES: usize = 4 << 20;

/// Maximum number of bytes of a line in the result of `grep`.
pub(crate) const SHOWN_LINE_BYTES: usize = 500;

/// Maximum number of bytes of a running command's output that a person sees.
pub(crate) const WATCHED_BYTES: usize = 1 << 20;

/// Maximum number of names in the result of `list_files`.
pub(crate) const LISTED_NAMES: usize = 1_000;
