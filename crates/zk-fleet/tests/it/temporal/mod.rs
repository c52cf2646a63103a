//! Tests of the engine on Temporal. They need the program `temporal`: from PATH, or from `ZK_TEMPORAL`.
#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test, and a skipped test says so"
)]

mod conform;
mod figures;
mod flows;
mod kills;
mod server;
