use serde_json::{Value, json};
use zk_providers::formats::Format::{self, AnthropicMessages, OpenAiChat};
use zk_providers::formats::FormatError;

use super::origin;

fn assert_refused(format: Format, value: &Value, message: &str) {
    let error = format.read(value, &origin()).expect_err("it cannot be read");
    assert_eq!(error.to_string(), message, "{value}");
}

#[test]
fn what_is_no_conversation_is_said_to_be_none() {
    for format in [AnthropicMessages, OpenAiChat] {
        for (value, message) in [
            (json!(7), "`messages` should be a list of messages and is `7`"),
            (json!({}), "`messages` should be a list and is missing"),
            (json!({"messages": "hello"}), "`messages` should be a list and is `hello`"),
            (json!(["hello"]), "`messages[0]` should be an object and is `hello`"),
            (json!([{"content": "hello"}]), "`messages[0].role` should be a text and is missing"),
        ] {
            let error = format.read(&value, &origin()).expect_err("it cannot be read");
            assert_eq!(error.to_string(), message, "{value}");
        }
    }
}

#[test]
fn what_messages_do_not_have_is_said_with_its_place() {
    let user = |block: Value| json!([{"role": "user", "content": [block]}]);
    let model = |block: Value| json!([{"role": "assistant", "content": [block]}]);
    for (value, message) in [
        (
            json!([{"role": "tool", "content": "x"}]),
            "`messages[0].role` should be `user`, `assistant` or `system` and is `tool`",
        ),
        (
            json!([{"role": "user", "content": 1}]),
            "`messages[0].content` should be a text or a list of blocks and is `1`",
        ),
        (
            json!([{"role": "user", "content": "x", "usage": {"input_tokens": 1}}]),
            "`messages[0].usage` is not a field that can be kept in a history: take it out if nobody needs it",
        ),
        (user(json!({"text": "x"})), "`messages[0].content[0].type` should be a text and is missing"),
        (
            user(json!({"type": "text", "text": ["x"]})),
            "`messages[0].content[0].text` should be a text and is a list",
        ),
        (
            user(json!({"type": "tool_use", "id": "t", "name": "n", "input": {}})),
            "`messages[0].content[0].type` should be a kind of block that a user message has and is `tool_use`",
        ),
        (
            model(json!({"type": "tool_result", "tool_use_id": "t"})),
            "`messages[0].content[0].type` should be a kind of block that an assistant message has and is `tool_result`",
        ),
        (
            model(json!({"type": "tool_use", "id": "t", "name": "n", "input": "x"})),
            "`messages[0].content[0].input` should be an object and is `x`",
        ),
        (
            user(json!({"type": "tool_result", "tool_use_id": "t", "is_error": 1})),
            "`messages[0].content[0].is_error` should be true or false and is `1`",
        ),
        (
            user(
                json!({"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "x"}}),
            ),
            "`messages[0].content[0].source.media_type` should be `text/plain` and is `text/html`",
        ),
    ] {
        assert_refused(AnthropicMessages, &value, message);
    }
}

#[test]
fn what_chats_do_not_have_is_said_with_its_place() {
    let call = |call: Value| json!([{"role": "assistant", "tool_calls": [call]}]);
    for (value, message) in [
        (
            json!([{"role": "narrator", "content": "x"}]),
            "`messages[0].role` should be `system`, `developer`, `user`, `assistant`, `tool` or `function` and is `narrator`",
        ),
        (
            json!({"system": "x", "messages": []}),
            "`system` should be a message of the role `system` and is `x`",
        ),
        (
            json!([{"role": "tool", "content": "x"}]),
            "`messages[0].tool_call_id` should be a text and is missing",
        ),
        (
            json!([{"role": "tool", "tool_call_id": "t", "content": {}}]),
            "`messages[0].content` should be a text and is an object",
        ),
        (
            json!([{"role": "function", "name": "n", "content": "x"}]),
            "`messages[0].name` should be the function called before it and is `n`",
        ),
        (
            call(json!({"type": "function", "function": {"name": "n"}})),
            "`messages[0].tool_calls[0].id` should be a text and is missing",
        ),
        (
            call(json!({"id": "c", "type": "custom", "custom": {}})),
            "`messages[0].tool_calls[0].type` should be `function`, the only kind of call a history holds and is `custom`",
        ),
        (
            call(json!({"id": "c", "function": {"name": "n", "arguments": 1}})),
            "`messages[0].tool_calls[0].function.arguments` should be the text of an object and is `1`",
        ),
        (
            json!([{"role": "assistant", "content": "x", "reasoning": "a", "reasoning_content": "b"}]),
            "`messages[0].reasoning` should be the same as in the field beside it and is `a`",
        ),
        (
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "AAAA"}}]}]),
            "`messages[0].content[0].image_url.url` should be a URL that begins with `data:` and is `AAAA`",
        ),
        (
            json!([{"role": "system", "content": [{"type": "image_url"}]}]),
            "`messages[0].content[0].type` should be `text`, the only kind there is in instructions and is `image_url`",
        ),
    ] {
        assert_refused(OpenAiChat, &value, message);
    }
}

#[test]
fn what_a_history_has_no_place_for_is_never_left_out() {
    let user = |block: Value| json!([{"role": "user", "content": [block]}]);
    let source = |source: Value| user(json!({"type": "document", "source": source}));
    let text = json!({"type": "text", "media_type": "text/plain", "data": "x"});
    let model = |name: &str, value: Value| json!([{"role": "assistant", "content": "x", name: value}]);
    for (format, value, path) in [
        (
            AnthropicMessages,
            source(json!({"type": "url", "url": "https://a.example/b.pdf"})),
            "messages[0].content[0].source.url",
        ),
        (AnthropicMessages, source(json!({"type": "file", "file_id": "f"})), "messages[0].content[0].source"),
        (
            AnthropicMessages,
            source(json!({"type": "content", "content": "x"})),
            "messages[0].content[0].source",
        ),
        (
            AnthropicMessages,
            user(json!({"type": "document", "source": text, "citations": {"enabled": true}})),
            "messages[0].content[0].citations",
        ),
        (
            AnthropicMessages,
            user(json!({"type": "document", "source": text, "context": "x"})),
            "messages[0].content[0].context",
        ),
        (AnthropicMessages, user(json!({"type": "search_result", "source": "x"})), "messages[0].content[0]"),
        (
            AnthropicMessages,
            user(json!({"type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "tool_reference", "tool_name": "n"}]})),
            "messages[0].content[0].content[0]",
        ),
        (
            AnthropicMessages,
            json!([{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n",
            "input": {}, "extra": 1}]}]),
            "messages[0].content[0].extra",
        ),
        (
            OpenAiChat,
            user(json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}})),
            "messages[0].content[0].image_url.url",
        ),
        (OpenAiChat, user(json!({"type": "file", "file": {"file_id": "f"}})), "messages[0].content[0].file"),
        (OpenAiChat, user(json!({"type": "input_audio", "input_audio": {}})), "messages[0].content[0]"),
        (OpenAiChat, model("audio", json!({"id": "a"})), "messages[0].audio"),
        (OpenAiChat, model("annotations", json!([{}])), "messages[0].annotations"),
        (OpenAiChat, model("prefix", json!(true)), "messages[0].prefix"),
    ] {
        let error = format.read(&value, &origin()).expect_err("it cannot be read");
        assert!(matches!(error, FormatError::Unsupported { .. } | FormatError::Unknown { .. }), "{error:?}");
        assert_eq!(error.path(), Some(path), "{error}");
    }
}

#[test]
fn an_error_shows_nothing_long_of_the_conversation() {
    let value = json!([{"role": "user", "content": "x"}, {"role": "x".repeat(10_000)}]);
    let error = OpenAiChat.read(&value, &origin()).expect_err("no role").to_string();
    assert!(error.len() < 200 && error.starts_with("`messages[1].role` should be"), "{error}");
}
