use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use zk_core::model::IdRule;

use super::patterns::{ModelPattern, PatternError};
use super::table::PROFILES;

/// Differences of one server's Chat Completions from the others': data, so that a new vendor is a new row of
/// [`PROFILES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Whether `response_format` holds answers to a JSON schema.
    pub json_schema: JsonSchemas,
    /// The `parallel_tool_calls` field of requests with tools, if it is sent.
    pub parallel_tool_calls: Option<bool>,
    /// Whether `stream_options: {include_usage: true}` is sent.
    pub stream_options: bool,
    /// Forms of tool choice that work.
    pub tool_choice: ToolChoices,
    /// Models that cannot be made to call while they think. A request that forces a call turns thinking off:
    /// the caller needs the call, and only wishes for the thoughts.
    pub unforced_while_thinking: Option<ModelPattern>,
    /// Models that cannot be told not to think, beside those the model table knows. Of those that cannot be
    /// made to call then either, calls are not forced.
    pub always_thinking: Option<ModelPattern>,
    /// Way in which reasoning is asked for.
    pub reasoning: ReasoningFormat,
    /// Whether reasoning goes back with assistant messages.
    pub echo: ReasoningEcho,
    /// Models for which something else than `echo` is right. An exact id goes before every pattern, of the
    /// patterns the first one that matches counts.
    pub echo_models: Cow<'static, [EchoRule]>,
    /// Whether `reasoning_details` that came go back as they came, in the place of the text; not for models
    /// whose echo is [`ReasoningEcho::No`].
    pub echo_details: bool,
    /// Whether prefixes are marked for the cache, in Anthropic's way.
    pub cache_marks: CacheMarks,
    /// The field that carries a stable key of the conversation, if there is one.
    pub session_field: Option<Cow<'static, str>>,
    /// The header that carries it, if there is one.
    pub session_header: Option<Cow<'static, str>>,
    /// Headers of every request; a connection's own win over them.
    pub headers: Cow<'static, [(Cow<'static, str>, Cow<'static, str>)]>,
    /// Fields of every request that nothing else accounts for.
    pub fields: Cow<'static, [FixedField]>,
    /// Fields the server answers with an error: left out, whoever wants to send them.
    pub unsupported: Cow<'static, [Cow<'static, str>]>,
    /// Whether messages may hold images at all.
    pub vision: bool,
    /// Whether tool messages may hold images.
    pub image_in_tool_result: bool,
    /// Whether user messages may hold documents that are not text.
    pub documents: bool,
    /// The content of an assistant message that holds only calls.
    pub empty_content: EmptyContent,
    /// Whether tool messages name their tool.
    pub tool_result_name: bool,
    /// Whether an assistant message has to stand between tool messages and a user message.
    pub assistant_after_tools: bool,
    /// Rule for call ids.
    pub ids: IdRule,
    /// Whether tools have to be named that a history used, even if none is offered.
    pub tools_for_history: bool,
    /// Whether text that begins with `<think>` is reasoning up to `</think>`: servers that do not tell the two
    /// apart pass on what the model writes.
    pub think_tags: bool,
    /// Whether `[DONE]` alone may end a response.
    pub finish_optional: bool,
    /// Whether an input above the window is answered as if nothing were wrong.
    pub silent_overflow: bool,
}

/// The role of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer` for models that reason, `system` for the others.
    DeveloperIfReasoning,
}

/// Forms of tool choice that a server honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoices {
    /// All of them.
    All,
    /// All of them, but `required` is called `any`.
    Any,
    /// All of them, but nobody knows whether a name is heeded: besides, no other tool is offered.
    NamedAlone,
    /// `required` but no name: a named tool is forced by offering no other.
    NoName,
    /// Only `auto` and `none`.
    AutoOnly,
}

/// Whether a server holds answers to a JSON schema. Where it does not, the answer is asked for as the arguments
/// of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonSchemas {
    /// Never.
    No,
    /// While no tools are offered: otherwise there would be no calls, or no schema.
    Alone,
    /// Always, with tools or without.
    WithTools,
    /// For some models: gateways pass the schema on to vendors that know it.
    For(ModelPattern),
}

/// Way in which reasoning is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningFormat {
    /// Reasoning cannot be asked for.
    None,
    /// `reasoning_effort: "high"`.
    Effort,
    /// `reasoning: {effort: "high"}`.
    Nested,
    /// `reasoning: {enabled: true}`, and `reasoning_effort` where the model has steps.
    Enabled,
    /// `thinking: {type: "enabled"}` and `reasoning_effort`.
    ThinkingType,
    /// `enable_thinking: true`.
    EnableThinking,
    /// `chat_template_kwargs: {enable_thinking: true, thinking: true}`, the two names that templates have for
    /// it, and `reasoning_effort` where the model has steps.
    TemplateKwargs,
    /// Fields of [`TemplateKwargs`](Self::TemplateKwargs), but in `chat_template_args`.
    TemplateArgs,
}

/// Whether and how reasoning goes back with assistant messages, to the model that had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    /// Reasoning does not go back.
    No,
    /// In this field, on messages that have some.
    In(Cow<'static, str>),
    /// In a field of every message.
    Always {
        /// The field.
        field: Cow<'static, str>,
        /// Value of the field if there is no reasoning, such as in messages of another model.
        blank: Cow<'static, str>,
    },
    /// As `thinking` parts before the text.
    Parts,
    /// In the text, between `<think>` and `</think>`.
    Tags,
}

/// Echo of reasoning for some models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoRule {
    /// Models that read the echo.
    pub models: ModelPattern,
    /// Form of the echo.
    pub echo: ReasoningEcho,
}

/// Whether prefixes are marked for the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMarks {
    /// Marks are not sent.
    Off,
    /// Marks are sent.
    On,
    /// Marks are sent for some models: gateways pass the marks on to the vendors that know them.
    For(ModelPattern),
}

/// A field with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedField {
    /// Name of the field.
    pub name: Cow<'static, str>,
    /// Value of the field.
    pub value: FieldValue,
    /// Models whose requests carry the field, if not all.
    pub models: Option<ModelPattern>,
    /// Whether it is only for requests with tools.
    pub with_tools: bool,
}

/// The value of a [`FixedField`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// True or false.
    Flag(bool),
    /// A string.
    Word(Cow<'static, str>),
}

/// Stand-in for content without text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// `null`.
    Null,
    /// The empty string.
    Blank,
    /// No field.
    Absent,
}

/// Any server, with nothing asked of it that one might not have.
pub(crate) const TOLERANT: CompatProfile = CompatProfile {
    name: Cow::Borrowed("openai_compat"),
    catalogue: None,
    max_tokens_field: Cow::Borrowed("max_tokens"),
    system_role: SystemRole::System,
    store: None,
    strict: None,
    json_schema: JsonSchemas::No,
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

/// Servers nothing is known of. llama.cpp, which is behind many, calls another tool than the one it was told;
/// llama-cpp-python knows nothing but names.
pub(crate) const UNKNOWN: CompatProfile =
    CompatProfile { tool_choice: ToolChoices::NamedAlone, think_tags: true, ..TOLERANT };

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

    /// Sets what is echoed to the models whose id matches `pattern`, a regular expression in which upper and
    /// lower case are the same. It goes before the patterns there are, and after every exact id.
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
    /// [`PatternError`] when it is no regular expression; the profile stays as it is.
    pub fn echo_matching(&mut self, pattern: &str, echo: ReasoningEcho) -> Result<(), PatternError> {
        let models = ModelPattern::new(pattern)?;
        self.echo_models.to_mut().insert(0, EchoRule { models, echo });
        Ok(())
    }

    /// Sets what is echoed to the model with this id, whatever the patterns say.
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
