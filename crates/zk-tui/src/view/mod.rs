//! Rows of what a view holds.

mod block;

pub(crate) use block::{Kind, block_rows, kind, open_rows};

/// A number of things.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
