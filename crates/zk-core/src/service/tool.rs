use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::kernel::Cx;
use crate::model::{CallId, Concurrency, ToolError, ToolOutput, ToolSpec};

/// Something a model can call. A registry item under its canonical name.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use serde_json::{Value, json};
/// use zk_core::model::{ToolError, ToolOutput, ToolSpec};
/// use zk_core::service::{Tool, ToolCx};
///
/// struct Add(Arc<ToolSpec>);
///
/// #[async_trait]
/// impl Tool for Add {
///     fn spec(&self) -> &Arc<ToolSpec> {
///         &self.0
///     }
///
///     async fn call(&self, args: Value, _: &ToolCx) -> Result<ToolOutput, ToolError> {
///         let sum = args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0);
///         Ok(ToolOutput::text(sum.to_string()))
///     }
/// }
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and argument schema. The same for the tool's whole life.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Runs a call whose arguments passed the schema.
    ///
    /// # Errors
    /// [`ToolError`]: the only way a result becomes an error result.
    async fn call(&self, args: Value, cx: &ToolCx) -> Result<ToolOutput, ToolError>;

    /// Which calls this one may run together with; alone unless the tool says otherwise.
    fn concurrency(&self, args: &Value) -> Concurrency {
        let _ = args;
        Concurrency::Exclusive
    }

    /// Whether this call changes nothing and reaches nothing outside the workspace. What is not read-only
    /// needs permission.
    fn read_only(&self, args: &Value) -> bool {
        let _ = args;
        false
    }

    /// One line for a person: what this call does.
    fn summary(&self, args: &Value) -> String {
        let _ = args;
        self.spec().name.clone()
    }

    /// Whether a failure of this call cancels the calls running beside it: commands often depend on each
    /// other, reads do not.
    fn failure_cancels_siblings(&self) -> bool {
        false
    }
}

/// What a call is given.
#[derive(Clone)]
pub struct ToolCx {
    /// The run's context; its stop token ends with this call.
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
