//! Report of what the API did beside answering.

use serde_json::{Map, Value};

/// The fields of a report that say something.
#[derive(Default)]
pub(super) struct Report(Map<String, Value>);

impl Report {
    /// Notes a field of an event.
    pub(super) fn note(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value.filter(says_something) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Notes what the counts say beside numbers of tokens: which responses an answer was made of, and how often
    /// hosted tools ran. Later counts replace earlier ones.
    pub(super) fn count(&mut self, usage: &Value) {
        self.note("server_tool_use", usage.get("server_tool_use").cloned());
        let iterations = usage.get("iterations").filter(|iterations| {
            let all = iterations.as_array().into_iter().flatten();
            let mut kinds = all.map(|iteration| iteration.get("type").and_then(Value::as_str));
            kinds.any(|kind| kind != Some("message"))
        });
        self.note("iterations", iterations.cloned());
    }

    /// The report; nothing if nothing was done.
    pub(super) fn into_value(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

/// Whether there is anything in it but zeros and nothing.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(fields) => fields.values().any(says_something),
    }
}
