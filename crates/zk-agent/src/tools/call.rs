use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_core::events::{
    CallRef, Coercion, Passed, ToolAfter, ToolBefore, ToolBegin, ToolBlocked, ToolEnd, ToolErrored, ToolGate,
    ToolParked, ToolPrepare, ToolProgress, ToolSkipped, ToolTransform, ToolUnknown, ValidationCoerce,
    ValidationReject,
};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{
    AgentError, Approved, Block, Concurrency, Display, ToolCall, ToolContent, ToolError, ToolErrorKind,
    ToolOutput, ToolResult, output_bytes, wire,
};
use zk_core::service::{CallPlace, Progress, Tool, ToolCx};

use super::{Validated, validate};
use crate::driver::Driver;
use crate::gates::call_key;

/// What the model is told of a call that a stopped run did not get to.
pub(super) const NOT_RUN: &str = "Aborted: the run was stopped before this call. It was not run.";

/// How long a tool that was told to stop may take to end by itself before its future is dropped.
const STOP_GRACE: Duration = Duration::from_millis(2_500);

/// What all calls of one batch share.
pub(super) struct Calls<'a> {
    pub(super) driver: &'a Driver,
    pub(super) cx: Cx,
    /// Calls of the run before this batch.
    pub(super) counts: Arc<BTreeMap<String, u32>>,
}

/// A call with its result.
pub(super) struct Settled {
    pub(super) result: ToolResult,
    pub(super) bytes: usize,
    /// Whether its failure cancels the calls running beside it.
    pub(super) cancels_siblings: bool,
    /// Why its end could not be recorded: the run stops.
    pub(super) unrecorded: Option<AgentError>,
}

/// A call that may run.
pub(super) struct Ready {
    pub(super) approved: Approved,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) concurrency: Concurrency,
    coercions: Vec<Coercion>,
    /// Under which its result is remembered.
    dedup: Option<String>,
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

/// Cancellation of a running call.
#[derive(Clone)]
pub(super) struct CallCancel {
    pub(super) stop: CancellationToken,
    /// Whether it is a failed sibling that stops it.
    pub(super) by_sibling: Arc<AtomicBool>,
}

impl Calls<'_> {
    pub(super) fn call_ref(&self, call: &ToolCall) -> Arc<CallRef> {
        Arc::new(CallRef {
            turn_id: self.cx.turn_id().into(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            display_name: self.driver.toolbox.wire_name(&call.name),
        })
    }

    /// Everything up to the permission to run: arguments, preparation, gates, the count. Calls are taken through
    /// this one after the other, in the order the model made them.
    pub(super) async fn preflight(&self, call: &ToolCall, info: Arc<CallRef>) -> Preflight {
        if let Some(raw) = &call.malformed {
            self.driver.shared.count(&call.name);
            return Preflight::Settled(self.malformed(info, raw).await);
        }
        let tool = self.driver.toolbox.get(&info.name).cloned();
        let (args, coercions) = match &tool {
            None => (call.args.clone(), Vec::new()),
            Some(tool) => match self.arguments(&info, &**tool, call.args.clone()).await {
                Ok(arguments) => arguments,
                Err(ended) => return ended,
            },
        };
        let place = CallPlace { cx: self.cx.clone(), cwd: self.driver.agent.cwd.clone() };
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

    async fn blocked(&self, call: Arc<CallRef>, args: Value, reason: String, by: Option<String>) -> Settled {
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
        let text = format!(
            "Unknown tool `{}`. The tools are: {}.",
            call.display_name,
            self.driver
                .toolbox
                .names()
                .iter()
                .map(|name| self.driver.toolbox.wire_name(name))
                .collect::<Vec<_>>()
                .join(", ")
        );
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

    /// Runs a call to its result. Never fails: whatever happens becomes a result.
    pub(super) async fn execute(&self, ready: Ready, cancel: CallCancel) -> Settled {
        let Ready { approved, tool, coercions, dedup, .. } = ready;
        let (call, args) = (approved.call().clone(), approved.args());
        let read_only = approved.effects().is_read_only();
        let begin = || ToolBegin {
            run_id: self.driver.shared.id.clone(),
            call: call.clone(),
            args: args.clone(),
            effects: approved.effects().clone(),
            read_only,
        };
        match self.cx.emit_with(begin).await {
            Ok(()) => {}
            Err(EmitError::Cancelled { .. }) => return skipped(&self.cx, &call, NOT_RUN).await,
            Err(EmitError::Hook(error)) => {
                let reason = format!("it could not be recorded before it ran, so it was not run: {error}");
                let by = Some(error.source.to_string());
                return self.blocked(call, args.clone(), reason, by).await;
            }
        }
        let before = ToolBefore {
            call: call.clone(),
            args: args.clone(),
            summary: catch_panic(|| tool.summary(args)).unwrap_or_else(|| call.name.clone()),
            coercions: (!coercions.is_empty()).then_some(coercions),
            run_tool_counts: self.counts.clone(),
        };
        if let Err(EmitError::Cancelled { .. }) = self.cx.emit(before).await {
            return skipped(&self.cx, &call, NOT_RUN).await;
        }
        let started = Instant::now();
        let outcome = self.call_tool(&approved, &tool, &cancel).await;
        let elapsed = started.elapsed();
        match outcome {
            Ok(output) => {
                if let Some(key) = dedup {
                    self.driver.agent.dedup.record(&call.name, key, &output);
                }
                self.finish(call, output, false, elapsed, Some(read_only)).await
            }
            Err(error) => {
                let errored = ToolErrored { call: call.clone(), error: error.clone(), result: None };
                let substitute = self.cx.emit(errored).await.ok().and_then(|errored| errored.result);
                let is_error = substitute.is_none();
                let content = substitute.unwrap_or(ToolContent::Text(error.message));
                let output = ToolOutput { content, display: error.display, details: None };
                let mut settled = self.finish(call, output, is_error, elapsed, Some(read_only)).await;
                settled.cancels_siblings = is_error && tool.failure_cancels_siblings();
                settled
            }
        }
    }

    async fn call_tool(
        &self,
        approved: &Approved,
        tool: &Arc<dyn Tool>,
        cancel: &CallCancel,
    ) -> Result<ToolOutput, ToolError> {
        let (progress, mut shown) = if self.cx.bus().has_listeners::<ToolProgress>() {
            let (sender, shown) = mpsc::unbounded_channel();
            (Progress::new(move |text: &str| drop(sender.send(text.to_owned()))), Some(shown))
        } else {
            (Progress::default(), None)
        };
        let cx = ToolCx {
            cx: self.cx.with_stop(cancel.stop.clone()),
            call_id: approved.call().call_id.clone(),
            cwd: self.driver.agent.cwd.clone(),
            progress,
        };
        let call = approved.call();
        // The call itself is made inside, so that nothing a tool does can unwind further.
        let work = async { tool.call(approved, &cx).await };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut deadline = std::pin::pin!(async {
            cancel.stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        });
        let ended = loop {
            let more = async {
                match &mut shown {
                    Some(shown) => shown.recv().await,
                    None => std::future::pending().await,
                }
            };
            match select(work.as_mut(), select(std::pin::pin!(more), deadline.as_mut())).await {
                Either::Left((ended, _)) => break Some(ended),
                Either::Right((Either::Left((Some(text), _)), _)) => {
                    let _ = self.cx.emit(ToolProgress { call: call.clone(), text }).await;
                }
                // Not while the tool's context, which holds the sender, is alive.
                Either::Right((Either::Left((None, _)), _)) => {}
                Either::Right((Either::Right(_), _)) => break None,
            }
        };
        if let Some(shown) = &mut shown {
            while let Ok(text) = shown.try_recv() {
                let _ = self.cx.emit(ToolProgress { call: call.clone(), text }).await;
            }
        }
        let outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(ToolError::failed(format!(
                "`{}` failed inside: a bug in the tool, not in the call. Try another way.",
                call.name
            ))),
            None => Err(ToolError::new(ToolErrorKind::Aborted, "stopped")),
        };
        match outcome {
            Err(error)
                if error.kind == ToolErrorKind::Aborted && cancel.by_sibling.load(Ordering::Acquire) =>
            {
                Err(ToolError {
                    message: "Cancelled: a command running beside this call failed. Its effects are unknown."
                        .into(),
                    ..error
                })
            }
            outcome => outcome,
        }
    }

    /// Transform, images, end, after: what every result of a call that was let through passes. A call that had
    /// begun says whether it only read, and its end is announced.
    async fn finish(
        &self,
        call: Arc<CallRef>,
        output: ToolOutput,
        is_error: bool,
        elapsed: Duration,
        begun: Option<bool>,
    ) -> Settled {
        let ToolOutput { content, display, details } = output;
        let bytes = output_bytes(&content);
        let transform = ToolTransform { call: call.clone(), output_bytes: bytes, content, is_error, details };
        let (mut content, is_error, details) = match self.cx.emit(transform).await {
            Ok(transform) => (transform.content, transform.is_error, transform.details),
            // What should have been cut or masked must not get through as it is.
            Err(error) => (format!("The result is withheld: {error}.").into(), true, None),
        };
        if !self.driver.model.capabilities.vision {
            content = without_images(content);
        }
        let bytes = output_bytes(&content);
        let elapsed_ms = elapsed.as_millis() as u64;
        let mut settled = Settled { bytes, ..settled(&call, content.clone(), is_error) };
        if let Some(read_only) = begun {
            let end = || ToolEnd {
                run_id: self.driver.shared.id.clone(),
                call: call.clone(),
                read_only,
                result: settled.result.clone(),
                display: display.clone(),
                details: details.clone(),
                elapsed_ms,
            };
            settled.unrecorded = self.cx.emit_with(end).await.err().map(AgentError::from);
        }
        let after = || ToolAfter {
            call: call.clone(),
            content: content.clone(),
            is_error,
            display: display.clone().or_else(|| first_line(&content)),
            details,
            output_bytes: bytes,
            elapsed_ms,
            run_tool_counts: self.counts.clone(),
        };
        let _ = self.cx.emit_with(after).await;
        settled
    }
}

pub(super) fn settled(call: &CallRef, content: ToolContent, is_error: bool) -> Settled {
    let bytes = output_bytes(&content);
    let result = ToolResult { call_id: call.call_id.clone(), content, is_error };
    Settled { result, bytes, cancels_siblings: false, unrecorded: None }
}

pub(super) fn failed(call: &CallRef, text: String) -> Settled {
    settled(call, ToolContent::Text(text), true)
}

/// An honest result for a call that has none.
pub(super) async fn skipped(cx: &Cx, call: &Arc<CallRef>, reason: &str) -> Settled {
    let _ = cx.emit(ToolSkipped { call: call.clone(), reason: reason.to_owned() }).await;
    failed(call, reason.to_owned())
}

/// Which calls this one may run beside. A tool that cannot say runs alone.
pub(super) fn concurrency(tool: &dyn Tool, args: &Value) -> Concurrency {
    catch_panic(|| tool.concurrency(args)).unwrap_or_default()
}

/// What a tool says of a call; nothing if it panics, since its arguments may be anything.
fn catch_panic<T>(describe: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(describe)).ok()
}

fn first_line(content: &ToolContent) -> Option<Display> {
    let ToolContent::Text(text) = content else { return None };
    let line: String = text.lines().next()?.chars().take(200).collect();
    Some(Display::Line { text: line })
}

/// The content for a model without vision.
fn without_images(content: ToolContent) -> ToolContent {
    let ToolContent::Blocks(blocks) = content else { return content };
    let blocks = blocks
        .into_iter()
        .map(|block| match block {
            Block::Image(_) => Block::text(wire::IMAGE_OMITTED),
            other => other,
        })
        .collect();
    ToolContent::Blocks(blocks)
}
