//! The conversations of all recorded requests, through the public reading and writing of formats.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::{Block, IdRule, Message, Model, ModelRef, Role};
use zk_providers::formats::{Conversation, Format, FormatError};
use zk_providers::{CompatProfile, ReasoningEcho};

use super::differences::{Differences, Explained};
use super::{Dialect, Exchange, chat_histories, exchanges_of, messages_histories};
use crate::fixtures;

const FORMATS: [(Dialect, Format); 2] =
    [(Dialect::Anthropic, Format::AnthropicMessages), (Dialect::Chat, Format::OpenAiChat)];

fn requests(dialect: Dialect) -> Vec<(Exchange, Value)> {
    let with_request = |exchange: Exchange| exchange.request().map(|request| (exchange, request));
    exchanges_of(dialect).into_iter().filter_map(with_request).collect()
}

fn model(exchange: &Exchange) -> Model {
    Model::unknown("recorded", exchange.model())
}

/// Recorded conversation, if a request can send it unchanged; otherwise the reason.
pub(crate) fn sendable(format: Format, body: &Value, origin: &ModelRef) -> Result<Conversation, String> {
    let unsupported = |error: FormatError| match error {
        FormatError::Unsupported { reason, .. } => reason,
        other => panic!("{other}: {body}"),
    };
    let conversation = format.read(body, origin).map_err(unsupported)?;
    let is_user = |message: Option<&Arc<Message>>| message.is_some_and(|message| message.role == Role::User);
    let messages = &conversation.messages;
    match (is_user(messages.first()), is_user(messages.last())) {
        _ if is_instructed(&conversation) => Err("it has an instruction in the middle".into()),
        (true, true) => Ok(conversation),
        (false, _) => Err("it does not begin with the user".into()),
        (_, false) => Err("it does not end with the user".into()),
    }
}

fn is_instructed(conversation: &Conversation) -> bool {
    conversation.messages.iter().any(|message| message.injected_by.as_deref() == Some("system"))
}

/// Readable conversations, and the errors of the others.
fn conversations(
    format: Format,
    dialect: Dialect,
) -> Vec<(Exchange, Value, Result<Conversation, FormatError>)> {
    let read = |(exchange, body): (Exchange, Value)| {
        let conversation = format.read(&body, &model(&exchange).reference());
        (exchange, body, conversation)
    };
    requests(dialect).into_iter().map(read).collect()
}

type Counts = BTreeMap<String, usize>;

fn assert_counts(counts: &Counts, expected: &[(&str, usize)]) {
    println!("{counts:#?}");
    let expected: Counts = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert!(counts.is_empty() || *counts == expected, "expected {expected:#?}");
}

#[test]
fn the_format_of_every_recorded_conversation_is_detected() {
    let mut counts = Counts::new();
    for (dialect, format) in FORMATS {
        for (exchange, body) in requests(dialect) {
            for (what, value) in [("body", &body), ("list", &body["messages"])] {
                let found = Format::detect(value);
                assert!(found.is_none_or(|found| found == format), "{}: {found:?}", exchange.place());
                let outcome = if found.is_some() { "detected" } else { "fits both" };
                *counts.entry(format!("{dialect:?} {what}: {outcome}")).or_default() += 1;
            }
        }
    }
    assert_counts(
        &counts,
        &[
            ("Anthropic body: detected", 305),
            ("Anthropic body: fits both", 113),
            ("Anthropic list: detected", 88),
            ("Anthropic list: fits both", 330),
            ("Chat body: detected", 652),
            ("Chat body: fits both", 325),
            ("Chat list: detected", 502),
            ("Chat list: fits both", 475),
        ],
    );
}

#[test]
fn a_recorded_conversation_that_fits_both_formats_is_read_alike_in_both() {
    let mut count = 0;
    for (dialect, _) in FORMATS {
        for (exchange, body) in requests(dialect) {
            let list = &body["messages"];
            if Format::detect(list).is_none() {
                let origin = model(&exchange).reference();
                let read = FORMATS.map(|(_, format)| format.read(list, &origin));
                assert_eq!(read[0], read[1], "{}", exchange.place());
                count += 1;
            }
        }
    }
    println!("{count} fit both");
}

#[test]
fn every_recorded_conversation_is_read_or_it_is_said_what_a_history_cannot_keep() {
    let mut counts = Counts::new();
    for (dialect, format) in FORMATS {
        for (_, _, conversation) in conversations(format, dialect) {
            let outcome = match conversation {
                Ok(_) => "read".to_owned(),
                Err(FormatError::Unsupported { path, .. }) => path,
                Err(other) => other.to_string(),
            };
            *counts.entry(format!("{dialect:?}: {outcome}")).or_default() += 1;
        }
    }
    assert_counts(
        &counts,
        &[
            ("Anthropic: read", 408),
            ("Anthropic: messages[0].content[0].citations", 4),
            ("Anthropic: messages[0].content[0].source", 4),
            ("Anthropic: messages[0].content[0].source.url", 1),
            ("Anthropic: messages[0].content[1].citations", 1),
            ("Chat: read", 975),
            // A video.
            ("Chat: messages[0].content[1]", 1),
            ("Chat: messages[0].content[1].image_url.url", 1),
        ],
    );
}

/// Part of a body that is the conversation.
fn conversation(body: &Value) -> Value {
    json!({"system": body["system"], "messages": body["messages"]})
}

const MESSAGES: &[Explained] = &[
    ("system[].cache_control", "marks are left out: whoever sends the conversation sets their own"),
    (
        "messages[].content[].cache_control",
        "marks are left out: whoever sends the conversation sets their own",
    ),
];

#[test]
fn every_recorded_conversation_of_messages_is_written_as_it_was_read() {
    let mut differences = Differences::default();
    let mut instructed = 0;
    for (exchange, body, read) in conversations(Format::AnthropicMessages, Dialect::Anthropic) {
        let Ok(read) = read else { continue };
        if is_instructed(&read) {
            // An instruction in the middle becomes part of the user's text there.
            instructed += 1;
            continue;
        }
        let written = read.write(Format::AnthropicMessages, &model(&exchange)).expect("it can be written");
        assert_eq!(written.repairs, [], "{}", exchange.place());
        let ours = messages_histories::plain(&written.into_body());
        let recorded = messages_histories::plain(&body);
        differences.compare(&exchange.place(), &conversation(&ours), &conversation(&recorded), MESSAGES);
    }
    assert!(
        instructed == 2 || fixtures::folder().is_none(),
        "{instructed} have an instruction in the middle"
    );
    differences.settle(MESSAGES);
}

const CHATS: &[Explained] = &[("messages[].prefix", "Mistral's own word for what is the default")];

/// Normal form of a body, with further unifications: one name for instructions, one field for thoughts.
fn plain_chat(body: &Value) -> Value {
    let mut body = chat_histories::plain(body);
    for message in body["messages"].as_array_mut().expect("messages") {
        let fields = message.as_object_mut().expect("a message");
        if fields["role"] == "developer" {
            fields.insert("role".into(), "system".into());
        }
        if fields.get("reasoning").is_some_and(|thought| fields.get("reasoning_content") == Some(thought)) {
            fields.remove("reasoning");
        }
        fields.retain(|name, value| name != "reasoning_content" || *value != "");
    }
    body
}

pub(super) fn has_thoughts_in_parts(body: &Value) -> bool {
    let messages = body["messages"].as_array().into_iter().flatten();
    let mut parts = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    parts.any(|part| part["type"] == "thinking")
}

/// Profile of a server that accepts everything that a recorded one accepted.
fn every_field(body: &Value) -> CompatProfile {
    let echo = if has_thoughts_in_parts(body) {
        ReasoningEcho::Parts
    } else {
        ReasoningEcho::In("reasoning_content".into())
    };
    CompatProfile {
        documents: true,
        image_in_tool_result: true,
        echo,
        echo_details: true,
        ids: IdRule::UP_TO_64,
        ..CompatProfile::default()
    }
}

#[test]
fn every_recorded_conversation_of_chats_is_written_as_it_was_read() {
    let mut differences = Differences::default();
    for (exchange, body, read) in conversations(Format::OpenAiChat, Dialect::Chat) {
        let Ok(read) = read else { continue };
        let written = read.write_chat(&every_field(&body), &model(&exchange));
        assert_eq!(written.repairs, [], "{}", exchange.place());
        let (ours, recorded) = (plain_chat(&written.into_body()), plain_chat(&body));
        differences.compare(&exchange.place(), &conversation(&ours), &conversation(&recorded), CHATS);
    }
    differences.settle(CHATS);
}

/// Content that both formats can express: texts, calls and results.
fn said(conversation: &Conversation) -> Vec<String> {
    let mut said = vec![conversation.system.clone()];
    let mut texts = String::new();
    for block in conversation.messages.iter().flat_map(|message| &message.content) {
        match block {
            Block::Text(text) => texts.push_str(&text.text),
            Block::ToolCall(call) => said.push(format!("{} {} {}", call.id, call.name, call.args)),
            Block::ToolResult(result) => {
                said.push(format!("{} {}", result.call_id, result.content.to_text()))
            }
            _ => {}
        }
    }
    said.push(texts.replace("\n\n", ""));
    said
}

#[test]
fn a_recorded_conversation_in_the_other_format_says_the_same() {
    let mut count = 0;
    for (dialect, format) in FORMATS {
        for (exchange, _, read) in conversations(format, dialect) {
            let Ok(read) = read else { continue };
            // Only the same format can express some blocks: text documents become text, and provider-specific
            // blocks are dropped.
            let has_more = |block: &Block| matches!(block, Block::Document(_) | Block::Provider(_));
            if read.messages.iter().flat_map(|message| &message.content).any(has_more) {
                continue;
            }
            let model = model(&exchange);
            let other = match format {
                Format::AnthropicMessages => Format::OpenAiChat,
                _ => Format::AnthropicMessages,
            };
            let written = read.write(other, &model).expect("it can be written").into_body();
            let again = Conversation::read(&written, &model.reference()).expect("it can be read");
            assert_eq!(said(&again), said(&read), "{}", exchange.place());
            count += 1;
        }
    }
    println!("{count} conversations say the same in the other format");
}
