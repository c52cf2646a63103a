use std::sync::Arc;

use zk_core::model::{CallId, Message, Role};
use zk_core::service::{DYNAMIC_CONTEXT, QUERY_CONTEXT, Request};

/// Question to a model, whichever way the request came.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Number of the request, from 1.
    pub number: usize,
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The history.
    pub messages: Vec<Arc<Message>>,
}

/// The result of one call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The call.
    pub call_id: CallId,
    /// The tool that was called.
    pub tool: String,
    /// The text of the result.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl Asked {
    /// Reads the question in `request`, as the `number`th request.
    #[must_use]
    pub fn of(request: &Request, number: usize) -> Self {
        Self {
            number,
            model: request.model.id.clone(),
            system: request.system.to_string(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            messages: request.history.messages().to_vec(),
        }
    }

    /// The text the user wrote last, results and context aside; empty when there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let texts = self.messages.iter().rev().filter(|message| message.role == Role::User);
        texts.map(|message| without_context(message.text())).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// The results in the last message, in the order of the calls.
    #[must_use]
    pub fn results(&self) -> Vec<Answered> {
        let Some((last, before)) = self.messages.split_last() else { return Vec::new() };
        let name = |id: &CallId| {
            let caller = before.last()?;
            caller.calls().find(|call| &call.id == id).map(|call| call.name.clone())
        };
        last.results()
            .map(|result| Answered {
                call_id: result.call_id.clone(),
                tool: name(&result.call_id).unwrap_or_default(),
                text: result.content.to_text(),
                is_error: result.is_error,
            })
            .collect()
    }

    /// The result of the last call of `tool` in the last message.
    #[must_use]
    pub fn result_of(&self, tool: &str) -> Option<Answered> {
        self.results().into_iter().rev().find(|result| result.tool == tool)
    }
}

/// A text without what the harness says of where the agent works.
fn without_context(mut text: String) -> String {
    for tag in [QUERY_CONTEXT, DYNAMIC_CONTEXT] {
        let (opening, closing) = (format!("<{tag}>"), format!("</{tag}>"));
        while let (Some(begin), Some(end)) = (text.find(&opening), text.find(&closing))
            && begin < end
        {
            text.replace_range(begin..end + closing.len(), "");
            text = text.trim_matches('\n').to_owned();
        }
    }
    text
}
