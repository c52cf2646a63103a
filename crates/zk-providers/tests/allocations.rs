//! Number of allocations while an answer is read.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

#[path = "../benches/streams/mod.rs"]
mod streams;

use allocation_counter::measure;
use futures_util::StreamExt;
use streams::{DIALECTS, Dialect, read};
use zk_core::kernel::Bus;
use zk_core::model::{Message, WireReady};
use zk_core::service::{Provider, Request};
use zk_providers::{Anthropic, AnthropicOptions, Connection};
use zk_testkit::{FakeServer, Script};

/// Additional allocations for buffers that grow with the answer.
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

/// The allocations of an answer of `deltas` pieces that a server on another thread sends.
fn allocations_over_a_socket(deltas: usize) -> u64 {
    let server = FakeServer::builder(Script::new()).lenient().bulk(deltas, "some words ").start().unwrap();
    let connection = Connection::at(server.url()).key("k-test");
    let provider = Anthropic::new(connection, AnthropicOptions::default()).unwrap();
    let model = provider.model("m");
    let history = WireReady::normalise(&[Message::user_text("hi").shared()], &provider.rules(&model));
    let request = Request::new(model, history);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let count = measure(|| {
        let cx = Bus::new().cx();
        let events = provider.stream(request, &cx).take_while(|event| std::future::ready(event.is_ok()));
        assert!(runtime.block_on(events.count()) > deltas, "every delta is an event");
    });
    count.count_total
}

#[test]
fn a_piece_of_text_costs_no_allocation_but_its_own_and_what_a_socket_takes() {
    const MORE: u64 = 10_000;
    let (few, many) = (allocations_over_a_socket(1_000), allocations_over_a_socket(11_000));
    let each = many.saturating_sub(few);
    // One read from the socket holds many pieces, in one run more than in the other.
    assert!(each.abs_diff(MORE) < MORE / 10, "{each} for {MORE} more pieces");
}
