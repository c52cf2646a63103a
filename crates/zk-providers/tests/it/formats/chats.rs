use serde_json::{Value, json};
use zk_core::model::{
    Block, Document, Image, Message, StopReason, Thinking, ToolCall, ToolContent, ToolResult, WireData,
};
use zk_providers::formats::Format::OpenAiChat;

use super::{blocks, messages, origin, read};

fn thought(text: &str) -> Thinking {
    Thinking { text: text.into(), origin: Some(origin()), ..Thinking::default() }
}

/// Reads the model's message.
fn said(message: &Value) -> Message {
    let conversation = read(OpenAiChat, &json!([message]));
    let mut said = messages(&conversation)[0].clone();
    assert_eq!(said.origin.take(), Some(origin()), "the model said it");
    said
}

#[test]
fn every_part_of_the_user_is_read() {
    let url = "data:image/png;base64,AAAA";
    let image = Block::Image(Image::new("image/png", "AAAA"));
    let file =
        Document { media_type: "application/pdf".into(), name: Some("a.pdf".into()), data: "AAAA".into() };
    let conversation = read(
        OpenAiChat,
        &json!([{"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
            {"type": "image_url", "image_url": url},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        ]}]),
    );
    assert_eq!(blocks(&conversation), [Block::text("look"), image.clone(), image, Block::Document(file)]);
}

#[test]
fn instructions_are_the_system_prompt_before_the_first_message_and_stay_where_they_are_later() {
    let conversation = read(
        OpenAiChat,
        &json!([
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
            {"role": "user", "content": "hello"},
            {"role": "developer", "content": "from now on"},
        ]),
    );
    assert_eq!(conversation.system, "a\n\nb\n\nc");
    let expected = [Message::user_text("hello"), Message::injected("from now on", "system")];
    assert_eq!(messages(&conversation), expected.iter().collect::<Vec<_>>());
}

#[test]
fn results_that_follow_each_other_are_one_message() {
    let png = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let conversation = read(
        OpenAiChat,
        &json!([
            {"role": "tool", "tool_call_id": "a", "name": "clock", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}, png]},
            {"role": "tool", "tool_call_id": "c", "content": null},
            {"role": "user", "content": "go on"},
            {"role": "tool", "tool_call_id": "d", "content": "four"},
        ]),
    );
    let image = Block::Image(Image::new("image/png", "AAAA"));
    let content = ToolContent::Blocks(vec![Block::text("two"), image]);
    let two = ToolResult { call_id: "b".into(), content, is_error: false };
    let expected = [
        Message::user(vec![
            Block::result("a", "one", false),
            Block::ToolResult(two),
            Block::result("c", "", false),
        ]),
        Message::user_text("go on"),
        Message::user(vec![Block::result("d", "four", false)]),
    ];
    assert_eq!(messages(&conversation), expected.iter().collect::<Vec<_>>());
}

#[test]
fn calls_are_read_whatever_their_arguments_look_like() {
    let object = json!({"zone": "UTC"});
    for (arguments, args, malformed) in [
        (json!("{\"zone\":\"UTC\"}"), object.clone(), None),
        (json!(""), json!({}), None),
        (json!("null"), json!({}), None),
        (Value::Null, json!({}), None),
        (object.clone(), object, None),
        (json!("{\"zone\":"), json!({}), Some("{\"zone\":")),
    ] {
        let call = json!({"id": "c", "type": "function", "index": 0,
            "function": {"name": "clock", "arguments": arguments}});
        let message = said(&json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let malformed = malformed.map(str::to_owned);
        let expected = ToolCall { malformed, ..ToolCall::new("c", "clock", args) };
        assert_eq!(message.content, [Block::ToolCall(expected)]);
    }
}

#[test]
fn a_call_of_the_old_kind_gets_an_id_and_its_result_the_same() {
    let conversation = read(
        OpenAiChat,
        &json!([
            {"role": "user", "content": "what time is it?"},
            {"role": "assistant", "content": null, "function_call": {"name": "clock", "arguments": "{}"}},
            {"role": "function", "name": "clock", "content": "12:00"},
            {"role": "assistant", "content": null, "function_call": {"name": "clock", "arguments": "{}"}},
            {"role": "function", "name": "clock", "content": "12:01"},
        ]),
    );
    let all = messages(&conversation);
    let ids: Vec<&str> =
        all.iter().flat_map(|message| message.calls()).map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["function_1", "function_3"]);
    assert_eq!(all[2].content, [Block::result("function_1", "12:00", false)]);
    assert_eq!(all[4].content, [Block::result("function_3", "12:01", false)]);
}

#[test]
fn a_call_that_is_repeated_in_the_old_form_is_one_call() {
    let function = json!({"name": "clock", "arguments": "{}"});
    let call = json!({"id": "c", "type": "function", "function": function});
    let message = said(&json!({"role": "assistant", "tool_calls": [call], "function_call": function}));
    assert_eq!(message.content, [Block::ToolCall(ToolCall::new("c", "clock", json!({})))]);
}

#[test]
fn thoughts_are_read_from_every_field_that_has_them() {
    let part = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "so"}]);
    for message in [
        json!({"role": "assistant", "content": "so", "reasoning_content": "hm"}),
        json!({"role": "assistant", "content": "so", "reasoning": "hm", "reasoning_content": "hm"}),
        json!({"role": "assistant", "content": "so", "reasoning_text": "hm", "reasoning": ""}),
        json!({"role": "assistant", "content": part}),
    ] {
        assert_eq!(said(&message).content, [Block::Thinking(thought("hm")), Block::text("so")]);
    }
    let nothing =
        json!({"role": "assistant", "content": "so", "reasoning_content": "", "reasoning_details": []});
    assert_eq!(said(&nothing).content, [Block::text("so")]);
}

#[test]
fn details_of_reasoning_are_kept_as_they_are() {
    let items = json!([
        {"type": "reasoning.text", "text": "h", "signature": "s", "index": 0},
        {"type": "reasoning.text", "text": "m", "index": 0},
        {"type": "reasoning.encrypted", "data": "x"},
    ]);
    let message = said(&json!({"role": "assistant", "content": "so", "reasoning_details": items}));
    let wire = Some(WireData { origin: origin(), data: json!({"reasoning_details": items}) });
    let expected = Thinking { signature: Some("s".into()), wire, ..thought("hm") };
    assert_eq!(message.content[0], Block::Thinking(expected), "fragments are whole here, and not joined");
}

#[test]
fn a_refusal_is_why_the_message_ended() {
    let refused = Some(StopReason::Refusal(Some("I cannot.".into())));
    for message in [
        json!({"role": "assistant", "content": null, "refusal": "I cannot."}),
        json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}),
    ] {
        let message = said(&message);
        assert_eq!((message.stop, message.content), (refused.clone(), Vec::new()));
    }
}

#[test]
fn a_message_with_the_fields_of_an_answer_that_say_nothing_is_read() {
    let message = said(&json!({
        "role": "assistant", "content": "hello", "refusal": null, "annotations": [], "audio": null,
        "function_call": null, "tool_calls": null, "prefix": false,
    }));
    assert_eq!(message.content, [Block::text("hello")]);
}
