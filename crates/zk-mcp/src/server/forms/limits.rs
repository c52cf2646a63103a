//! Checks values against the limits in a field's schema.

use serde_json::Value;

/// Checks a value that a person gave.
///
/// # Errors
/// Description of a valid value.
pub(super) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let (size, least, most, unit) = match value {
        Value::String(text) => {
            check_format(schema, text)?;
            (text.chars().count() as f64, limit("minLength"), limit("maxLength"), " characters")
        }
        Value::Array(items) => (items.len() as f64, limit("minItems"), limit("maxItems"), " of them"),
        Value::Number(number) => {
            (number.as_f64().unwrap_or_default(), limit("minimum"), limit("maximum"), "")
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => return Ok(()),
    };
    match (least, most) {
        (Some(least), _) if size < least => Err(format!("it has to be at least {least}{unit}")),
        (_, Some(most)) if size > most => Err(format!("it has to be at most {most}{unit}")),
        _ => Ok(()),
    }
}

fn check_format(schema: &Value, text: &str) -> Result<(), String> {
    let (fits, like) = match schema.get("format").and_then(Value::as_str) {
        Some("email") => (is_email(text), "an address such as me@example.com"),
        Some("uri") => (is_uri(text), "an address such as https://example.com"),
        Some("date") => (is_like("0000-00-00", text), "a date such as 2026-12-31"),
        Some("date-time") => (is_date_time(text), "a time such as 2026-12-31T23:59:59Z"),
        Some(_) | None => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("it has to be {like}")) }
}

fn is_email(text: &str) -> bool {
    let (name, host) = text.split_once('@').unwrap_or_default();
    !name.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(char::is_whitespace)
}

fn is_uri(text: &str) -> bool {
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
        && !text.contains(char::is_whitespace)
}

fn is_date_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00";
    text.get(..shape.len()).is_some_and(|date| is_like(shape, &date.to_uppercase()))
        && text.get(shape.len()..).is_some_and(|zone| !zone.is_empty())
}

/// Whether a text has digits in the places of zeros in `shape`, and equal characters elsewhere.
fn is_like(shape: &str, text: &str) -> bool {
    text.chars().count() == shape.len()
        && shape
            .chars()
            .zip(text.chars())
            .all(|(want, c)| if want == '0' { c.is_ascii_digit() } else { want == c })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_outside_of_their_limits_are_told_what_they_have_to_be() {
        for (schema, good, bad, why) in [
            (json!({"minLength": 2}), json!("äö"), json!("ä"), "at least 2 characters"),
            (json!({"maxLength": 2}), json!("äö"), json!("äöü"), "at most 2 characters"),
            (json!({"minimum": 1}), json!(1), json!(0.5), "at least 1"),
            (json!({"maximum": 10}), json!(10), json!(11), "at most 10"),
            (json!({"minItems": 1}), json!(["a"]), json!([]), "at least 1 of them"),
            (json!({"format": "email"}), json!("a@b.example"), json!("a@"), "me@example.com"),
            (json!({"format": "uri"}), json!("https://x.example"), json!("x.example"), "https://"),
            (json!({"format": "date"}), json!("2026-11-23"), json!("23.11.2026"), "2026-12-31"),
            (
                json!({"format": "date-time"}),
                json!("2026-11-23T01:02:03Z"),
                json!("2026-11-23"),
                "T23:59:59Z",
            ),
        ] {
            assert_eq!(check(&schema, &good), Ok(()), "{schema}");
            let told = check(&schema, &bad).unwrap_err();
            assert!(told.contains(why), "{schema}: {told}");
        }
    }
}
