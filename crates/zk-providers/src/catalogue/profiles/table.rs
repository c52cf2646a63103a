use std::borrow::Cow;

use zk_core::model::IdRule;

use super::patterns::ModelPattern;
use super::profile::{
    CacheMarks, CompatProfile, EchoRule, EmptyContent, FieldValue, FixedField, JsonSchemas, ReasoningEcho,
    ReasoningFormat, SystemRole, TOLERANT, ToolChoices, UNKNOWN,
};

const REASONING: ReasoningEcho = ReasoningEcho::In(Cow::Borrowed("reasoning"));
const REASONING_CONTENT: ReasoningEcho = ReasoningEcho::In(Cow::Borrowed("reasoning_content"));

/// Echoes `reasoning_content` on every message. (It is sent even when thinking is off, which the servers
/// allow, so that the bytes of a message do not depend on the next request.)
const fn reasoning_content_or(blank: &'static str) -> ReasoningEcho {
    ReasoningEcho::Always { field: Cow::Borrowed("reasoning_content"), blank: Cow::Borrowed(blank) }
}

const fn echo(pattern: &'static str, echo: ReasoningEcho) -> EchoRule {
    EchoRule { models: ModelPattern::built_in(pattern), echo }
}

const PARSED: &[FixedField] = &[FixedField {
    // Otherwise these models write their reasoning between tags into the answer.
    name: Cow::Borrowed("reasoning_format"),
    value: FieldValue::Word(Cow::Borrowed("parsed")),
    models: Some(ModelPattern::built_in("qwen-?3|qwq|deepseek-r1")),
    with_tools: false,
}];

/// Name of the profile for the service that defined Chat Completions.
pub(crate) const REFERENCE: &str = "openai";

/// Small and older open models that were not trained to call tools: left to themselves they write about a call.
const WITHOUT_CALLS: ModelPattern = ModelPattern::built_in(
    "smollm2?-(135|360)m|smollm-|tinyllama|gemma-?[23]?-(270m|1b|2b)|phi-?(1|2|3|3\\.5)-|llama-?2-|\
     vicuna|openhermes|zephyr|stablelm",
);

/// Built-in profiles by name. The first one is for unknown servers.
pub const PROFILES: &[CompatProfile] = &[
    UNKNOWN,
    CompatProfile {
        name: Cow::Borrowed(REFERENCE),
        catalogue: Some(Cow::Borrowed("openai")),
        max_tokens_field: Cow::Borrowed("max_completion_tokens"),
        system_role: SystemRole::DeveloperIfReasoning,
        store: Some(false),
        json_schema: JsonSchemas::WithTools,
        session_field: Some(Cow::Borrowed("prompt_cache_key")),
        documents: true,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("openrouter"),
        catalogue: Some(Cow::Borrowed("openrouter")),
        json_schema: JsonSchemas::For(ModelPattern::built_in("^~?openai/(gpt-(4o|4\\.1|[5-9])|o[1-9])")),
        stream_options: false,
        reasoning: ReasoningFormat::Nested,
        echo: REASONING,
        echo_models: Cow::Borrowed(&[
            echo("deepseek", reasoning_content_or("")),
            echo("moonshotai/|kimi", reasoning_content_or(" ")),
        ]),
        echo_details: true,
        cache_marks: CacheMarks::For(ModelPattern::built_in("^~?(anthropic|google)/")),
        session_header: Some(Cow::Borrowed("x-session-id")),
        headers: Cow::Borrowed(&[
            (Cow::Borrowed("HTTP-Referer"), Cow::Borrowed(env!("CARGO_PKG_REPOSITORY"))),
            (Cow::Borrowed("X-Title"), Cow::Borrowed("zk")),
        ]),
        documents: true,
        ids: IdRule::UP_TO_64,
        tools_for_history: true,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("cerebras"),
        catalogue: Some(Cow::Borrowed("cerebras")),
        max_tokens_field: Cow::Borrowed("max_completion_tokens"),
        echo_models: Cow::Borrowed(&[echo("gpt-oss", REASONING), echo("glm", ReasoningEcho::Tags)]),
        fields: Cow::Borrowed(PARSED),
        unsupported: Cow::Borrowed(&[
            Cow::Borrowed("frequency_penalty"),
            Cow::Borrowed("presence_penalty"),
            Cow::Borrowed("logit_bias"),
            Cow::Borrowed("service_tier"),
            Cow::Borrowed("parallel_tool_calls"),
            Cow::Borrowed("prompt_cache_key"),
            Cow::Borrowed("store"),
        ]),
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("groq"),
        catalogue: Some(Cow::Borrowed("groq")),
        max_tokens_field: Cow::Borrowed("max_completion_tokens"),
        echo_models: Cow::Borrowed(&[echo("gpt-oss", REASONING)]),
        fields: Cow::Borrowed(PARSED),
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("deepseek"),
        catalogue: Some(Cow::Borrowed("deepseek")),
        reasoning: ReasoningFormat::ThinkingType,
        unforced_while_thinking: Some(ModelPattern::built_in("")),
        echo: reasoning_content_or(""),
        vision: false,
        empty_content: EmptyContent::Blank,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("mistral"),
        catalogue: Some(Cow::Borrowed("mistral")),
        json_schema: JsonSchemas::Alone,
        stream_options: false,
        tool_choice: ToolChoices::Any,
        echo: ReasoningEcho::Parts,
        empty_content: EmptyContent::Blank,
        ids: IdRule::NINE,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("xai"),
        json_schema: JsonSchemas::Alone,
        catalogue: Some(Cow::Borrowed("xai")),
        max_tokens_field: Cow::Borrowed("max_completion_tokens"),
        session_header: Some(Cow::Borrowed("x-grok-conv-id")),
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("zai"),
        catalogue: Some(Cow::Borrowed("zai")),
        tool_choice: ToolChoices::AutoOnly,
        reasoning: ReasoningFormat::ThinkingType,
        always_thinking: Some(ModelPattern::built_in("^glm-5\\.3")),
        echo: REASONING_CONTENT,
        fields: Cow::Borrowed(&[FixedField {
            name: Cow::Borrowed("tool_stream"),
            value: FieldValue::Flag(true),
            models: None,
            with_tools: true,
        }]),
        finish_optional: false,
        silent_overflow: true,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("moonshot"),
        catalogue: Some(Cow::Borrowed("moonshot")),
        reasoning: ReasoningFormat::ThinkingType,
        unforced_while_thinking: Some(ModelPattern::built_in("^kimi-k2")),
        always_thinking: Some(ModelPattern::built_in("^kimi-(k2\\.7|k3)")),
        // This server treats an empty string as missing.
        echo: reasoning_content_or(" "),
        session_field: Some(Cow::Borrowed("prompt_cache_key")),
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("fireworks"),
        catalogue: Some(Cow::Borrowed("fireworks")),
        echo: REASONING_CONTENT,
        session_header: Some(Cow::Borrowed("x-session-affinity")),
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("baseten"),
        catalogue: Some(Cow::Borrowed("baseten")),
        reasoning: ReasoningFormat::TemplateArgs,
        echo: REASONING_CONTENT,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("together"),
        catalogue: Some(Cow::Borrowed("together")),
        reasoning: ReasoningFormat::Enabled,
        always_thinking: Some(ModelPattern::built_in("gpt-oss|/glm-5\\.3|/kimi-k3")),
        echo: REASONING,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("huggingface"),
        catalogue: Some(Cow::Borrowed("huggingface")),
        think_tags: true,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("nvidia"),
        catalogue: Some(Cow::Borrowed("nvidia")),
        reasoning: ReasoningFormat::TemplateKwargs,
        think_tags: true,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("vllm"),
        inline_tools: Some(WITHOUT_CALLS),
        json_schema: JsonSchemas::Alone,
        reasoning: ReasoningFormat::TemplateKwargs,
        echo: REASONING,
        think_tags: true,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("lmstudio"),
        inline_tools: Some(WITHOUT_CALLS),
        json_schema: JsonSchemas::Alone,
        tool_choice: ToolChoices::NoName,
        think_tags: true,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("llama.cpp"),
        json_schema: JsonSchemas::Alone,
        any_schema: true,
        inline_tools: Some(WITHOUT_CALLS),
        tool_choice: ToolChoices::NoName,
        reasoning: ReasoningFormat::TemplateKwargs,
        echo: REASONING_CONTENT,
        think_tags: true,
        finish_optional: false,
        ..TOLERANT
    },
];
