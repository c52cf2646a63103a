//! The tools as an agent calls them, on real files and with real commands.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

mod advice;
mod campaign;
mod cancel;
mod caps;
mod compress;
mod consent;
mod context;
mod detached;
mod edit;
mod guidance;
mod handles;
mod jobs;
mod media;
#[cfg(test)]
mod mentions;
mod no_search;
mod outside;
#[cfg(test)]
mod outside_files;
#[cfg(test)]
mod path_corpus;
mod person;
mod read;
mod recall;
mod redact;
mod search;
mod shared_reads;
mod shell;
mod specs;
mod spill;
mod support;
mod todo;
mod write;

/// Largest number of copies of a file that this process has in memory while the file is edited.
pub(crate) const FILE_COPIES: u64 = 5;
