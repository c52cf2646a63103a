use serde_json::Value;

use super::{Kind, Token, list};

pub(super) fn issued_tokens(answer: &Value) -> Vec<Token<'_>> {
    list(answer, "content").filter_map(|block| token_of(block, String::new())).collect()
}

pub(super) fn returned_tokens(body: &Value) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (at, message) in list(body, "messages").enumerate() {
        for (part, block) in list(message, "content").enumerate() {
            tokens.extend(token_of(block, format!("messages.{at}.content.{part}")));
        }
    }
    tokens
}

fn token_of(block: &Value, place: String) -> Option<Token<'_>> {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    let (text, of) = match field("type")? {
        "thinking" => (field("signature")?, field("thinking").unwrap_or_default().into()),
        "redacted_thinking" => (field("data")?, Value::Null),
        _ => return None,
    };
    Some(Token { kind: Kind::Proof, text, of, needs: None, place })
}

pub(super) fn unknown_token_message(token: &Token<'_>) -> String {
    format!("{}: Invalid `signature` in `thinking` block", token.place)
}

pub(super) fn altered_token_message(token: &Token<'_>) -> String {
    format!(
        "{}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks \
         must remain as they were in the original response.",
        token.place
    )
}
