use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::message::RpcError;
use super::wire::refusal::Refusal;

/// Parses params. Errors name the field.
pub(super) fn parse<T: DeserializeOwned>(params: &Value) -> Result<T, RpcError> {
    let error = match T::deserialize(params) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error.to_string(),
    };
    let field = wrong_field::<T>(params, &error).or_else(|| quoted_name(&error));
    let refused = RpcError::new(
        Refusal::InvalidParams,
        match &field {
            Some(field) if !error.contains(&format!("`{field}`")) => format!("`{field}`: {error}"),
            Some(_) | None => error,
        },
    );
    Err(match field {
        Some(field) => refused.with(json!({ "field": field })),
        None => refused,
    })
}

/// Finds the field that causes an error: without it, the error changes or disappears.
fn wrong_field<T: DeserializeOwned>(params: &Value, error: &str) -> Option<String> {
    let fields = params.as_object()?;
    let is_wrong = |field: &&String| {
        let mut without = fields.clone();
        without.remove(field.as_str());
        let left = serde_json::from_value::<T>(Value::Object(without)).err().map(|left| left.to_string());
        left.as_deref() != Some(error)
    };
    // A missing field is not caused by another one.
    if error.starts_with("missing field") {
        return None;
    }
    fields.keys().find(is_wrong).cloned()
}

/// Returns the name quoted in an error.
fn quoted_name(error: &str) -> Option<String> {
    error.split('`').nth(1).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::wire::conversation::{AnswerParams, SubmitParams};

    fn rejected_field<T: DeserializeOwned + std::fmt::Debug>(params: &Value) -> Value {
        let error = parse::<T>(params).unwrap_err();
        assert_eq!(error.code, -32602, "{error:?}");
        error.data.unwrap_or_default()["field"].clone()
    }

    #[test]
    fn params_that_cannot_be_used_are_refused_with_their_field() {
        assert_eq!(rejected_field::<SubmitParams>(&json!({ "conversation": "c" })), "text");
        assert_eq!(
            rejected_field::<SubmitParams>(&json!({ "conversation": 5, "text": "a" })),
            "conversation"
        );
        assert_eq!(
            rejected_field::<SubmitParams>(&json!({ "conversation": "c", "text": "a", "images": [1] })),
            "images"
        );
        assert_eq!(rejected_field::<SubmitParams>(&json!({ "conversation": "c", "text": "a", "x": 1 })), "x");
        let answer = json!({ "conversation": "c", "id": 1, "digest": 1, "answer": { "answer": "perhaps" } });
        assert_eq!(rejected_field::<AnswerParams>(&answer), "answer");
    }
}
