use serde_json::Value;

/// Longest text of one side of a difference, in characters.
const MAX_SHOWN_CHARS: usize = 160;

/// First place at which two texts or values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextDifference {
    /// Number of the line, from 1.
    pub(super) line: usize,
    pub(super) recorded: String,
    pub(super) replayed: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueDifference {
    /// JSON pointer of the value; empty for the whole.
    pub(super) path: String,
    pub(super) recorded: String,
    pub(super) replayed: String,
}

/// Cuts a text to one line that can be shown.
pub(super) fn shorten(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
    if line.chars().nth(MAX_SHOWN_CHARS).is_some() || text.trim_end().lines().nth(1).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the first line that differs, on both sides; empty where a side has ended.
pub(super) fn first_line_difference(one: &str, other: &str) -> TextDifference {
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    let (line, next) =
        (one.lines().nth(same).unwrap_or_default(), other.lines().nth(same).unwrap_or_default());
    // A long line begins where it differs, with a little of what is equal before.
    let equal = line.chars().zip(next.chars()).take_while(|(one, other)| one == other).count();
    let begin = if equal > MAX_SHOWN_CHARS / 2 { equal - MAX_SHOWN_CHARS / 4 } else { 0 };
    let show = |line: &str| {
        let mut shown = String::from(if begin > 0 { "…" } else { "" });
        shown.extend(line.chars().skip(begin).take(MAX_SHOWN_CHARS));
        if line.chars().nth(begin + MAX_SHOWN_CHARS).is_some() {
            shown.push('…');
        }
        shown
    };
    TextDifference { line: same + 1, recorded: show(line), replayed: show(next) }
}

/// Returns the first value that differs, with its place.
pub(super) fn first_difference(one: &Value, other: &Value) -> ValueDifference {
    let (path, one, other) = descend(String::new(), Some(one), Some(other));
    let show = |value: Option<&Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let text = value.to_string();
            let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
            if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
                shown.push('…');
            }
            shown
        }
    };
    ValueDifference { path, recorded: show(one), replayed: show(other) }
}

fn descend<'a>(
    path: String,
    one: Option<&'a Value>,
    other: Option<&'a Value>,
) -> (String, Option<&'a Value>, Option<&'a Value>) {
    match (one, other) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            match keys.into_iter().find(|key| a.get(*key) != b.get(*key)) {
                Some(key) => descend(format!("{path}/{key}"), a.get(key), b.get(key)),
                None => (path, one, other),
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            match (0..a.len().max(b.len())).find(|index| a.get(*index) != b.get(*index)) {
                Some(index) => descend(format!("{path}/{index}"), a.get(index), b.get(index)),
                None => (path, one, other),
            }
        }
        _ => (path, one, other),
    }
}
