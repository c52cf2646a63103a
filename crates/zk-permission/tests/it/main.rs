//! The judge from outside: the table of verdicts, the grammar against bash, properties, approvals.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod approvals;
mod detours;
mod gate;
mod grammar;
mod modes;
mod patterns;
mod properties;
mod rules;
mod support;
mod trace;
mod verdicts;
