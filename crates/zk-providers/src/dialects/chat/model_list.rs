//! Facts about a model from a server's model list.

use serde_json::Value;
use zk_core::model::{Model, Prices, Rates, ThinkingSupport};

use crate::catalogue::profiles::{CompatProfile, ReasoningFormat};

/// JSON pointers to a listed model's window. (For llama.cpp, `n_ctx_train` is the model's window, not the
/// server's.)
const WINDOWS: &[&str] =
    &["/context_length", "/context_window", "/max_model_len", "/max_context_length", "/meta/n_ctx"];
/// JSON pointers to a listed model's output limit.
const OUTPUTS: &[&str] =
    &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_output_tokens"];
/// Names of request parameters that mark a model as reasoning.
const REASONING: &[&str] = &["reasoning", "reasoning_effort", "include_reasoning"];

/// Updates the model with facts from its list entry.
pub(super) fn read(entry: &Value, profile: &CompatProfile, mut model: Model) -> Model {
    let number = |path: &&str| entry.pointer(path).and_then(Value::as_u64).filter(|number| *number > 0);
    model.window = WINDOWS.iter().find_map(number).or(model.window);
    model.max_output = OUTPUTS.iter().find_map(number).or(model.max_output);
    let words = |path: &str| entry.pointer(path).and_then(Value::as_array).filter(|words| !words.is_empty());
    let capabilities = &mut model.capabilities;
    if let Some(kinds) = words("/architecture/input_modalities") {
        capabilities.vision = profile.vision && kinds.iter().any(|kind| kind == "image");
    }
    if let Some(parameters) = words("/supported_parameters") {
        let is_one = |word: &Value| word.as_str().is_some_and(|word| REASONING.contains(&word));
        let reasons = profile.reasoning != ReasoningFormat::None && parameters.iter().any(is_one);
        capabilities.thinking = if reasons { ThinkingSupport::Effort } else { ThinkingSupport::None };
    }
    match entry.get("pricing").and_then(rates) {
        // The price depends on the model that the gateway selects.
        Some(rates) if rates.input < 0.0 || rates.output < 0.0 => model.prices = None,
        // If listed rates equal the known ones, the known tiers and cache prices stay.
        Some(rates) if model.prices.as_ref().is_none_or(|known| differs(known.rates, rates)) => {
            model.prices = Some(Prices::from(rates));
        }
        Some(_) | None => {}
    }
    model
}

fn differs(known: Rates, listed: Rates) -> bool {
    let far = |one: f64, other: f64| (one - other).abs() > 1e-9;
    far(known.input, listed.input) || far(known.output, listed.output)
}

/// Parses prices, strings in dollars per token. Cache rates default to the input rate.
fn rates(pricing: &Value) -> Option<Rates> {
    let price = |name: &str| {
        let price = pricing.get(name)?;
        let price = price.as_f64().or_else(|| price.as_str()?.parse().ok())?;
        // Rounded to a millionth, since a price per token has no exact binary form.
        price.is_finite().then(|| (price * 1e12).round() / 1e6)
    };
    let (input, output) = (price("prompt")?, price("completion")?);
    Some(Rates {
        input,
        output,
        cache_read: price("input_cache_read").unwrap_or(input),
        cache_write: price("input_cache_write").unwrap_or(input),
    })
}
