//! Arguments of streamed calls, which arrive value by value, each with its JSON path.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One value, or one more piece of a string.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg {
    json_path: String,
    string_value: Option<String>,
    number_value: Option<Value>,
    bool_value: Option<bool>,
}

/// Maximum number of array items that may be skipped: values arrive roughly in order, and a path of a few
/// bytes must not fill the memory.
const MAX_GAP_ITEMS: usize = 16;

/// Maximum nesting depth of values, the same as for JSON.
const MAX_VALUE_DEPTH: usize = 64;

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Item(usize),
}

impl PartialArg {
    /// Writes the value into `args`; returns false if its path is invalid.
    pub(super) fn apply(self, args: &mut Map<String, Value>) -> bool {
        let Some(path) = steps(&self.json_path) else { return false };
        let mut path = path.into_iter();
        let Some(Step::Field(first)) = path.next() else { return false };
        let mut place = args.entry(first).or_insert(Value::Null);
        for step in path {
            let Some(next) = enter(place, step) else { return false };
            place = next;
        }
        match (self.string_value, self.number_value, self.bool_value) {
            (Some(more), ..) => match place {
                Value::String(text) => text.push_str(&more),
                _ => *place = Value::String(more),
            },
            (None, Some(number), _) => *place = number,
            (None, None, Some(truth)) => *place = truth.into(),
            // The only remaining kind of value is `nullValue`.
            (None, None, None) => *place = Value::Null,
        }
        true
    }
}

fn enter(place: &mut Value, step: Step) -> Option<&mut Value> {
    match step {
        Step::Field(name) => {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            Some(place.as_object_mut()?.entry(name).or_insert(Value::Null))
        }
        Step::Item(at) => {
            if place.is_null() {
                *place = Value::Array(Vec::new());
            }
            let items = place.as_array_mut()?;
            if at > items.len() + MAX_GAP_ITEMS {
                return None;
            }
            if items.len() <= at {
                items.resize(at + 1, Value::Null);
            }
            items.get_mut(at)
        }
    }
}

/// Parses `$.a.b[0]['c']` into steps; `None` if the path is invalid.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_VALUE_DEPTH {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            steps.push(Step::Field(name.to_owned()));
            rest = tail;
            continue;
        }
        let after = rest.strip_prefix('[')?;
        let quote = after.chars().next().filter(|char| matches!(char, '\'' | '"'));
        rest = if let Some(quote) = quote {
            let after = after.strip_prefix(quote)?;
            let (name, tail) = after.split_once(&format!("{quote}]"))?;
            steps.push(Step::Field(name.to_owned()));
            tail
        } else {
            let (index, tail) = after.split_once(']')?;
            steps.push(Step::Item(index.parse().ok()?));
            tail
        };
    }
    Some(steps)
}
