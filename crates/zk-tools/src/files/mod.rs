//! Tools that read, find and change files.

pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod fingerprint;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod list_files;
pub(crate) mod media;
pub(crate) mod mentions;
pub(crate) mod notebook;
pub(crate) mod pdf;
pub(crate) mod read_file;
pub(crate) mod read_state;
pub(crate) mod walk;
pub(crate) mod write_file;
