#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::kernel::Stage;
use zk_core::model::CallKind;

use super::effects::DeclaredEffects;

/// Tool that the model can call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolRegistration {
    /// Name, of letters, digits, `_` and `-`; at most 64.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, of type object; nothing for a tool without arguments.
    #[serde(default)]
    pub schema: Option<Value>,
    /// Effects of its calls; without them each call is asked about.
    #[serde(default)]
    pub effects: Option<DeclaredEffects>,
    /// Title for people; the name unless it is given.
    #[serde(default)]
    pub title: Option<String>,
    /// Kind of work of its calls.
    #[serde(default)]
    pub kind: Option<CallKind>,
    /// Advice for the model, in the system prompt.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Whether calls may run beside others.
    #[serde(default)]
    pub concurrent: bool,
    /// Whether the model is offered the tool only once the run asked for it.
    #[serde(default)]
    pub lazy: bool,
    /// Whether the extension draws a preview of a call for the person who is asked about it: `tool/preview`.
    #[serde(default)]
    pub preview: bool,
}

/// Command that the person calls as `/name`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandRegistration {
    /// Name, without the slash.
    pub name: String,
    /// One line of help.
    #[serde(default)]
    pub help: String,
    /// Arguments in words, such as `NAME`.
    #[serde(default)]
    pub arguments: Option<String>,
    /// Whether the extension completes arguments: `command/complete`.
    #[serde(default)]
    pub completes: bool,
}

/// Event about which the extension is asked: a gate, or a fold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskRegistration {
    /// Name of the event, one of those in `hello`.
    pub event: String,
    /// Place among the handlers of the event.
    #[serde(default)]
    pub stage: StageName,
}

/// Place among the handlers of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Before all others.
    Early,
    /// Among those of ordinary plugins.
    #[default]
    Consumer,
    /// Among the gates of zk itself.
    Framework,
    /// After those, before a person is asked.
    Review,
    /// After all others.
    Late,
}

impl From<StageName> for Stage {
    fn from(name: StageName) -> Self {
        match name {
            StageName::Early => Self::Early,
            StageName::Consumer => Self::Consumer,
            StageName::Framework => Self::Framework,
            StageName::Review => Self::Review,
            StageName::Late => Self::Late,
        }
    }
}

/// Section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SectionRegistration {
    /// Id of the section.
    pub id: String,
    /// Position among the sections, lowest first; 1000 is behind all others.
    #[serde(default = "default_order")]
    pub order: i32,
    /// Text of the section; without it the extension is asked at the start of each run: `section/text`.
    #[serde(default)]
    pub text: Option<String>,
}

/// Position behind the instructions of the project.
fn default_order() -> i32 {
    500
}

/// Producer of context for the model: `context/text`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ContextRegistration {
    /// Name of the producer.
    pub name: String,
    /// Time at which it is asked.
    #[serde(default)]
    pub when: ContextTime,
}

/// Time at which a producer of context is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextTime {
    /// Once for each prompt; the text stays in the history.
    #[default]
    Prompt,
    /// For each request; the text is not kept.
    Request,
}

/// Rules by which the fences of a language, or the blocks of a kind, are drawn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RendererRegistration {
    /// Name: `fence:LANGUAGE` or `block:KIND`.
    pub name: String,
    /// Rules, of which the first that matches somewhere colours that part of a line.
    #[serde(default)]
    pub rules: Vec<RowRule>,
}

/// Colour of the parts of lines that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RowRule {
    /// Regular expression.
    pub matches: String,
    /// Meaning of the colour.
    pub role: RuleRole,
    /// Whether the text is heavy.
    #[serde(default)]
    pub bold: bool,
}

/// Meaning of a colour, which a theme chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuleRole {
    /// The terminal's own colour.
    Plain,
    /// Facts that are not the matter itself.
    Faint,
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// A warning.
    Warning,
    /// Work, and code.
    Work,
}

/// Agent that answers prompts of conversations in the place of zk's own: `backend/turn`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackendRegistration {
    /// Name, of letters, digits, `-` and `_`; at most 32, and no provider of zk has it.
    pub name: String,
    /// One line for the person.
    #[serde(default)]
    pub description: String,
    /// Ids of the models that the person may choose; the first one is used unless another is chosen.
    #[serde(default)]
    pub models: Vec<String>,
}

/// Parameters of `unregister`: names of registrations to remove. An event that was asked for stays: a guard goes only
/// with its extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RemovedRegistrations {
    /// Tools.
    pub tools: Vec<String>,
    /// Commands.
    pub commands: Vec<String>,
    /// Events that are told.
    pub tells: Vec<String>,
    /// Sections of the system prompt.
    pub sections: Vec<String>,
    /// Producers of context.
    pub contexts: Vec<String>,
    /// Renderers.
    pub renderers: Vec<String>,
    /// Backends.
    pub backends: Vec<String>,
}
