use std::fmt::Write as _;

use serde_json::Value;

/// JSON that is the same for the same value, whatever the order of its keys and its blanks.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(&String, &Value)> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_plain(&Value::from(key.as_str()), out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => write_plain(value, out),
    }
}

/// Adds what has no keys.
fn write_plain(value: &Value, out: &mut String) {
    // A text takes whatever is written to it.
    let _ = write!(out, "{value}");
}

/// The SHA-256 of `bytes` in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
