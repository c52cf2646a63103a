//! Rules of the Gemini API. The model, which a request has in its path, is expected in the body's `model`.

mod contents;
mod params;
mod part;

use serde_json::Value;

use super::{Checked, Rule, Strictness, reject, text_of};

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked {
    if !body.is_object() {
        return reject(Rule::Shape, "Invalid JSON payload received.");
    }
    let Some(model) = text_of(body, "model").filter(|model| !model.is_empty()) else {
        return reject(Rule::NoModel, "* GenerateContentRequest.model: unexpected model name format");
    };
    let generation = generation(model);
    params::check(body, generation)?;
    contents::check(strictness, body, generation)
}

/// Generation of a model: 3 for `gemini-3.5-flash`, 0 for others than Gemini.
pub(crate) fn generation(model: &str) -> u32 {
    let name = model.strip_prefix("models/").unwrap_or(model);
    let number = name.strip_prefix("gemini-").and_then(|rest| rest.split(['.', '-']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// First generation with signatures on calls and images in results.
pub(crate) const SIGNED: u32 = 3;
