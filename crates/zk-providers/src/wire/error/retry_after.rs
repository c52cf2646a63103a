//! Reads the wait that a provider asks for, in its various forms.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

/// Returns the wait from the headers, or else from the body.
pub(crate) fn retry_after(headers: &HeaderMap, body: Option<&Value>, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    text("retry-after-ms")
        .and_then(|ms| ms.parse::<f64>().ok())
        .and_then(|ms| seconds(ms / 1000.0))
        .or_else(|| text("retry-after").and_then(|value| seconds_or_date(value, now)))
        .or_else(|| body.and_then(|body| in_body(body, now)))
}

/// Returns the provider's statement about retrying.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-should-retry")?.to_str().ok()?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn seconds_or_date(value: &str, now: SystemTime) -> Option<Duration> {
    match value.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => {
            httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default())
        }
    }
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Reads the wait from an error body: `retryDelay: "34.4s"` among its details, `resets_in_seconds`, or
/// `resets_at` in epoch seconds.
fn in_body(body: &Value, now: SystemTime) -> Option<Duration> {
    let error = body.get("error")?;
    let delay = error
        .get("details")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse::<f64>().ok())
        .and_then(seconds);
    let delay = delay.or_else(|| seconds(error.get("resets_in_seconds")?.as_f64()?));
    delay.or_else(|| {
        let at =
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(error.get("resets_at")?.as_u64()?))?;
        Some(at.duration_since(now).unwrap_or_default())
    })
}
