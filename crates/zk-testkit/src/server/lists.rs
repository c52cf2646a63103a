//! Responses to requests for model lists and token counts.

use serde_json::{Value, json};

use super::reply::Reply;
use super::shared::Shared;
use crate::rules::Dialect;

pub(super) fn model_list(shared: &Shared, dialect: Dialect) -> Reply {
    let all: Vec<Value> = shared.options.models.iter().map(|id| model_json(dialect, id)).collect();
    let body = match dialect {
        Dialect::Anthropic => json!({
            "data": all,
            "has_more": false,
            "first_id": shared.options.models.first(),
            "last_id": shared.options.models.last(),
        }),
        Dialect::Gemini | Dialect::Ollama => json!({ "models": all }),
        Dialect::Chat | Dialect::Responses | Dialect::Codex => json!({"object": "list", "data": all}),
    };
    Reply::json(200, body.to_string())
}

fn model_json(dialect: Dialect, id: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
        }
        Dialect::Ollama => json!({"name": id, "model": id, "size": 0, "details": {"family": "fake"}}),
        Dialect::Gemini => json!({
            "name": format!("models/{id}"),
            "displayName": id,
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
        Dialect::Chat | Dialect::Responses | Dialect::Codex => {
            json!({"id": id, "object": "model", "created": 1_767_225_600, "owned_by": "zk-testkit"})
        }
    }
}

pub(super) fn model_entry(dialect: Dialect, id: &str) -> Reply {
    Reply::json(200, model_json(dialect, id).to_string())
}

pub(super) fn token_count(dialect: Dialect, tokens: usize) -> Reply {
    let body = match dialect {
        Dialect::Gemini | Dialect::Ollama => json!({ "totalTokens": tokens }),
        Dialect::Responses | Dialect::Codex => {
            json!({"object": "response.input_tokens", "input_tokens": tokens})
        }
        Dialect::Anthropic | Dialect::Chat => json!({"input_tokens": tokens}),
    };
    Reply::json(200, body.to_string())
}

/// Ollama's description of a model.
pub(super) fn model_details() -> Reply {
    let body = json!({
        "capabilities": ["completion", "tools", "thinking", "vision"],
        "details": {"family": "fake"},
        "model_info": {"general.architecture": "fake", "fake.context_length": 131_072},
    });
    Reply::json(200, body.to_string())
}
