//! The suites of zk's own tools, run where every file and every command is in another process.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

#[path = "../../../../crates/zk-tools/tests/it/campaign.rs"]
mod campaign;
#[path = "../../../../crates/zk-tools/tests/it/cancel.rs"]
mod cancel;
#[path = "../../../../crates/zk-tools/tests/it/caps.rs"]
mod caps;
mod context;
#[path = "../../../../crates/zk-tools/tests/it/edit.rs"]
mod edit;
#[path = "../../../../crates/zk-tools/tests/it/jobs.rs"]
mod jobs;
#[path = "../../../../crates/zk-tools/tests/it/media.rs"]
mod media;
#[path = "../../../../crates/zk-tools/tests/it/path_corpus.rs"]
mod path_corpus;
#[path = "../../../../crates/zk-tools/tests/it/read.rs"]
mod read;
#[path = "../../../../crates/zk-tools/tests/it/search.rs"]
mod search;
#[path = "../../../../crates/zk-tools/tests/it/shell.rs"]
mod shell;
#[path = "../../../../crates/zk-tools/tests/it/support.rs"]
mod support;
#[path = "../../../../crates/zk-tools/tests/it/write.rs"]
mod write;

/// Largest number of copies of a file that this process has in memory while the file is edited.
pub(crate) const FILE_COPIES: u64 = 5;
