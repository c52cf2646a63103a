//! The suites of zk's own tools, run where every file and every command is served by the `ExecServer` of zk-exec.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

#[path = "../../../../crates/zk-tools/tests/it/cancel.rs"]
mod cancel;
mod context;
#[path = "../../../../crates/zk-tools/tests/it/edit.rs"]
mod edit;
#[path = "../../../../crates/zk-tools/tests/it/jobs.rs"]
mod jobs;
#[path = "../../../../crates/zk-tools/tests/it/media.rs"]
mod media;
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

/// Largest number of copies of a file that this process has in memory while the file is edited: the
/// server is in this process, too, and has one copy of what it sends or receives.
pub(crate) const FILE_COPIES: u64 = 6;
