use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolChoice, ToolCx};

use crate::shared::lock;

/// The tool through which a model gives its structured output.
pub(crate) const OUTPUT_TOOL: &str = "__output__";
/// How often a model that ended without output is asked again.
const MAX_FORCED: u32 = 2;
/// How many outputs that do not follow the schema are answered with what is wrong.
const MAX_REJECTED: u32 = 5;

/// Takes the structured output of one run.
pub(crate) struct OutputTool {
    spec: Arc<ToolSpec>,
    schema: Value,
    /// Tool arguments are objects: any other output travels as the field `value`.
    wrapped: bool,
    value: Mutex<Option<Value>>,
    /// Whether the value has not been announced.
    news: AtomicBool,
    forced: AtomicU32,
    rejected: AtomicU32,
}

impl OutputTool {
    pub(crate) fn new(mut schema: Value) -> Self {
        if let Some(fields) = schema.as_object_mut() {
            // Strict providers reject it.
            fields.remove("$schema");
        }
        let wrapped =
            schema.get("type").is_none_or(|kind| kind != "object") && schema.get("properties").is_none();
        let arguments = if wrapped { wrap(schema.clone()) } else { schema.clone() };
        let spec =
            ToolSpec::new(OUTPUT_TOOL, "Give the final answer. Call this once, at the end.", arguments);
        Self {
            spec,
            schema,
            wrapped,
            value: Mutex::default(),
            news: AtomicBool::new(false),
            forced: AtomicU32::new(0),
            rejected: AtomicU32::new(0),
        }
    }

    pub(crate) fn value(&self) -> Option<Value> {
        lock(&self.value).clone()
    }

    /// The value, if it was given since the last time somebody asked.
    pub(crate) fn take_news(&self) -> Option<Value> {
        self.news.swap(false, Ordering::AcqRel).then(|| self.value()).flatten()
    }

    /// Notes that an output was not accepted. Gives whether it is time to stop asking.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.value().is_none() && self.rejected.fetch_add(1, Ordering::AcqRel) >= MAX_REJECTED
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Asks for the output in the next request, unless that was tried often enough.
    pub(crate) fn force(&self) -> bool {
        self.forced.fetch_add(1, Ordering::AcqRel) < MAX_FORCED
    }

    pub(crate) fn choice(&self) -> ToolChoice {
        if self.forced.load(Ordering::Acquire) == 0 || self.value().is_some() {
            ToolChoice::Auto
        } else {
            ToolChoice::Tool(OUTPUT_TOOL.to_owned())
        }
    }
}

/// The schema of an object with the field `value`. References point to the root, so definitions stay there.
fn wrap(mut schema: Value) -> Value {
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

    async fn call(&self, args: Value, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let output = if self.wrapped { args.get("value").cloned().unwrap_or(Value::Null) } else { args };
        *lock(&self.value) = Some(output);
        self.news.store(true, Ordering::Release);
        Ok(ToolOutput::text("Recorded."))
    }

    fn read_only(&self, _: &Value) -> bool {
        true
    }
}
