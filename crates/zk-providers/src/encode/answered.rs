use std::collections::HashMap;
use std::sync::Arc;

use zk_core::model::{CallId, Message, ToolCall};

/// Calls that the results of one message answer, by id.
pub(crate) struct AnsweredCalls<'a>(HashMap<&'a CallId, &'a ToolCall>);

impl<'a> AnsweredCalls<'a> {
    /// Finds the calls that `message` may answer, in the last of the `earlier` messages.
    pub(crate) fn of(message: &Message, earlier: &'a [Arc<Message>]) -> Self {
        let mut calls = HashMap::new();
        let before = earlier.last().filter(|_| message.results().next().is_some());
        for call in before.into_iter().flat_map(|before| before.calls()) {
            calls.entry(&call.id).or_insert(call);
        }
        Self(calls)
    }

    pub(crate) fn call(&self, id: &CallId) -> Option<&'a ToolCall> {
        self.0.get(id).copied()
    }

    pub(crate) fn name(&self, id: &CallId) -> Option<&'a str> {
        self.call(id).map(|call| call.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::{Block, ToolContent, ToolResult};

    use super::*;

    #[test]
    fn a_result_finds_the_first_call_of_its_id_in_the_message_before_and_in_no_other() {
        let call = |id: &str, name: &str| Block::ToolCall(ToolCall::new(id, name, json!({})));
        let earlier = [
            Message::assistant(vec![call("far", "grep")]).shared(),
            Message::assistant(vec![call("a", "read"), call("b", "edit"), call("a", "shell")]).shared(),
        ];
        let answer = |id: &str| {
            let content = ToolContent::Text("done".into());
            Block::ToolResult(ToolResult { call_id: id.into(), content, is_error: false })
        };
        let message = Message::user(vec![answer("a"), answer("b"), answer("far")]);
        let calls = AnsweredCalls::of(&message, &earlier);
        let names: Vec<_> = message.results().map(|result| calls.name(&result.call_id)).collect();
        assert_eq!(names, [Some("read"), Some("edit"), None]);
        let text = Message::user(vec![Block::text("go on")]);
        assert!(AnsweredCalls::of(&text, &earlier).call(&"a".into()).is_none());
    }
}
