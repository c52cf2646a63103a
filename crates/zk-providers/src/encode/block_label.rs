//! Label for a block of provider data.

use serde_json::Value;

/// Length limit of a label in characters.
const MAX_LABEL_CHARS: usize = 120;
/// Fields that describe a call best, in order of preference.
const TELLING: &[&str] = &["query", "queries", "url", "command", "code", "path", "pattern", "name"];

/// Formats a kind such as `web_search_call` with its most descriptive detail, in one line.
pub(crate) fn label(kind: &str, detail: &Value) -> String {
    let mut words = kind.replace('_', " ");
    let text = detail_text(detail);
    if !text.is_empty() {
        words = format!("{words}: {text}");
    }
    if words.chars().count() > MAX_LABEL_CHARS {
        words = words.chars().take(MAX_LABEL_CHARS - 1).collect();
        words.push('…');
    }
    words
}

fn detail_text(detail: &Value) -> String {
    let text = match detail {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let telling = TELLING.iter().find_map(|name| fields.get(*name)).filter(|value| !value.is_null());
            match telling {
                Some(value) => detail_text(value),
                None if fields.is_empty() => String::new(),
                None => detail.to_string(),
            }
        }
        Value::Array(values) => values.iter().map(detail_text).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) => detail.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::label;

    #[test]
    fn a_block_is_described_in_one_line() {
        for (kind, detail, expected) in [
            ("web_search", json!({"query": "rust\n async"}), "web search: rust async"),
            ("web_search_call", json!({"type": "search", "queries": ["a", "b"]}), "web search call: a, b"),
            ("compaction", json!(null), "compaction"),
            ("mcp_call", json!({}), "mcp call"),
            ("odd", json!({"depth": 2}), "odd: {\"depth\":2}"),
        ] {
            assert_eq!(label(kind, &detail), expected);
        }
        let long = label("code_execution", &json!({"code": "ä".repeat(500)}));
        assert_eq!((long.chars().count(), long.ends_with('…')), (120, true));
    }
}
