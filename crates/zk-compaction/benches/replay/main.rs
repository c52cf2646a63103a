//! A long session through every strategy: `cargo bench -p zk-compaction --bench replay`. Prints the table of
//! `docs/compaction.md`; `ZK_REPLAY_TURNS` runs another number of turns than 2,000.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints, and one that cannot go on stops"
)]

mod session;

/// Tokens of the model's window.
const WINDOW: u64 = 64_000;

#[expect(clippy::disallowed_methods, reason = "how another size is asked for")]
fn main() {
    // Asked for by test runners, which run benches as well.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let turns = std::env::var("ZK_REPLAY_TURNS").map_or(2000, |turns| turns.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    println!(
        "| strategy | requests | to summarise | MB sent | peak tokens | prefix breaks | facts said | present at the end | recalled |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for strategy in session::STRATEGIES {
        let figures = runtime.block_on(session::replay(strategy, turns, WINDOW));
        let said = figures.part_said() * 100.0;
        let session::Figures { requests, side_calls, sent, peak, breaks, facts, present, recalled, .. } =
            figures;
        println!(
            "| `{strategy}` | {requests} | {side_calls} | {:.1} | {} | {breaks} | {said:.0} % | {present} of {facts} | {recalled} |",
            sent as f64 / 1e6,
            peak * 10 / 35,
        );
    }
}
