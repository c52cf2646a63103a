use serde_json::{Map, Value, json};
use zk_core::model::{
    Block, ErrorKind, Message, Model, ModelRef, Phase, ProviderError, StopReason, ThinkingLevel,
    ThinkingRequest, ToolSpec, WireData,
};

use super::partial_args::PartialArg;
use super::{finish, parts, quota, schema, text_run, thinking, tool_names};
use crate::encode::effort::Efforts;

#[test]
fn every_reason_ends_the_turn_in_its_own_way() {
    assert_eq!(finish::stop("STOP", None, false).unwrap(), StopReason::EndTurn);
    assert_eq!(
        finish::stop("STOP", Some("Model generated function call(s)."), true).unwrap(),
        StopReason::ToolUse
    );
    assert_eq!(finish::stop("MAX_TOKENS", None, true).unwrap(), StopReason::MaxTokens);
    assert_eq!(finish::stop("SPII", None, false).unwrap(), StopReason::Refusal(Some("SPII".into())));
    assert_eq!(finish::stop("SAFETY", Some("no"), false).unwrap(), StopReason::Refusal(Some("no".into())));
    assert_eq!(finish::stop("OTHER", None, false).unwrap(), StopReason::Other("OTHER".into()));
    assert_eq!(finish::stop("NEW_ONE", None, true).unwrap(), StopReason::Other("NEW_ONE".into()));
    let error = finish::stop("MALFORMED_FUNCTION_CALL", Some("print(x)"), false).unwrap_err();
    assert_eq!((error.kind, error.should_retry), (ErrorKind::Malformed, Some(true)));
    assert!(error.message.ends_with(": print(x)"), "{}", error.message);
    assert_eq!(finish::stop("MISSING_THOUGHT_SIGNATURE", None, false).unwrap_err().should_retry, Some(false));
}

#[test]
fn a_name_comes_back_as_it_was() {
    let tools: Vec<_> =
        ["3d", "-x", "_y", "read_file"].map(|name| ToolSpec::new(name, "", Value::Null)).into();
    for (name, legal) in [("3d", "_3d"), ("-x", "_-x"), ("_y", "_y"), ("read_file", "read_file")] {
        assert_eq!(tool_names::to_wire(name), legal);
        assert_eq!(tool_names::to_canonical(legal, &tools), name);
    }
    assert_eq!(tool_names::to_canonical("_unknown", &tools), "_unknown");
}

#[test]
fn const_becomes_an_enum_wherever_a_schema_stands_and_nowhere_else() {
    let schema = json!({
        "$schema": "x", "type": "object",
        "properties": {
            "const": {"type": "string", "default": {"const": 1}},
            "kind": {"const": "a"},
            "list": {"type": "array", "items": {"anyOf": [{"const": 1}, {"const": null}]}},
        },
        "additionalProperties": false,
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "const": {"type": "string", "default": {"const": 1}},
            "kind": {"enum": ["a"]},
            "list": {"type": "array", "items": {"anyOf": [{"enum": [1]}, {"enum": [null]}]}},
        },
        "additionalProperties": false,
    });
    assert_eq!(schema::parameters(&schema), expected);
}

fn named(id: &str) -> Model {
    let mut model = Model::unknown("gemini", id);
    model.capabilities.thinking = thinking::support(id).unwrap_or_default();
    model
}

fn thinking_config(id: &str, level: ThinkingLevel, levels: &[&'static str]) -> Value {
    let wanted = ThinkingRequest { level, budget: None };
    let efforts = Efforts::of(levels.iter().map(|level| (*level, None)));
    serde_json::to_value(thinking::config(&named(id), wanted, &efforts, 60_000)).unwrap()
}

#[test]
fn each_family_is_asked_in_its_own_way() {
    let all = &["minimal", "low", "medium", "high"];
    for (id, level, levels, expected) in [
        ("gemini-2.5-flash", ThinkingLevel::Off, &[][..], json!({"thinkingBudget": 0})),
        ("gemini-2.5-pro", ThinkingLevel::Off, &[], json!({"thinkingBudget": 128})),
        (
            "gemini-2.5-pro",
            ThinkingLevel::XHigh,
            &[],
            json!({"includeThoughts": true, "thinkingBudget": 32_768}),
        ),
        (
            "gemini-2.5-flash",
            ThinkingLevel::High,
            &[],
            json!({"includeThoughts": true, "thinkingBudget": 24_576}),
        ),
        (
            "gemini-2.5-flash",
            ThinkingLevel::Adaptive,
            &[],
            json!({"includeThoughts": true, "thinkingBudget": -1}),
        ),
        ("gemini-3-flash-preview", ThinkingLevel::Off, all, json!({"thinkingLevel": "minimal"})),
        (
            "gemini-3-flash-preview",
            ThinkingLevel::Minimal,
            all,
            json!({"includeThoughts": true, "thinkingLevel": "minimal"}),
        ),
        ("gemini-4-argon", ThinkingLevel::Off, &[], json!({"thinkingLevel": "low"})),
        (
            "gemini-4-argon",
            ThinkingLevel::XHigh,
            &[],
            json!({"includeThoughts": true, "thinkingLevel": "high"}),
        ),
        ("gemini-9-new", ThinkingLevel::Adaptive, &[], json!({"includeThoughts": true})),
        ("gemini-2.0-flash", ThinkingLevel::High, &[], Value::Null),
        ("gemma-3-27b", ThinkingLevel::High, &[], Value::Null),
        (
            "gemma-4-31b-it",
            ThinkingLevel::Medium,
            &["minimal", "high"],
            json!({"includeThoughts": true, "thinkingLevel": "high"}),
        ),
    ] {
        assert_eq!(thinking_config(id, level, levels), expected, "{id} {level:?}");
    }
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    let wanted = ThinkingRequest { level: ThinkingLevel::High, budget: Some(50_000) };
    let flash = named("gemini-2.5-flash");
    for (max_tokens, expected) in [(4096, 3072), (100, 1)] {
        let config =
            serde_json::to_value(thinking::config(&flash, wanted, &Efforts::default(), max_tokens)).unwrap();
        assert_eq!(config["thinkingBudget"], expected);
    }
}

#[test]
fn generations_are_recognised_by_their_names() {
    for id in ["gemini-3-pro-preview", "gemini-flash-latest", "gemini-4-argon"] {
        assert!(thinking::is_third_generation(id), "{id}");
    }
    for id in ["gemini-2.5-pro", "gemini-2.0-flash", "gemma-4-31b-it", "claude-opus-5"] {
        assert!(!thinking::is_third_generation(id), "{id}");
    }
}

fn build(values: &Value) -> Option<Value> {
    let mut args = Map::new();
    for value in values.as_array().unwrap() {
        let value: PartialArg = serde_json::from_value(value.clone()).unwrap();
        if !value.apply(&mut args) {
            return None;
        }
    }
    Some(Value::Object(args))
}

#[test]
fn values_are_built_at_their_paths() {
    let values = json!([
        {"jsonPath": "$.list[1].name", "stringValue": "a", "willContinue": true},
        {"jsonPath": "$.list[1].name", "stringValue": "b"},
        {"jsonPath": "$.list[0]", "numberValue": 0.5},
        {"jsonPath": "$['a.b'][\"c\"]", "boolValue": true},
        {"jsonPath": "$.none", "nullValue": "NULL_VALUE"},
    ]);
    let expected = json!({"list": [0.5, {"name": "ab"}], "a.b": {"c": true}, "none": null});
    assert_eq!(build(&values), Some(expected));
}

#[test]
fn invalid_paths_are_refused() {
    for path in ["", "$", "a", "$[0]", "$.a[x]", "$.a[", "$.a[99999999999]", "$.a['b"] {
        assert_eq!(build(&json!([{"jsonPath": path, "boolValue": true}])), None, "{path}");
    }
    for bomb in [format!("$.a{}", ".a".repeat(100_000)), "$.a[1000]".into(), "$.a[0][1000]".into()] {
        assert_eq!(build(&json!([{"jsonPath": bomb, "boolValue": true}])), None);
    }
    let clash = json!([{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a.b", "numberValue": 1}]);
    assert_eq!(build(&clash), None);
}

fn judged(kind: ErrorKind, bytes: u64) -> ErrorKind {
    let message =
        "Quota exceeded for metric: x/generate_content_paid_tier_input_token_count, limit: 1000, model: m";
    quota::explain(ProviderError::new(kind, "gemini", "m", Phase::Response, message), || bytes).kind
}

#[test]
fn only_a_request_above_the_limit_of_any_minute_is_too_long() {
    assert_eq!(judged(ErrorKind::Rate, 4004), ErrorKind::ContextExceeded);
    assert_eq!(judged(ErrorKind::Rate, 4000), ErrorKind::Rate);
    assert_eq!(judged(ErrorKind::Quota, 6000), ErrorKind::Quota);
}

#[test]
fn errors_about_other_limits_are_unchanged() {
    let error = ProviderError::new(ErrorKind::Rate, "gemini", "m", Phase::Response, "requests, limit: 5");
    assert_eq!(quota::explain(error.clone(), || 9000), error);
}

/// Closes a run of these parts, and encodes its blocks again.
fn echoed(parts: &[(&str, Option<&str>)], is_thought: bool) -> (Vec<Block>, Value) {
    let origin = ModelRef::new("gemini", "m");
    let mut run = text_run::Run::new(0, is_thought);
    for (text, signature) in parts {
        run.push(text, signature.map(str::to_owned));
    }
    let blocks = run.close(&origin);
    let message = Message::assistant(blocks.clone());
    (blocks, serde_json::to_value(parts::of_model(&message, false)).unwrap())
}

#[test]
fn a_text_is_one_block_and_goes_back_in_its_parts() {
    let (blocks, sent) =
        echoed(&[("a", None), ("b", None), ("é", Some("s1")), ("c", None), ("", Some("s2"))], false);
    assert_eq!(blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>(), ["abéc"]);
    let expected = json!([{"text": "ab"}, {"text": "é", "thoughtSignature": "s1"}, {"text": "c"},
        {"text": "", "thoughtSignature": "s2"}]);
    assert_eq!(sent, expected);
}

#[test]
fn the_signature_of_an_empty_text_is_kept_in_a_block() {
    for (text, count) in [("", 1), (" \n", 2)] {
        let (blocks, mut sent) = echoed(&[(text, Some("s"))], false);
        assert_eq!(blocks.len(), count);
        assert!(matches!(blocks.last(), Some(Block::Thinking(carrier)) if carrier.signature.is_some()));
        let last = sent.as_array_mut().and_then(Vec::pop);
        assert_eq!(last, Some(json!({"text": text, "thoughtSignature": "s"})));
    }
}

#[test]
fn thoughts_go_back_as_thoughts() {
    let (blocks, sent) = echoed(&[("a", None), ("b", Some("s"))], true);
    assert_eq!(blocks.len(), 1);
    let expected =
        json!([{"text": "a", "thought": true}, {"text": "b", "thought": true, "thoughtSignature": "s"}]);
    assert_eq!(sent, expected);
}

#[test]
fn a_text_that_was_changed_keeps_a_signature_and_loses_its_boundaries() {
    let data = json!({"parts": [{"len": 2}, {"len": 9, "thoughtSignature": "s"}]});
    let wire = WireData { origin: ModelRef::new("gemini", "m"), data };
    assert_eq!(text_run::parts("changed", Some(&wire)), [("changed", Some("s"))]);
    assert_eq!(text_run::parts("é", None), [("é", None)]);
}
