use std::borrow::Cow;

use zk_core::model::IdRule;

/// How one server's Chat Completions differ from the others': data, so that a new vendor is a new row of
/// [`PROFILES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompatProfile {
    /// The name it is chosen by.
    pub name: Cow<'static, str>,
    /// The rows of the model table that are about this service; without it an id is looked up in all rows,
    /// for its window only.
    pub catalogue: Option<Cow<'static, str>>,
    /// The field of the output limit: `max_tokens`, or `max_completion_tokens`.
    pub max_tokens_field: Cow<'static, str>,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// The `store` field, if it is sent.
    pub store: Option<bool>,
    /// The `strict` field of every tool, if it is sent.
    pub strict: Option<bool>,
    /// Whether `stream_options: {include_usage: true}` is sent.
    pub stream_options: bool,
    /// Which forms of tool choice work.
    pub tool_choice: ToolChoices,
    /// How reasoning is asked for.
    pub reasoning: ReasoningFormat,
    /// Whether reasoning goes back with assistant messages.
    pub echo: ReasoningEcho,
    /// Whether prefixes are marked for the cache, in Anthropic's way.
    pub cache_marks: bool,
    /// The field that carries a stable key of the conversation, if there is one.
    pub session_field: Option<Cow<'static, str>>,
    /// Whether messages may hold images at all.
    pub vision: bool,
    /// Whether tool messages may hold images.
    pub image_in_tool_result: bool,
    /// Whether user messages may hold documents.
    pub documents: bool,
    /// The content of an assistant message that holds only calls.
    pub empty_content: EmptyContent,
    /// Whether tool messages name their tool.
    pub tool_result_name: bool,
    /// Whether an assistant message has to stand between tool messages and a user message.
    pub assistant_after_tools: bool,
    /// Which call ids are legal.
    pub ids: IdRule,
    /// Whether tools have to be named that a history used, even if none is offered.
    pub tools_for_history: bool,
    /// Whether `[DONE]` alone may end a response.
    pub finish_optional: bool,
    /// Whether an input above the window is answered as if nothing were wrong.
    pub silent_overflow: bool,
}

/// The role of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer` for models that reason, `system` for the others.
    DeveloperIfReasoning,
}

/// Which forms of tool choice a server honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoices {
    /// All of them.
    All,
    /// `required` but no name: a named tool is forced by offering no other.
    NoName,
    /// Only `auto` and `none`.
    AutoOnly,
}

/// How reasoning is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// It cannot be.
    None,
    /// `reasoning_effort: "high"`.
    Effort,
    /// `reasoning: {effort: "high"}`.
    Nested,
    /// `thinking: {type: "enabled"}` and `reasoning_effort`.
    ThinkingType,
    /// `enable_thinking: true`.
    EnableThinking,
    /// `chat_template_kwargs: {enable_thinking: true}`.
    TemplateKwargs,
}

/// Whether reasoning goes back with assistant messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningEcho {
    /// No.
    No,
    /// In this field, on messages that have some.
    In(Cow<'static, str>),
    /// In this field, on every message, empty if there is none.
    Always(Cow<'static, str>),
}

/// What stands for no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyContent {
    /// `null`.
    Null,
    /// The empty string.
    Blank,
    /// No field.
    Absent,
}

/// Any server, with nothing asked of it that one might not have.
const TOLERANT: CompatProfile = CompatProfile {
    name: Cow::Borrowed("openai_compat"),
    catalogue: None,
    max_tokens_field: Cow::Borrowed("max_tokens"),
    system_role: SystemRole::System,
    store: None,
    strict: None,
    stream_options: true,
    tool_choice: ToolChoices::All,
    reasoning: ReasoningFormat::Effort,
    echo: ReasoningEcho::No,
    cache_marks: false,
    session_field: None,
    vision: true,
    image_in_tool_result: false,
    documents: false,
    empty_content: EmptyContent::Null,
    tool_result_name: false,
    assistant_after_tools: false,
    ids: IdRule::UP_TO_40,
    tools_for_history: false,
    finish_optional: true,
    silent_overflow: false,
};

/// The profiles, by name. The first one is for servers nothing is known of.
pub const PROFILES: &[CompatProfile] = &[
    TOLERANT,
    CompatProfile {
        name: Cow::Borrowed("openai"),
        catalogue: Some(Cow::Borrowed("openai")),
        max_tokens_field: Cow::Borrowed("max_completion_tokens"),
        system_role: SystemRole::DeveloperIfReasoning,
        store: Some(false),
        session_field: Some(Cow::Borrowed("prompt_cache_key")),
        documents: true,
        finish_optional: false,
        ..TOLERANT
    },
    CompatProfile {
        name: Cow::Borrowed("llama.cpp"),
        tool_choice: ToolChoices::NoName,
        reasoning: ReasoningFormat::TemplateKwargs,
        finish_optional: false,
        ..TOLERANT
    },
];

impl CompatProfile {
    /// The profile called `name`.
    ///
    /// ```
    /// use zk_providers::CompatProfile;
    ///
    /// assert_eq!(CompatProfile::named("openai").unwrap().max_tokens_field, "max_completion_tokens");
    /// assert!(CompatProfile::named("no such server").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.iter().find(|profile| profile.name == name).cloned()
    }
}

impl Default for CompatProfile {
    fn default() -> Self {
        TOLERANT
    }
}
