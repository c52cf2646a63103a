//! Stream events of a turn, without faults.

use serde_json::Value;

use super::pieces::{Piece, Telling};
use super::{anthropic, chat, gemini, ollama, responses};
use crate::rules::Dialect;
use crate::script::Turn;

/// Stream of a turn.
pub(crate) fn stream(dialect: Dialect, turn: &Turn, telling: Telling<'_>) -> Vec<Piece> {
    match dialect {
        Dialect::Anthropic => anthropic::stream(turn, telling),
        Dialect::Chat => chat::stream(turn, telling),
        Dialect::Responses => responses::stream(turn, telling, false),
        Dialect::Codex => responses::stream(turn, telling, true),
        Dialect::Gemini => gemini::stream(turn, telling),
        Dialect::Ollama => ollama::stream(turn, telling),
    }
}

/// JSON body of a turn.
pub(crate) fn whole(dialect: Dialect, turn: &Turn, telling: Telling<'_>) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::whole(turn, telling),
        Dialect::Chat => chat::whole(turn, telling),
        Dialect::Responses | Dialect::Codex => responses::whole(turn, telling),
        Dialect::Gemini => gemini::whole(turn, telling),
        Dialect::Ollama => ollama::whole(turn, telling),
    }
}
