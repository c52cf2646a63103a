use serde_json::Value;

/// Length limit of a tool's description for models in characters.
const MAX_TEXT_CHARS: usize = 4096;

/// Removes control and invisible characters from a description, so that a person reviews exactly what a model
/// reads.
pub(crate) fn clean_text(text: &str) -> String {
    let clean = visible_text(text);
    match clean.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", clean.get(..end).unwrap_or_default()),
        None => clean,
    }
}

/// Cleans every text in a schema, including keys.
pub(crate) fn clean_schema(schema: &Value) -> Value {
    match schema {
        Value::String(text) => Value::String(visible_text(text)),
        Value::Array(items) => items.iter().map(clean_schema).collect(),
        Value::Object(object) => {
            let clean = object.iter().map(|(key, value)| (visible_text(key), clean_schema(value)));
            Value::Object(clean.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => schema.clone(),
    }
}

/// Removes characters that are not visible, except line breaks and tabs.
fn visible_text(text: &str) -> String {
    if text.chars().all(is_plain) { text.to_owned() } else { text.chars().filter(|c| is_plain(*c)).collect() }
}

/// Whether the character is visible, a line break or a tab.
fn is_plain(c: char) -> bool {
    if matches!(c, '\n' | '\t' | ' '..='~') {
        return true;
    }
    !(c.is_control()
        || matches!(
            u32::from(c),
            0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
                | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF
                | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
                | 0xE000..=0xF8FF | 0xF0000..=0x10FFFF
        ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_that_nobody_sees_do_not_reach_the_model() {
        let hidden = "a\u{200b}b\u{202e}c\u{e0041}d\u{7}e\u{feff}f\u{1b}[31mg\u{ad}h\u{2063}";
        assert_eq!(clean_text(hidden), "abcdef[31mgh");
        assert_eq!(clean_text("two\nlines\tand é 漢字 🙂"), "two\nlines\tand é 漢字 🙂");
    }

    #[test]
    fn schemas_are_cleaned_to_the_last_key() {
        let schema =
            json!({"properties": {"a\u{200b}": {"description": "x\u{e0042}", "enum": ["\u{202e}y", 1]}}});
        let clean = json!({"properties": {"a": {"description": "x", "enum": ["y", 1]}}});
        assert_eq!(clean_schema(&schema), clean);
    }

    #[test]
    fn a_description_has_an_end() {
        let cleaned = clean_text(&"é".repeat(MAX_TEXT_CHARS + 5));
        assert_eq!(cleaned.chars().count(), MAX_TEXT_CHARS + 1);
    }
}
