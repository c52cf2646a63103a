//! The faults that are a matter of bytes, at the event boundaries of every recorded stream, without sockets.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::{FutureExt, stream};
use zk_core::service::StreamEvent;

use super::faults::{Broken, Expect, in_bytes, uncounted};
use super::streams::{Sample, recorded};
use super::{Outcome, ended};
use crate::collect::{Answer, collect};
use crate::recordings::{Dialect, print_table};

/// How much is in a giant chunk.
const GIANT: usize = 8 << 10;

/// What the adapter makes of these bytes and the end behind them.
async fn read(dialect: Dialect, body: &[u8]) -> Outcome {
    let mut replay = dialect.replay();
    replay.feed(body);
    replay.finish();
    let mut events = Vec::new();
    loop {
        match replay.next() {
            Ok(Some(event)) => {
                let is_last = matches!(event, StreamEvent::Done { .. });
                events.push(Ok(event));
                if is_last {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                events.push(Err(error));
                break;
            }
        }
    }
    collect(Box::pin(stream::iter(events))).await
}

/// What is wrong with how a broken stream ended, if anything.
fn judge(dialect: Dialect, broken: &Broken, whole: &Answer) -> Result<(), String> {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let outcome = read(dialect, &broken.body).now_or_never().expect("nothing is waited for");
        ended(dialect, &broken.expect, whole, outcome)
    }));
    match judged.map_err(|_| "an illegal stream of events".to_owned())?? {
        Some(error) if error.message.is_empty() || error.message.contains('\n') => {
            Err(format!("without a message of its own: {error:?}"))
        }
        _ => Ok(()),
    }
}

/// The streams of so few events have every fault everywhere.
const FEW: usize = 4;

/// Whether a fault is there at a boundary, counting on from stream to stream: a cut always, the others in turn, and
/// what costs most seldom. That keeps the test within seconds.
fn is_in_turn(fault: &str, turn: usize) -> bool {
    match (fault, turn % 6) {
        ("malformed event", at) => at == 0,
        ("overloaded in the stream", at) => at == 1,
        ("rate limit in the stream", at) => at == 2,
        ("cut in an event", at) => at == 3,
        ("giant chunk", at) => at == 4 && turn.is_multiple_of(4),
        _ => true,
    }
}

type Counts = BTreeMap<(String, String), usize>;

fn broken(samples: &[Sample]) -> (Counts, Vec<String>) {
    let (mut counts, mut wrong) = (Counts::new(), Vec::new());
    for (rank, sample) in samples.iter().enumerate() {
        let dialect = sample.dialect;
        let whole = read(dialect, sample.body().as_bytes())
            .now_or_never()
            .expect("nothing is waited for")
            .unwrap_or_else(|(error, _)| panic!("{}: {error}", sample.place));
        let mut run = |at: usize, broken: &Broken| {
            *counts.entry((broken.fault.to_owned(), format!("{dialect:?}"))).or_default() += 1;
            if matches!(broken.expect, Expect::PartOr(_)) {
                *counts.entry(("between two ends".to_owned(), format!("{dialect:?}"))).or_default() += 1;
            }
            if let Err(why) = judge(dialect, broken, &whole) {
                wrong.push(format!("{}, behind event {at} of {}: {why}", broken.fault, sample.place));
            }
        };
        run(0, &uncounted(sample));
        for (turn, at) in (rank..).zip(sample.more_boundaries()) {
            let all = in_bytes(sample, at, GIANT);
            all.iter()
                .filter(|broken| sample.events.len() <= FEW || is_in_turn(broken.fault, turn))
                .for_each(|broken| run(at, broken));
        }
        *counts.entry(("streams".to_owned(), format!("{dialect:?}"))).or_default() += 1;
    }
    (counts, wrong)
}

#[test]
fn every_recorded_stream_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    let samples = recorded();
    if samples.is_empty() {
        return;
    }
    let (counts, wrong) = broken(&samples);
    print_table("fault", &counts);
    let total: usize = counts.iter().filter(|((row, _), _)| row == "streams").map(|(_, count)| count).sum();
    assert!(total > 1500, "the fixtures are smaller than they were");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
