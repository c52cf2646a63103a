use zk_core::model::{ThinkingSupport, Usage};

use super::{ROWS, did_you_mean, find, near_matches};

#[test]
fn every_line_of_the_table_is_a_model() {
    let lines = include_str!("models.tsv").lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(ROWS.len(), lines);
    for row in ROWS.iter() {
        assert!(row.window.is_some_and(|window| window >= 8192), "{}", row.id);
        assert!(row.prices.input <= row.prices.output, "{}", row.id);
    }
}

#[test]
fn a_model_is_found_with_and_without_its_date() {
    for id in ["claude-opus-4-6", "claude-opus-4-6-20260205"] {
        let model = find(Some("anthropic"), id).unwrap().model("anthropic", id);
        assert_eq!((model.window, model.max_output), (Some(1_000_000), Some(128_000)));
        assert_eq!(model.capabilities.thinking, ThinkingSupport::Adaptive);
    }
    assert!(find(Some("openai"), "gpt-5-2025-08-07").is_some());
    assert!(find(Some("openai"), "claude-opus-4-6").is_none());
    assert!(find(None, "claude-opus-4-6").is_some());
    assert!(find(None, "zk-tiny").is_none());
}

#[test]
fn prices_are_for_a_million_tokens() {
    let model = find(Some("anthropic"), "claude-opus-5").unwrap().model("anthropic", "claude-opus-5");
    let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 1_000_000, ..Usage::default() };
    assert!((model.cost(&usage).unwrap() - 8.0).abs() < 1e-9);
}

#[test]
fn a_typing_error_finds_its_neighbours() {
    assert_eq!(near_matches("openai", "gpt5.1").first(), Some(&"gpt-5.1"));
    assert!(near_matches("openai", "my-own-model").is_empty());
    assert_eq!(did_you_mean("openai", "gtp-4o").unwrap().matches('`').count() % 2, 0);
}
