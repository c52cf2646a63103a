//! Normalisation of ten thousand generated histories for each wire format.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};
use zk_core::model::wire::{CONTINUE, INTERRUPTED};
use zk_core::model::{
    Block, Compaction, Document, IdRule, Image, MediaTypes, Message, ModelRef, Role, StopReason, Text,
    Thinking, ThinkingReplay, ToolCall, ToolContent, ToolResult, WireData, WireReady, WireRules,
};
use zk_testkit::rules::check_wire;

const IDS: [&str; 12] = [
    "call_1",
    "call_2",
    "call_3",
    "0",
    "toolu_01AbCdEfGhIjKlMnOpQrStUv",
    "functions.add:0",
    "abcdefghi",
    "fc_67ca09c5efe0819096d0511c92b8c890096610f474011cc0",
    "an-id-that-is-longer-than-any-provider-of-any-kind-would-ever-accept-it",
    "",
    "ид",
    "a b",
];

const NAMES: [&str; 7] = [
    "read_file",
    "read_file",
    "read_file",
    "functions.read_file",
    "read_file<|channel|>json",
    "",
    "a-name-that-is-longer-than-any-provider-of-any-kind-would-ever-accept-it",
];

const TEXTS: [&str; 8] =
    ["", " ", "\n\t", "hello", "a\0b", "東京 and more", "[image: attached after the tool results]", "x"];

fn own() -> ModelRef {
    ModelRef::new("maker", "model-1")
}

fn dialects() -> Vec<(&'static str, WireRules)> {
    let tolerant = WireRules::tolerant(own());
    let narrow = MediaTypes { images: &["image/png"], documents: &["text/*"], largest_image: None };
    vec![
        (
            "anthropic",
            WireRules {
                ids: IdRule::UP_TO_64,
                image_in_tool_result: true,
                thinking: ThinkingReplay::Signed,
                ..tolerant.clone()
            },
        ),
        ("chat", tolerant.clone()),
        ("mistral", WireRules { ids: IdRule::NINE, media: narrow, ..tolerant.clone() }),
        ("echo", WireRules { thinking: ThinkingReplay::Echo, ..tolerant.clone() }),
        ("drawing", WireRules { image_in_answer: true, media: narrow, ..tolerant.clone() }),
        ("resuming", WireRules { resumes: true, ..tolerant.clone() }),
        ("no vision", WireRules { vision: false, image_in_tool_result: true, ..tolerant }),
    ]
}

fn id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&IDS[..])
}

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TEXTS[..])
}

fn origin() -> impl Strategy<Value = ModelRef> {
    prop_oneof![3 => Just(own()), 1 => Just(ModelRef::new("maker", "other")), 1 => Just(ModelRef::new("else", "model-1"))]
}

fn wire() -> impl Strategy<Value = Option<WireData>> {
    prop::option::weighted(
        0.15,
        origin().prop_map(|origin| WireData { origin, data: json!({"caller": "direct"}) }),
    )
}

fn args() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({}),
        json!({"path": "a.txt"}),
        json!({"text": "a\0b", "deep": [{"k\0": ["\0"]}]}),
        json!(null),
        json!(["not", "an object"]),
        json!("a\0 string"),
    ])
}

fn call(id: &'static str) -> impl Strategy<Value = Block> {
    let malformed = prop::option::weighted(0.1, prop::sample::select(vec!["{\"path\": \"a", "", "\0{"]));
    let name = prop::sample::select(&NAMES[..]);
    (name, args(), malformed, wire()).prop_map(move |(name, args, malformed, wire)| {
        let malformed = malformed.map(str::to_owned);
        Block::ToolCall(ToolCall { malformed, wire, ..ToolCall::new(id, name, args) })
    })
}

fn media() -> impl Strategy<Value = Block> {
    prop_oneof![
        (prop::sample::select(vec!["image/png", "image/bmp"]), wire())
            .prop_map(|(kind, wire)| Block::Image(Image { wire, ..Image::new(kind, "aGk=") })),
        prop::sample::select(vec!["application/pdf", "text/plain"]).prop_map(|media_type| {
            let name = Some("a file".into());
            Block::Document(Document { media_type: media_type.into(), name, data: "aGk=".into() })
        }),
    ]
}

fn text_block() -> impl Strategy<Value = Block> {
    (text(), wire()).prop_map(|(text, wire)| Block::Text(Text { text: text.to_owned(), wire }))
}

fn content() -> impl Strategy<Value = ToolContent> {
    let odd = prop_oneof![
        4 => text_block(),
        3 => media(),
        1 => call("call_1"),
        1 => Just(Block::Compaction(Compaction { summary: "short".into(), tokens_before: 9 })),
        1 => provider(),
    ];
    prop_oneof![
        3 => text().prop_map(ToolContent::from),
        2 => vec(odd, 0..4).prop_map(ToolContent::Blocks),
    ]
}

fn result(id: &'static str) -> impl Strategy<Value = Block> {
    (content(), any::<bool>()).prop_map(move |(content, is_error)| {
        Block::ToolResult(ToolResult { call_id: id.into(), content, is_error })
    })
}

fn thinking() -> impl Strategy<Value = Block> {
    (
        text(),
        prop::option::of(Just("proof".to_owned())),
        prop::option::weighted(0.2, Just("closed".to_owned())),
        prop::option::weighted(0.8, origin()),
    )
        .prop_map(|(text, signature, redacted, origin)| {
            Block::Thinking(Thinking { text: text.to_owned(), signature, redacted, origin, wire: None })
        })
}

fn provider() -> impl Strategy<Value = Block> {
    (text(), origin()).prop_map(|(text, origin)| Block::provider(text, &origin, json!({"type": "search"})))
}

fn any_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => text_block(),
        3 => id().prop_flat_map(call),
        3 => id().prop_flat_map(result),
        2 => thinking(),
        1 => media(),
        2 => provider(),
        1 => text().prop_map(|summary| {
            Block::Compaction(Compaction { summary: summary.to_owned(), tokens_before: 9 })
        }),
    ]
}

fn stop() -> impl Strategy<Value = Option<StopReason>> {
    prop::sample::select(vec![
        None,
        None,
        Some(StopReason::EndTurn),
        Some(StopReason::ToolUse),
        Some(StopReason::MaxTokens),
        Some(StopReason::Aborted),
        Some(StopReason::Error),
        Some(StopReason::PauseTurn),
        Some(StopReason::Compaction),
        Some(StopReason::Refusal(None)),
        Some(StopReason::Other("odd".into())),
    ])
}

fn said(content: Vec<Block>, stop: Option<StopReason>, origin: ModelRef) -> Message {
    Message { stop, origin: Some(origin), ..Message::assistant(content) }
}

/// Messages with any blocks in any order.
fn noise() -> impl Strategy<Value = Vec<Message>> {
    (any::<bool>(), vec(any_block(), 0..5), stop(), origin()).prop_map(
        |(assistant, content, stop, origin)| {
            vec![if assistant { said(content, stop, origin) } else { Message::user(content) }]
        },
    )
}

/// Calls and their results, with the faults that may occur between them.
fn exchange() -> impl Strategy<Value = Vec<Message>> {
    let calls = prop::sample::subsequence(&IDS[..], 1..4).prop_flat_map(|ids| {
        let calls = ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        let results = ids.iter().map(|id| result(id)).collect::<Vec<_>>();
        (calls, results)
    });
    let mishap =
        prop::sample::select(vec!["none", "none", "none", "lost", "doubled", "reversed", "late", "cut"]);
    (vec(thinking(), 0..2), vec(text_block(), 0..2), calls, mishap, text_block(), (stop(), origin()))
        .prop_map(|(before, texts, (calls, mut results), mishap, between, (stop, origin))| {
            let mut content = before;
            content.extend(texts);
            content.extend(calls);
            let mut out = Vec::new();
            match mishap {
                "lost" => {
                    results.pop();
                }
                "doubled" => results.extend(results.clone()),
                "reversed" => results.reverse(),
                "cut" => results.clear(),
                _ => {}
            }
            out.push(said(content, stop, origin));
            if mishap == "late" {
                out.push(Message::user(vec![between.clone()]));
                out.push(said(vec![between], None, own()));
            }
            out.push(Message::user(results));
            out
        })
}

fn history() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let part = prop_oneof![
        3 => exchange(),
        2 => noise(),
        2 => text().prop_map(|text| vec![Message::user_text(text)]),
        1 => text().prop_map(|text| vec![said(vec![Block::text(text)], None, own())]),
    ];
    vec(part, 0..7).prop_map(|parts| parts.into_iter().flatten().map(Arc::new).collect())
}

fn bytes(ready: &WireReady) -> Vec<u8> {
    serde_json::to_vec(ready.messages()).unwrap()
}

/// Whether the end of the request has a placeholder for messages that may still come.
fn is_provisional(ready: &WireReady) -> bool {
    let stands_in = |block: &Block| match block {
        Block::Text(text) => text.text == CONTINUE,
        Block::ToolResult(result) => result.content == ToolContent::from(INTERRUPTED),
        _ => false,
    };
    // A paused response is either gone on with or given up.
    ready
        .messages()
        .last()
        .is_some_and(|last| last.role == Role::Assistant || last.content.iter().any(stands_in))
}

/// Whether `long` begins with what `short` says; its last message may have been added to.
fn continues(short: &WireReady, long: &WireReady) -> bool {
    let Some((last, before)) = short.messages().split_last() else { return true };
    let Some((same, [grown, ..])) = long.messages().split_at_checked(before.len()) else { return false };
    before == same && grown.role == last.role && grown.content.starts_with(&last.content)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn every_history_comes_out_valid_for_every_dialect(history in history()) {
        for (dialect, rules) in dialects() {
            let ready = WireReady::normalise(&history, &rules);
            if let Err(violation) = check_wire(&ready, &rules) {
                prop_assert!(false, "{dialect}: {violation}\n{:#?}", ready.messages());
            }
            let again = WireReady::normalise(&history, &rules);
            prop_assert_eq!(bytes(&ready), bytes(&again), "{}: the same bytes every time", dialect);
            let twice = WireReady::normalise(ready.messages(), &rules);
            prop_assert_eq!(ready.messages(), twice.messages(), "{}: idempotent", dialect);
            prop_assert!(twice.repairs().is_empty(), "{dialect}: nothing left to mend: {:?}", twice.repairs());
        }
    }

}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn every_request_is_a_prefix_of_the_next(history in history()) {
        for (dialect, rules) in dialects() {
            let whole = WireReady::normalise(&history, &rules);
            for end in 1..history.len() {
                let Some((part, _)) = history.split_at_checked(end) else { continue };
                if part.last().is_none_or(|last| last.role != Role::User) {
                    continue;
                }
                let request = WireReady::normalise(part, &rules);
                if is_provisional(&request) {
                    continue;
                }
                prop_assert!(
                    continues(&request, &whole),
                    "{dialect}: the first {end} messages\n{:#?}\nwhole\n{:#?}",
                    request.messages(),
                    whole.messages()
                );
            }
        }
    }
}

#[test]
fn the_histories_need_every_kind_of_repair() {
    let mut runner = TestRunner::deterministic();
    let mut kinds = BTreeSet::new();
    for _ in 0..300 {
        let history = history().new_tree(&mut runner).unwrap().current();
        for (_, rules) in dialects() {
            for repair in WireReady::normalise(&history, &rules).repairs() {
                let Value::String(kind) = serde_json::to_value(repair).unwrap()["repair"].take() else {
                    panic!("a repair without a kind: {repair:?}")
                };
                kinds.insert(kind);
            }
        }
    }
    let all = ["boundary", "failed_response", "missing_result", "new_id", "new_name", "orphan_result"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn property_tests_have_a_fixed_seed() {
    assert!(matches!(ProptestConfig::default().rng_seed, RngSeed::Fixed(_)), "`.cargo/config.toml` sets one");
}
