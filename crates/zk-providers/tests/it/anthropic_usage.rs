//! Cost of an answer that several responses had a part in.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::Usage;
use zk_core::service::Provider;
use zk_providers::{Anthropic, AnthropicOptions};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};

const ASKED: &str = "claude-sonnet-4-6";

fn counts(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output, "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0})
}

fn part(kind: &str, model: Option<&str>, input: u64, output: u64) -> Value {
    let mut part = counts(input, output);
    part["type"] = kind.into();
    if let Some(model) = model {
        part["model"] = model.into();
    }
    part
}

/// Usage and cost in dollars of an answer with these reports at its start and its end.
async fn usage_and_cost(start: &Value, end: &Value) -> (Usage, Option<f64>) {
    let start = json!({"type": "message_start", "message": {"model": ASKED, "usage": start}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end});
    let stop = json!({"type": "message_stop"});
    let server =
        Server::start([Reply::sse(format!("data: {start}\n\ndata: {end}\n\ndata: {stop}\n\n"))]).await;
    let connection = Anthropic::connection().base_url(&server.url).key("k-test");
    let claude = Anthropic::new(connection, AnthropicOptions::default()).expect("valid options");
    let request = question(&claude, ASKED);
    let model = request.model.clone();
    let answer = collect(claude.stream(request, &Bus::new().cx())).await.expect("an answer");
    (answer.usage, model.cost(&answer.usage))
}

/// Usage and cost of an answer whose parts are reported at the end of a stream.
async fn of(top: Value, parts: Vec<Value>) -> (Usage, Option<f64>) {
    let mut end = top;
    end["iterations"] = parts.into();
    usage_and_cost(&counts(5, 1), &end).await
}

fn near(cost: Option<f64>, expected: f64) -> bool {
    cost.is_some_and(|cost| (cost - expected).abs() < 1e-9)
}

#[tokio::test]
async fn a_compaction_is_paid_for_and_does_not_fill_the_window() {
    let parts = vec![part("compaction", None, 60_000, 500), part("message", None, 700, 1_000)];
    let (usage, cost) = of(counts(700, 1_000), parts).await;
    assert_eq!((usage.input, usage.output), (60_700, 1_500));
    assert_eq!((usage.context(), usage.unpriced), (700, 0));
    assert!(near(cost, (60_700.0 * 3.0 + 1_500.0 * 15.0) / 1e6), "{cost:?}");
}

#[tokio::test]
async fn an_advisor_is_paid_for_at_its_own_price() {
    let parts = vec![
        part("message", None, 1_000, 40),
        part("advisor_message", Some("claude-opus-4-7"), 2_000, 800),
        part("message", None, 1_300, 3_000),
    ];
    let (usage, cost) = of(counts(2_300, 3_040), parts).await;
    assert_eq!((usage.input, usage.output), (4_300, 3_840));
    assert_eq!((usage.context(), usage.unpriced), (1_300, 0), "the last message alone is in the window");
    let asked = 2_300.0 * 3.0 + 3_040.0 * 15.0;
    let advisor = 2_000.0 * 5.0 + 800.0 * 25.0;
    assert!(near(cost, (asked + advisor) / 1e6), "{cost:?}");
}

#[tokio::test]
async fn a_model_without_a_price_leaves_the_cost_open_and_is_counted_all_the_same() {
    let parts = vec![part("message", None, 1_000, 40), part("advisor_message", Some("oracle-1"), 2_000, 800)];
    let (usage, cost) = of(counts(1_000, 40), parts).await;
    assert_eq!((usage.input, usage.output, usage.unpriced), (3_000, 840, 2_800));
    assert_eq!(cost, None);
}

#[tokio::test]
async fn a_fallback_is_paid_for_at_its_own_price_and_what_was_refused_at_once_is_not() {
    let refused = part("message", Some(ASKED), 400, 0);
    let parts = vec![refused, part("fallback_message", Some("claude-opus-4-7"), 410, 260)];
    let (usage, cost) = of(counts(410, 260), parts).await;
    assert_eq!((usage.input, usage.output, usage.context()), (410, 260, 410));
    assert!(near(cost, (410.0 * 5.0 + 260.0 * 25.0) / 1e6), "{cost:?}");
    let cut = part("message", Some(ASKED), 400, 30);
    let parts = vec![cut, part("fallback_message", Some("claude-opus-4-7"), 410, 260)];
    let (usage, cost) = of(counts(410, 260), parts).await;
    assert_eq!((usage.input, usage.output, usage.context()), (810, 290, 410));
    let expected = 400.0 * 3.0 + 30.0 * 15.0 + 410.0 * 5.0 + 260.0 * 25.0;
    assert!(near(cost, expected / 1e6), "{cost:?}");
}

#[tokio::test]
async fn caches_are_counted_over_all_parts() {
    let mut compaction = part("compaction", None, 10, 20);
    compaction["cache_read_input_tokens"] = 50_000.into();
    let mut message = part("message", None, 30, 40);
    message["cache_creation_input_tokens"] = 1_000.into();
    message["cache_creation"] = json!({"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600});
    let (usage, cost) = of(counts(30, 40), vec![compaction, message]).await;
    let expected = Usage {
        input: 40,
        output: 60,
        cache_read: 50_000,
        cache_write: 1_000,
        cache_write_1h: 600,
        last_read: Some(1_030),
        billed: usage.billed,
        ..Usage::default()
    };
    assert_eq!(usage, expected);
    let dollars = 40.0 * 3.0 + 60.0 * 15.0 + 50_000.0 * 0.3 + 400.0 * 3.75 + 600.0 * 6.0;
    assert!(near(cost, dollars / 1e6), "{cost:?}");
}

#[tokio::test]
async fn an_answer_that_came_whole_is_counted_alike() {
    let mut start = counts(700, 1_000);
    start["iterations"] = json!([part("compaction", None, 60_000, 500), part("message", None, 700, 1_000)]);
    // Later counts add nothing, and remove nothing.
    let (usage, _) = usage_and_cost(&start, &json!({"output_tokens": 1_000, "input_tokens": null})).await;
    assert_eq!((usage.input, usage.output, usage.context()), (60_700, 1_500, 700));
}

#[tokio::test]
async fn an_answer_of_one_response_is_what_its_counts_say() {
    let one = vec![part("message", None, 700, 1_000)];
    let (usage, cost) = of(counts(700, 1_000), one).await;
    assert_eq!(usage, Usage { input: 700, output: 1_000, ..Usage::default() });
    assert!(near(cost, (700.0 * 3.0 + 1_000.0 * 15.0) / 1e6), "{cost:?}");
    let (none, _) = of(counts(700, 1_000), Vec::new()).await;
    assert_eq!(none, usage);
}
