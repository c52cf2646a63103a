//! Histories by chance, written and read again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};
use zk_core::model::{
    Block, Document, IdRule, Image, Message, Model, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};
use zk_providers::formats::Conversation;
use zk_providers::formats::Format::AnthropicMessages;
use zk_providers::{CompatProfile, ReasoningEcho};

use super::origin;

pub(super) fn model() -> Model {
    Model::unknown("maker", "model")
}

/// A server that takes everything the format has.
pub(super) fn everything() -> CompatProfile {
    CompatProfile {
        documents: true,
        image_in_tool_result: true,
        echo: ReasoningEcho::In("reasoning".into()),
        echo_details: true,
        ids: IdRule::UP_TO_64,
        ..CompatProfile::default()
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}( [a-z]{1,8}){0,3}",
        Just("東京 \"and\"\n\n more".to_owned()),
        Just("<think>".to_owned())
    ]
}

fn image() -> impl Strategy<Value = Block> {
    let kind = prop::sample::select(vec!["image/png", "image/jpeg", "image/webp"]);
    (kind, "[A-Za-z0-9+/]{4}").prop_map(|(kind, data)| Block::Image(Image::new(kind, data)))
}

fn pdf() -> impl Strategy<Value = Block> {
    ("[a-z]{1,8}", "[A-Za-z0-9+/]{4}").prop_map(|(name, data)| {
        Block::Document(Document { media_type: "application/pdf".into(), name: Some(name), data })
    })
}

fn notes() -> impl Strategy<Value = Block> {
    (option::of("[a-z]{1,8}"), text()).prop_map(|(name, text)| {
        Block::Document(Document { media_type: "text/plain".into(), name, data: STANDARD.encode(text) })
    })
}

fn args() -> impl Strategy<Value = Value> {
    let value = prop_oneof![any::<i64>().prop_map(Value::from), text().prop_map(Value::from)];
    btree_map("[a-z]{1,4}", value, 0..3).prop_map(|args| json!(args))
}

/// Parts that histories are made of.
struct Parts {
    /// Blocks of the model besides its calls.
    said: BoxedStrategy<Vec<Block>>,
    /// Results of tools, and whether they failed.
    result: BoxedStrategy<(ToolContent, bool)>,
    user: BoxedStrategy<Vec<Block>>,
    /// Blocks of the user after results are in the results' message.
    joined: bool,
}

/// Generator of histories that a provider accepts unchanged.
fn conversations(parts: Parts) -> impl Strategy<Value = Conversation> {
    let Parts { said, result, user, joined } = parts;
    let turn = (said, vec((args(), result), 0..3), option::of(user.clone()));
    let whole = (prop_oneof![Just(String::new()), text()], user, vec(turn, 0..4), any::<bool>());
    whole.prop_map(move |(system, first, turns, ends_with_model)| {
        let mut messages = vec![Message::user(first)];
        let mut count = 0;
        for (mut said, calls, user) in turns {
            let mut results = Vec::new();
            for (args, (content, is_error)) in calls {
                count += 1;
                let id = format!("call_{count}");
                said.push(Block::ToolCall(ToolCall::new(&*id, "clock", args)));
                results.push(Block::ToolResult(ToolResult { call_id: id.into(), content, is_error }));
            }
            if said.iter().all(|block| matches!(block, Block::Thinking(_))) {
                said.push(Block::text("so"));
            }
            messages.push(Message { origin: Some(origin()), ..Message::assistant(said) });
            match user {
                Some(user) if joined || results.is_empty() => {
                    messages.push(Message::user(results.into_iter().chain(user).collect()));
                }
                Some(user) => messages.extend([Message::user(results), Message::user(user)]),
                None if results.is_empty() => messages.push(Message::user_text("on")),
                None => messages.push(Message::user(results)),
            }
        }
        let has_results = |message: &Message| matches!(message.content.first(), Some(Block::ToolResult(_)));
        if ends_with_model && messages.len() > 1 && !messages.last().is_some_and(has_results) {
            messages.pop();
        }
        Conversation { system, messages: messages.into_iter().map(Message::shared).collect() }
    })
}

fn thinking() -> Thinking {
    Thinking { origin: Some(origin()), ..Thinking::default() }
}

fn wire(data: Value) -> Option<WireData> {
    Some(WireData { origin: origin(), data })
}

/// Generator of everything that Messages can express.
pub(super) fn of_messages() -> impl Strategy<Value = Conversation> {
    let block = prop_oneof![
        text().prop_map(Block::text),
        text().prop_map(|text| {
            let citations = json!({"citations": [{"type": "char_location", "cited_text": text}]});
            Block::Text(Text { text, wire: wire(citations) })
        }),
        (text(), "[a-z]{4}").prop_map(|(text, signature)| {
            Block::Thinking(Thinking { text, signature: Some(signature), ..thinking() })
        }),
        "[a-z]{4}".prop_map(|data| Block::Thinking(Thinking { redacted: Some(data), ..thinking() })),
        text().prop_map(|code| {
            let data = json!({"type": "container_upload", "file_id": code});
            Block::provider("container upload", &origin(), data)
        }),
    ];
    let part = || prop_oneof![text().prop_map(Block::text), image(), pdf(), notes()];
    let parts = vec(part(), 1..4).prop_map(|parts| (ToolContent::Blocks(parts), false));
    let plain = (text().prop_map(ToolContent::Text), any::<bool>());
    conversations(Parts {
        said: vec(block, 0..4).boxed(),
        result: prop_oneof![parts, plain].boxed(),
        user: vec(part(), 1..4).boxed(),
        joined: true,
    })
}

/// Generator of everything that Chat Completions can express; with `thoughts` also reasoning, which not every
/// server accepts.
pub(super) fn of_chats(thoughts: bool) -> impl Strategy<Value = Conversation> {
    let thought = prop_oneof![
        text().prop_map(|text| Thinking { text, ..thinking() }),
        (text(), "[a-z]{4}").prop_map(|(text, signature)| {
            let items = json!([{"type": "reasoning.text", "text": text, "signature": signature, "index": 0}]);
            let wire = wire(json!({"reasoning_details": items}));
            Thinking { text, signature: Some(signature), wire, ..thinking() }
        }),
    ];
    let said = (option::of(thought), option::of(text())).prop_map(move |(thought, text)| {
        let thought = thought.filter(|_| thoughts).map(Block::Thinking);
        thought.into_iter().chain(text.map(Block::text)).collect()
    });
    let part = || prop_oneof![text().prop_map(Block::text), image(), pdf()];
    // Parts become one text if all of them are text.
    let parts = || {
        (vec(part(), 0..3), image())
            .prop_map(|(parts, image)| parts.into_iter().chain([image]).collect::<Vec<_>>())
    };
    let plain = text().prop_map(ToolContent::Text);
    let content = prop_oneof![plain, parts().prop_map(ToolContent::Blocks)];
    conversations(Parts {
        said: said.boxed(),
        result: content.prop_map(|content| (content, false)).boxed(),
        user: prop_oneof![text().prop_map(|text| vec![Block::text(text)]), parts()].boxed(),
        joined: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_in_messages_is_read_as_it_was(conversation in of_messages()) {
        let written = conversation.write(AnthropicMessages, &model()).expect("it can be written");
        prop_assert_eq!(&written.repairs, &[]);
        prop_assert_eq!(Conversation::read(&written.into_body(), &origin()).expect("it can be read"), conversation);
    }

    #[test]
    fn what_is_written_in_chats_is_read_as_it_was(conversation in of_chats(true)) {
        let written = conversation.write_chat(&everything(), &model());
        prop_assert_eq!(&written.repairs, &[]);
        prop_assert_eq!(Conversation::read(&written.into_body(), &origin()).expect("it can be read"), conversation);
    }

    #[test]
    fn a_conversation_of_chats_comes_back_from_messages_as_it_was(conversation in of_chats(false)) {
        let written = conversation.write(AnthropicMessages, &model()).expect("it can be written");
        prop_assert_eq!(&written.repairs, &[]);
        let read = Conversation::read(&written.into_body(), &origin()).expect("it can be read");
        let written = read.write_chat(&everything(), &model());
        prop_assert_eq!(&written.repairs, &[]);
        prop_assert_eq!(Conversation::read(&written.into_body(), &origin()).expect("it can be read"), conversation);
    }
}
