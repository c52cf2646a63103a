use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Validated, validate};
use crate::events::{
    Coercion, GateDecision, ToolBefore, ToolBegin, ToolBlocked, ToolGate, ToolParked, ToolPrepare,
    ToolProgress, ToolSkipped, ValidationCoerce, ValidationReject,
};
use crate::kernel::{Cx, EmitError, Source};
use crate::model::{Approved, CallKind, CallRef, RunId, ToolError, ToolErrorKind, ToolOutput};
use crate::service::{
    CallPlace, Leg, ParkedCall, ParkedWait, Progress, RedactedPieces, Redactor, RunTools, Tool, ToolCx,
};

/// Grace period of a cancelled tool, after which its future is dropped.
const STOP_GRACE: Duration = Duration::from_millis(2_500);

/// Result, for the model, of a call that had not begun when the run was stopped.
pub const STOPPED_BEFORE_CALL: &str = "Aborted: the run was stopped before this call. It was not run.";

/// Steps of one tool call, in the order of its methods: [`arguments`](Self::arguments), [`gate`](Self::gate),
/// [`begin`](Self::begin), [`run`](Self::run), [`end`](Self::end). Each announces its events.
///
/// For implementations of an agent loop. A tool or host that calls a tool uses [`ToolCx::run`], which
/// performs all steps.
#[derive(Clone)]
pub struct CallSteps {
    /// Context of the run.
    pub cx: Cx,
    /// Id of the run, for stored events.
    pub run_id: RunId,
    /// Identity of the call.
    pub call: Arc<CallRef>,
    /// Working directory of the call.
    pub cwd: PathBuf,
    /// Number of calls of each tool in this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
    /// Whether the reader of the result can see images; otherwise a text replaces each image.
    pub keeps_images: bool,
    /// Receives the output while the tool runs, besides `tool:progress`.
    pub progress: Progress,
}

impl fmt::Debug for CallSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSteps")
            .field("run_id", &self.run_id)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

/// Reason for which a call did not run, already announced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotRun {
    /// The arguments do not fit the schema.
    #[error("Validation error: {}. Call it again with corrected arguments.", issues.join("; "))]
    Invalid {
        /// One line for each argument that does not fit.
        issues: Vec<String>,
    },
    /// The call was refused, or a gate or a recording handler failed.
    #[error("Blocked: {reason}")]
    Blocked {
        /// Reason for the refusal or the failure.
        reason: String,
    },
    /// The call was parked: it waits for a person who is not present, or for a time.
    #[error("Parked: {reason}. It was not run.")]
    Parked {
        /// Reason for the wait.
        reason: String,
        /// Event with which a later leg of the run goes on with the call.
        wait: Option<ParkedWait>,
    },
    /// The run was stopped.
    #[error("{STOPPED_BEFORE_CALL}")]
    Stopped,
}

impl From<NotRun> for ToolError {
    fn from(why: NotRun) -> Self {
        let kind = match &why {
            NotRun::Invalid { .. } => ToolErrorKind::InvalidArgs,
            NotRun::Blocked { .. } | NotRun::Parked { .. } => ToolErrorKind::Denied,
            NotRun::Stopped => ToolErrorKind::Aborted,
        };
        Self::new(kind, why.to_string())
    }
}

/// A call that the gates let through, or its substitute.
#[derive(Clone, Debug)]
pub enum Gated {
    /// The call may run with exactly these arguments.
    Approved(Approved),
    /// Result to give instead, for [`CallSteps::substitute`].
    Substituted(ToolOutput),
}

/// A call that `tool:begin` announced, for [`CallSteps::end`].
#[derive(Clone, Debug)]
pub struct BegunCall {
    pub(super) approved: Approved,
    pub(super) read_only: bool,
    pub(super) summary: String,
    /// Note about converted arguments, which is appended to the result for the model.
    pub(super) note: Option<String>,
    pub(super) started: Instant,
}

/// Calls a tool's method that describes a call; `None` if the method panics, since the arguments are
/// unchecked.
fn catch_panic<T>(describe: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(describe)).ok()
}

impl CallSteps {
    /// Returns the context and directory of the call.
    #[must_use]
    pub fn place(&self) -> CallPlace {
        CallPlace { cx: self.cx.clone(), cwd: self.cwd.clone() }
    }

    /// Returns the final arguments: coerced, validated against the schema, rewritten by handlers of
    /// `tool:prepare`, and then validated again.
    ///
    /// # Errors
    /// [`NotRun`] when the arguments do not fit (which still counts as a call) or cannot be prepared, or the
    /// run was stopped.
    pub async fn arguments(&self, tool: &dyn Tool, args: &Value) -> Result<Validated, NotRun> {
        let valid = self.validate_args(tool, args).await?;
        if !self.cx.bus().has_handlers::<ToolPrepare>() {
            return Ok(valid);
        }
        let prepare = ToolPrepare { call: self.call.clone(), args: valid.args.clone(), rewritten_by: None };
        match self.cx.emit(prepare).await {
            Ok(prepared) if prepared.rewritten_by.is_none() => Ok(valid),
            // A handler rewrote arguments that were already converted, so only conversions of the rewritten
            // ones are reported.
            Ok(prepared) => self.validate_args(tool, &prepared.args).await,
            Err(EmitError::Cancelled { .. }) => Err(NotRun::Stopped),
            Err(EmitError::Hook(error)) => {
                let reason = format!("its arguments could not be prepared, so it was not run: {error}");
                Err(self.announce_blocked(&valid.args, reason, Some(&error.source)).await)
            }
        }
    }

    async fn validate_args(&self, tool: &dyn Tool, args: &Value) -> Result<Validated, NotRun> {
        match validate(args, &tool.spec().schema) {
            Ok(valid) => {
                if !valid.coercions.is_empty() {
                    let (call, coercions) = (self.call.clone(), valid.coercions.clone());
                    let _ = self.cx.emit(ValidationCoerce { call, coercions }).await;
                }
                Ok(valid)
            }
            Err(issues) => {
                self.count_call();
                let (call, args) = (self.call.clone(), args.clone());
                let _ = self.cx.emit(ValidationReject { call, args, issues: issues.clone() }).await;
                Err(NotRun::Invalid { issues })
            }
        }
    }

    /// Asks the gates, and counts the call if they approve it. `tool` is `None` for an unknown name. In a leg, the tool may
    /// park an approved call ([`Tool::wait_before`]).
    ///
    /// # Errors
    /// [`NotRun`] when a gate refuses, parks or fails, the tool parks the call, or the run was stopped.
    pub async fn gate(&self, tool: Option<Arc<dyn Tool>>, args: &Value) -> Result<Gated, NotRun> {
        let parking = tool.clone().filter(|_| self.cx.service::<Leg>().is_some());
        let gate = ToolGate {
            run_tool_counts: self.run_tool_counts.clone(),
            ..ToolGate::new(self.call.clone(), args.clone(), tool, self.place())
        };
        match gate.pass(&self.cx).await {
            Ok(GateDecision::Approved(approved)) => {
                let wait = parking
                    .and_then(|tool| catch_panic(|| tool.wait_before(&approved, &self.place())).flatten());
                if let Some(parked) = wait {
                    return Err(self.announce_parked(args, parked, None).await);
                }
                self.count_call();
                Ok(Gated::Approved(approved))
            }
            Ok(GateDecision::Substituted { output }) => {
                self.count_call();
                Ok(Gated::Substituted(output))
            }
            // A stop of the run is no refusal of this call.
            Ok(GateDecision::Refused { .. }) if self.cx.is_stopped() => Err(self.announce_skipped().await),
            Ok(GateDecision::Refused { reason, by }) => {
                Err(self.announce_blocked(args, reason, by.as_ref()).await)
            }
            Ok(GateDecision::Parked { reason, wait, by }) => {
                Err(self.announce_parked(args, ParkedCall { reason, wait }, by.as_ref()).await)
            }
            Err(EmitError::Cancelled { .. }) => Err(NotRun::Stopped),
            Err(EmitError::Hook(error)) => {
                let reason = format!("a guard failed, so this call was not run: {error}");
                Err(self.announce_blocked(args, reason, None).await)
            }
        }
    }

    /// Counts the call in its run, if it was made within a run.
    fn count_call(&self) {
        if let Some(tools) = self.cx.service::<dyn RunTools>() {
            tools.count(&self.call.name);
        }
    }

    async fn announce_parked(&self, args: &Value, parked: ParkedCall, by: Option<&Source>) -> NotRun {
        let ParkedCall { reason, wait } = parked;
        let (call, by) = (self.call.clone(), by.map(ToString::to_string));
        let _ = self.cx.emit(ToolParked { call, args: args.clone(), reason: reason.clone(), by }).await;
        NotRun::Parked { reason, wait }
    }

    async fn announce_blocked(&self, args: &Value, reason: String, by: Option<&Source>) -> NotRun {
        let by = by.map(ToString::to_string);
        let blocked = ToolBlocked { call: self.call.clone(), args: args.clone(), reason: reason.clone(), by };
        let _ = self.cx.emit(blocked).await;
        NotRun::Blocked { reason }
    }

    /// Announces `tool:begin`, at which the call is made durable; `coercions` are those of its arguments.
    ///
    /// # Errors
    /// [`NotRun`] when the call could not be recorded, or the run was stopped.
    pub async fn begin(
        &self,
        approved: Approved,
        tool: &dyn Tool,
        coercions: Vec<Coercion>,
    ) -> Result<BegunCall, NotRun> {
        let args = approved.args();
        let starts_calls = catch_panic(|| tool.starts_calls()).unwrap_or(true);
        let read_only = approved.effects().is_read_only() && !starts_calls;
        let summary = catch_panic(|| tool.summary(args)).unwrap_or_else(|| self.call.name.clone());
        let title = catch_panic(|| tool.title()).filter(|title| *title != self.call.name);
        let kind = catch_panic(|| tool.kind()).flatten().unwrap_or_else(|| CallKind::of(approved.effects()));
        let locations = catch_panic(|| tool.locations(args)).filter(|found| !found.is_empty());
        let locations = locations.unwrap_or_else(|| approved.effects().locations());
        let begin = || ToolBegin {
            run_id: self.run_id.clone(),
            call: self.call.clone(),
            args: args.clone(),
            effects: approved.effects().clone(),
            summary: summary.clone(),
            title: title.clone(),
            kind,
            locations: locations.clone(),
            read_only,
        };
        match self.cx.emit_with(begin).await {
            Ok(()) => {}
            Err(EmitError::Cancelled { .. }) => return Err(self.announce_skipped().await),
            Err(EmitError::Hook(error)) => {
                let reason = format!("it could not be recorded before it ran, so it was not run: {error}");
                return Err(self.announce_blocked(args, reason, Some(&error.source)).await);
            }
        }
        let note = describe_coercions(&coercions);
        let before = ToolBefore {
            call: self.call.clone(),
            args: args.clone(),
            summary: summary.clone(),
            coercions: (!coercions.is_empty()).then_some(coercions),
            run_tool_counts: self.run_tool_counts.clone(),
        };
        if let Err(EmitError::Cancelled { .. }) = self.cx.emit(before).await {
            return Err(self.announce_skipped().await);
        }
        Ok(BegunCall { approved, read_only, summary, note, started: Instant::now() })
    }

    async fn announce_skipped(&self) -> NotRun {
        let (call, reason) = (self.call.clone(), STOPPED_BEFORE_CALL.to_owned());
        let _ = self.cx.emit(ToolSkipped { call, reason }).await;
        NotRun::Stopped
    }

    /// Runs the tool until it ends, or until `stop` is cancelled and the grace period is over.
    ///
    /// # Errors
    /// The tool's error, an error for a tool that panicked, or one of kind `Aborted`.
    pub async fn run(
        &self,
        begun: &BegunCall,
        tool: &dyn Tool,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let (progress, mut shown) =
            if self.progress.is_watched() || self.cx.bus().has_listeners::<ToolProgress>() {
                let (sender, shown) = mpsc::unbounded_channel();
                (Progress::new(move |text: &str| drop(sender.send(text.to_owned()))), Some(shown))
            } else {
                (Progress::default(), None)
            };
        let mut pieces = self.cx.service::<Redactor>().map(RedactedPieces::new);
        let cx = ToolCx {
            cx: self.cx.with_stop(stop.clone()),
            call_id: self.call.call_id.clone(),
            cwd: self.cwd.clone(),
            progress,
        };
        // The call is made inside of the guarded future, so that no panic of the tool unwinds further.
        let work = async { tool.call(&begun.approved, &cx).await };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut deadline = std::pin::pin!(async {
            stop.cancelled().await;
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
                    self.announce_progress(&mut pieces, text).await
                }
                // Does not happen while the tool's context, which holds the sender, is alive.
                Either::Right((Either::Left((None, _)), _)) => {}
                Either::Right((Either::Right(_), _)) => break None,
            }
        };
        if let Some(shown) = &mut shown {
            while let Ok(text) = shown.try_recv() {
                self.announce_progress(&mut pieces, text).await;
            }
            if let Some(mut pieces) = pieces {
                self.announce_progress(&mut None, pieces.finish()).await;
            }
        }
        match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(ToolError::failed(format!(
                "`{}` failed inside: a bug in the tool, not in the call. Try another way.",
                self.call.name
            ))),
            None => Err(ToolError::new(ToolErrorKind::Aborted, "stopped")),
        }
    }

    /// Announces another piece of a call's output, with secrets redacted even if they span several pieces.
    async fn announce_progress(&self, pieces: &mut Option<RedactedPieces>, text: String) {
        let text = match pieces {
            Some(pieces) => pieces.push(text),
            None => text,
        };
        if !text.is_empty() {
            self.progress.show(&text);
            let _ = self.cx.emit(ToolProgress { call: self.call.clone(), text }).await;
        }
    }
}

/// Maximum number of conversions that the note for the model lists.
const MAX_COERCIONS_SHOWN: usize = 4;
/// Maximum number of characters of a converted value in the note.
const MAX_VALUE_CHARS: usize = 60;

/// Returns the note for the model on arguments whose types had to be converted.
fn describe_coercions(coercions: &[Coercion]) -> Option<String> {
    let shown = |value: &Value| {
        let text = value.to_string();
        let cut = if text.chars().nth(MAX_VALUE_CHARS).is_some() { "…" } else { "" };
        format!("{}{cut}", text.chars().take(MAX_VALUE_CHARS).collect::<String>())
    };
    let one = |coercion: &Coercion| {
        format!("`{}` as {} instead of {}", coercion.key, shown(&coercion.to), shown(&coercion.from))
    };
    let all: Vec<String> = coercions.iter().take(MAX_COERCIONS_SHOWN).map(one).collect();
    (!all.is_empty()).then(|| format!("[Arguments were converted: give {} next time.]", all.join(", ")))
}
