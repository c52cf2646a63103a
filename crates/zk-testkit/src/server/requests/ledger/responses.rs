use serde_json::{Value, json};

use super::{Kind, Token, list};

pub(super) fn issued_tokens(answer: &Value) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut reasoning = None;
    for item in list(answer, "output") {
        let found = tokens_of(item, "");
        match found.first().map(|token| (token.kind, token.text)) {
            Some((Kind::Id("reasoning"), id)) => {
                tokens.extend(found);
                reasoning = Some(id);
            }
            // Items that follow reasoning must be returned together with it, or without their ids.
            _ => tokens.extend(found.into_iter().map(|token| Token { needs: reasoning, ..token })),
        }
    }
    tokens
}

pub(super) fn returned_tokens(body: &Value) -> Vec<Token<'_>> {
    let items = list(body, "input").enumerate();
    items.flat_map(|(at, item)| tokens_of(item, &format!("input[{at}]"))).collect()
}

fn tokens_of<'a>(item: &'a Value, place: &str) -> Vec<Token<'a>> {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    let (kind, of) = match (field("type"), field("role")) {
        (Some("reasoning"), _) => ("reasoning", item.get("summary").cloned().unwrap_or_default()),
        (Some("function_call"), _) => {
            // The text of the arguments may be reformatted, but not change its meaning.
            let args: Value =
                field("arguments").and_then(|args| serde_json::from_str(args).ok()).unwrap_or_default();
            ("function_call", json!([field("name"), args]))
        }
        (Some("message") | None, Some("assistant")) => {
            let texts: Vec<_> = list(item, "content").filter_map(|part| part.get("text")).collect();
            ("message", json!([texts, field("phase")]))
        }
        _ => return Vec::new(),
    };
    let token = |kind, text, of| Token { kind, text, of, needs: None, place: place.to_owned() };
    let id = field("id").map(|id| token(Kind::Id(kind), id, of));
    let proof = field("encrypted_content").map(|seal| token(Kind::Proof, seal, field("id").into()));
    id.into_iter().chain(proof).collect()
}

pub(super) fn unknown_token_message(token: &Token<'_>) -> String {
    match token.kind {
        Kind::Proof => format!(
            "The encrypted content for item {} could not be verified. Reason: Encrypted content could not be decrypted \
             or parsed.",
            token.place
        ),
        Kind::Id(_) => format!(
            "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
             set to true, or remove this item from your input.",
            token.text
        ),
    }
}

pub(super) fn missing_item_message(token: &Token<'_>, needs: &str) -> String {
    let kind = match token.kind {
        Kind::Id(kind) => kind,
        Kind::Proof => "reasoning",
    };
    format!(
        "Item '{}' of type '{kind}' was provided without its required 'reasoning' item: '{needs}'.",
        token.text
    )
}
