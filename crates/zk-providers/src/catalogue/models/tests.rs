use std::time::{Duration, UNIX_EPOCH};

use zk_core::model::{Prices, ThinkingLevel, ThinkingSupport, Usage};

use super::table::{TABLE, line};
use crate::catalogue::vendors::Vendor;

use super::{PROVIDERS, Row, did_you_mean, find, known_models, known_shutdown, near_matches, resolve_model};

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        (cells.next().unwrap(), cells.next().unwrap(), line)
    })
}

#[test]
fn every_line_of_the_table_is_a_model_and_is_found() {
    assert!(rows().count() > 700);
    for (provider, id, text) in rows() {
        assert_eq!(line(provider, id), Some(text));
        let model = Row::read(text).unwrap().model(provider, id);
        assert!(model.window.is_some_and(|window| window >= 4095), "{text}");
        assert!(model.max_output.is_some(), "{text}");
        let rates = model.prices.unwrap().rates;
        assert!(rates.input <= rates.output, "{text}");
    }
}

#[test]
fn every_level_of_effort_in_the_table_is_read() {
    let mut count = 0;
    for (_, id, text) in rows() {
        let cell = text.split('\t').nth(11).unwrap();
        let named: Vec<&str> = cell.split(',').filter(|level| *level != "-").collect();
        let efforts = Row::read(text).unwrap().efforts();
        assert_eq!(efforts.levels().count(), named.len(), "{id}: {cell}");
        for ((level, word), written) in efforts.levels().zip(named) {
            let usual = if level == "off" { "none" } else { level };
            let (name, said) = written.split_once('=').unwrap_or((written, usual));
            assert_eq!((level, word), (name, said), "{id}: {cell}");
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn the_day_a_model_is_shut_down_is_known_with_and_without_its_date_and_other_days_are_not() {
    let day = |provider: &str, id: &str| known_shutdown(provider, id).map(|end| end.to_string());
    for (provider, id) in [("openai", "o3"), ("openai_chat", "o3"), ("openai", "o3-2025-04-16")] {
        assert_eq!(day(provider, id).as_deref(), Some("2026-12-11"), "{provider}/{id}");
    }
    for (provider, id) in [("openai", "o3-pro"), ("openrouter", "openai/o3"), ("openai_codex", "o3")] {
        assert_eq!(day(provider, id), None, "{provider}/{id}");
    }
}

#[test]
fn a_model_that_was_shut_down_is_named_so_and_is_no_suggestion() {
    let later = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let advice = |id, now| did_you_mean("openai", id, now).unwrap();
    assert_eq!(
        advice("gpt-4-turbo-2024-04-09", later),
        "It was shut down on 2026-10-23: choose another model"
    );
    assert!(!advice("gpt-4-turbo", UNIX_EPOCH).contains("shut down"));
    assert!(advice("gpt-4.1-nan", UNIX_EPOCH).contains("`gpt-4.1-nano`"));
    assert!(!advice("gpt-4.1-nan", later).contains("`gpt-4.1-nano`"));
}

#[test]
fn what_is_not_in_the_table_is_not_found() {
    for (provider, id) in [("", ""), ("anthropic", ""), ("zzz", "a"), ("#", "x"), ("openai", "gpt-5.0")] {
        assert_eq!(line(provider, id), None, "{provider}/{id}");
        assert!(find(Some(provider), id).is_none());
    }
    for (provider, id, _) in rows() {
        assert_eq!(line(provider, &format!("{id}\u{1}")), None);
        assert_eq!(line(provider, id.get(..id.len() - 1).unwrap()).map(|line| line.contains(id)), {
            let shorter = id.get(..id.len() - 1).unwrap();
            rows().find(|row| (row.0, row.1) == (provider, shorter)).map(|row| row.2.contains(id))
        });
    }
}

#[test]
fn the_providers_of_the_table_are_those_that_are_searched() {
    let mut named: Vec<&str> = rows().map(|(provider, ..)| provider).collect();
    named.dedup();
    let mut searched = PROVIDERS.clone();
    searched.sort_unstable();
    assert_eq!(named, searched);
    assert_eq!(PROVIDERS.iter().map(|name| known_models(name).count()).sum::<usize>(), rows().count());
}

#[test]
fn every_profile_looks_models_up_at_a_provider_of_the_table() {
    for profile in crate::catalogue::profiles::PROFILES {
        let catalogue = profile.catalogue.as_deref();
        assert!(catalogue.is_none_or(|name| PROVIDERS.contains(&name)), "{}", profile.name);
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
fn a_variant_of_a_model_is_that_model_and_a_free_one_costs_nothing() {
    let id = "anthropic/claude-sonnet-4.6";
    let of = |id: &str| find(Some("openrouter"), id).map(|row| row.model("openrouter", "m"));
    let known = of(id).unwrap();
    for variant in ["nitro", "floor", "thinking", "online"] {
        assert_eq!(of(&format!("{id}:{variant}")), Some(known.clone()), "{variant}");
    }
    let free = of(&format!("{id}:free")).unwrap();
    assert_eq!((free.window, free.prices), (known.window, Some(Prices::default())));
    assert_ne!(
        of("anthropic/claude-opus-5:batch").unwrap().prices,
        of("anthropic/claude-opus-5").unwrap().prices
    );
    assert_eq!(of(&format!("{id}:4b")), None, "what it means is not known");
}

#[test]
fn without_a_provider_a_model_has_the_facts_of_its_maker() {
    let made = find(Some("openai"), "gpt-5.6-luna").unwrap().model("p", "m");
    let codex = find(Some("openai_codex"), "gpt-5.6-luna").unwrap();
    assert_eq!(find(None, "gpt-5.6-luna").unwrap().model("p", "m"), made);
    assert_eq!(codex.efforts().value(ThinkingLevel::Minimal), Some("low"));
}

#[test]
fn prices_are_for_a_million_tokens_and_change_above_a_tier() {
    let cost =
        |id: &str, usage: &Usage| find(Some("openai"), id).unwrap().model("openai", id).cost(usage).unwrap();
    let usage = Usage { input: 172_000, output: 10_000, cache_read: 100_000, ..Usage::default() };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(cost("gpt-5.6-sol", &usage), 0.688 + 0.2 + 0.04));
    let longer = Usage { input: 172_001, ..usage };
    assert!(near(cost("gpt-5.6-sol", &longer), 172_001.0 * 8.0 / 1e6 + 0.3 + 0.08));
}

#[test]
fn what_the_dialect_knows_of_a_model_is_known_without_a_provider() {
    let images = |provider: &str, id: &str| {
        super::known_model(provider, id).expect("it is in the table").capabilities.image_in_tool_result
    };
    assert!(images("anthropic", "claude-opus-5") && images("openai", "gpt-5.1"));
    assert!(images("openai_codex", "gpt-5.6-luna") && images("gemini", "gemini-3.8-flash"));
    assert!(!images("gemini", "gemini-2.5-flash") && !images("openai_chat", "gpt-5.1"));
    assert_eq!(super::known_model("openai_chat", "gpt-5.1").unwrap().provider, "openai_chat");
    assert_eq!(known_models("openai_chat").count(), known_models("openai").count());
    for provider in PROVIDERS.iter() {
        let id = known_models(provider).next().unwrap();
        assert!(Vendor::named(provider).unwrap().describe_known(id).is_some(), "{provider} has no dialect");
    }
}

#[test]
fn a_misspelt_id_finds_similar_ids() {
    assert_eq!(near_matches("openai", "gpt5.1").first(), Some(&"gpt-5.1"));
    assert_eq!(near_matches("minimax", "minimax-m3").first(), Some(&"MiniMax-M3"));
    assert!(near_matches("openai", "my-own-model").is_empty());
    assert_eq!(did_you_mean("openai", "gtp-4o", UNIX_EPOCH).unwrap().matches('`').count() % 2, 0);
}

#[test]
fn every_name_that_a_list_prints_is_accepted_with_its_provider_chosen_and_without() {
    for provider in PROVIDERS.iter() {
        for id in known_models(provider) {
            let printed = format!("{provider}/{id}");
            for chosen in [Some(*provider), None, Some("lab")] {
                let model = resolve_model(&printed, chosen, &["lab"]);
                if chosen == Some("lab") {
                    // A custom server may use any names for its models.
                    assert_eq!((model.provider.as_deref(), &*model.id), (chosen, &*printed));
                    continue;
                }
                // `openrouter/auto` is an id there itself, and `auto` another name of it.
                let is_id = chosen.is_some() && known_models(provider).any(|known| known == printed);
                let id = if is_id { &*printed } else { id };
                let found = (model.provider.as_deref(), &*model.id, model.is_known);
                assert_eq!(found, (Some(*provider), id, true), "{chosen:?}");
            }
            let bare = resolve_model(id, Some(provider), &[]);
            assert_eq!((bare.provider.as_deref(), &*bare.id), (Some(*provider), id));
        }
    }
    let own = resolve_model("lab/x/y", None, &["lab"]);
    assert_eq!((own.provider.as_deref(), &*own.id, own.is_known), (Some("lab"), "x/y", false));
    assert_eq!(resolve_model("lab/x/y", Some("lab"), &["lab"]).id, "x/y");
}

#[test]
fn the_name_of_another_provider_before_an_id_chooses_that_provider_but_not_at_a_gateway() {
    let other = resolve_model("openai/gpt-5.2", Some("anthropic"), &[]);
    assert_eq!((other.provider.as_deref(), &*other.id), (Some("openai"), "gpt-5.2"));
    let gateway = resolve_model("anthropic/claude-of-tomorrow", Some("openrouter"), &[]);
    assert_eq!(
        (gateway.provider.as_deref(), &*gateway.id),
        (Some("openrouter"), "anthropic/claude-of-tomorrow")
    );
}

#[test]
fn a_family_stands_for_its_newest_model_wherever_it_is_served() {
    for (name, provider, id) in [
        ("opus", None, "claude-opus-5-5"),
        ("Sonnet", None, "claude-sonnet-5-5"),
        ("anthropic/haiku", None, "claude-haiku-5-5"),
        ("gpt", None, "gpt-6.1-sol"),
        ("gemini-pro", None, "gemini-3.1-pro-preview"),
        ("gemini-flash", Some("gemini"), "gemini-3.8-flash"),
        ("grok", Some("xai"), "grok-4.7"),
        ("deepseek", None, "deepseek-v4-pro"),
        ("kimi", None, "kimi-k3.1-pro"),
    ] {
        assert_eq!(resolve_model(name, provider, &[]).id, id, "{name}");
    }
    let routed = resolve_model("opus", Some("openrouter"), &[]);
    assert!(routed.is_known && routed.id.contains("claude-opus-"), "{routed:?}");
    assert_eq!(resolve_model("opus", Some("ollama"), &[]).id, "opus", "a server of one's own may have it");
}

#[test]
fn an_unknown_name_is_kept_and_comes_with_similar_ids() {
    let typo = resolve_model("claude-opuss-5", Some("anthropic"), &[]);
    assert_eq!(
        (&*typo.id, typo.is_known, typo.near.first()),
        ("claude-opuss-5", false, Some(&"claude-opus-5"))
    );
    let nobody = resolve_model("my-own-model", None, &[]);
    assert_eq!((nobody.provider, &*nobody.id, nobody.near.len()), (None, "my-own-model", 0));
}

#[test]
fn a_name_that_its_provider_refuses_is_never_advised() {
    let advice = did_you_mean("anthropic", "claude-sonnet-5-5", UNIX_EPOCH).unwrap();
    assert!(!advice.contains("`claude-sonnet-5-5`"), "{advice}");
}
