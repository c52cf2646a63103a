//! Facts that a server's list gives about one of its models.

use serde_json::Value;
use zk_core::model::{Model, Prices, Rates, ThinkingSupport};

use crate::catalogue::profiles::{CompatProfile, ReasoningFormat};

/// Places where servers say how large the window of a listed model is. (What llama.cpp calls `n_ctx_train` is
/// the model's window, not the server's.)
const WINDOWS: &[&str] =
    &["/context_length", "/context_window", "/max_model_len", "/max_context_length", "/meta/n_ctx"];
/// Fields that say how long a model's answers may be.
const OUTPUTS: &[&str] =
    &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_output_tokens"];
/// The parameters of models that reason.
const REASONING: &[&str] = &["reasoning", "reasoning_effort", "include_reasoning"];

/// The model as the list has it; what the list does not say stays.
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
        // The price depends on the model a gateway then chooses.
        Some(rates) if rates.input < 0.0 || rates.output < 0.0 => model.prices = None,
        // Listed rates that agree with the known ones leave what is known of tiers and caches as it is.
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

/// Prices in dollars for one token, as strings. What the cache costs is the price of input where it has none of
/// its own.
fn rates(pricing: &Value) -> Option<Rates> {
    let price = |name: &str| {
        let price = pricing.get(name)?;
        let price = price.as_f64().or_else(|| price.as_str()?.parse().ok())?;
        // To a millionth: a price for one token is no round binary fraction.
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
