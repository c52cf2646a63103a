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
    /// Content for which it was issued.
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
    pub(crate) fn enter(&mut self, dialect: Dialect, model: &str, answer: &Value) {
        for token in given(dialect, answer) {
            let needs = token.needs.map(str::to_owned);
            let given = Given { model: model.to_owned(), of: token.of, needs };
            self.0.insert((dialect, token.text.to_owned()), given);
        }
    }

    /// Checks that all tokens in `body` were issued to `model`, for the same content.
    pub(crate) fn check(&self, dialect: Dialect, model: &str, body: &Value) -> Result<(), Violation> {
        let mut seen: HashSet<&str> = HashSet::new();
        for token in brought(dialect, body) {
            let given = self.0.get(&(dialect, token.text.to_owned()));
            let Some(given) = given.filter(|given| given.model == model) else {
                return Err(Violation::new(Rule::Proof, unknown(dialect, &token)));
            };
            if given.of != token.of {
                return Err(Violation::new(Rule::Proof, altered(dialect, &token)));
            }
            if let Some(needs) = &given.needs
                && !seen.contains(needs.as_str())
            {
                return Err(Violation::new(Rule::Thinking, responses::alone(&token, needs)));
            }
            seen.insert(token.text);
        }
        Ok(())
    }
}

fn given(dialect: Dialect, answer: &Value) -> Vec<Token<'_>> {
    match dialect {
        Dialect::Anthropic => anthropic::given(answer),
        Dialect::Chat => chat::given(answer),
        // Ollama has no such tokens.
        Dialect::Ollama => Vec::new(),
        Dialect::Responses | Dialect::Codex => responses::given(answer),
        Dialect::Gemini => gemini::given(answer),
    }
}

fn brought(dialect: Dialect, body: &Value) -> Vec<Token<'_>> {
    match dialect {
        Dialect::Anthropic => anthropic::brought(body),
        Dialect::Chat => chat::brought(body),
        Dialect::Ollama => Vec::new(),
        Dialect::Responses | Dialect::Codex => responses::brought(body),
        Dialect::Gemini => gemini::brought(body),
    }
}

fn unknown(dialect: Dialect, token: &Token<'_>) -> String {
    match dialect {
        Dialect::Anthropic | Dialect::Chat | Dialect::Ollama => anthropic::unknown(token),
        Dialect::Responses | Dialect::Codex => responses::unknown(token),
        Dialect::Gemini => gemini::unknown(token),
    }
}

fn altered(dialect: Dialect, token: &Token<'_>) -> String {
    match dialect {
        Dialect::Anthropic | Dialect::Chat | Dialect::Ollama => anthropic::altered(token),
        Dialect::Responses | Dialect::Codex => responses::unknown(token),
        Dialect::Gemini => gemini::unknown(token),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
