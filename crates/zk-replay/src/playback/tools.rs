use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use zk_core::model::{Approved, Effects, ToolContent, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, RunControl, Tool, ToolCx};

use super::Playback;
use super::provider::{deliver_outside_messages, stop_run};
use crate::recording::RecordedCall;

/// Beginning of the result of a call that the recording has no result for.
pub const NOT_RECORDED: &str = "Replay: the recording has no result for this call, and replay runs no tool.";

/// Beginning of the note about converted arguments, which the loop adds again.
const CONVERTED_NOTE: &str = "[Arguments were converted: ";

/// Tool that answers with recorded results.
pub(super) struct ReplayedTool {
    pub(super) inner: Arc<dyn Tool>,
    pub(super) playback: Playback,
}

#[async_trait]
impl Tool for ReplayedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.inner.spec()
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&*self.inner)
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.playback.result(call, cx)
    }
}

impl Playback {
    fn result(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let name = &call.call().name;
        let Some((index, recorded)) = self.take_call(&cx.call_id, name, call.args()) else {
            return Err(ToolError::failed(format!("{NOT_RECORDED} Its outcome is unknown.")));
        };
        self.after_call(index, cx);
        let Some(result) = recorded.result.as_ref().filter(|_| recorded.began) else {
            let why = if recorded.began { "it never ended" } else { "it did not run there" };
            return Err(ToolError::failed(format!("{NOT_RECORDED} In the recording {why}.")));
        };
        let content = recorded.raw.clone().unwrap_or_else(|| without_note(result.content.clone()));
        if result.is_error {
            let is_stop = cx.cx.is_stopped();
            let kind = if is_stop { ToolErrorKind::Aborted } else { ToolErrorKind::Failed };
            return Err(ToolError {
                display: recorded.display.clone(),
                ..ToolError::new(kind, content.to_text())
            });
        }
        Ok(ToolOutput { content, display: recorded.display.clone(), details: recorded.details.clone() })
    }

    /// Repeats the messages and the stop that came in the recording while the call at `index` ran.
    fn after_call(&self, index: usize, cx: &ToolCx) {
        let Some((run, at, turn)) = self.turn() else { return };
        if turn.last_ended() != Some(index) {
            return;
        }
        let Some(control) = cx.cx.service::<dyn RunControl>() else { return };
        deliver_outside_messages(turn, &*control);
        let is_last = at + 1 == run.turns.len();
        if is_last && run.end == Some(zk_core::service::RunStatus::Aborted) {
            stop_run(&*control);
        }
    }
}

/// Removes the note about converted arguments from a result.
fn without_note(content: ToolContent) -> ToolContent {
    match content {
        ToolContent::Text(text) => match text.rfind(CONVERTED_NOTE) {
            Some(at) if text.ends_with(" next time.]") => {
                let kept = text.get(..at).unwrap_or_default();
                ToolContent::Text(kept.strip_suffix('\n').unwrap_or(kept).to_owned())
            }
            Some(_) | None => ToolContent::Text(text),
        },
        ToolContent::Blocks(mut blocks) => {
            let is_note = |block: &zk_core::model::Block| {
                block.as_text().is_some_and(|text| text.starts_with(CONVERTED_NOTE))
            };
            blocks.pop_if(|last| is_note(last));
            ToolContent::Blocks(blocks)
        }
    }
}

/// Tool of a program that a replay does not start, for recorded calls of it.
pub(super) struct StandIn(Arc<ToolSpec>);

impl StandIn {
    pub(super) fn new(name: &str) -> Self {
        Self(Arc::new(ToolSpec {
            name: name.to_owned(),
            description: "A tool of a server that replay does not start.".to_owned(),
            schema: json!({"type": "object"}),
            disclosure: zk_core::model::Disclosure::Always,
        }))
    }
}

#[async_trait]
impl Tool for StandIn {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &serde_json::Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed(NOT_RECORDED))
    }
}

/// Whether the call has to be stopped before it begins, as in the recording.
pub(super) fn was_stopped_before(recorded: &RecordedCall) -> bool {
    let stopped = zk_core::service::STOPPED_BEFORE_CALL;
    !recorded.began
        && recorded
            .result
            .as_ref()
            .is_some_and(|result| result.is_error && result.content.to_text() == stopped)
}
