//! `reasoning_details`: a gateway's structured reasoning, which has to be sent back unchanged.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Name of the field in responses, in requests and in the stored block.
pub(super) const FIELD: &str = "reasoning_details";

/// Items of one response, joined from their fragments.
#[derive(Debug, Default)]
pub(crate) struct Details {
    items: Vec<Map<String, Value>>,
}

impl Details {
    /// Adds the items of one chunk; returns their text, for servers that send it nowhere else.
    pub(super) fn add(&mut self, raw: &RawValue) -> String {
        let fragments = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()).unwrap_or_default();
        let mut text = String::new();
        for fragment in fragments {
            if let Some(more) = text_field(&fragment).and_then(|field| fragment.get(field)?.as_str()) {
                text.push_str(more);
            }
            match self.items.last_mut() {
                Some(last) if continues(last, &fragment) => join(last, fragment),
                _ => self.items.push(fragment),
            }
        }
        text
    }

    /// Creates the details from the complete items of a message.
    pub(crate) fn whole(items: Vec<Map<String, Value>>) -> Self {
        Self { items }
    }

    /// Returns all text in the items.
    pub(crate) fn text(&self) -> String {
        self.items.iter().filter_map(|item| item.get(text_field(item)?)?.as_str()).collect()
    }

    /// Returns the last signature, which covers the text before it.
    pub(crate) fn signature(&self) -> Option<&str> {
        self.items.iter().rev().find_map(|item| item.get("signature")?.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the value to store for the next request.
    pub(crate) fn into_value(self) -> Value {
        let items: Value = self.items.into_iter().map(Value::Object).collect();
        Value::Object(Map::from_iter([(FIELD.to_owned(), items)]))
    }
}

/// Returns the name of the item's text field, if its kind comes in fragments.
fn text_field(item: &Map<String, Value>) -> Option<&'static str> {
    match item.get("type").and_then(Value::as_str)? {
        "reasoning.text" => Some("text"),
        "reasoning.summary" => Some("summary"),
        _ => None,
    }
}

fn continues(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let field = text_field(next);
    // A signature ends a thought: further text of the same index is another thought.
    let is_sealed = is_set(last, "signature") && field.is_some_and(|field| is_set(next, field));
    field.is_some()
        && field == text_field(last)
        && last.get("index") == next.get("index")
        && !is_sealed
        && !differs(last, next, "id")
}

fn is_set(item: &Map<String, Value>, field: &str) -> bool {
    item.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

fn differs(last: &Map<String, Value>, next: &Map<String, Value>, field: &str) -> bool {
    is_set(last, field) && is_set(next, field) && last.get(field) != next.get(field)
}

fn join(last: &mut Map<String, Value>, fragment: Map<String, Value>) {
    let field = text_field(&fragment);
    for (name, value) in fragment {
        match (last.get_mut(&name), value) {
            (Some(Value::String(whole)), Value::String(more)) if field == Some(name.as_str()) => {
                whole.push_str(&more);
            }
            (None | Some(Value::Null), value) => {
                last.insert(name, value);
            }
            (Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(chunks: &[Value]) -> (Value, Vec<String>) {
        let mut details = Details::default();
        let texts = chunks
            .iter()
            .map(|chunk| details.add(&RawValue::from_string(chunk.to_string()).unwrap()))
            .collect();
        (details.into_value()[FIELD].take(), texts)
    }

    #[test]
    fn fragments_of_one_index_become_one_item_with_the_signature_that_came_last() {
        let text = |text: &str| json!([{"type": "reasoning.text", "index": 0, "format": "f", "text": text}]);
        let seal = json!([{"type": "reasoning.text", "index": 0, "signature": "s", "id": null}]);
        let (items, texts) = merged(&[text("a"), text("b"), seal]);
        let expected = json!([
            {"type": "reasoning.text", "index": 0, "format": "f", "text": "ab", "signature": "s", "id": null}
        ]);
        assert_eq!(items, expected);
        assert_eq!(texts, ["a", "b", ""]);
    }

    #[test]
    fn another_index_another_kind_and_another_thought_are_items_of_their_own() {
        let chunks = [
            json!([{"type": "reasoning.summary", "index": 0, "summary": "a"}]),
            json!([{"type": "reasoning.summary", "index": 1, "summary": "b"}]),
            json!([{"type": "reasoning.text", "index": 1, "text": "c", "signature": "s"}]),
            json!([{"type": "reasoning.text", "index": 1, "text": "d"}]),
        ];
        let (items, _) = merged(&chunks);
        let expected: Value = chunks.iter().map(|chunk| chunk[0].clone()).collect();
        assert_eq!(items, expected);
    }

    #[test]
    fn encrypted_and_unknown_items_stay_as_they_came() {
        let item = |id: &str| json!({"type": "reasoning.encrypted", "index": 0, "id": id, "data": "x"});
        let odd = json!({"type": "reasoning.odd", "index": 0});
        let chunks = [json!([item("a"), item("b")]), json!([odd, odd]), json!("no list")];
        assert_eq!(merged(&chunks).0, json!([item("a"), item("b"), odd, odd]));
    }
}
