use std::sync::Arc;

use zk_core::model::{CallId, Message, Role};
use zk_core::service::{DYNAMIC_CONTEXT, QUERY_CONTEXT, Request};

/// Request to a model, in any wire format.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Number of the request, from 1.
    pub number: usize,
    /// Id of the model.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// Names of the tools.
    pub tools: Vec<String>,
    /// Messages of the conversation.
    pub messages: Vec<Arc<Message>>,
}

/// Result of one call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Id of the call.
    pub call_id: CallId,
    /// Name of the called tool.
    pub tool: String,
    /// Text of the result.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl Asked {
    /// Reads the request with this number, from 1.
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

    /// Last text of the user, without results and context; empty if there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let texts = self.messages.iter().rev().filter(|message| message.role == Role::User);
        texts.map(|message| without_context(message.text())).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Results in the last message, in the order of the calls.
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

    /// Result of the last call of `tool` in the last message.
    #[must_use]
    pub fn result_of(&self, tool: &str) -> Option<Answered> {
        self.results().into_iter().rev().find(|result| result.tool == tool)
    }
}

/// Removes the environment context that the harness adds to a text.
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
