//! Cost of a response.

use proptest::prelude::*;
use serde_json::json;
use zk_core::model::{Model, ModelRef, PriceTier, Prices, Rates, Stats, TurnUsage, Usage};

fn rates(factor: f64) -> Rates {
    Rates { input: 2.0 * factor, output: 10.0 * factor, cache_read: 0.2 * factor, cache_write: 2.5 * factor }
}

fn tiered() -> Prices {
    let tier = |above, factor| PriceTier { above, rates: rates(factor) };
    Prices { rates: rates(1.0), tiers: vec![tier(400_000, 3.0), tier(100_000, 2.0)] }
}

fn usage() -> impl Strategy<Value = Usage> {
    let count = || 0..400_000_u64;
    (count(), count(), count(), count(), count()).prop_map(|(input, output, cache_read, write, hour)| Usage {
        input,
        output,
        cache_read,
        cache_write: write,
        cache_write_1h: hour.min(write),
        reasoning: output / 2,
        ..Usage::default()
    })
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-8 * a.abs().max(1.0)
}

#[test]
fn a_tier_prices_the_whole_request_from_the_first_token_above_it() {
    let prices = tiered();
    for (context, factor) in [(1, 1.0), (100_000, 1.0), (100_001, 2.0), (400_000, 2.0), (400_001, 3.0)] {
        let usage = Usage { cache_read: context - 1, input: 1, output: 50, ..Usage::default() };
        let expected = Prices::from(rates(factor)).cost(&usage);
        assert!(near(prices.cost(&usage), expected), "{context}");
    }
}

#[test]
fn an_hour_in_the_cache_costs_twice_the_input_to_write() {
    let usage = Usage { cache_write: 1_000_000, cache_write_1h: 400_000, ..Usage::default() };
    assert!(near(Prices::from(rates(1.0)).cost(&usage), 0.6 * 2.5 + 0.4 * 4.0));
}

#[test]
fn older_prices_and_usage_are_read_and_empty_new_fields_left_out() {
    let old = json!({"input": 1.0, "output": 2.0, "cache_read": 0.5, "cache_write": 3.0});
    let prices: Prices = serde_json::from_value(old.clone()).unwrap();
    assert_eq!((prices.rates.output, prices.tiers.len()), (2.0, 0));
    assert_eq!(serde_json::to_value(prices).unwrap(), old);
    let old = json!({"input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 1});
    let usage: Usage = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(serde_json::to_value(usage).unwrap(), old);
}

#[test]
fn a_priced_model_survives_being_written_and_read() {
    let model = Model { prices: Some(tiered()), ..Model::unknown("p", "m") };
    let text = serde_json::to_string(&model).unwrap();
    assert_eq!(serde_json::from_str::<Model>(&text).unwrap(), model);
}

#[test]
fn no_sum_of_costs_shows_the_noise_of_binary_fractions() {
    let prices = Prices::from(Rates { input: 0.1, output: 0.7, ..Rates::default() });
    let usage = Usage { input: 3_000_000, output: 1_000_000, ..Usage::default() };
    let cost = Some(prices.cost(&usage));
    assert_eq!(serde_json::to_string(&cost).unwrap(), "1.0");
    let turn = |cost| TurnUsage { turn_id: "t".into(), model: ModelRef::new("p", "m"), usage, cost };
    let (mut stats, mut child) = (Stats::default(), Stats::default());
    for cost in [0.1, 0.2, 0.7] {
        stats.add_turn(turn(Some(cost)));
        child.add_turn(turn(Some(cost)));
    }
    child.add_turn(turn(None));
    stats.add_child(child);
    assert_eq!((stats.cost, stats.turns), (Some(2.0), 3));
    assert_eq!(stats.usage.input, 7 * usage.input);
    let of_model = stats.by_model().remove(&ModelRef::new("p", "m")).unwrap();
    assert_eq!((of_model.cost, of_model.turns), (Some(2.0), 7));
}

#[test]
fn a_cost_is_unknown_where_no_turn_has_a_price() {
    let turn = |cost| TurnUsage {
        turn_id: "t".into(),
        model: ModelRef::new("p", "m"),
        usage: Usage::default(),
        cost,
    };
    let mut stats = Stats::default();
    assert_eq!(stats.known_cost(), Some(0.0), "nothing was asked for");
    stats.add_turn(turn(None));
    assert_eq!((stats.known_cost(), stats.cost), (None, None));
    assert_eq!(serde_json::to_value(&stats).unwrap()["cost"], serde_json::Value::Null);
    let mut child = Stats::default();
    child.add_turn(turn(Some(0.5)));
    stats.add_child(child);
    assert_eq!((stats.known_cost(), stats.cost), (Some(0.5), Some(0.5)), "the least that all cost");
    let models = stats.by_model();
    assert_eq!(models.values().next().map(|model| model.cost), Some(Some(0.5)));
}

proptest! {
    #[test]
    fn a_cost_is_never_negative_and_never_less_for_more_tokens(usage in usage(), more in usage()) {
        let prices = tiered();
        let mut sum = usage;
        sum += more;
        prop_assert!(prices.cost(&usage) >= 0.0);
        prop_assert!(prices.cost(&sum) >= prices.cost(&usage));
    }

    #[test]
    fn without_tiers_the_cost_of_a_run_is_the_sum_of_its_turns(turns in prop::collection::vec(usage(), 0..6)) {
        let prices = Prices::from(rates(1.0));
        let mut total = Usage::default();
        turns.iter().for_each(|turn| total += *turn);
        let summed: f64 = turns.iter().map(|turn| prices.cost(turn)).sum();
        prop_assert!(near(prices.cost(&total), summed));
    }

    #[test]
    fn every_kind_of_token_is_charged_at_its_own_rate(usage in usage()) {
        let rates = rates(1.0);
        let short = usage.cache_write - usage.cache_write_1h;
        let millionths = usage.input as f64 * rates.input
            + usage.output as f64 * rates.output
            + usage.cache_read as f64 * rates.cache_read
            + short as f64 * rates.cache_write
            + usage.cache_write_1h as f64 * 2.0 * rates.input;
        prop_assert!(near(Prices::from(rates).cost(&usage), millionths / 1e6));
    }
}

#[test]
fn a_cost_stated_by_the_provider_outranks_the_prices() {
    let model = Model { prices: Some(tiered()), ..Model::unknown("p", "m") };
    let usage = Usage { input: 1_000_000, billed: Some(12_345_678), ..Usage::default() };
    assert_eq!(model.cost(&usage), Some(0.012_345_678));
    assert_eq!(Model::unknown("p", "m").cost(&usage), Some(0.012_345_678));
    assert_eq!(model.cost(&Usage { billed: Some(0), ..usage }), Some(0.0), "it may be free");
    let mut sum = Usage { billed: None, ..usage };
    sum += usage;
    assert_eq!(sum.billed, usage.billed);
}

#[test]
fn unpriced_tokens_of_another_model_make_the_cost_unknown() {
    let model = Model { prices: Some(tiered()), ..Model::unknown("p", "m") };
    let usage = Usage { input: 100, unpriced: 40, ..Usage::default() };
    assert_eq!(model.cost(&usage), None);
    assert_eq!(model.cost(&Usage { billed: Some(7), ..usage }), Some(7e-9), "unless somebody says it");
    let mut sum = usage;
    sum += usage;
    assert_eq!(sum.unpriced, 80);
}

#[test]
fn the_last_response_fills_the_window_and_all_responses_cost() {
    let usage = Usage { input: 60_000, cache_read: 20, cache_write: 3, ..Usage::default() };
    assert_eq!((usage.read(), usage.context()), (60_023, 60_023));
    let compacted = Usage { last_read: Some(700), ..usage };
    assert_eq!((compacted.read(), compacted.context()), (60_023, 700));
    let mut sum = compacted;
    sum += usage;
    assert_eq!((sum.read(), sum.last_read), (120_046, None));
    assert!(near(tiered().cost(&compacted), tiered().cost(&usage)));
}
