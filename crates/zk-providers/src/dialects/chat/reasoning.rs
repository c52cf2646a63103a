//! Request fields for reasoning and for tool choice, which restrict each other.

use serde_json::{Map, Value, json};
use zk_core::model::{ThinkingLevel, ThinkingSupport};
use zk_core::service::ToolChoice;

use super::request::Body;
use crate::catalogue::profiles::{ReasoningFormat, ToolChoices};

impl Body<'_> {
    pub(super) fn tool_choice(&self) -> Option<Value> {
        if self.traits.unforced_while_thinking && !self.can_stop_thinking() && self.is_forced() {
            return None;
        }
        match (&self.request.tool_choice, self.profile.tool_choice) {
            (ToolChoice::Auto, _) => None,
            (ToolChoice::None, _) => Some("none".into()),
            (ToolChoice::Required | ToolChoice::Tool(_), ToolChoices::AutoOnly) => None,
            (ToolChoice::Required, ToolChoices::Any) => Some("any".into()),
            (ToolChoice::Required, ToolChoices::All | ToolChoices::NamedAlone | ToolChoices::NoName)
            | (ToolChoice::Tool(_), ToolChoices::NoName) => Some("required".into()),
            (ToolChoice::Tool(name), ToolChoices::All | ToolChoices::Any | ToolChoices::NamedAlone) => {
                Some(json!({"type": "function", "function": {"name": name}}))
            }
        }
    }

    fn is_forced(&self) -> bool {
        !self.request.tools.is_empty()
            && self.profile.tool_choice != ToolChoices::AutoOnly
            && matches!(self.request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_))
    }

    /// Whether thinking can be turned off; assumed for a model about which nothing is known.
    fn can_stop_thinking(&self) -> bool {
        !self.traits.always_thinking && (self.efforts.is_unknown() || self.efforts.can_be_off())
    }

    /// Returns the requested level; off if a call is forced and the model cannot think then.
    fn thinking_level(&self) -> ThinkingLevel {
        if self.traits.unforced_while_thinking && self.can_stop_thinking() && self.is_forced() {
            return ThinkingLevel::Off;
        }
        self.request.thinking.level
    }

    pub(super) fn reasoning(&self, fields: &mut Map<String, Value>) {
        if self.request.model.capabilities.thinking == ThinkingSupport::None {
            return;
        }
        let level = self.thinking_level();
        // None of these servers has a value for a model that decides itself, so nothing is sent.
        if level == ThinkingLevel::Adaptive {
            return;
        }
        let effort = match level {
            // The lowest level, for a model whose levels are not known.
            ThinkingLevel::Off if self.traits.always_thinking && self.efforts.is_unknown() => Some("low"),
            level => self.efforts.value(level),
        };
        let can_stop = self.can_stop_thinking();
        let is_on = level != ThinkingLevel::Off || !can_stop;
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match self.profile.reasoning {
            ReasoningFormat::None => {}
            ReasoningFormat::Effort => {
                if let Some(effort) = effort {
                    put("reasoning_effort", effort.into());
                }
            }
            ReasoningFormat::Nested => {
                let budget = self.request.thinking.budget.filter(|_| level != ThinkingLevel::Off);
                match (budget, effort) {
                    (Some(budget), _) => put("reasoning", json!({"max_tokens": budget})),
                    (None, Some(effort)) => put("reasoning", json!({"effort": effort})),
                    (None, None) => None,
                };
            }
            format => {
                let kwargs = || json!({"enable_thinking": is_on, "thinking": is_on});
                match format {
                    ReasoningFormat::Enabled if can_stop => put("reasoning", json!({"enabled": is_on})),
                    ReasoningFormat::ThinkingType => {
                        put("thinking", json!({"type": if is_on { "enabled" } else { "disabled" }}))
                    }
                    ReasoningFormat::EnableThinking => put("enable_thinking", is_on.into()),
                    ReasoningFormat::TemplateKwargs => put("chat_template_kwargs", kwargs()),
                    ReasoningFormat::TemplateArgs => put("chat_template_args", kwargs()),
                    ReasoningFormat::Enabled
                    | ReasoningFormat::None
                    | ReasoningFormat::Effort
                    | ReasoningFormat::Nested => None,
                };
                // The level is sent too if the model has several.
                let has_steps = format == ReasoningFormat::ThinkingType || self.efforts.has_steps();
                if let Some(effort) = effort.filter(|_| is_on && has_steps) {
                    put("reasoning_effort", effort.into());
                }
            }
        }
    }
}
