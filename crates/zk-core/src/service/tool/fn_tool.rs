use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::{Approved, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use crate::service::{CallPlace, Tool, ToolCx};

/// A tool made from an async function.
///
/// The function takes its arguments as a struct: the fields are the parameters, and their doc comments the
/// descriptions for the model. Arguments of the wrong type are returned to the model as an error and never
/// reach the function. Unless [`reads_only`](Self::reads_only) or [`effects`](Self::effects) declares the
/// effects of a call, a permission gate asks a person before each call, and an agent without a gate rejects
/// the tool.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use zk_core::model::ToolError;
/// use zk_core::service::{FnTool, Tool, ToolCx};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Roll {
///     /// How many dice
///     dice: u32,
/// }
///
/// let tool = FnTool::new("roll", "Rolls dice.", |roll: Roll, _: ToolCx| async move {
///     if roll.dice == 0 {
///         return Err(ToolError::invalid("there is nothing to roll; ask for one die or more"));
///     }
///     Ok(format!("{} dice: all ones", roll.dice))
/// })
/// .reads_only();
/// assert_eq!(tool.spec().schema["properties"]["dice"]["type"], "integer");
/// ```
pub struct FnTool {
    spec: Arc<ToolSpec>,
    title: Option<String>,
    call: Box<Call>,
    effects: Box<EffectsOf>,
    concurrency: Concurrency,
}

type Output = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type Call = dyn Fn(&Approved, ToolCx) -> Result<Output, ToolError> + Send + Sync;
type EffectsOf = dyn Fn(&Value, &CallPlace) -> Effects + Send + Sync;

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl FnTool {
    /// Creates a tool with the given name that runs `call`.
    pub fn new<A, R, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        call: impl Fn(A, ToolCx) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Into<ToolOutput>,
        F: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        Self {
            spec: ToolSpec::of::<A>(name, description),
            title: None,
            call: Box::new(move |approved, cx| {
                let running = call(approved.parse()?, cx);
                Ok(Box::pin(async move { running.await.map(Into::into) }))
            }),
            effects: Box::new(|_, _| Effects::Unknown),
            concurrency: Concurrency::Exclusive,
        }
    }

    /// Sets the title that people see instead of the name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Declares that calls have no effects: no permission is needed, and they run concurrently.
    #[must_use]
    pub fn reads_only(mut self) -> Self {
        self.effects = Box::new(|_, _| Effects::none());
        self.concurrency = Concurrency::Shared;
        self
    }

    /// Sets the function that determines the effects of a call from its arguments, without running it; see
    /// [`Tool::effects`].
    #[must_use]
    pub fn effects(
        mut self,
        effects: impl Fn(&Value, &CallPlace) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.effects = Box::new(effects);
        self
    }

    /// Sets which calls may run concurrently; the default is exclusive.
    #[must_use]
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }
}

#[async_trait]
impl Tool for FnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        (self.call)(call, cx.clone())?.await
    }

    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        (self.effects)(args, place)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        self.concurrency.clone()
    }

    fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| self.spec.name.clone())
    }
}
