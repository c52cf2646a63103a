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

/// Size of a giant chunk, in bytes.
const GIANT: usize = 8 << 10;

/// Reads these bytes, followed by the end, with the adapter.
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

/// Fault in the end of a broken stream, if any.
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

type Counts = BTreeMap<(String, String), usize>;

fn broken(samples: &[Sample]) -> (Counts, Vec<String>) {
    let (mut counts, mut wrong) = (Counts::new(), Vec::new());
    for sample in samples {
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
        for at in sample.more_boundaries() {
            in_bytes(sample, at, GIANT).iter().for_each(|broken| run(at, broken));
        }
        *counts.entry(("streams".to_owned(), format!("{dialect:?}"))).or_default() += 1;
    }
    (counts, wrong)
}

/// Breaks every recorded stream of a dialect, at least this number.
fn check(dialect: Dialect, streams: usize) {
    let samples = recorded(dialect);
    if samples.is_empty() {
        return;
    }
    let (counts, wrong) = broken(&samples);
    print_table("fault", &counts);
    assert!(samples.len() >= streams, "the fixtures are smaller than they were: {}", samples.len());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_recorded_stream_of_anthropic_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    check(Dialect::Anthropic, 350);
}

#[test]
fn every_recorded_chat_stream_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    check(Dialect::Chat, 900);
}

#[test]
fn every_recorded_stream_of_responses_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    check(Dialect::Responses, 300);
}

#[test]
fn every_recorded_stream_of_gemini_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    check(Dialect::Gemini, 250);
}

#[test]
fn every_recorded_stream_of_ollama_with_every_fault_of_its_bytes_ends_in_a_declared_state() {
    check(Dialect::Ollama, 20);
}
