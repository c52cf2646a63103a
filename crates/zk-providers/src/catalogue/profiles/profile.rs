use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use zk_core::model::IdRule;

use super::patterns::{ModelPattern, PatternError};
use super::table::PROFILES;

/// Differences of one kind of server from standard Chat Completions, as data, so that a new vendor is a new
/// row of [`PROFILES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompatProfile {
    /// Name by which the profile is selected.
    pub name: Cow<'static, str>,
    /// Provider name of this service in the table of models; without it, ids are looked up in all rows, for
    /// their window only.
    pub catalogue: Option<Cow<'static, str>>,
    /// Name of the field with the output limit: `max_tokens` or `max_completion_tokens`.
    pub max_tokens_field: Cow<'static, str>,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// Value of the `store` field, if it is sent.
    pub store: Option<bool>,
    /// Value of the `strict` field of every tool, if it is sent.
    pub strict: Option<bool>,
    /// Whether `response_format` enforces a JSON schema.
    pub json_schema: JsonSchemas,
    /// Whether any JSON schema is enforced, not only the strict form.
    pub any_schema: bool,
    /// Models without tool calls, which are offered tools as text.
    pub inline_tools: Option<ModelPattern>,
    /// Value of the `parallel_tool_calls` field in requests with tools, if it is sent.
    pub parallel_tool_calls: Option<bool>,
    /// Whether `stream_options: {include_usage: true}` is sent.
    pub stream_options: bool,
    /// Supported forms of tool choice.
    pub tool_choice: ToolChoices,
    /// Models that cannot be forced to call a tool while they think. A request that forces a call turns
    /// thinking off, because the caller depends on the call.
    pub unforced_while_thinking: Option<ModelPattern>,
    /// Models whose thinking cannot be turned off, besides those of the table of models. If such a model
    /// cannot be forced while thinking either, calls are not forced.
    pub always_thinking: Option<ModelPattern>,
    /// Form of reasoning requests.
    pub reasoning: ReasoningFormat,
    /// Whether and how reasoning is sent back with assistant messages.
    pub echo: ReasoningEcho,
    /// Exceptions from `echo` by model. An exact id takes precedence over all patterns, and the first
    /// matching pattern counts.
    pub echo_models: Cow<'static, [EchoRule]>,
    /// Whether received `reasoning_details` are sent back unchanged instead of the text. Does not apply to
    /// models whose echo is [`ReasoningEcho::No`].
    pub echo_details: bool,
    /// Whether prefixes are marked for the prompt cache, in Anthropic's format.
    pub cache_marks: CacheMarks,
    /// Name of the field for a stable key of the conversation, if there is one.
    pub session_field: Option<Cow<'static, str>>,
    /// Name of the header for the stable key of the conversation, if there is one.
    pub session_header: Option<Cow<'static, str>>,
    /// Headers of every request, overridden by those of a connection.
    pub headers: Cow<'static, [(Cow<'static, str>, Cow<'static, str>)]>,
    /// Further fixed fields of requests.
    pub fields: Cow<'static, [FixedField]>,
    /// Fields that the server rejects. They are always left out.
    pub unsupported: Cow<'static, [Cow<'static, str>]>,
    /// Whether messages may contain images.
    pub vision: bool,
    /// Whether tool messages may contain images.
    pub image_in_tool_result: bool,
    /// Whether user messages may contain documents that are not text.
    pub documents: bool,
    /// Content of an assistant message that has only calls.
    pub empty_content: EmptyContent,
    /// Whether tool messages carry the name of their tool.
    pub tool_result_name: bool,
    /// Whether an assistant message has to separate tool messages from a user message.
    pub assistant_after_tools: bool,
    /// Rule for tool-call ids.
    pub ids: IdRule,
    /// Whether tools that the history used have to be declared even if none is offered.
    pub tools_for_history: bool,
    /// Whether text that begins with `<think>` is reasoning up to `</think>`, for servers that pass on the
    /// model's raw text.
    pub think_tags: bool,
    /// Whether a response may end with `[DONE]` but without a finish reason.
    pub finish_optional: bool,
    /// Whether an input that exceeds the window is answered without an error.
    pub silent_overflow: bool,
}

/// The role of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// Always `system`.
    System,
    /// `developer` for models that reason, `system` for the others.
    DeveloperIfReasoning,
}

/// Forms of tool choice that a server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoices {
    /// All forms.
    All,
    /// All forms, with `any` instead of `required`.
    Any,
    /// All forms, but a named tool may be ignored; so no other tool is offered then.
    NamedAlone,
    /// `required` but no name: to force a named tool, no other is offered.
    NoName,
    /// Only `auto` and `none`.
    AutoOnly,
}

/// Whether a server enforces a JSON schema on answers. Otherwise an answer is requested as the arguments of a
/// tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonSchemas {
    /// Never enforced.
    No,
    /// Enforced in requests without tools; with tools, either calls or the schema would be lost.
    Alone,
    /// Enforced with tools or without.
    WithTools,
    /// Enforced for some models, since gateways pass the schema on to vendors that support it.
    For(ModelPattern),
}

/// Form in which requests ask for reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningFormat {
    /// Reasoning cannot be requested.
    None,
    /// `reasoning_effort: "high"`.
    Effort,
    /// `reasoning: {effort: "high"}`.
    Nested,
    /// `reasoning: {enabled: true}`, and `reasoning_effort` if the model has effort levels.
    Enabled,
    /// `thinking: {type: "enabled"}` and `reasoning_effort`.
    ThinkingType,
    /// `enable_thinking: true`.
    EnableThinking,
    /// `chat_template_kwargs: {enable_thinking: true, thinking: true}`, the two names in use among templates,
    /// and `reasoning_effort` if the model has effort levels.
    TemplateKwargs,
    /// The fields of [`TemplateKwargs`](Self::TemplateKwargs) within `chat_template_args`.
    TemplateArgs,
}

/// Whether and how reasoning is sent back with assistant messages, to the model it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    /// Reasoning is not sent back.
    No,
    /// In this field, on messages that have reasoning.
    In(Cow<'static, str>),
    /// In a field of every assistant message.
    Always {
        /// Name of the field.
        field: Cow<'static, str>,
        /// Value for messages without reasoning, such as those of another model.
        blank: Cow<'static, str>,
    },
    /// As `thinking` parts before the text.
    Parts,
    /// In the text, enclosed in `<think>` and `</think>`.
    Tags,
}

/// Echo of reasoning for certain models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoRule {
    /// Models that the rule applies to.
    pub models: ModelPattern,
    /// Form of the echo.
    pub echo: ReasoningEcho,
}

/// Whether prefixes are marked for the prompt cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMarks {
    /// Marks are not sent.
    Off,
    /// Marks are sent.
    On,
    /// Marks are sent for some models, since gateways pass them on to vendors that support them.
    For(ModelPattern),
}

/// A field of the request with a fixed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedField {
    /// Name of the request field.
    pub name: Cow<'static, str>,
    /// Value of the field.
    pub value: FieldValue,
    /// Models whose requests carry the field; `None` for all.
    pub models: Option<ModelPattern>,
    /// Whether only requests with tools carry the field.
    pub with_tools: bool,
}

/// Value of a [`FixedField`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// True or false.
    Flag(bool),
    /// A string.
    Word(Cow<'static, str>),
}

/// Value of `content` for a message without text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// `null`.
    Null,
    /// The empty string.
    Blank,
    /// The field is left out.
    Absent,
}

/// Most tolerant profile: uses no feature that a server might lack.
pub(crate) const TOLERANT: CompatProfile = CompatProfile {
    name: Cow::Borrowed("openai_compat"),
    catalogue: None,
    max_tokens_field: Cow::Borrowed("max_tokens"),
    system_role: SystemRole::System,
    store: None,
    strict: None,
    json_schema: JsonSchemas::No,
    any_schema: false,
    inline_tools: None,
    parallel_tool_calls: None,
    stream_options: true,
    tool_choice: ToolChoices::All,
    unforced_while_thinking: None,
    always_thinking: None,
    reasoning: ReasoningFormat::Effort,
    echo: ReasoningEcho::No,
    echo_models: Cow::Borrowed(&[]),
    echo_details: false,
    cache_marks: CacheMarks::Off,
    session_field: None,
    session_header: None,
    headers: Cow::Borrowed(&[]),
    fields: Cow::Borrowed(&[]),
    unsupported: Cow::Borrowed(&[]),
    vision: true,
    image_in_tool_result: false,
    documents: false,
    empty_content: EmptyContent::Null,
    tool_result_name: false,
    assistant_after_tools: false,
    ids: IdRule::UP_TO_40,
    tools_for_history: false,
    think_tags: false,
    finish_optional: true,
    silent_overflow: false,
};

/// Profile for unknown servers. llama.cpp, which many of them use, may call another tool than the forced one;
/// llama-cpp-python supports only named tools.
pub(crate) const UNKNOWN: CompatProfile =
    CompatProfile { tool_choice: ToolChoices::NamedAlone, think_tags: true, ..TOLERANT };

impl CompatProfile {
    /// Returns the built-in profile called `name`.
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

    /// Sets the echo for models whose id matches `pattern`, a case-insensitive regular expression. It takes
    /// precedence over existing patterns, but not over exact ids.
    ///
    /// ```
    /// use zk_providers::{CompatProfile, ReasoningEcho};
    ///
    /// let mut profile = CompatProfile::default();
    /// profile.echo_matching("^my-thinker", ReasoningEcho::In("reasoning_content".into()))?;
    /// profile.echo_exactly("my-thinker-mini", ReasoningEcho::No);
    /// assert!(profile.echo_matching("(", ReasoningEcho::No).is_err());
    /// # Ok::<(), zk_providers::PatternError>(())
    /// ```
    ///
    /// # Errors
    /// [`PatternError`] when `pattern` is no valid regular expression; the profile is unchanged then.
    pub fn echo_matching(&mut self, pattern: &str, echo: ReasoningEcho) -> Result<(), PatternError> {
        let models = ModelPattern::new(pattern)?;
        self.echo_models.to_mut().insert(0, EchoRule { models, echo });
        Ok(())
    }

    /// Sets the echo for the model with this id, regardless of patterns.
    pub fn echo_exactly(&mut self, id: impl Into<String>, echo: ReasoningEcho) {
        let models = ModelPattern::exactly(id);
        self.echo_models.to_mut().insert(0, EchoRule { models, echo });
    }
}

impl Default for CompatProfile {
    fn default() -> Self {
        UNKNOWN
    }
}
