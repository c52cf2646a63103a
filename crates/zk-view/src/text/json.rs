use std::borrow::Cow;
use std::fmt::Write;

use zk_core::service::Redactor;

use super::{is_harmless, is_plain_ascii};

/// Removes secrets from the JSON that starts at `from`. The result is valid JSON, since a quote ends every form of a key.
pub fn redact_json(out: &mut Vec<u8>, from: usize, redactor: &Redactor) {
    if out.get(from..).is_none_or(|json| !redactor.has_candidate(json)) {
        return;
    }
    let clean = match out.get(from..).map(str::from_utf8) {
        Some(Ok(json)) => match redactor.redact(json) {
            Cow::Borrowed(_) => return,
            Cow::Owned(clean) => clean,
        },
        Some(Err(_)) | None => return,
    };
    out.truncate(from);
    out.extend_from_slice(clean.as_bytes());
}

/// Escapes every character in the JSON that starts at `from` that a terminal could interpret or hide: C1 and DEL,
/// bidirectional controls and zero-width characters. The value of the JSON is unchanged.
///
/// JSON has non-ASCII characters only within its strings, so each can be written as `\u`.
pub fn escape_controls(out: &mut Vec<u8>, from: usize) {
    let Some(json) = out.get(from..).filter(|json| !is_plain_ascii(json)) else { return };
    // JSON writers only produce UTF-8.
    let Ok(text) = std::str::from_utf8(json) else { return };
    if text.chars().all(is_harmless) {
        return;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_harmless(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing into a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    out.truncate(from);
    out.extend_from_slice(escaped.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_could_act_on_a_terminal_is_escaped_and_means_the_same() {
        let value = json!({
            "k\u{9b}": "a\u{1b}[2J\u{7f}\u{85}\u{9d}0;t\u{9c}\u{202e}\u{200b}\u{e0100}\u{3164}\u{180b}\u{200d}é漢🙂\n\t\"\\",
        });
        let mut out = b"before\x7f".to_vec();
        let begin = out.len();
        serde_json::to_writer(&mut out, &value).unwrap();
        escape_controls(&mut out, begin);
        let text = std::str::from_utf8(&out[begin..]).unwrap();
        assert!(text.chars().all(|c| is_harmless(c) && c != '\t' && c != '\n'), "{text:?}");
        assert!(text.contains("é漢🙂") && text.contains("\\udb40\\udd00"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        assert!(out.starts_with(b"before\x7f"));
    }
}
