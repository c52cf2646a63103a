use serde_json::Value;

use super::Format;

/// Kinds of blocks that only the Messages API has, besides those of provider tools.
const BLOCKS: [&str; 9] = [
    "tool_use",
    "tool_result",
    "image",
    "document",
    "redacted_thinking",
    "search_result",
    "container_upload",
    "compaction",
    "fallback",
];
/// Kinds of parts that only Chat Completions has.
const PARTS: [&str; 5] = ["image_url", "input_audio", "file", "video_url", "refusal"];
/// Fields of a message that only Chat Completions has.
const FIELDS: [&str; 9] = [
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "audio",
    "reasoning",
    "reasoning_content",
    "reasoning_text",
    "reasoning_details",
];

impl Format {
    /// Detects the format of a list of messages, or of a request body with one, by the first feature that
    /// only one format has. Contradicting features are reported when the conversation is read.
    ///
    /// | only in Messages | only in Chat Completions |
    /// |---|---|
    /// | blocks `tool_use`, `tool_result`, `image`, `document`, and those of tools that run at the provider | parts `image_url`, `input_audio`, `file`, `video_url`, `refusal` |
    /// | `thinking` with a text, `redacted_thinking` | `thinking` with a list, `reasoning_content` and its like beside the content |
    /// | `citations` of a text | `tool_calls`, `tool_call_id`, `function_call`, `refusal` |
    /// | in a body: `system`, tools with an `input_schema` | the roles `tool`, `function` and `developer`; in a body: tools with a `function` |
    ///
    /// A conversation that begins with the role `system` is in the format of Chat Completions, unless a
    /// feature says otherwise. Later in a conversation this role decides nothing, since newer models accept
    /// it in the Messages API too. A conversation of text only fits both formats and gives `None`; both read
    /// it alike.
    ///
    /// ```
    /// use serde_json::json;
    /// use zk_providers::formats::Format;
    ///
    /// let call = json!({"type": "tool_use", "id": "t1", "name": "time", "input": {}});
    /// let messages = json!([{"role": "assistant", "content": [call]}]);
    /// assert_eq!(Format::detect(&messages), Some(Format::AnthropicMessages));
    /// let messages = json!([{"role": "tool", "tool_call_id": "t1", "content": "noon"}]);
    /// assert_eq!(Format::detect(&messages), Some(Format::OpenAiChat));
    /// assert_eq!(Format::detect(&json!([{"role": "user", "content": "hello"}])), None);
    /// ```
    #[must_use]
    pub fn detect(value: &Value) -> Option<Self> {
        let list = |name: &str| value.get(name).and_then(Value::as_array).into_iter().flatten();
        let messages = || value.as_array().into_iter().flatten().chain(list("messages"));
        let system = value.get("system").filter(|system| !system.is_null());
        let is_instruction = |message: &Value| message.get("role").is_some_and(|role| role == "system");
        system
            .map(|_| Self::AnthropicMessages)
            .or_else(|| messages().find_map(of_message))
            .or_else(|| list("tools").find_map(of_tool))
            .or_else(|| messages().next().is_some_and(is_instruction).then_some(Self::OpenAiChat))
    }
}

fn of_message(message: &Value) -> Option<Format> {
    let fields = message.as_object()?;
    let role = fields.get("role").and_then(Value::as_str);
    let has = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
    if matches!(role, Some("tool" | "function" | "developer")) || FIELDS.iter().any(has) {
        return Some(Format::OpenAiChat);
    }
    fields.get("content")?.as_array()?.iter().find_map(of_part)
}

fn of_part(part: &Value) -> Option<Format> {
    let field = |name: &str| part.get(name).filter(|value| !value.is_null());
    let kind = field("type")?.as_str()?;
    match kind {
        "thinking" if field("thinking").is_some_and(Value::is_array) => Some(Format::OpenAiChat),
        "thinking" => Some(Format::AnthropicMessages),
        "text" => field("citations").map(|_| Format::AnthropicMessages),
        kind if PARTS.contains(&kind) => Some(Format::OpenAiChat),
        kind if BLOCKS.contains(&kind) => Some(Format::AnthropicMessages),
        // Calls and results of tools that the provider runs.
        kind if kind.ends_with("_tool_use") || kind.ends_with("_tool_result") => {
            Some(Format::AnthropicMessages)
        }
        _ => None,
    }
}

fn of_tool(tool: &Value) -> Option<Format> {
    if tool.get("function").is_some_and(Value::is_object) {
        return Some(Format::OpenAiChat);
    }
    tool.get("input_schema").map(|_| Format::AnthropicMessages)
}
