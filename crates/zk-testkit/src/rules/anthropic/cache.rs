use serde_json::Value;

use super::super::{Checked, Rule, is_blank, reject, text_of};

const MAX_BREAKPOINTS: usize = 4;

/// Checks the positions and the number of cache markers.
pub(super) fn check(body: &Value) -> Checked {
    let mut count = usize::from(is_marked(body));
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    for (at, block) in list(body.get("system")).iter().enumerate() {
        count_marker(block, &format!("system.{at}"), &mut count)?;
    }
    count += list(body.get("tools")).iter().filter(|tool| is_marked(tool)).count();
    for (at, message) in list(body.get("messages")).iter().enumerate() {
        for (part, block) in list(message.get("content")).iter().enumerate() {
            let place = format!("messages.{at}.content.{part}");
            count_marker(block, &place, &mut count)?;
            for (inner, block) in list(block.get("content")).iter().enumerate() {
                count_marker(block, &format!("{place}.tool_result.content.{inner}"), &mut count)?;
            }
        }
    }
    if count > MAX_BREAKPOINTS {
        return reject(
            Rule::TooManyCacheMarkers,
            format!(
                "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
            ),
        );
    }
    Ok(())
}

fn is_marked(value: &Value) -> bool {
    value.get("cache_control").is_some_and(|marker| !marker.is_null())
}

fn count_marker(block: &Value, place: &str, count: &mut usize) -> Checked {
    if !is_marked(block) {
        return Ok(());
    }
    *count += 1;
    match text_of(block, "type") {
        Some(kind @ ("thinking" | "redacted_thinking")) => {
            reject(Rule::CacheMarker, format!("{place}.{kind}.cache_control: Extra inputs are not permitted"))
        }
        Some("text") if text_of(block, "text").is_none_or(is_blank) => reject(
            Rule::CacheMarker,
            format!("{place}.text: cache_control cannot be set for empty text blocks"),
        ),
        _ => match block.pointer("/cache_control/type").and_then(Value::as_str) {
            Some("ephemeral") => Ok(()),
            _ => {
                reject(Rule::CacheMarker, format!("{place}.cache_control.type: Input should be 'ephemeral'"))
            }
        },
    }
}
