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

/// A tool made of a function.
///
/// The function's arguments are a struct: the fields are the parameters, their comments what the model is
/// told of them. Arguments of other types go back to the model and never reach the function. Unless
/// [`reads_only`](Self::reads_only) or [`effects`](Self::effects) says what a call does, a permission gate
/// asks a person before each, and an agent without a gate does not take the tool.
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
    /// A tool called `name` that runs `call`.
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

    /// Sets the title that a person reads in the place of the name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Declares that its calls change nothing and leave nothing: nobody is asked about them, and they run
    /// together.
    #[must_use]
    pub fn reads_only(mut self) -> Self {
        self.effects = Box::new(|_, _| Effects::none());
        self.concurrency = Concurrency::Shared;
        self
    }

    /// Sets how to tell the effects of a call with these arguments, without running it; see
    /// [`Tool::effects`].
    #[must_use]
    pub fn effects(
        mut self,
        effects: impl Fn(&Value, &CallPlace) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.effects = Box::new(effects);
        self
    }

    /// Sets which calls may run together; alone unless set.
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
