use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Approved, Block, Effects, Message, Model, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, OutputFormat, Provider, Tool, ToolChoice, ToolCx, validate};

use crate::lock::lock;

/// Name of the tool for structured output.
pub(crate) const OUTPUT_TOOL: &str = "__output__";
/// Maximum number of requests that force the output, after the model ended without it.
const MAX_FORCED: u32 = 2;
/// Maximum number of invalid outputs that are answered with an error message for another try.
const MAX_REJECTED: u32 = 5;

/// Tool that receives the structured output of one run.
pub(crate) struct OutputTool {
    spec: Arc<ToolSpec>,
    schema: Value,
    /// Whether the output is the field `value` of an object, because tool arguments have to be objects.
    wrapped: bool,
    value: Mutex<Option<Value>>,
    /// Whether the output has not been announced yet.
    news: AtomicBool,
    /// Whether the provider itself enforces the schema, so that the tool is not offered.
    native: AtomicBool,
    /// Whether requests leave tools out, because the provider enforces the schema only then.
    alone: AtomicBool,
    /// Whether requests without tools were tried.
    tried_alone: AtomicBool,
    forced: AtomicU32,
    rejected: AtomicU32,
}

impl OutputTool {
    pub(crate) fn new(mut schema: Value) -> Self {
        if let Some(fields) = schema.as_object_mut() {
            // Removed because strict providers reject this key.
            fields.remove("$schema");
        }
        let wrapped =
            schema.get("type").is_none_or(|kind| kind != "object") && schema.get("properties").is_none();
        let arguments = if wrapped { wrap_in_object(schema.clone()) } else { schema.clone() };
        let spec =
            ToolSpec::new(OUTPUT_TOOL, "Give the final answer. Call this once, at the end.", arguments);
        Self {
            spec,
            schema,
            wrapped,
            value: Mutex::default(),
            news: AtomicBool::new(false),
            native: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            tried_alone: AtomicBool::new(false),
            forced: AtomicU32::new(0),
            rejected: AtomicU32::new(0),
        }
    }

    /// Records whether `provider` enforces the schema, once per run. The answer is validated in any case,
    /// since another provider may take over the name.
    pub(crate) fn record_native(&self, provider: &dyn Provider, model: &Model, with_tools: bool) {
        let native = provider.native_output(model, &self.spec.schema, with_tools);
        self.native.store(native, Ordering::Release);
    }

    /// Stops relying on the provider: the output is requested through the tool from now on.
    pub(crate) fn stop_native(&self) {
        self.native.store(false, Ordering::Release);
        self.alone.store(false, Ordering::Release);
        self.tried_alone.store(true, Ordering::Release);
    }

    /// Switches to requests without tools, if `provider` enforces the schema only then and this was not tried
    /// before. Returns whether it switched.
    pub(crate) fn try_without_tools(&self, provider: &dyn Provider, model: &Model) -> bool {
        let is_asked = !self.tried_alone.swap(true, Ordering::AcqRel)
            && provider.native_output(model, &self.spec.schema, false);
        if is_asked {
            self.native.store(true, Ordering::Release);
            self.alone.store(true, Ordering::Release);
        }
        is_asked
    }

    /// Whether tools are left out of requests so that the provider enforces the schema.
    pub(crate) fn leaves_out_tools(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }

    /// Returns the JSON Schema of the answer as text.
    pub(crate) fn answer_schema(&self) -> String {
        self.spec.schema.to_string()
    }

    pub(crate) fn is_native(&self) -> bool {
        self.native.load(Ordering::Acquire)
    }

    /// Returns the output format for the request, if the provider enforces the schema.
    pub(crate) fn output_format(&self) -> Option<OutputFormat> {
        let schema = self.is_native().then(|| Arc::new(self.spec.schema.clone()))?;
        Some(OutputFormat { name: Arc::from("answer"), schema })
    }

    /// Takes the output from an answer to a request with the schema.
    ///
    /// # Errors
    /// Description of the invalid part, for the model.
    pub(crate) fn take_answer(&self, message: &Message) -> Result<(), String> {
        let answer = parse_output(message).map_err(|error| format!("it is no JSON: {error}"))?;
        let fits = validate(&answer, &self.spec.schema).map_err(|issues| issues.join("; "))?;
        self.set_value(fits.args);
        if self.leaves_out_tools() {
            // Later messages get requests with tools again.
            self.stop_native();
        }
        Ok(())
    }

    fn set_value(&self, args: Value) {
        let output = if self.wrapped { args.get("value").cloned().unwrap_or(Value::Null) } else { args };
        *lock(&self.value) = Some(output);
        self.news.store(true, Ordering::Release);
    }

    pub(crate) fn value(&self) -> Option<Value> {
        lock(&self.value).clone()
    }

    /// Returns the output, if it was set since the last call.
    pub(crate) fn take_news(&self) -> Option<Value> {
        self.news.swap(false, Ordering::AcqRel).then(|| self.value()).flatten()
    }

    /// Counts a rejected output. Returns whether the limit is exceeded.
    pub(crate) fn note_rejection(&self) -> bool {
        self.rejected.fetch_add(1, Ordering::AcqRel) >= MAX_REJECTED
    }

    /// Counts a failed call like [`OutputTool::note_rejection`], unless there is an output already.
    pub(crate) fn note_failed_call(&self) -> bool {
        self.value().is_none() && self.note_rejection()
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Forces a call of this tool in the next request; returns false if that was tried too often.
    pub(crate) fn force_call(&self) -> bool {
        self.forced.fetch_add(1, Ordering::AcqRel) < MAX_FORCED
    }

    pub(crate) fn tool_choice(&self) -> ToolChoice {
        if self.forced.load(Ordering::Acquire) == 0 || self.value().is_some() {
            ToolChoice::Auto
        } else {
            ToolChoice::Tool(OUTPUT_TOOL.to_owned())
        }
    }
}

/// Parses the output in an answer: its whole text, or only the text after the last tool call of the provider.
fn parse_output(message: &Message) -> serde_json::Result<Value> {
    serde_json::from_str(message.text().trim()).or_else(|error| {
        let last = message.content.iter().rev().find_map(Block::as_text).unwrap_or_default();
        serde_json::from_str(last.trim()).map_err(|_| error)
    })
}

/// Wraps a schema as the field `value` of an object. Definitions stay at the root, where references point to.
fn wrap_in_object(mut schema: Value) -> Value {
    let definitions: Vec<(&str, Value)> = ["$defs", "definitions"]
        .into_iter()
        .filter_map(|key| Some((key, schema.as_object_mut()?.remove(key)?)))
        .collect();
    let mut arguments = json!({"type": "object", "properties": {"value": schema}, "required": ["value"]});
    for (key, all) in definitions {
        if let Some(fields) = arguments.as_object_mut() {
            fields.insert(key.to_owned(), all);
        }
    }
    arguments
}

#[async_trait]
impl Tool for OutputTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.set_value(call.args().clone());
        Ok(ToolOutput::text("Recorded."))
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }
}
