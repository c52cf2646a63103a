//! Answers that are reasoning alone: the model is asked once more, then its reasoning is shown as what it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use zk_core::events::{MessageEnd, StreamText};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::{Block, Message, StopReason};
use zk_core::service::RunControl;

/// Author of the message that asks for an answer.
const ASKED_BY: &str = "reasoning-only";
const ASK: &str = "Your last message has reasoning and no answer. Give the answer now, or call a tool.";
const REASONING_HEADING: &str = "(The model gave no answer; this is its reasoning.)\n\n";

/// Handler of `message:end` for answers without text and calls.
#[derive(Default)]
pub(crate) struct ReasoningOnly {
    /// Runs that were asked for an answer and have not given one since.
    asked: Mutex<BTreeSet<String>>,
}

impl ReasoningOnly {
    /// Records an answer of a run; returns whether the run was asked before.
    fn record_answer(&self, run: &str, is_only_reasoning: bool) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let was_asked = asked.remove(run);
        if is_only_reasoning && !was_asked {
            asked.insert(run.to_owned());
        }
        was_asked
    }
}

/// Returns the reasoning of a message that has nothing else and ended by itself.
fn only_reasoning(message: &Message) -> Option<String> {
    let is_ended = match &message.stop {
        None | Some(StopReason::EndTurn | StopReason::StopSequence(_)) => true,
        Some(_) => false,
    };
    let is_nothing_else = message.content.iter().all(|block| match block {
        Block::Thinking(_) => true,
        Block::Text(text) => text.text.trim().is_empty(),
        Block::Image(_)
        | Block::Document(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Compaction(_)
        | Block::Provider(_) => false,
    });
    let thoughts = message.content.iter().filter_map(|block| match block {
        Block::Thinking(thinking) => Some(thinking.text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let reasoning = thoughts.collect::<Vec<_>>().join("\n\n");
    (is_ended && is_nothing_else && !reasoning.is_empty()).then_some(reasoning)
}

impl Handler<MessageEnd> for ReasoningOnly {
    async fn call(&self, end: &MessageEnd, cx: &Cx) -> Answer<MessageEnd> {
        let reasoning = only_reasoning(&end.message);
        let was_asked = self.record_answer(cx.run_id(), reasoning.is_some());
        let Some(reasoning) = reasoning else { return Ok(None) };
        if !was_asked {
            let run = cx.service::<dyn RunControl>();
            if run.is_some_and(|run| run.steer(Message::injected(ASK, ASKED_BY)).is_ok()) {
                return Ok(None);
            }
        }
        let text = format!("{REASONING_HEADING}{reasoning}");
        cx.emit(StreamText { turn_id: end.turn_id.clone(), delta: text.clone() }).await?;
        let mut content = end.message.content.clone();
        content.push(Block::text(text));
        Ok(Some(content))
    }
}
