//! The judge from outside: the table of verdicts, the grammar against bash, properties, approvals.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod approvals;
mod asked_each_time;
mod asking;
#[path = "../../../zk-tools/tests/it/context.rs"]
mod context;
#[path = "../../../zk-tools/tests/it/support.rs"]
#[expect(dead_code, reason = "tests of the gate measure no memory")]
mod desk;
mod detours;
mod exact_grants;
mod gate;
mod gate_faults;
mod grammar;
mod modes;
mod patterns;
mod project_code;
mod properties;
mod reads_outside;
#[cfg(test)]
mod rules;
mod support;
mod trace;
mod verdicts;
