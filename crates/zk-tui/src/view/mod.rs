//! Rows for the parts of a view.

pub(crate) mod attached;
mod block;
mod call;
mod detail;
pub(crate) mod diff;
mod doing;
mod drawn;
mod group;
mod keys;
mod renderers;
mod status;
mod status_row;
mod tables;

pub(crate) use block::{Kind, block_rows, kind_of, open_rows};
pub(crate) use call::{duration, short_exit, with_facts};
pub(crate) use detail::{Detail, MARGIN};
pub(crate) use diff::{short_diff, whole_diff};
pub use doing::sub_agent_state;
pub(crate) use doing::{agent_rows, checklist_rows, queue_rows, runs_long_command};
pub(crate) use group::Reads;
pub(crate) use keys::{key_columns, key_table};
pub use renderers::Renderers;
pub use status::status_line;
pub(crate) use status::{describe_silence, job_rows};
pub use status_row::ModelFacts;
pub(crate) use status_row::{running_seconds, status_row};
pub use tables::TableFences;

/// Formats a count with its noun: `1 file`, `2 files`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Number of tokens in short form: `47.2k` for 47,200.
#[must_use]
pub fn thousands(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 if tokens.is_multiple_of(1000) => format!("{}k", tokens / 1000),
        1000..1_000_000 => format!("{:.1}k", tokens as f64 / 1e3),
        _ if tokens.is_multiple_of(1_000_000) => format!("{}M", tokens / 1_000_000),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// Amount in US dollars: in cents, and smaller amounts with more digits.
///
/// ```
/// assert_eq!(zk_tui::dollars(1.5), "$1.50");
/// assert_eq!(zk_tui::dollars(0.00123), "$0.0012");
/// ```
#[must_use]
pub fn dollars(cost: f64) -> String {
    if cost < 0.01 { format!("${cost:.4}") } else { format!("${cost:.2}") }
}

/// Duration in its largest suitable unit.
pub(crate) fn rounded(ms: u64) -> String {
    match (ms + 500) / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}
