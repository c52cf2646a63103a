//! How often reading an answer allocates.

#[path = "../benches/streams/mod.rs"]
mod streams;

use allocation_counter::measure;
use streams::{DIALECTS, Dialect, read};

/// What buffers that grow with the answer may take on top.
const AMORTISED: u64 = 64;

fn allocations(dialect: Dialect, deltas: usize) -> u64 {
    let body = (dialect.body)(deltas);
    let count = measure(|| assert!(read(dialect.replay(), &body) > deltas, "every delta is an event"));
    count.count_total
}

#[test]
fn a_piece_of_text_costs_no_allocation_but_its_own() {
    const MORE: u64 = 10_000;
    for dialect in DIALECTS {
        let (few, many) = (allocations(dialect, 1_000), allocations(dialect, 11_000));
        let each = many.saturating_sub(few);
        assert!((MORE..MORE + AMORTISED).contains(&each), "{dialect}: {each} for {MORE} more pieces");
    }
}
