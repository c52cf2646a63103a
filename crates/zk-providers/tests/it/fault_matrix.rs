//! Everything the fake server can break, in every dialect, through the real adapters.

use std::time::Duration;

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, StopReason, Usage};
use zk_providers::{Clocks, Connection};
use zk_testkit::{Fault, RetryAfter, Script};

use crate::collect::{collect, question};
use crate::switching::station::{STATIONS, Station};

const SAID: &str = "Grüße aus 東京 🦀";
const HUGE: usize = 1 << 20;
const USAGE: Usage = Usage {
    input: 12,
    output: 5,
    cache_read: 0,
    cache_write: 0,
    cache_write_1h: 0,
    reasoning: 0,
    billed: None,
    unpriced: 0,
    last_read: None,
};

fn faults() -> Vec<Fault> {
    let soon = RetryAfter::Millis(1500.0);
    let cuts = (0..4).flat_map(|count| [Fault::CutAfterEvents(count), Fault::ResetAfterEvents(count)]);
    let others = [
        Fault::CutAfterBytes(0),
        Fault::CutAfterBytes(40),
        Fault::HalfOpenAfterEvents(0),
        Fault::HalfOpenAfterEvents(2),
        Fault::Drip(Duration::ZERO),
        Fault::PingOnly(Duration::from_millis(40)),
        Fault::RateLimited(soon),
        Fault::RateLimited(RetryAfter::Seconds(7)),
        Fault::RateLimited(RetryAfter::No),
        Fault::Unavailable(soon),
        Fault::Overloaded(RetryAfter::Date(Duration::from_secs(60))),
        Fault::ServerError,
        Fault::ErrorBody200,
        Fault::ErrorEventAfter(0),
        Fault::ErrorEventAfter(2),
        Fault::MalformedEvent(1),
        Fault::MalformedChunk(1),
        Fault::SplitUtf8,
        Fault::DuplicateFinish,
        Fault::MissingUsage,
        Fault::GiantDelta(HUGE),
        Fault::NoTerminal,
        Fault::Html(200),
        Fault::Html(404),
        Fault::Html(502),
        Fault::NeverAnswers,
        Fault::Empty200,
    ];
    cuts.chain(others).collect()
}

/// Required outcome of an answer with this fault.
enum Outcome {
    /// The whole answer, so long, with these tokens.
    Whole(usize, Usage),
    /// Error of one of these kinds, with its retry time.
    Failed(&'static [ErrorKind], Option<Duration>),
}

fn outcome(fault: &Fault) -> Outcome {
    let wait = |after: RetryAfter| match after {
        RetryAfter::Seconds(seconds) => Some(Duration::from_secs(seconds)),
        RetryAfter::Millis(millis) => Some(Duration::from_secs_f64(millis / 1000.0)),
        // Not to the second.
        RetryAfter::No | RetryAfter::Fraction(_) | RetryAfter::Date(_) => None,
    };
    let failed = |kinds| Outcome::Failed(kinds, None);
    match fault {
        Fault::Drip(_) | Fault::SplitUtf8 | Fault::DuplicateFinish => Outcome::Whole(SAID.len(), USAGE),
        Fault::MissingUsage => Outcome::Whole(SAID.len(), Usage::default()),
        Fault::GiantDelta(bytes) => Outcome::Whole(*bytes, Usage::default()),
        Fault::CutAfterEvents(_)
        | Fault::CutAfterBytes(_)
        | Fault::ResetAfterEvents(_)
        | Fault::MalformedChunk(_) => failed(&[ErrorKind::Transport]),
        Fault::HalfOpenAfterEvents(_) | Fault::PingOnly(_) | Fault::NeverAnswers => {
            failed(&[ErrorKind::Stalled])
        }
        Fault::RateLimited(after) => Outcome::Failed(&[ErrorKind::Rate], wait(*after)),
        Fault::Unavailable(after) | Fault::Overloaded(after) => {
            Outcome::Failed(&[ErrorKind::Overloaded], wait(*after))
        }
        Fault::ServerError | Fault::ErrorEventAfter(_) | Fault::Html(502) => failed(&[ErrorKind::Overloaded]),
        // Codex sends `detail`, which is not named an error.
        Fault::ErrorBody200 => failed(&[ErrorKind::Overloaded, ErrorKind::Malformed]),
        Fault::MalformedEvent(_) | Fault::NoTerminal | Fault::Empty200 | Fault::Html(200) => {
            failed(&[ErrorKind::Malformed])
        }
        Fault::Html(_) => failed(&[ErrorKind::Rejected]),
    }
}

/// Short ones only for waits that must expire, so that a busy machine does not fail.
fn clocks(fault: &Fault) -> Clocks {
    match outcome(fault) {
        Outcome::Failed(&[ErrorKind::Stalled], _) => Clocks {
            first_event: Duration::from_millis(1500),
            liveness: Duration::from_millis(700),
            progress: Duration::from_millis(1000),
            ending: Duration::from_millis(100),
        },
        Outcome::Whole(..) | Outcome::Failed(..) => Clocks::remote(),
    }
}

/// Checks the adapter's reaction to the fault, and to a repeated request.
async fn meet(station: &Station, fault: Fault) {
    let place = format!("{} meets {fault:?}", station.name);
    let script = Script::answering(|_| zk_testkit::Turn::new().text(SAID).usage(USAGE));
    let server = station.server(script);
    server.fault_on(1, fault.clone());
    let connection = station.connection(&server).key("sk-secret-key");
    let connection = Connection { clocks: Some(clocks(&fault)), ..connection };
    let provider = (station.make)(connection);
    let ask = || {
        let answer = collect(provider.stream(question(&*provider, station.models[0]), &Bus::new().cx()));
        tokio::time::timeout(Duration::from_secs(60), answer)
    };
    let met = ask().await.expect("every answer ends");
    match (outcome(&fault), met) {
        (Outcome::Whole(length, usage), Ok(answer)) => {
            assert_eq!((answer.text.len(), answer.usage), (length, usage), "{place}");
            assert_eq!(answer.stop, Some(StopReason::EndTurn), "{place}");
            assert!(length != SAID.len() || answer.text == SAID, "{place}: {}", answer.text);
        }
        (Outcome::Failed(kinds, wait), Err((error, answer))) => {
            assert!(kinds.contains(&error.kind), "{place}: {error:?}");
            assert!(wait.is_none() || error.retry_after == wait, "{place}: {error:?}");
            assert!(!error.to_string().contains("sk-secret-key"), "{place}: {error}");
            assert!(!error.message.is_empty() && answer.stop.is_none(), "{place}");
        }
        (_, met) => panic!("{place}: {met:?}"),
    }
    let again = ask().await.expect("every answer ends");
    let again = again.unwrap_or_else(|(error, _)| panic!("{place}, and then {error:?}"));
    assert_eq!(again.text, SAID, "{place}: the connection is as good as new");
    assert_eq!(server.violations(), Vec::new(), "{place}");
}

#[tokio::test]
async fn every_fault_ends_in_every_dialect_as_it_is_declared() {
    let all = STATIONS.iter().flat_map(|station| faults().into_iter().map(move |fault| (station, fault)));
    let met = futures_util::stream::iter(all).map(|(station, fault)| meet(station, fault));
    let count = met.buffer_unordered(24).count().await;
    assert_eq!(count, STATIONS.len() * faults().len());
    println!("{count} faults met: {} in each of {} providers", faults().len(), STATIONS.len());
}
