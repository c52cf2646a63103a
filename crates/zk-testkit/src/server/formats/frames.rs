//! Stream events of a turn, without faults.

use serde_json::Value;

use super::pieces::{Piece, Rendering};
use super::{anthropic, chat, gemini, ollama, responses};
use crate::rules::Dialect;
use crate::script::Turn;

/// Stream of a turn.
pub(crate) fn stream(dialect: Dialect, turn: &Turn, rendering: Rendering<'_>) -> Vec<Piece> {
    match dialect {
        Dialect::Anthropic => anthropic::stream(turn, rendering),
        Dialect::Chat => chat::stream(turn, rendering),
        Dialect::Responses => responses::stream(turn, rendering, false),
        Dialect::Codex => responses::stream(turn, rendering, true),
        Dialect::Gemini => gemini::stream(turn, rendering),
        Dialect::Ollama => ollama::stream(turn, rendering),
    }
}

/// JSON body of a turn.
pub(crate) fn response_body(dialect: Dialect, turn: &Turn, rendering: Rendering<'_>) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::response_body(turn, rendering),
        Dialect::Chat => chat::response_body(turn, rendering),
        Dialect::Responses | Dialect::Codex => responses::response_body(turn, rendering),
        Dialect::Gemini => gemini::response_body(turn, rendering),
        Dialect::Ollama => ollama::response_body(turn, rendering),
    }
}
