use std::sync::Arc;

use serde_json::Value;

use super::{CallEnd, CallSteps, Gated, NotRun};
use crate::model::{CallId, CallRef, RunId};
use crate::service::{RunTools, Tool, ToolCx};

impl ToolCx {
    /// Runs a whole call like one of a model: arguments, gates, begin, run, end, each with its events, so
    /// that it is approved, recorded and transformed like any other. For a tool that calls another tool, and
    /// for calls outside of any agent.
    ///
    /// The call has an id of its own. Its output also goes to this context's `progress`.
    ///
    /// # Errors
    /// [`NotRun`] when the call did not run; a tool that ran and failed gives a [`CallEnd`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use serde_json::json;
    /// use zk_core::service::{CallEnd, NotRun, Tool, ToolCx};
    ///
    /// /// What a tool does that needs the output of a command.
    /// async fn status(shell: Arc<dyn Tool>, cx: &ToolCx) -> Result<CallEnd, NotRun> {
    ///     cx.run(shell, json!({ "command": "git status" })).await
    /// }
    /// ```
    pub async fn run(&self, tool: Arc<dyn Tool>, args: Value) -> Result<CallEnd, NotRun> {
        let name = tool.spec().name.clone();
        let run_id = match self.cx.run_id() {
            "" => RunId::fresh(),
            run => run.into(),
        };
        let steps = CallSteps {
            cx: self.cx.clone(),
            run_id,
            call: Arc::new(CallRef {
                turn_id: self.cx.turn_id().into(),
                call_id: CallId::fresh(),
                display_name: name.clone(),
                name,
            }),
            cwd: self.cwd.clone(),
            run_tool_counts: self
                .cx
                .service::<dyn RunTools>()
                .map(|tools| tools.counts())
                .unwrap_or_default(),
            keeps_images: true,
            progress: self.progress.clone(),
        };
        let valid = steps.arguments(&*tool, &args).await?;
        let approved = match steps.gate(Some(tool.clone()), &valid.args).await? {
            Gated::Approved(approved) => approved,
            Gated::Substituted(output) => return Ok(steps.substitute(output).await),
        };
        let begun = steps.begin(approved, &*tool, valid.coercions).await?;
        let outcome = steps.run(&begun, &*tool, self.cx.stop_token()).await;
        Ok(steps.end(begun, outcome).await)
    }
}
