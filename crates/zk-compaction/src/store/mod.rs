//! Storage: compaction records of a session, and lines that outlive it.

pub(crate) mod line_file;
pub(crate) mod line_store;
pub(crate) mod record;
