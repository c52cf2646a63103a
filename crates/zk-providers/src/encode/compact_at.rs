//! Threshold from which a provider compacts the context itself.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Threshold in tokens if the model's window is not known: Anthropic's default.
const DEFAULT_THRESHOLD_TOKENS: u64 = 150_000;

/// Smallest trigger that Anthropic accepts, in tokens.
const MIN_TRIGGER_TOKENS: u64 = 50_000;

/// Share of a model's window above which the provider compacts the context itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactAt {
    /// Share of the usable window.
    pub part: f64,
    /// Tokens reserved for the answer, at most a quarter of the window; the rest is usable.
    pub reserve: u64,
}

impl CompactAt {
    fn tokens(self, window: Option<u64>) -> u64 {
        window.map_or(DEFAULT_THRESHOLD_TOKENS, |window| {
            let usable = window - self.reserve.min(window / 4);
            (usable as f64 * self.part) as u64
        })
    }

    /// Returns the edits for Anthropic with a trigger added to each compaction without one.
    pub(crate) fn in_edits(at: Option<Self>, asked: &Value, window: Option<u64>) -> Value {
        let mut asked = asked.clone();
        let Some(at) = at else { return asked };
        let edits = asked.get_mut("edits").and_then(Value::as_array_mut);
        for edit in edits.into_iter().flatten().filter_map(Value::as_object_mut) {
            let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
            if kind.starts_with("compact_") && !edit.contains_key("trigger") {
                let tokens = at.tokens(window).max(MIN_TRIGGER_TOKENS);
                edit.insert("trigger".to_owned(), json!({"type": "input_tokens", "value": tokens}));
            }
        }
        asked
    }

    /// Returns the list for the Responses API with a threshold added to each compaction without one.
    pub(crate) fn in_list(at: Option<Self>, asked: &Value, window: Option<u64>) -> Value {
        let mut asked = asked.clone();
        let Some(at) = at else { return asked };
        for edit in asked.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let is_one = edit.get("type").and_then(Value::as_str) == Some("compaction");
            if is_one && !edit.contains_key("compact_threshold") {
                edit.insert("compact_threshold".to_owned(), at.tokens(window).into());
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_follows_the_window_and_what_is_given_stays() {
        let at = Some(CompactAt { part: 0.75, reserve: 16_384 });
        let edits = json!({"edits": [{"type": "compact_20260112"}, {"type": "clear_thinking_20251015"}]});
        for (window, tokens) in
            [(Some(200_000), 137_712), (Some(1_000_000), 737_712), (Some(32_000), 50_000), (None, 150_000)]
        {
            let asked = CompactAt::in_edits(at, &edits, window);
            let trigger = json!({"type": "input_tokens", "value": tokens});
            assert_eq!(asked["edits"][0]["trigger"], trigger, "{window:?}");
            assert_eq!(asked["edits"][1], edits["edits"][1]);
        }
        let list = json!([{"type": "compaction"}, {"type": "compaction", "compact_threshold": 7}]);
        let asked = CompactAt::in_list(at, &list, Some(400_000));
        assert_eq!(asked, json!([{"type": "compaction", "compact_threshold": 287_712}, list[1]]));
        let asked = CompactAt::in_list(at, &list, Some(0));
        assert_eq!(asked[0]["compact_threshold"], 0);
        assert_eq!(CompactAt::in_edits(None, &edits, Some(200_000)), edits);
        assert_eq!(CompactAt::in_list(None, &list, None), list);
    }
}
