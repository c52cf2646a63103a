use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zk_core::events::{
    CallRef, Coercion, Passed, ToolBlocked, ToolErrored, ToolGate, ToolParked, ToolPrepare, ToolUnknown,
    ValidationCoerce, ValidationReject,
};
use zk_core::kernel::EmitError;
use zk_core::model::{Approved, Concurrency, ToolCall, ToolError, ToolErrorKind};
use zk_core::service::{CallPlace, Tool};

use super::call::{Calls, Settled, concurrency, failed, settled};
use super::nearest::nearest;
use super::{Validated, validate};
use crate::gates::call_key;

/// A call that may run.
pub(super) struct Ready {
    pub(super) approved: Approved,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) concurrency: Concurrency,
    pub(super) coercions: Vec<Coercion>,
    /// Under which its result is remembered.
    pub(super) dedup: Option<String>,
}

/// What is settled about a call before it runs.
pub(super) enum Preflight {
    Settled(Settled),
    Ready(Ready),
    /// The call waits for somebody who is not here: the batch and the run end.
    Parked {
        settled: Settled,
        tool: String,
        reason: String,
    },
    /// The run was stopped in the meantime; the call was not let through.
    Stopped,
}

impl Calls<'_> {
    /// Everything up to the permission to run: arguments, preparation, gates, the count. Calls are taken through
    /// this one after the other, in the order the model made them.
    pub(super) async fn preflight(&self, call: &ToolCall, info: Arc<CallRef>) -> Preflight {
        if let Some(raw) = &call.malformed {
            self.driver.shared.count(&call.name);
            return Preflight::Settled(self.malformed(info, raw).await);
        }
        let tool = self.driver.toolbox.get(&info.name);
        let (args, coercions) = match &tool {
            None => (call.args.clone(), Vec::new()),
            Some(tool) => match self.arguments(&info, &**tool, call.args.clone()).await {
                Ok(arguments) => arguments,
                Err(ended) => return ended,
            },
        };
        let place = CallPlace { cx: self.cx.clone(), cwd: self.driver.cwd.clone() };
        let gate = ToolGate {
            run_tool_counts: self.counts.clone(),
            ..ToolGate::new(info.clone(), args.clone(), tool.clone(), place)
        };
        match gate.pass(&self.cx).await {
            Err(EmitError::Cancelled { .. }) => Preflight::Stopped,
            Err(EmitError::Hook(error)) => {
                let reason = format!("a guard failed, so this call was not run: {error}");
                Preflight::Settled(self.blocked(info, args, reason, None).await)
            }
            Ok(Passed::Refused { reason, by }) => {
                let by = by.map(|source| source.to_string());
                Preflight::Settled(self.blocked(info, args, reason, by).await)
            }
            Ok(Passed::Parked { reason, by }) => {
                let settled = failed(&info, format!("Parked: {reason}. It was not run."));
                let by = by.map(|source| source.to_string());
                let parked = ToolParked { call: info.clone(), args, reason: reason.clone(), by };
                let _ = self.cx.emit(parked).await;
                Preflight::Parked { settled, tool: info.name.clone(), reason }
            }
            Ok(Passed::Substituted { output }) => {
                self.driver.shared.count(&info.name);
                Preflight::Settled(self.finish(info, output, false, Duration::ZERO, None).await)
            }
            Ok(Passed::Approved(approved)) => {
                self.driver.shared.count(&info.name);
                match tool {
                    Some(tool) => Preflight::Ready(Ready {
                        concurrency: concurrency(&*tool, approved.args()),
                        dedup: call_key(&self.driver.behavior, &info.name, approved.args()),
                        approved,
                        tool,
                        coercions,
                    }),
                    None => Preflight::Settled(self.unknown(info, args).await),
                }
            }
        }
    }

    /// The arguments as they will run: valid, coerced, prepared, and valid again if a handler rewrote them.
    async fn arguments(
        &self,
        call: &Arc<CallRef>,
        tool: &dyn Tool,
        args: Value,
    ) -> Result<(Value, Vec<Coercion>), Preflight> {
        let (args, coercions) = self.valid(call, tool, args).await?;
        if !self.cx.bus().has_handlers::<ToolPrepare>() {
            return Ok((args, coercions));
        }
        let prepare = ToolPrepare { call: call.clone(), args: args.clone(), rewritten_by: None };
        match self.cx.emit(prepare).await {
            Ok(prepared) if prepared.rewritten_by.is_none() => Ok((args, coercions)),
            // What the model gave was converted for the handler that rewrote it: only the new conversions tell.
            Ok(prepared) => self.valid(call, tool, prepared.args).await,
            Err(EmitError::Cancelled { .. }) => Err(Preflight::Stopped),
            Err(EmitError::Hook(error)) => {
                let reason = format!("its arguments could not be prepared, so it was not run: {error}");
                let by = Some(error.source.to_string());
                Err(Preflight::Settled(self.blocked(call.clone(), args, reason, by).await))
            }
        }
    }

    /// Arguments that fit the schema; a call whose arguments do not is counted and answered without a gate.
    async fn valid(
        &self,
        call: &Arc<CallRef>,
        tool: &dyn Tool,
        args: Value,
    ) -> Result<(Value, Vec<Coercion>), Preflight> {
        match validate(&args, &tool.spec().schema) {
            Ok(Validated { args, coercions }) => {
                if !coercions.is_empty() {
                    let coerced = || ValidationCoerce { call: call.clone(), coercions: coercions.clone() };
                    let _ = self.cx.emit_with(coerced).await;
                }
                Ok((args, coercions))
            }
            Err(issues) => {
                self.driver.shared.count(&call.name);
                let text = format!(
                    "Validation error: {}. Call it again with corrected arguments.",
                    issues.join("; ")
                );
                let _ = self.cx.emit(ValidationReject { call: call.clone(), args, issues }).await;
                Err(Preflight::Settled(failed(call, text)))
            }
        }
    }

    async fn malformed(&self, call: Arc<CallRef>, raw: &str) -> Settled {
        let why = match serde_json::from_str::<Value>(raw) {
            Ok(_) => "they are not a JSON object".to_owned(),
            Err(error) => error.to_string(),
        };
        let tail: String = raw.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        let issue = format!("the arguments are not valid JSON ({why}); they end with `{tail}`");
        let text = format!("Validation error: {issue}. The call was not run; make it again, complete.");
        let args = Value::String(raw.to_owned());
        let _ = self.cx.emit(ValidationReject { call: call.clone(), args, issues: vec![issue] }).await;
        failed(&call, text)
    }

    pub(super) async fn blocked(
        &self,
        call: Arc<CallRef>,
        args: Value,
        reason: String,
        by: Option<String>,
    ) -> Settled {
        let settled = failed(&call, format!("Blocked: {reason}"));
        let _ = self.cx.emit(ToolBlocked { call, args, reason, by }).await;
        settled
    }

    async fn unknown(&self, call: Arc<CallRef>, args: Value) -> Settled {
        let asked = ToolUnknown { call: call.clone(), args, result: None, suppress_error: false };
        let (mut result, suppressed) = match self.cx.emit(asked).await {
            Ok(answer) => (answer.result, answer.suppress_error),
            Err(_) => (None, false),
        };
        let toolbox = &self.driver.toolbox;
        let names: Vec<String> = toolbox.names().iter().map(|name| toolbox.wire_name(name)).collect();
        let near = nearest(&call.display_name, names.iter().map(String::as_str));
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
            Some(content) => settled(&call, content, false),
            None => failed(&call, text),
        }
    }
}
