use std::sync::Arc;

use serde::Serialize;

use crate::blocks::block::{AnswerEnd, Block, Content};
use crate::blocks::call::CallState;
use crate::text::Text;

/// Text of a run's final answer, unsanitised: the answers after the last call and the last message.
pub fn final_answer(blocks: &[Arc<Block>]) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for block in blocks.iter().rev().filter(|block| block.agent.is_none()) {
        match &block.content {
            Content::Answer { end: AnswerEnd::SentAgain, .. } => {}
            Content::Answer { text, .. } => parts.push(text.unsanitised()),
            Content::User { .. } | Content::Injected { .. } | Content::Call(_) => break,
            Content::Thinking { .. }
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::End(_)
            | Content::Note { .. } => {}
        }
    }
    parts.reverse();
    parts.concat()
}

/// Refused call of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedCall {
    /// Name of the tool.
    pub tool: String,
    /// Reason of the refusal; may be empty.
    pub reason: String,
}

/// Refused calls of a run.
#[derive(Clone, Debug, Default)]
pub struct RefusedCalls {
    /// All refused calls, in order.
    pub all: Vec<RefusedCall>,
    /// Whether the run had a step with calls, and every call of the last such step was refused, so that the run missed
    /// its goal.
    pub decided_the_run: bool,
}

impl RefusedCalls {
    /// Collects the refused calls of the main agent in the blocks of a run.
    pub fn of(blocks: &[Arc<Block>]) -> Self {
        let mut refused = Self::default();
        let mut step = None;
        for block in blocks.iter().filter(|block| block.agent.is_none()) {
            let Content::Call(call) = &block.content else { continue };
            let is_refused = call.state == CallState::Refused;
            if step != Some(call.step) {
                (step, refused.decided_the_run) = (Some(call.step), true);
            }
            refused.decided_the_run &= is_refused;
            if is_refused {
                let reason = call.reason.as_ref().map_or("", Text::unsanitised).to_owned();
                refused.all.push(RefusedCall { tool: call.tool.unsanitised().to_owned(), reason });
            }
        }
        refused
    }
}
