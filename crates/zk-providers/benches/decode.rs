//! Speed at which an answer goes from bytes to events: 2 MB of text in 100,000 pieces, in chunks of 16 KB as
//! a socket gives them. Items are events, bytes are those of the stream.
//!
//! The bar is 1,000,000 events a second for each dialect. `values` parses the same bytes into
//! `serde_json::Value` and makes nothing of them, to read `events` against on a busy machine: `events` is to
//! be faster. How often `events` may allocate is the business of `tests/allocations.rs`.

mod streams;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use serde_json::Value;
use streams::{DIALECTS, Dialect, read};
use zk_providers::sse::SseDecoder;

const DELTAS: usize = 100_000;

fn main() {
    divan::main();
}

fn bench(bencher: Bencher<'_, '_>, body: &[u8], run: impl Fn(&[u8]) -> usize + Sync) {
    bencher.counter(ItemsCount::new(DELTAS)).counter(BytesCount::new(body.len())).bench(|| {
        let events = run(divan::black_box(body));
        assert!(events > DELTAS, "every delta is an event");
    });
}

#[divan::bench(args = DIALECTS, sample_count = 20)]
fn events(bencher: Bencher<'_, '_>, dialect: Dialect) {
    bench(bencher, &(dialect.body)(DELTAS), |body| read(dialect.replay(), body));
}

#[divan::bench(args = DIALECTS, sample_count = 20)]
fn values(bencher: Bencher<'_, '_>, dialect: Dialect) {
    bench(bencher, &(dialect.body)(DELTAS), |body| {
        let lines =
            body.split(|byte| *byte == b'\n').map(|line| line.strip_prefix(b"data: ").unwrap_or(line));
        lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).map(divan::black_box).count()
    });
}

#[divan::bench(sample_count = 20)]
fn framing(bencher: Bencher<'_, '_>) {
    bench(bencher, &(DIALECTS[0].body)(DELTAS), |body| {
        let mut decoder = SseDecoder::new();
        let mut events = 0;
        for chunk in body.chunks(16 << 10) {
            decoder.feed(chunk);
            while let Ok(Some(event)) = decoder.next() {
                divan::black_box(event);
                events += 1;
            }
        }
        events
    });
}
