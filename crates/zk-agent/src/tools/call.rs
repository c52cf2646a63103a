use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use zk_core::events::{CallGroup, CallRef, ToolBatch, ToolSkipped};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, CallKind, Concurrency, ToolCall, ToolContent, ToolResult, output_bytes};
use zk_core::service::{CallEnd, CallPlace, CallSteps, Progress, Tool};

use super::CallContext;
use super::catch::catch_panic;

/// State shared by all calls of one batch.
pub(super) struct Calls<'a> {
    pub(super) context: &'a CallContext<'a>,
    pub(super) cx: Cx,
    /// Number of calls of each tool in the run before this batch.
    pub(super) counts: Arc<BTreeMap<String, u32>>,
}

/// Outcome of a call, ready to be stored.
pub(super) struct CallOutcome {
    pub(super) result: ToolResult,
    pub(super) bytes: usize,
    /// Whether a failure of the call cancels concurrent calls.
    pub(super) cancels_siblings: bool,
    /// Error that prevented recording the end of the call, which has to stop the run.
    pub(super) unrecorded: Option<AgentError>,
}

impl Calls<'_> {
    pub(super) fn call_ref(&self, call: &ToolCall) -> Arc<CallRef> {
        Arc::new(CallRef {
            turn_id: self.cx.turn_id().into(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            display_name: self.context.toolbox.wire_name(&call.name),
        })
    }

    /// Groups the calls by kind, as declared by their tools.
    pub(super) fn batch_event(&self, calls: &[&ToolCall], refs: &[Arc<CallRef>]) -> ToolBatch {
        let place = CallPlace { cx: self.cx.clone(), cwd: self.context.cwd.to_owned() };
        let mut groups: Vec<CallGroup> = Vec::new();
        for (call, info) in calls.iter().zip(refs) {
            let tool = self.context.toolbox.get(&call.name).filter(|_| call.malformed.is_none());
            let kind = tool.and_then(|tool| {
                catch_panic(|| tool.kind().unwrap_or_else(|| CallKind::of(&tool.effects(&call.args, &place))))
            });
            let kind = kind.unwrap_or_default();
            match groups.iter_mut().find(|group| group.kind == kind) {
                Some(group) => group.calls.push(info.clone()),
                None => groups.push(CallGroup { kind, calls: vec![info.clone()] }),
            }
        }
        ToolBatch { turn_id: self.cx.turn_id().into(), groups }
    }

    /// Returns the steps for `call`.
    pub(super) fn steps(&self, call: Arc<CallRef>) -> CallSteps {
        CallSteps {
            cx: self.cx.clone(),
            run_id: self.context.shared.id.clone(),
            call,
            cwd: self.context.cwd.to_owned(),
            run_tool_counts: self.counts.clone(),
            keeps_images: self.context.keeps_images,
            progress: Progress::default(),
        }
    }
}

impl From<CallEnd> for CallOutcome {
    fn from(end: CallEnd) -> Self {
        let unrecorded = end.unrecorded.map(AgentError::from);
        Self { result: end.result, bytes: end.bytes, cancels_siblings: false, unrecorded }
    }
}

pub(super) fn call_outcome(call: &CallRef, content: ToolContent, is_error: bool) -> CallOutcome {
    let bytes = output_bytes(&content);
    let result = ToolResult { call_id: call.call_id.clone(), content, is_error };
    CallOutcome { result, bytes, cancels_siblings: false, unrecorded: None }
}

pub(super) fn failed_outcome(call: &CallRef, text: String) -> CallOutcome {
    call_outcome(call, ToolContent::Text(text), true)
}

/// Announces a call that was not run, and returns its result.
pub(super) async fn skip_call(cx: &Cx, call: &Arc<CallRef>, reason: &str) -> CallOutcome {
    let _ = cx.emit(ToolSkipped { call: call.clone(), reason: reason.to_owned() }).await;
    failed_outcome(call, reason.to_owned())
}

/// Returns the concurrency of a call; a tool that panics runs alone.
pub(super) fn concurrency(tool: &dyn Tool, args: &Value) -> Concurrency {
    catch_panic(|| tool.concurrency(args)).unwrap_or_default()
}
