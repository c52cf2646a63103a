use serde_json::{Value, json};
use zk_core::model::{
    Block, Document, Image, Message, Role, Text, Thinking, ToolCall, ToolContent, ToolResult, WireData,
};
use zk_providers::formats::Format::AnthropicMessages;
use zk_providers::formats::{Conversation, Format};

use super::{blocks, messages, origin, read};

fn image() -> Block {
    Block::Image(Image::new("image/png", "AAAA"))
}

fn document(media_type: &str, name: Option<&str>, data: &str) -> Block {
    Block::Document(Document {
        media_type: media_type.into(),
        name: name.map(str::to_owned),
        data: data.into(),
    })
}

fn wire(data: Value) -> Option<WireData> {
    Some(WireData { origin: origin(), data })
}

fn thinking() -> Thinking {
    Thinking { origin: Some(origin()), ..Thinking::default() }
}

fn assert_read(role: &str, block: &Value, expected: &Block) {
    for marked in [false, true] {
        let mut block = block.clone();
        if marked {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        let conversation = read(AnthropicMessages, &json!([{"role": role, "content": [block]}]));
        assert_eq!(blocks(&conversation), std::slice::from_ref(expected));
    }
}

#[test]
fn every_block_of_the_user_is_read() {
    let png = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"});
    let notes = json!({"type": "text", "media_type": "text/plain", "data": "a"});
    let inline = json!({"type": "url", "url": "data:image/png;base64,AAAA"});
    for (block, expected) in [
        (json!({"type": "text", "text": "hello"}), Block::text("hello")),
        (json!({"type": "image", "source": png}), image()),
        (json!({"type": "image", "source": inline}), image()),
        (
            json!({"type": "document", "source": pdf, "title": "a.pdf", "context": null}),
            document("application/pdf", Some("a.pdf"), "AAAA"),
        ),
        (
            json!({"type": "document", "source": notes, "citations": {"enabled": false}}),
            document("text/plain", None, "YQ=="),
        ),
        (
            json!({"type": "tool_result", "tool_use_id": "t", "content": "done"}),
            Block::result("t", "done", false),
        ),
        (
            json!({"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": true}),
            Block::result("t", "no", true),
        ),
        (json!({"type": "tool_result", "tool_use_id": "t"}), Block::result("t", "", false)),
        (
            json!({"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "text", "text": "seen", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": png}, {"type": "document", "source": pdf}]}),
            Block::ToolResult(ToolResult {
                call_id: "t".into(),
                content: ToolContent::Blocks(vec![
                    Block::text("seen"),
                    image(),
                    document("application/pdf", None, "AAAA"),
                ]),
                is_error: false,
            }),
        ),
    ] {
        assert_read("user", &block, &expected);
    }
}

#[test]
fn every_block_of_the_model_is_read() {
    let citations = json!([{"type": "char_location", "cited_text": "a", "document_index": 0}]);
    let caller = json!({"type": "code_execution_20250825", "tool_id": "srv"});
    let call = ToolCall::new("t", "clock", json!({"zone": "UTC"}));
    for (block, expected) in [
        (
            json!({"type": "text", "text": "a", "citations": citations}),
            Block::Text(Text { text: "a".into(), wire: wire(json!({"citations": citations})) }),
        ),
        (json!({"type": "text", "text": "a", "citations": []}), Block::text("a")),
        (
            json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
            Block::Thinking(Thinking { text: "hm".into(), signature: Some("s".into()), ..thinking() }),
        ),
        (
            json!({"type": "thinking", "thinking": "hm", "signature": ""}),
            Block::Thinking(Thinking { text: "hm".into(), ..thinking() }),
        ),
        (
            json!({"type": "redacted_thinking", "data": "xyz"}),
            Block::Thinking(Thinking { redacted: Some("xyz".into()), ..thinking() }),
        ),
        (
            json!({"type": "tool_use", "id": "t", "name": "clock", "input": {"zone": "UTC"}}),
            Block::ToolCall(call.clone()),
        ),
        (
            json!({"type": "tool_use", "id": "t", "name": "clock", "input": {"zone": "UTC"}, "caller": caller}),
            Block::ToolCall(ToolCall { wire: wire(json!({"caller": caller})), ..call }),
        ),
    ] {
        assert_read("assistant", &block, &expected);
    }
}

#[test]
fn what_only_the_provider_has_is_kept_as_it_is_and_told_in_words() {
    for (block, told) in [
        (
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "rust"}}),
            "web search: rust",
        ),
        (
            json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
            "web search tool result",
        ),
        (
            json!({"type": "compaction", "content": "so far", "encrypted_content": "x"}),
            "the provider compacted the context",
        ),
        (json!({"type": "newer_than_this_tool_result", "depth": 2}), "newer than this tool result"),
    ] {
        let expected = Block::provider(told, &origin(), block.clone());
        assert_read("assistant", &block, &expected);
    }
}

#[test]
fn a_plain_text_is_a_block_and_none_is_no_block() {
    let texts = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "content": ""}]);
    let conversation = read(AnthropicMessages, &texts);
    assert_eq!(messages(&conversation)[0], &Message::user_text("hello"));
    assert_eq!(messages(&conversation)[1].content, []);
    assert_eq!(messages(&conversation)[1].origin, Some(origin()), "the model said it");
}

#[test]
fn instructions_before_the_first_message_are_the_system_prompt_and_later_ones_stay_where_they_are() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let body = json!({
        "model": "model", "max_tokens": 10,
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
        "messages": [
            {"role": "system", "content": text("c")},
            {"role": "user", "content": text("hello")},
            {"role": "system", "content": "from now on"},
        ],
    });
    let conversation = read(AnthropicMessages, &body);
    assert_eq!(conversation.system, "a\n\nb\n\nc");
    let expected = [Message::user_text("hello"), Message::injected("from now on", "system")];
    assert_eq!(messages(&conversation), expected.iter().collect::<Vec<_>>());
    assert!(messages(&conversation).iter().all(|message| message.role == Role::User));
}

#[test]
fn the_format_is_that_of_what_only_one_of_them_has() {
    let call =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]});
    let result = json!({"role": "tool", "tool_call_id": "t", "content": "done"});
    let hello = json!({"role": "user", "content": "hello"});
    let system = json!({"role": "system", "content": "be brief"});
    let chat = Some(Format::OpenAiChat);
    for (value, expected) in [
        (json!([hello]), None),
        (json!([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]), None),
        (json!([]), None),
        (json!("hello"), None),
        (json!([hello, call]), Some(AnthropicMessages)),
        (json!([hello, result]), chat),
        (json!([system, hello]), chat),
        (json!([hello, system]), None),
        (json!([system, hello, call]), Some(AnthropicMessages)),
        (json!({"messages": [hello]}), None),
        (json!({"messages": [hello], "system": null}), None),
        (json!({"messages": [hello], "system": "be brief"}), Some(AnthropicMessages)),
        (json!({"messages": [hello], "tools": [{"name": "n", "input_schema": {}}]}), Some(AnthropicMessages)),
        (json!({"messages": [hello], "tools": [{"type": "function", "function": {}}]}), chat),
        (json!([{"role": "assistant", "content": null, "refusal": "no"}]), chat),
        (json!([{"role": "assistant", "content": "yes", "refusal": null, "tool_calls": null}]), None),
        (
            json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}]),
            chat,
        ),
        (
            json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}]),
            Some(AnthropicMessages),
        ),
        (
            json!([{"role": "assistant", "content": [{"type": "mcp_tool_use", "id": "m"}]}]),
            Some(AnthropicMessages),
        ),
        (json!([call, result]), Some(AnthropicMessages)),
    ] {
        assert_eq!(Format::detect(&value), expected, "{value}");
    }
}

#[test]
fn what_contradicts_the_format_that_was_found_is_said_with_its_place() {
    let mixed = json!([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
        {"role": "tool", "tool_call_id": "t", "content": "done"},
    ]);
    let error = Conversation::read(&mixed, &origin()).expect_err("it is neither");
    assert_eq!(error.path(), Some("messages[1].tool_call_id"));
}
