//! Ledger of the tokens (signatures and item ids) that a server has issued, and that clients must return
//! unchanged.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::rules::{Dialect, Rule, Violation};

/// Thinking signature or item id, in a response or a request.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Content for which the token was issued.
    pub(crate) of: Value,
    /// Token that a request must contain together with this one.
    pub(crate) needs: Option<&'a str>,
    /// Position of the token in a request.
    pub(crate) place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Proof,
    /// Id of an item of this type.
    Id(&'static str),
}

#[derive(Debug)]
struct Given {
    model: String,
    of: Value,
    needs: Option<String>,
}

/// All issued tokens.
#[derive(Debug, Default)]
pub(crate) struct Ledger(HashMap<(Dialect, String), Given>);

impl Ledger {
    /// Records the tokens in `answer`, a whole response.
    pub(crate) fn record_tokens(&mut self, dialect: Dialect, model: &str, answer: &Value) {
        for token in issued_tokens(dialect, answer) {
            let needs = token.needs.map(str::to_owned);
            let given = Given { model: model.to_owned(), of: token.of, needs };
            self.0.insert((dialect, token.text.to_owned()), given);
        }
    }

    /// Checks that all tokens in `body` were issued to `model`, for the same content.
    pub(crate) fn check_tokens(&self, dialect: Dialect, model: &str, body: &Value) -> Result<(), Violation> {
        let mut seen: HashSet<&str> = HashSet::new();
        for token in returned_tokens(dialect, body) {
            let given = self.0.get(&(dialect, token.text.to_owned()));
            let Some(given) = given.filter(|given| given.model == model) else {
                return Err(Violation::new(Rule::Proof, unknown_token_message(dialect, &token)));
            };
            if given.of != token.of {
                return Err(Violation::new(Rule::Proof, altered_token_message(dialect, &token)));
            }
            if let Some(needs) = &given.needs
                && !seen.contains(needs.as_str())
            {
                return Err(Violation::new(Rule::Thinking, responses::missing_item_message(&token, needs)));
            }
            seen.insert(token.text);
        }
        Ok(())
    }
}

fn issued_tokens(dialect: Dialect, answer: &Value) -> Vec<Token<'_>> {
    match dialect {
        Dialect::Anthropic => anthropic::issued_tokens(answer),
        Dialect::Chat => chat::issued_tokens(answer),
        // Ollama has no such tokens.
        Dialect::Ollama => Vec::new(),
        Dialect::Responses | Dialect::Codex => responses::issued_tokens(answer),
        Dialect::Gemini => gemini::issued_tokens(answer),
    }
}

fn returned_tokens(dialect: Dialect, body: &Value) -> Vec<Token<'_>> {
    match dialect {
        Dialect::Anthropic => anthropic::returned_tokens(body),
        Dialect::Chat => chat::returned_tokens(body),
        Dialect::Ollama => Vec::new(),
        Dialect::Responses | Dialect::Codex => responses::returned_tokens(body),
        Dialect::Gemini => gemini::returned_tokens(body),
    }
}

fn unknown_token_message(dialect: Dialect, token: &Token<'_>) -> String {
    match dialect {
        Dialect::Anthropic | Dialect::Chat | Dialect::Ollama => anthropic::unknown_token_message(token),
        Dialect::Responses | Dialect::Codex => responses::unknown_token_message(token),
        Dialect::Gemini => gemini::unknown_token_message(token),
    }
}

fn altered_token_message(dialect: Dialect, token: &Token<'_>) -> String {
    match dialect {
        Dialect::Anthropic | Dialect::Chat | Dialect::Ollama => anthropic::altered_token_message(token),
        Dialect::Responses | Dialect::Codex => responses::unknown_token_message(token),
        Dialect::Gemini => gemini::unknown_token_message(token),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
