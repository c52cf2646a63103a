//! A long session through every strategy: `cargo bench -p zk-harness-compaction --bench replay` prints the table of
//! `docs/compaction.md`, and with `-- --write` puts it there. `ZK_REPLAY_TURNS` runs another number of turns than 2,000.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints, and one that cannot go on stops"
)]

mod session;

use std::fmt::Write;

/// Beginning of the table, for finding it.
const HEAD: &str = "| strategy | requests |";

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
    let mut table = format!(
        "{HEAD} to summarise | MB sent | peak tokens | prefix breaks | facts said | present at the end | recalled |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    print!("{table}");
    for strategy in session::STRATEGIES {
        let figures = runtime.block_on(session::replay(strategy, turns, WINDOW));
        let said = figures.part_said() * 100.0;
        let session::Figures { requests, side_calls, sent, peak, breaks, facts, present, recalled, .. } =
            figures;
        let row = format!(
            "| `{strategy}` | {requests} | {side_calls} | {:.1} | {} | {breaks} | {said:.0} % | {present} of {facts} | {recalled} |",
            sent as f64 / 1e6,
            peak * 10 / 35,
        );
        println!("{row}");
        writeln!(table, "{row}").unwrap();
    }
    if std::env::args().any(|argument| argument == "--write") {
        write(&table);
    }
}

/// Replaces the table in the documentation.
fn write(table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compaction.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    let after = rest.split_inclusive('\n').skip(1).skip_while(|line| line.starts_with('|'));
    std::fs::write(path, format!("{before}{table}{}", after.collect::<String>())).unwrap();
}
