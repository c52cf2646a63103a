//! Report of side effects of a response, such as context edits.

use serde_json::{Map, Value};

/// The non-empty fields of a report.
#[derive(Default)]
pub(super) struct Report(Map<String, Value>);

impl Report {
    /// Records a field of an event, if it has a value.
    pub(super) fn record_field(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value.filter(is_not_empty) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Records details of a usage object other than token counts: the responses an answer was made of, and
    /// the number of calls of hosted tools. Later values replace earlier ones.
    pub(super) fn record_usage(&mut self, usage: &Value) {
        self.record_field("server_tool_use", usage.get("server_tool_use").cloned());
        let iterations = usage.get("iterations").filter(|iterations| {
            let all = iterations.as_array().into_iter().flatten();
            let mut kinds = all.map(|iteration| iteration.get("type").and_then(Value::as_str));
            kinds.any(|kind| kind != Some("message"))
        });
        self.record_field("iterations", iterations.cloned());
    }

    /// Returns the report; `None` if it is empty.
    pub(super) fn into_value(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

/// Whether a value contains anything but zeros, nulls and empty values.
fn is_not_empty(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(is_not_empty),
        Value::Object(fields) => fields.values().any(is_not_empty),
    }
}
