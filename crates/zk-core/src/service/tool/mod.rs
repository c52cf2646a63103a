mod call;
mod call_line;
#[cfg(feature = "typed")]
mod fn_tool;
mod run_tools;
mod server_names;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::events::{GateDecision, ToolGate};
use crate::kernel::Cx;
use crate::model::{
    Approved, CallId, CallKind, CallLocation, CallRef, Concurrency, Display, Effects, ToolError,
    ToolErrorKind, ToolOutput, ToolSpec,
};
use crate::service::ParkedCall;

pub use call::{BegunCall, CallEnd, CallSteps, Gated, NotRun, STOPPED_BEFORE_CALL, Validated, validate};
pub use call_line::{call_line, main_argument};
#[cfg(feature = "typed")]
pub use fn_tool::FnTool;
pub use run_tools::{RunTool, RunTools, UnknownTool};
pub use server_names::{SERVER_TOOL_PREFIX, foreign_server_names};

/// Text that marks the result of a repeated read: the file is the same, and its content is in an earlier result.
pub const UNCHANGED_READ: &str = "is unchanged since you read these lines";

/// A tool that a model can call: a registry item under its canonical name.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use serde_json::Value;
/// use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
/// use zk_core::service::{CallPlace, Tool, ToolCx};
///
/// struct Add(Arc<ToolSpec>);
///
/// #[async_trait]
/// impl Tool for Add {
///     fn spec(&self) -> &Arc<ToolSpec> {
///         &self.0
///     }
///
///     fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
///         Effects::none()
///     }
///
///     async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
///         let args = call.args();
///         let sum = args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0);
///         Ok(ToolOutput::text(sum.to_string()))
///     }
/// }
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns name, description and argument schema, constant for the tool's lifetime.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Runs a call that all gates approved, with arguments that fit the schema.
    ///
    /// # Errors
    /// [`ToolError`], the only way for a tool to give an error result.
    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError>;

    /// Returns the tool that this one decorates. All other methods forward to it by default, so a decorator
    /// implements `spec`, `call` and this, and keeps everything else.
    fn inner(&self) -> Option<&dyn Tool> {
        None
    }

    /// Returns which calls may run concurrently with this one; exclusive by default.
    fn concurrency(&self, args: &Value) -> Concurrency {
        self.inner().map_or(Concurrency::Exclusive, |inner| inner.concurrency(args))
    }

    /// Returns the effects of a call with these arguments, without running it. [`Effects::Unknown`] by
    /// default: a permission gate then asks a person, and without a [`CallGuard`](crate::service::CallGuard)
    /// no agent accepts the tool unless it was built unguarded. Effects returned for empty arguments hold for
    /// all calls. Must not block, since it is called for every call.
    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        self.inner().map_or(Effects::Unknown, |inner| inner.effects(args, place))
    }

    /// Renders a preview for the person who approves the call, besides its arguments: the diff of an edit,
    /// the body of a file. `None` if the arguments say it all, or if rendering fails.
    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        match self.inner() {
            Some(inner) => inner.preview(args, place).await,
            None => None,
        }
    }

    /// Returns the tool's title for people; its name by default.
    fn title(&self) -> String {
        self.inner().map_or_else(|| self.spec().name.clone(), Tool::title)
    }

    /// Summarises a call in one line for a person; the title by default.
    fn summary(&self, args: &Value) -> String {
        self.inner().map_or_else(|| self.title(), |inner| inner.summary(args))
    }

    /// Returns the kind of work of all calls; `None`, the default, derives it from each call's effects.
    fn kind(&self) -> Option<CallKind> {
        self.inner()?.kind()
    }

    /// Returns the name of the MCP server that provides the tool, if one does.
    fn server(&self) -> Option<String> {
        self.inner()?.server()
    }

    /// Returns the files that a call is about; the paths of its effects by default.
    fn locations(&self, args: &Value) -> Vec<CallLocation> {
        self.inner().map(|inner| inner.locations(args)).unwrap_or_default()
    }

    /// Returns advice for the model on using the tool. It becomes part of the system prompt of every run that
    /// offers the tool from the start. Constant for the tool's lifetime.
    fn prompt(&self) -> Option<&str> {
        self.inner()?.prompt()
    }

    /// Whether a call starts other calls, which may have effects even if this one has none. Such a call is
    /// recorded before it begins, like a call with effects, so that recovery after a crash does not take it
    /// for one without effects.
    fn starts_calls(&self) -> bool {
        self.inner().is_some_and(|inner| inner.starts_calls())
    }

    /// Whether a person is asked about each call, which no rule, earlier answer or plugin can allow instead.
    /// Only the permission mode `all` can.
    fn asks_each_time(&self) -> bool {
        self.inner().is_some_and(|inner| inner.asks_each_time())
    }

    /// Returns an idempotency key, under which the target of a call performs it only once: the number of a
    /// payment, the digest of an upload. `None` by default. Only a call with a key is repeated after its
    /// worker died during the call; the outcome of any other call is reported as unknown.
    fn idempotency(&self, args: &Value) -> Option<String> {
        self.inner().and_then(|inner| inner.idempotency(args))
    }

    /// Returns the wait that a call of a run that outlives its worker begins with: for an answer or a time. The leg ends
    /// then, and each later leg asks again, with the answer or the time in the [`Leg`](crate::service::Leg) of `place`; the
    /// call runs once there is no wait. Only asked in a leg, after all gates. Must not block.
    fn wait_before(&self, call: &Approved, place: &CallPlace) -> Option<ParkedCall> {
        self.inner().and_then(|inner| inner.wait_before(call, place))
    }

    /// Whether a failure of this call cancels concurrent calls: commands often depend on each other, reads do
    /// not.
    fn failure_cancels_siblings(&self) -> bool {
        self.inner().is_some_and(|inner| inner.failure_cancels_siblings())
    }
}

/// Context and directory that a call would run in, for [`Tool::effects`] and [`Tool::preview`].
#[derive(Clone, Debug)]
pub struct CallPlace {
    /// Context of the run.
    pub cx: Cx,
    /// Working directory, fixed for the turn.
    pub cwd: PathBuf,
}

/// Context of a tool call.
#[derive(Clone)]
pub struct ToolCx {
    /// Context of the run, with a stop token for this call. If the conversation is stored, its session is
    /// `cx.service::<SessionId>()`.
    pub cx: Cx,
    /// Id of the call.
    pub call_id: CallId,
    /// Working directory, fixed for the turn.
    pub cwd: PathBuf,
    /// Receives output while the call runs.
    pub progress: Progress,
}

impl fmt::Debug for ToolCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCx")
            .field("call_id", &self.call_id)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl ToolCx {
    /// Creates a context for calling a tool outside of any agent.
    #[must_use]
    pub fn new(cx: Cx, cwd: impl Into<PathBuf>) -> Self {
        Self { cx, call_id: CallId::fresh(), cwd: cwd.into(), progress: Progress::default() }
    }

    /// Returns the context and directory of the call.
    #[must_use]
    pub fn place(&self) -> CallPlace {
        CallPlace { cx: self.cx.clone(), cwd: self.cwd.clone() }
    }

    /// Asks the gates of this context's bus about a call without running it, for benches and tests of one
    /// tool. [`ToolCx::run`] makes a whole call.
    ///
    /// # Errors
    /// [`ToolError`] of kind `Denied` when a gate refuses, parks, substitutes or fails.
    pub async fn approve(&self, tool: Arc<dyn Tool>, args: Value) -> Result<Approved, ToolError> {
        let name = tool.spec().name.clone();
        let call = Arc::new(CallRef {
            turn_id: self.cx.turn_id().into(),
            call_id: self.call_id.clone(),
            display_name: name.clone(),
            name,
        });
        let gate = ToolGate::new(call, args, Some(tool), self.place());
        let denied = |why: String| Err(ToolError::new(ToolErrorKind::Denied, why));
        match gate.pass(&self.cx).await {
            Ok(GateDecision::Approved(approved)) => Ok(approved),
            Ok(GateDecision::Refused { reason, .. }) => denied(reason),
            Ok(GateDecision::Parked { reason, .. }) => denied(format!("waiting for approval: {reason}")),
            Ok(GateDecision::Substituted { .. }) => denied("a gate answered in the tool's place".to_owned()),
            Err(error) => denied(error.to_string()),
        }
    }
}

/// Receives the output of a running call, for display. Never blocks the tool.
#[derive(Clone, Default)]
pub struct Progress(Option<Watcher>);

type Watcher = Arc<dyn Fn(&str) + Send + Sync>;

impl Progress {
    /// Creates a receiver that passes every piece to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Passes `text` on for display.
    pub fn show(&self, text: &str) {
        if let Some(sink) = &self.0 {
            sink(text);
        }
    }

    /// Whether the output is displayed anywhere.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.is_watched()).finish()
    }
}
