//! The tool `run` of `zk mcp serve`: zk itself works on a prompt.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Approved, CallKind, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};
use zk_mcp::ServedTool;

use super::served_run::run;
use crate::app::AppContext;

/// Name of the tool that runs zk on a prompt.
pub(super) const RUN: &str = "run";

/// Tool that runs zk on a prompt. Its calls pass the same rules, hooks and gates as those of other tools.
pub(super) struct RunTool {
    app: AppContext,
    spec: Arc<ToolSpec>,
}

impl RunTool {
    pub(super) fn new(app: &AppContext) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "What to do, with everything zk has to know for it"},
                "session": {"type": "string", "description": "The session of an earlier answer, to go on with it"},
            },
            "required": ["prompt"],
        });
        let about = "Has zk, a coding agent, work on a task in the project, and gives its answer.";
        Self { app: app.clone(), spec: ToolSpec::new(RUN, about, schema) }
    }

    /// Returns the tool for clients of the MCP server, with its output schema.
    pub(super) fn served(&self) -> ServedTool {
        let output = json!({
            "type": "object",
            "properties": {
                "answer": {"type": "string"},
                "session": {"type": "string", "description": "Goes on with this conversation"},
            },
            "required": ["answer"],
        });
        ServedTool { spec: self.spec.clone(), is_read_only: false, output_schema: Some(output) }
    }
}

#[async_trait]
impl Tool for RunTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    /// Declares no effects: the calls within the run pass the gates of its own bus, which has the same policy.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn starts_calls(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Delegate)
    }

    fn summary(&self, args: &Value) -> String {
        let prompt = args.get("prompt").and_then(Value::as_str).unwrap_or_default();
        format!("run: {}", prompt.lines().next().unwrap_or_default())
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        run(&self.app, call.args(), &cx.progress, cx.cx.stop_token()).await
    }
}
