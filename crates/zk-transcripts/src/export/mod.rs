//! Documents of a session.

pub(crate) mod document;
pub(crate) mod exporter;
pub(crate) mod file;
pub(crate) mod jsonl;
pub(crate) mod markdown;
pub(crate) mod redact;
