//! Cuts of a recorded stream into pieces, which make no difference wherever they are.

use std::collections::BTreeMap;

use zk_core::model::{Block, ErrorKind};
use zk_core::service::StreamEvent;

use super::{Dialect, Exchange, Form, exchanges, print_table};
use crate::fixtures;

/// Number of streams cut at every byte: the smallest of each dialect within this decoding budget in bytes.
const SMALLEST: usize = 60;
const BUDGET: usize = 5_000_000;
/// Number of cuts in every other stream, and of those made at once.
const CUTS: usize = 200;
const AT_ONCE: usize = 20;

/// Decodes a stream that arrives in these pieces; generated ids are removed.
fn decode(dialect: Dialect, pieces: &[&[u8]]) -> (Vec<StreamEvent>, Option<(ErrorKind, String)>) {
    let mut replay = dialect.replay();
    let mut events = Vec::new();
    let mut pieces = pieces.iter();
    loop {
        match pieces.next() {
            Some(piece) => replay.feed(piece),
            None => replay.finish(),
        }
        loop {
            match replay.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (without_ids(events), Some((error.kind, error.message))),
            }
        }
        if pieces.len() == 0 && matches!(events.last(), Some(StreamEvent::Done { .. })) {
            return (without_ids(events), None);
        }
    }
}

fn without_ids(mut events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    for event in &mut events {
        match event {
            StreamEvent::ToolCall { id, .. } if id.as_str().starts_with("call_") => *id = "".into(),
            StreamEvent::Block { content: Block::ToolCall(call), .. }
                if call.id.as_str().starts_with("call_") =>
            {
                call.id = "".into();
            }
            _ => {}
        }
    }
    events
}

/// The pieces of `bytes` cut at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([bytes.len()]);
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}

/// Fails if fixtures exist, but fewer than before.
fn at_least(counts: &BTreeMap<(String, String), usize>, streams: usize, splits: usize) {
    let total = |name: &str| -> usize {
        counts.iter().filter(|((_, column), _)| column == name).map(|(_, count)| count).sum()
    };
    if fixtures::folder().is_some() {
        assert!(total("streams") >= streams && total("splits") >= splits, "{counts:?}");
    }
}

fn streams() -> Vec<Exchange> {
    let mut all = exchanges();
    all.retain(|exchange| exchange.form == Form::Streamed);
    all.sort_by_key(|exchange| exchange.body.len());
    all
}

#[test]
fn every_split_of_the_smallest_recorded_streams_gives_the_same_events() {
    let mut counts = BTreeMap::new();
    let mut left = Dialect::ALL.map(|dialect| (dialect, BUDGET));
    for (rank, exchange) in streams().iter().enumerate() {
        let dialect = exchange.dialect;
        let bytes = exchange.body.as_bytes();
        let (_, left) = left.iter_mut().find(|(other, _)| *other == dialect).expect("one of all");
        if rank >= SMALLEST && *left == 0 {
            continue;
        }
        *left = left.saturating_sub(bytes.len() * bytes.len());
        let whole = decode(dialect, &[bytes]);
        for at in 0..=bytes.len() {
            let cut = decode(dialect, &pieces(bytes, &[at]));
            assert_eq!(cut, whole, "{} at {at}", exchange.place());
        }
        *counts.entry((format!("{dialect:?}"), "streams".to_owned())).or_default() += 1;
        *counts.entry((format!("{dialect:?}"), "splits".to_owned())).or_default() += bytes.len() + 1;
    }
    print_table("every byte", &counts);
    at_least(&counts, SMALLEST, 40_000);
}

#[test]
fn random_splits_of_every_other_recorded_stream_give_the_same_events() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = BTreeMap::new();
    for exchange in streams().iter().skip(SMALLEST) {
        let dialect = exchange.dialect;
        let bytes = exchange.body.as_bytes();
        let whole = decode(dialect, &[bytes]);
        for _ in 0..CUTS / AT_ONCE {
            let mut cuts: Vec<usize> = (0..AT_ONCE).map(|_| random.usize(0..=bytes.len())).collect();
            cuts.sort_unstable();
            assert_eq!(decode(dialect, &pieces(bytes, &cuts)), whole, "{} at {cuts:?}", exchange.place());
        }
        *counts.entry((format!("{dialect:?}"), "streams".to_owned())).or_default() += 1;
        *counts.entry((format!("{dialect:?}"), "splits".to_owned())).or_default() += CUTS;
    }
    print_table("random", &counts);
    at_least(&counts, 700, 140_000);
}
