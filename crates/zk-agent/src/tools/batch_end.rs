use std::path::PathBuf;
use std::sync::Arc;

use zk_core::events::{CallRef, EndedCall, ToolBatchEnd};
use zk_core::kernel::Cx;
use zk_core::model::{Block, ToolCall, ToolResult};
use zk_core::service::{CallPlace, Redactor};

use super::call::Calls;
use super::catch::catch_panic;

/// Maximum length in characters of an error's first line in `tool:batch-end`.
const ERROR_CHARS: usize = 200;

impl Calls<'_> {
    /// Returns the files of a call: the tool's locations, or else the files in its effects.
    fn files(&self, call: &ToolCall) -> Vec<PathBuf> {
        let tool = self.context.toolbox.get(&call.name).filter(|_| call.malformed.is_none());
        let Some(tool) = tool else { return Vec::new() };
        let cwd = self.context.cwd;
        let place = CallPlace { cx: self.cx.clone(), cwd: cwd.to_owned() };
        let located = catch_panic(|| tool.locations(&call.args)).filter(|found| !found.is_empty());
        let located = located
            .or_else(|| catch_panic(|| tool.effects(&call.args, &place).locations()))
            .unwrap_or_default();
        located.into_iter().map(|location| cwd.join(location.path)).collect()
    }

    /// Counts the results of the batch and announces its end.
    pub(super) async fn announce_end(&self, calls: &[&ToolCall], refs: &[Arc<CallRef>], results: &[Block]) {
        let results = || results.iter().filter_map(Block::as_result);
        let ended: Vec<(&ToolCall, bool)> =
            calls.iter().zip(results()).map(|(call, result)| (*call, result.is_error)).collect();
        let counts = self.context.history.outcomes().count_batch(&ended, |call| self.files(call));
        let end = || ToolBatchEnd {
            turn_id: self.cx.turn_id().into(),
            calls: refs
                .iter()
                .zip(results())
                .map(|(call, result)| ended_call(call, result, &self.cx))
                .collect(),
            counts,
        };
        let _ = self.cx.emit_with(end).await;
    }
}

/// Describes an ended call for the event.
fn ended_call(call: &Arc<CallRef>, result: &ToolResult, cx: &Cx) -> EndedCall {
    let error = result.is_error.then(|| {
        let text = result.content.to_text();
        // Redacted before it is cut, since a cut could split a key.
        let text = match cx.service::<Redactor>() {
            Some(redactor) => redactor.redact(&text).into_owned(),
            None => text,
        };
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        match line.char_indices().nth(ERROR_CHARS) {
            Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
            None => line.to_owned(),
        }
    });
    EndedCall { call: call.clone(), is_error: result.is_error, error: error.filter(|line| !line.is_empty()) }
}
