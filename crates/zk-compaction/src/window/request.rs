use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Approved, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, ContextId, Tool, ToolCx};

use crate::window::owner::WindowOwner;
use crate::window::trigger::NotNow;

/// Name of the tool.
pub(crate) const REQUEST: &str = "request_compaction";

/// Fraction of the usable window below which a compaction is not worth its summary.
const MIN_FILL: f64 = 0.25;

/// Longest instructions, in bytes.
const MAX_INSTRUCTIONS_BYTES: usize = 2_000;

/// Tool by which the model asks for a compaction, at a point of its work where little of what came before is
/// needed. It changes nothing about the pauses and limits of compaction.
pub(crate) struct RequestCompaction {
    owner: Arc<WindowOwner>,
    spec: Arc<ToolSpec>,
}

impl RequestCompaction {
    pub(crate) fn new(owner: Arc<WindowOwner>) -> Self {
        let spec = ToolSpec::new(
            REQUEST,
            "Has the conversation so far replaced by a summary before your next answer. For the end of a step whose \
             details you no longer need, before a long one begins. The answer says if it is not done now.",
            json!({
                "type": "object",
                "properties": {
                    "keep": {"type": "string", "description": "what the summary has to keep, in a sentence or two"}
                }
            }),
        );
        Self { owner, spec }
    }
}

#[async_trait]
impl Tool for RequestCompaction {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let keep = call.args().get("keep").and_then(Value::as_str).unwrap_or_default().trim();
        if keep.len() > MAX_INSTRUCTIONS_BYTES {
            return Err(ToolError::invalid(format!(
                "`keep` has {} bytes; say it in at most {MAX_INSTRUCTIONS_BYTES}",
                keep.len()
            )));
        }
        let context = cx.cx.service::<ContextId>();
        let mut state = self.owner.lock();
        let conversation = state.conversation(context.as_deref());
        let fill = conversation.fill;
        let part = fill.usable.map(|usable| fill.estimate as f64 / usable.max(1) as f64);
        if let Some(part) = part.filter(|part| *part < MIN_FILL) {
            let percent = (part * 100.0).round();
            return Ok(ToolOutput::text(format!(
                "Not done: only {percent} % of the window are in use, so nothing would be gained. Go on."
            )));
        }
        match conversation.trigger.request() {
            Ok(()) => {
                if !keep.is_empty() && conversation.wishes.instructions.is_none() {
                    conversation.wishes.instructions = Some(keep.to_owned());
                }
                Ok(ToolOutput::text("The conversation is made smaller before your next answer."))
            }
            Err(NotNow::Rests(turns)) => Ok(ToolOutput::text(format!(
                "Not done: the conversation was made smaller a moment ago. Ask again in {turns} turns, or go on."
            ))),
            Err(NotNow::Held) => Ok(ToolOutput::text(
                "Not done: compaction freed too little before, or the user took one back, so only the user starts \
                 another. Go on, and do not ask again.",
            )),
        }
    }
}
