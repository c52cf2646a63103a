use serde_json::{Value, json};
use zk_core::model::wire::{CONTINUE, INTERRUPTED, Repair};
use zk_core::model::{
    Block, Image, Message, Model, StopReason, Thinking, ThinkingSupport, ToolCall, ToolContent, ToolResult,
};
use zk_providers::CompatProfile;
use zk_providers::formats::Conversation;
use zk_providers::formats::Format::{AnthropicMessages, OpenAiChat};

use super::origin;

fn model() -> Model {
    Model::unknown("maker", "model")
}

fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation { system: String::new(), messages: messages.into_iter().map(Message::shared).collect() }
}

fn call(id: &str) -> Block {
    Block::ToolCall(ToolCall::new(id, "clock", json!({"zone": "UTC"})))
}

fn thought(text: &str) -> Block {
    let origin = Some(origin());
    Block::Thinking(Thinking {
        text: text.into(),
        signature: Some("s".into()),
        origin,
        ..Thinking::default()
    })
}

/// A whole exchange with a tool.
fn exchange() -> Conversation {
    let messages = vec![
        Message::user_text("What time is it?"),
        Message::assistant(vec![thought("A clock."), Block::text("Let me look."), call("c1")]),
        Message::user(vec![Block::result("c1", "12:00", false)]),
        Message::assistant(vec![Block::text("Noon.")]),
    ];
    Conversation { system: "You tell the time.".into(), ..conversation(messages) }
}

#[test]
fn a_conversation_is_written_in_messages_as_it_is_sent() {
    let written = exchange().write(AnthropicMessages, &model()).expect("it can be written");
    assert_eq!(written.repairs, []);
    assert_eq!(
        written.into_body(),
        json!({
            "system": [{"type": "text", "text": "You tell the time."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What time is it?"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "A clock.", "signature": "s"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "c1", "name": "clock", "input": {"zone": "UTC"}},
                ]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "12:00"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Noon."}]},
            ],
        })
    );
}

#[test]
fn a_conversation_is_written_in_chats_as_it_is_sent() {
    let written = exchange().write(OpenAiChat, &model()).expect("it can be written");
    assert_eq!((&written.system, &*written.repairs), (&None, [].as_slice()));
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "clock", "arguments": "{\"zone\":\"UTC\"}"}});
    assert_eq!(
        Value::from(written.messages),
        json!([
            {"role": "system", "content": "You tell the time."},
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
            {"role": "assistant", "content": "Noon."},
        ])
    );
}

#[test]
fn a_profile_says_how_a_server_that_is_like_openais_wants_it() {
    let deepseek = CompatProfile::named("deepseek").expect("a profile");
    let written = exchange().write_chat(&deepseek, &model());
    assert_eq!(written.messages[2]["reasoning_content"], "A clock.");
    let mut reasoning = model();
    reasoning.capabilities.thinking = ThinkingSupport::Effort;
    let written = exchange().write(OpenAiChat, &reasoning).expect("it can be written");
    assert_eq!(written.messages[0]["role"], "developer", "as OpenAI calls it for models that reason");
}

#[test]
fn what_another_model_thought_is_not_written() {
    let written = exchange().write(AnthropicMessages, &Model::unknown("maker", "other"));
    let written = written.expect("it can be written");
    assert_eq!(written.messages[1]["content"][0]["type"], "text");
}

#[test]
fn nothing_is_put_before_or_behind_a_conversation() {
    let said = |text: &str| Message::assistant(vec![Block::text(text)]);
    for messages in [
        vec![],
        vec![said("hello")],
        vec![said("hello"), Message::user_text("hi")],
        vec![Message::user_text("hi"), said("hello")],
        vec![Message::user_text(CONTINUE)],
        vec![said("hello"), Message::user_text(CONTINUE), said("so")],
        vec![said("hello"), Message::user_text(CONTINUE)],
    ] {
        let conversation = conversation(messages);
        for format in [AnthropicMessages, OpenAiChat] {
            let written = conversation.write(format, &model()).expect("it can be written");
            assert_eq!(written.repairs, []);
            let texts: Vec<String> = conversation.messages.iter().map(|message| message.text()).collect();
            let content = |message: &Value| match &message["content"] {
                Value::String(text) => text.clone(),
                blocks => blocks[0]["text"].as_str().expect("a text").to_owned(),
            };
            assert_eq!(written.messages.iter().map(content).collect::<Vec<_>>(), texts, "{format:?}");
        }
    }
}

#[test]
fn what_a_user_said_before_a_refusal_stays_the_end() {
    let refusal = StopReason::Refusal(None);
    let refused = Message { stop: Some(refusal), ..Message::assistant(vec![Block::text("I")]) };
    let said = Message::assistant(vec![Block::text("hello")]);
    let conversation = conversation(vec![said, Message::user_text(CONTINUE), refused]);
    let written = conversation.write(OpenAiChat, &model()).expect("it can be written");
    assert_eq!(written.repairs, [Repair::FailedResponse], "what was refused is left out, and told");
    assert_eq!(written.messages.last().expect("a message")["content"], CONTINUE);
}

#[test]
fn what_has_to_be_mended_is_mended_and_told() {
    let conversation = conversation(vec![
        Message::user(vec![Block::text("go"), Block::result("nobody", "x", false)]),
        Message::assistant(vec![call("a b")]),
    ]);
    for format in [AnthropicMessages, OpenAiChat] {
        let written = conversation.write(format, &model()).expect("it can be written");
        let [orphan, new_id, missing] = written.repairs.as_slice() else { panic!("{:?}", written.repairs) };
        assert_eq!(*orphan, Repair::OrphanResult { call_id: "nobody".into() });
        assert_eq!(*missing, Repair::MissingResult { call_id: "a b".into() });
        let Repair::NewId { stored, sent } = new_id else { panic!("{new_id:?}") };
        assert_eq!(stored.as_str(), "a b");
        let last = written.messages.last().expect("a message").to_string();
        assert!(last.contains(INTERRUPTED) && last.contains(sent.as_str()), "{last}");
    }
}

#[test]
fn an_image_of_a_result_stays_in_it_where_the_format_has_it_there() {
    let image = Image::new("image/png", "AAAA");
    let content = ToolContent::Blocks(vec![Block::text("seen"), Block::Image(image)]);
    let result = ToolResult { call_id: "c1".into(), content, is_error: false };
    let conversation = conversation(vec![
        Message::user_text("look"),
        Message::assistant(vec![call("c1")]),
        Message::user(vec![Block::ToolResult(result)]),
    ]);
    let written = conversation.write(AnthropicMessages, &model()).expect("it can be written");
    assert_eq!(written.messages[2]["content"][0]["content"][1]["type"], "image");
    let written = conversation.write(OpenAiChat, &model()).expect("it can be written");
    assert_eq!(written.messages[3]["content"][0]["type"], "image_url", "it follows");
}
