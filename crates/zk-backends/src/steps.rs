use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{
    Approved, CallId, CallKind, CallLocation, CheckItem, Concurrency, Display, Effects, ToolError,
    ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, Tool, ToolCx};

use crate::acp::agent::{AcpAgent, RunningAgent};
use crate::acp::session::AcpSession;
use crate::acp::step::step_tool;
use crate::lock::lock;

/// Open steps of agents, by the ids of the calls that represent them.
#[derive(Default)]
pub(crate) struct OpenSteps(Mutex<HashMap<CallId, OpenStep>>);

/// Step of an agent that a call represents.
#[derive(Clone)]
pub(crate) struct OpenStep {
    pub(crate) running: Arc<RunningAgent>,
    pub(crate) session: Arc<AcpSession>,
    pub(crate) id: String,
}

impl OpenSteps {
    pub(crate) fn add(&self, call: CallId, step: OpenStep) {
        lock(&self.0).insert(call, step);
    }

    fn take(&self, call: &CallId) -> Option<OpenStep> {
        lock(&self.0).remove(call)
    }
}

/// Tool that represents steps of one kind. Its calls wait for the end of the agent's step.
pub(crate) struct StepTool {
    spec: Arc<ToolSpec>,
    kind: CallKind,
    /// Open steps of every agent.
    steps: Vec<Arc<OpenSteps>>,
}

impl StepTool {
    pub(crate) fn new(kind: CallKind, steps: Vec<Arc<OpenSteps>>) -> Self {
        // Never offered to a model: a backend unlocks it for the steps that it shows.
        let description = "Shows a step of another agent. Not for models.";
        let spec = ToolSpec::lazy(step_tool(kind), description, json!({ "type": "object" }));
        Self { spec, kind, steps }
    }
}

#[async_trait]
impl Tool for StepTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn kind(&self) -> Option<CallKind> {
        Some(self.kind)
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        // The agent acts, not this call. Permission for the step is requested separately.
        Effects::none()
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn summary(&self, args: &Value) -> String {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        match (text("command"), text("title")) {
            (Some(command), _) => format!("$ {}", command.lines().next().unwrap_or_default()),
            (None, Some(title)) => title.to_owned(),
            (None, None) => "plan".to_owned(),
        }
    }

    fn locations(&self, args: &Value) -> Vec<CallLocation> {
        let paths = args.get("paths").and_then(Value::as_array).into_iter().flatten();
        let location = |path: &str| CallLocation { path: path.into(), line: None };
        paths.filter_map(Value::as_str).map(location).collect()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        if self.kind == CallKind::Plan {
            return Ok(plan_output(call.args()));
        }
        let Some(OpenStep { running, session, id }) =
            self.steps.iter().find_map(|steps| steps.take(&cx.call_id))
        else {
            let why = "this stands for a step of another agent, and there is none";
            return Err(ToolError::new(ToolErrorKind::Denied, why));
        };
        tokio::select! {
            step = session.wait_for_step(&id, |text| cx.progress.show(text)) => match step {
                Some(step) => step.result(),
                None => Err(ToolError::failed("the agent ended without saying how this went")),
            },
            () = cx.cx.stop_token().cancelled() => {
                AcpAgent::cancel(&running, &session);
                Err(ToolError::new(ToolErrorKind::Aborted, "stopped"))
            }
        }
    }
}

fn plan_output(args: &Value) -> ToolOutput {
    let items = args.get("items").cloned().unwrap_or_default();
    let items: Vec<CheckItem> = serde_json::from_value(items).unwrap_or_default();
    let text = items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let reshaped = args.get("reshaped").and_then(Value::as_bool).unwrap_or(true);
    ToolOutput::text(text).with_display(Display::Checklist { items, reshaped })
}
