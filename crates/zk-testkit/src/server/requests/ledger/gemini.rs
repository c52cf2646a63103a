use serde_json::{Value, json};

use super::{Kind, Token, list};

/// Placeholder for the signature of another model's call.
const DUMMY: &str = "skip_thought_signature_validator";

pub(super) fn issued_tokens(answer: &Value) -> Vec<Token<'_>> {
    let parts = list(answer, "candidates").filter_map(|candidate| candidate.get("content"));
    parts
        .flat_map(|content| list(content, "parts"))
        .filter_map(|part| token_of(part, String::new()))
        .collect()
}

pub(super) fn returned_tokens(body: &Value) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (at, content) in list(body, "contents").enumerate() {
        for (number, part) in list(content, "parts").enumerate() {
            tokens.extend(token_of(part, format!("contents[{at}].parts[{number}]")));
        }
    }
    tokens
}

fn token_of(part: &Value, place: String) -> Option<Token<'_>> {
    let text = part.get("thoughtSignature")?.as_str().filter(|signature| *signature != DUMMY)?;
    let of = json!([
        part.get("text"),
        part.pointer("/functionCall/id"),
        part.pointer("/functionCall/name"),
        part.pointer("/functionCall/args"),
    ]);
    Some(Token { kind: Kind::Proof, text, of, needs: None, place })
}

pub(super) fn unknown_token_message(token: &Token<'_>) -> String {
    format!("Thought signature is not valid: {}", token.place)
}
