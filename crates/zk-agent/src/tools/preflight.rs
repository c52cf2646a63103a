use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use zk_core::events::{CallRef, Coercion, ToolErrored, ToolUnknown, ValidationReject};
use zk_core::model::{Approved, Concurrency, Effect, Effects, ToolCall, ToolError, ToolErrorKind};
use zk_core::service::{Files, Gated, NotRun, ParkedWait, Tool, Validated};

use super::call::{CallOutcome, Calls, call_outcome, concurrency, failed_outcome};
use super::nearest::nearest_names;
use crate::gates::call_key;

/// An approved call that may run.
pub(super) struct Ready {
    pub(super) approved: Approved,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) concurrency: Concurrency,
    pub(super) coercions: Vec<Coercion>,
    /// Cache key of the result, if the tool is deduplicated.
    pub(super) dedup: Option<String>,
}

/// Decision about a call before it runs.
pub(super) enum Preflight {
    Settled(CallOutcome),
    Ready(Ready),
    /// The call was parked: it waits for a person who is not present, or for a time. The batch and the run end.
    Parked {
        settled: CallOutcome,
        tool: String,
        reason: String,
        wait: Option<ParkedWait>,
    },
    /// The run was stopped before the call was approved.
    Stopped,
}

/// Converts the reason for which a call did not run to a result for the model.
fn not_run_result(call: &CallRef, why: NotRun) -> Preflight {
    let settled = failed_outcome(call, why.to_string());
    match why {
        NotRun::Invalid { .. } | NotRun::Blocked { .. } => Preflight::Settled(settled),
        NotRun::Parked { reason, wait } => {
            Preflight::Parked { settled, tool: call.name.clone(), reason, wait }
        }
        NotRun::Stopped => Preflight::Stopped,
    }
}

impl Calls<'_> {
    /// Performs all steps up to the approval of a call: arguments, preparation, gates, counting. Runs for one
    /// call after the other, in the order the model made them.
    pub(super) async fn preflight(&self, call: &ToolCall, info: Arc<CallRef>) -> Preflight {
        if let Some(raw) = &call.malformed {
            self.context.shared.count_call(&call.name);
            return Preflight::Settled(self.reject_malformed(info, raw).await);
        }
        let tool = self.context.toolbox.get(&info.name);
        let steps = self.steps(info.clone());
        let arguments = match &tool {
            None => Ok(Validated { args: call.args.clone(), coercions: Vec::new() }),
            Some(tool) => steps.arguments(&**tool, &call.args).await,
        };
        let Validated { args, coercions } = match arguments {
            Ok(valid) => valid,
            Err(why) => return not_run_result(&info, why),
        };
        match (steps.gate(tool.clone(), &args).await, tool) {
            (Err(why), _) => not_run_result(&info, why),
            (Ok(Gated::Substituted(output)), _) => Preflight::Settled(steps.substitute(output).await.into()),
            (Ok(Gated::Approved(approved)), Some(tool)) => Preflight::Ready(Ready {
                concurrency: self
                    .concurrency_with_files(concurrency(&*tool, approved.args()), &approved)
                    .await,
                dedup: call_key(self.context.behavior, &info.name, approved.args()),
                approved,
                tool,
                coercions,
            }),
            (Ok(Gated::Approved(_)), None) => Preflight::Settled(self.answer_unknown_tool(info, args).await),
        }
    }

    /// Adds the canonical paths of changed files to the resources of a call, so that calls that change one
    /// file by different paths run in order.
    async fn concurrency_with_files(&self, told: Concurrency, call: &Approved) -> Concurrency {
        let (Concurrency::Resources(mut names), Effects::Known { list }) = (told.clone(), call.effects())
        else {
            return told;
        };
        let Some(files) = self.cx.service::<dyn Files>() else { return told };
        let written = list.iter().filter_map(|effect| match effect {
            Effect::Writes { paths } => Some(paths.clone()),
            Effect::Reads { .. }
            | Effect::Executes { .. }
            | Effect::Network { .. }
            | Effect::LeavesContext { .. } => None,
        });
        let (written, cwd): (Vec<PathBuf>, _) = (written.flatten().collect(), self.context.cwd.to_owned());
        if written.is_empty() {
            return told;
        }
        // Resolving links may block on the disk. A path that does not exist makes the call fail later.
        let resolving = tokio::task::spawn_blocking(move || {
            let resolve = |path: &PathBuf| files.resolve(&cwd, path.to_str()?).ok();
            written.iter().filter_map(resolve).map(|at| format!("at:{}", at.path.display())).collect()
        });
        let places: Vec<String> = resolving.await.unwrap_or_default();
        names.extend(places);
        Concurrency::Resources(names)
    }

    async fn reject_malformed(&self, call: Arc<CallRef>, raw: &str) -> CallOutcome {
        let why = match serde_json::from_str::<Value>(raw) {
            Ok(_) => "they are not a JSON object".to_owned(),
            Err(error) => error.to_string(),
        };
        let tail: String = raw.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        let issue = format!("the arguments are not valid JSON ({why}); they end with `{tail}`");
        let text = format!("Validation error: {issue}. The call was not run; make it again, complete.");
        let args = Value::String(raw.to_owned());
        let _ = self.cx.emit(ValidationReject { call: call.clone(), args, issues: vec![issue] }).await;
        failed_outcome(&call, text)
    }

    async fn answer_unknown_tool(&self, call: Arc<CallRef>, args: Value) -> CallOutcome {
        let asked = ToolUnknown { call: call.clone(), args, result: None, suppress_error: false };
        let (mut result, suppressed) = match self.cx.emit(asked).await {
            Ok(answer) => (answer.result, answer.suppress_error),
            Err(_) => (None, false),
        };
        let toolbox = self.context.toolbox;
        let names: Vec<String> = toolbox.offered_names().iter().map(|name| toolbox.wire_name(name)).collect();
        let near = nearest_names(&call.display_name, names.iter().map(String::as_str));
        let hint = match near.as_slice() {
            [] => String::new(),
            near => format!(" Did you mean `{}`?", near.join("` or `")),
        };
        let text =
            format!("Unknown tool `{}`.{hint} The tools are: {}.", call.display_name, names.join(", "));
        if !suppressed {
            let error = ToolError::new(ToolErrorKind::NotFound, text.clone());
            let errored = ToolErrored { call: call.clone(), error, result: result.take() };
            result = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
        }
        match result {
            Some(content) => call_outcome(&call, content, false),
            None => failed_outcome(&call, text),
        }
    }
}
