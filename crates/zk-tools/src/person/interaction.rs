use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};

type Answering = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type Ask = dyn Fn(Value, ToolCx) -> Answering + Send + Sync;
type Summary = dyn Fn(&Value) -> String + Send + Sync;

/// Tool that waits for a person, made of a name, a schema and an asking function. It has no effects, so it
/// needs no permission. The result is text, or an object in [`ToolOutput::details`].
///
/// `ask_user` and `present_plan` are such tools.
///
/// ```
/// use std::time::Duration;
///
/// use serde_json::json;
/// use zk_core::kernel::Bus;
/// use zk_core::model::{ToolError, ToolOutput};
/// use zk_core::service::{Question, Questions, Tool, UiAnswer};
/// use zk_tools::InteractionTool;
///
/// let schema = json!({ "type": "object", "properties": { "what": { "type": "string" } }, "required": ["what"] });
/// let tool = InteractionTool::new("pick_colour", "Have the user pick a colour.", schema, async |args, cx| {
///     let nobody = || ToolError::failed("nobody is here to be asked; take blue");
///     let questions = cx.cx.service::<Questions>().ok_or_else(nobody)?;
///     let text = format!("Which colour for {}?", args["what"]);
///     match questions.ask(Question::Input { text }, &cx.cx, Duration::from_secs(600)).await {
///         UiAnswer::Text { text } => Ok(ToolOutput { details: Some(json!({ "colour": text })), ..ToolOutput::text(text) }),
///         _ => Err(nobody()),
///     }
/// });
/// Bus::new().scope("colours").provide::<dyn Tool>("pick_colour", std::sync::Arc::new(tool)).unwrap();
/// ```
#[derive(Clone)]
pub struct InteractionTool {
    spec: Arc<ToolSpec>,
    ask: Arc<Ask>,
    summary: Arc<Summary>,
    prompt: Option<&'static str>,
}

impl fmt::Debug for InteractionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InteractionTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl InteractionTool {
    /// Tool with this name, the description `about`, and arguments of this schema. `ask` gets the arguments
    /// and waits for the person.
    pub fn new<F, Fut>(name: &str, about: &str, schema: Value, ask: F) -> Self
    where
        F: Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self::of(ToolSpec::new(name, about, schema), ask)
    }

    pub(super) fn of<F, Fut>(spec: Arc<ToolSpec>, ask: F) -> Self
    where
        F: Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let name = spec.name.clone();
        Self {
            spec,
            ask: Arc::new(move |args, cx| Box::pin(ask(args, cx))),
            summary: Arc::new(move |_| name.clone()),
            prompt: None,
        }
    }

    /// Sets the one-line summary of a call; by default it is the tool's name.
    #[must_use]
    pub fn summarized(mut self, summary: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        self.summary = Arc::new(summary);
        self
    }

    /// Sets the text of the system prompt that is present while the tool is offered.
    #[must_use]
    pub fn prompting(mut self, text: &'static str) -> Self {
        self.prompt = Some(text);
        self
    }
}

#[async_trait]
impl Tool for InteractionTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        (self.ask)(call.args().clone(), cx.clone()).await
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Ask)
    }

    fn summary(&self, args: &Value) -> String {
        (self.summary)(args)
    }

    fn prompt(&self) -> Option<&str> {
        self.prompt
    }
}

/// Implements `Tool` for a type by the [`InteractionTool`] inside.
macro_rules! interaction {
    ($name:ident) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        #[async_trait::async_trait]
        impl zk_core::service::Tool for $name {
            fn spec(&self) -> &std::sync::Arc<zk_core::model::ToolSpec> {
                self.0.spec()
            }

            async fn call(
                &self,
                call: &zk_core::model::Approved,
                cx: &zk_core::service::ToolCx,
            ) -> Result<zk_core::model::ToolOutput, zk_core::model::ToolError> {
                self.0.call(call, cx).await
            }

            fn effects(
                &self,
                args: &serde_json::Value,
                place: &zk_core::service::CallPlace,
            ) -> zk_core::model::Effects {
                self.0.effects(args, place)
            }

            fn kind(&self) -> Option<zk_core::model::CallKind> {
                self.0.kind()
            }

            fn summary(&self, args: &serde_json::Value) -> String {
                self.0.summary(args)
            }

            fn prompt(&self) -> Option<&str> {
                self.0.prompt()
            }
        }
    };
}
pub(super) use interaction;
