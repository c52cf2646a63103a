mod call;
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

pub use call::{BegunCall, CallEnd, CallSteps, Gated, NotRun, STOPPED_BEFORE_CALL, Validated, validate};
#[cfg(feature = "typed")]
pub use fn_tool::FnTool;
pub use run_tools::{RunTool, RunTools, UnknownTool};
pub use server_names::{SERVER_TOOL_PREFIX, foreign_server_names};

/// Something a model can call. A registry item under its canonical name.
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
    /// Name, description and argument schema. The same for the tool's whole life.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Runs a call that passed its gates, with arguments that passed the schema.
    ///
    /// # Errors
    /// [`ToolError`]: the only way a result becomes an error result.
    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError>;

    /// The tool that this one decorates: whatever else it does not say itself, that one says. So a decorator has
    /// `spec`, `call` and this, and loses nothing of what it decorates.
    fn inner(&self) -> Option<&dyn Tool> {
        None
    }

    /// Returns which calls this one may run together with; alone unless the tool says otherwise.
    fn concurrency(&self, args: &Value) -> Concurrency {
        self.inner().map_or(Concurrency::Exclusive, |inner| inner.concurrency(args))
    }

    /// Returns the effects of a call with these arguments, without running it. [`Effects::Unknown`] unless
    /// the tool says otherwise: a permission gate asks a person about that, and without a
    /// [`CallGuard`](crate::service::CallGuard) no agent takes the tool unless it was built unguarded. Effects told of
    /// no arguments hold for all. Must not block: it is asked for every call.
    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        self.inner().map_or(Effects::Unknown, |inner| inner.effects(args, place))
    }

    /// Draws what a person should see before approving the call, besides its arguments: the diff of an edit,
    /// the body of a file. Nothing when the arguments say it all, or when it cannot be drawn.
    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        match self.inner() {
            Some(inner) => inner.preview(args, place).await,
            None => None,
        }
    }

    /// Returns the tool's title for people; its name unless the tool says otherwise.
    fn title(&self) -> String {
        self.inner().map_or_else(|| self.spec().name.clone(), Tool::title)
    }

    /// One line for a person: what this call does; the title unless the tool says otherwise.
    fn summary(&self, args: &Value) -> String {
        self.inner().map_or_else(|| self.title(), |inner| inner.summary(args))
    }

    /// Returns the kind of work of its calls; told by their effects unless the tool says otherwise.
    fn kind(&self) -> Option<CallKind> {
        self.inner()?.kind()
    }

    /// The name of the MCP server that brings the tool, if one does.
    fn server(&self) -> Option<String> {
        self.inner()?.server()
    }

    /// The places a call is about; the paths of its effects unless the tool says otherwise.
    fn locations(&self, args: &Value) -> Vec<CallLocation> {
        self.inner().map(|inner| inner.locations(args)).unwrap_or_default()
    }

    /// Returns advice for a model on using the tool, beside its description: it stands in the system prompt
    /// of every run that offers the tool from its beginning. The same for the tool's whole life.
    fn prompt(&self) -> Option<&str> {
        self.inner()?.prompt()
    }

    /// Whether its calls start others, which may change something though it changes nothing itself. Such a call is on
    /// record before it begins, like one with effects: after a crash nobody takes it for one that did nothing.
    fn starts_calls(&self) -> bool {
        self.inner().is_some_and(|inner| inner.starts_calls())
    }

    /// Whether a failure of this call cancels the calls running beside it: commands often depend on each
    /// other, reads do not.
    fn failure_cancels_siblings(&self) -> bool {
        self.inner().is_some_and(|inner| inner.failure_cancels_siblings())
    }
}

/// Place where a call would run, for [`Tool::effects`] and [`Tool::preview`].
#[derive(Clone, Debug)]
pub struct CallPlace {
    /// The run's context.
    pub cx: Cx,
    /// The working directory, fixed for the turn.
    pub cwd: PathBuf,
}

/// Context of a tool call.
#[derive(Clone)]
pub struct ToolCx {
    /// The run's context; its stop token ends with this call. The session, if the conversation is stored:
    /// `cx.service::<SessionId>()`.
    pub cx: Cx,
    /// The call.
    pub call_id: CallId,
    /// The working directory, fixed for the turn.
    pub cwd: PathBuf,
    /// Takes output while the call runs.
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
    /// A context for calling a tool outside any agent.
    #[must_use]
    pub fn new(cx: Cx, cwd: impl Into<PathBuf>) -> Self {
        Self { cx, call_id: CallId::fresh(), cwd: cwd.into(), progress: Progress::default() }
    }

    /// The place of the call.
    #[must_use]
    pub fn place(&self) -> CallPlace {
        CallPlace { cx: self.cx.clone(), cwd: self.cwd.clone() }
    }

    /// Takes a call through the gates of this context's bus and no further, for benches and tests of one tool:
    /// [`ToolCx::run`] is a whole call.
    ///
    /// # Errors
    /// [`ToolError`] of kind `Denied` when a gate refuses, parks or fails, or answers in the tool's place.
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

/// Takes the output of a running call, for a person to watch. It never blocks the tool.
#[derive(Clone, Default)]
pub struct Progress(Option<Watcher>);

type Watcher = Arc<dyn Fn(&str) + Send + Sync>;

impl Progress {
    /// Hands every piece to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Shows `text`.
    pub fn show(&self, text: &str) {
        if let Some(sink) = &self.0 {
            sink(text);
        }
    }

    /// Whether anybody watches.
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
