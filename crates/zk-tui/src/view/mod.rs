//! Rows of what a view holds.

pub(crate) mod attached;
mod block;
mod diff;
mod group;
mod keys;
mod renderers;
mod status;
mod tables;

pub(crate) use block::{Detail, Kind, block_rows, kind, open_rows, thought_row};
pub(crate) use diff::whole_diff;
pub(crate) use group::Reads;
pub(crate) use keys::key_table;
pub use renderers::Renderers;
pub use status::{ModelFacts, status_line};
pub(crate) use status::{agent_facts, agent_rows, job_rows, queue_rows, silence, status_row};
pub use tables::TableFences;

/// A number of things.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
