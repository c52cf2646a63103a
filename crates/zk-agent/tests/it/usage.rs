//! Counts of a run.

use serde_json::json;
use zk_core::model::{ErrorKind, Model, PriceTier, Prices, Rates, Usage};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{rig, rig_on};

fn spent(input: u64, output: u64) -> Usage {
    Usage { input, output, cache_read: 1, cache_write: 2, reasoning: 3, ..Usage::default() }
}

#[tokio::test]
async fn tokens_and_cost_add_up_turn_by_turn() {
    let prices = Rates { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 2.0 };
    let model = Model { prices: Some(prices.into()), ..Model::unknown("scripted", "priced") };
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "x"})).usage(spent(1_000_000, 100_000)))
        .turn(|t| t.text("ok").usage(spent(2_000_000, 0)));
    let rig = rig_on(ScriptedProvider::new(script).with_model(model), |b| b);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    let stats = outcome.stats;
    assert_eq!((stats.usage.input, stats.usage.output, stats.usage.cache_read), (3_000_000, 100_000, 2));
    assert!(stats.cost.is_some_and(|cost| (cost - 4.0).abs() < 0.001), "{:?}", stats.cost);
    assert_eq!(stats.turn_usage.len(), 2);
    assert_eq!(stats.turn_usage[1].usage, spent(2_000_000, 0));
    let updates = rig.recorder.named("usage");
    assert_eq!(updates[0]["total"]["input"], 1_000_000);
    assert_eq!(updates[1]["total"]["input"], 3_000_000);
    assert_eq!(updates[1]["turn"]["usage"]["input"], 2_000_000);
    assert!(updates[1]["cost"].as_f64().unwrap() > updates[0]["cost"].as_f64().unwrap());
}

#[tokio::test]
async fn a_model_without_prices_costs_nothing_known() {
    let rig = rig(Script::new().turn(|t| t.text("ok").usage(spent(5, 5))));
    let outcome = rig.run("go").await;
    assert_eq!((outcome.stats.cost, outcome.stats.turn_usage[0].cost), (None, None));
    assert!(rig.recorder.named("usage")[0]["cost"].is_null());
}

#[tokio::test]
async fn every_run_counts_from_zero() {
    let rig =
        rig(Script::new().turn(|t| t.text("a").usage(spent(5, 5))).turn(|t| t.text("b").usage(spent(7, 7))));
    rig.run("go").await.result.unwrap();
    let second = rig.run("go").await.stats;
    assert_eq!((second.usage.input, second.turns), (7, 1));
}

#[tokio::test]
async fn the_first_token_is_the_first_of_text_thinking_or_a_call() {
    let rig = rig(Script::new()
        .turn(|t| t.thinking("Hm.").text("ok"))
        .turn(|t| t.call("echo", json!({"text": "x"})))
        .turn(|t| t.text("ok"))
        .turn(|t| t));
    for expected in [true, true, false] {
        let stats = rig.run("go").await.stats;
        assert_eq!(stats.first_token_ms.is_some(), expected);
        assert!(stats.first_token_ms.unwrap_or(0) <= stats.duration_ms);
    }
}

// An attempt that broke off before anything of its answer may have been billed: its input was read.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_sent_again_counts_in_the_usage_and_the_cost_of_its_turn() {
    let rates = Rates { input: 1.0, output: 10.0, cache_read: 0.0, cache_write: 0.0 };
    let dear = PriceTier { above: 1_500_000, rates: Rates { input: 100.0, ..rates } };
    let prices = Prices { tiers: vec![dear], ..rates.into() };
    let model = Model { prices: Some(prices), ..Model::unknown("scripted", "priced") };
    let read = |input| Usage { input, ..Usage::default() };
    let script = Script::new()
        .turn(move |t| t.usage(read(1_000_000)).error(ErrorKind::Overloaded, "come back later"))
        .turn(|t| t.error(ErrorKind::Overloaded, "come back later"))
        .turn(move |t| t.text("ok").usage(read(1_200_000)));
    let rig = rig_on(ScriptedProvider::new(script).with_model(model), |b| b);
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    let turn = &outcome.stats.turn_usage[0];
    assert_eq!((turn.usage.input, turn.usage.context()), (2_200_000, 1_200_000));
    assert_eq!((turn.cost, outcome.stats.cost), (Some(2.2), Some(2.2)), "each at the price of its own size");
    assert_eq!(rig.recorder.named("turn:after")[0]["usage"]["input"], 2_200_000);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_all_fail_are_counted_all_the_same() {
    let failed = |t: zk_testkit::Turn| t.usage(spent(10, 0)).error(ErrorKind::Overloaded, "come back later");
    let script = Script::new().turn(failed).turn(failed);
    let policy = zk_agent::RetryPolicy { retries: 1, ..zk_agent::RetryPolicy::default() };
    let rig = rig_on(ScriptedProvider::new(script), |b| b.retry(policy));
    let outcome = rig.run("go").await;
    outcome.result.unwrap_err();
    assert_eq!(outcome.stats.usage.input, 20);
}
