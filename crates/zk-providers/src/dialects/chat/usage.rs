//! Token counts under the servers' various names.

use serde_json::Value;
use zk_core::model::Usage;

/// Reads the counts and removes overlaps: servers count cached input as input, and some count reasoning
/// separately.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let count = |path: &str| {
        let number = usage.pointer(path)?;
        number.as_u64().or_else(|| number.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64))
    };
    let first = |paths: &[&str]| paths.iter().find_map(|path| count(path)).unwrap_or_default();
    let prompt = count("/prompt_tokens");
    let completion = count("/completion_tokens");
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let (prompt, mut output) = (prompt.unwrap_or_default(), completion.unwrap_or_default());
    let cache_read =
        first(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"]);
    let cache_write = first(&["/prompt_tokens_details/cache_write_tokens", "/cache_write_tokens"]);
    let reasoning = first(&["/completion_tokens_details/reasoning_tokens"]);
    // The total tells whether reasoning is included in the completion tokens.
    if reasoning > 0 && count("/total_tokens") == Some(prompt + output + reasoning) {
        output += reasoning;
    }
    let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
    Some(Usage {
        input,
        output,
        cache_read,
        cache_write,
        reasoning,
        billed: billed(usage),
        ..Usage::default()
    })
}

/// Adds up the gateway's price and, for a person with a vendor key of their own, the vendor's price.
fn billed(usage: &Value) -> Option<u64> {
    let dollars = |path: &str| usage.pointer(path)?.as_f64().filter(|dollars| *dollars >= 0.0);
    let own_key = usage.get("is_byok").and_then(Value::as_bool).unwrap_or_default();
    let upstream = dollars("/cost_details/upstream_inference_cost").filter(|_| own_key);
    Some(((dollars("/cost")? + upstream.unwrap_or_default()) * 1e9).round() as u64)
}
