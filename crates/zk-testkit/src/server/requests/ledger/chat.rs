use serde_json::{Value, json};

use super::{Kind, Token, list};

pub(super) fn issued_tokens(answer: &Value) -> Vec<Token<'_>> {
    let messages = list(answer, "choices").filter_map(|choice| choice.get("message"));
    messages.flat_map(|message| tokens_of(message, "")).collect()
}

pub(super) fn returned_tokens(body: &Value) -> Vec<Token<'_>> {
    let messages = list(body, "messages").enumerate();
    messages.flat_map(|(at, message)| tokens_of(message, &format!("messages[{at}]"))).collect()
}

/// Signatures in the structured reasoning of gateways; plain Chat Completions has none.
fn tokens_of<'a>(message: &'a Value, place: &str) -> Vec<Token<'a>> {
    let token = |item: &'a Value| {
        let field = |name: &str| item.get(name).and_then(Value::as_str);
        let text = field("signature").or(field("data"))?;
        let of = json!([field("type"), field("text"), field("format")]);
        Some(Token { kind: Kind::Proof, text, of, needs: None, place: place.to_owned() })
    };
    list(message, "reasoning_details").filter_map(token).collect()
}
