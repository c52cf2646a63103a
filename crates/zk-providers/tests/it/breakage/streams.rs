//! The recorded streams that are broken: for each dialect the smallest with each feature.

use serde_json::Value;
use zk_core::model::StopReason;

use crate::collect::Answer;
use crate::recordings::{Dialect, Exchange, Form, exchanges_of};

type Holds = fn(&Answer, &str) -> bool;

/// What a stream has to hold to be worth breaking.
const FEATURES: &[(&str, Holds)] = &[
    ("text", |answer, _| !answer.text.is_empty() && answer.calls.is_empty()),
    ("thinking", |answer, _| !answer.thinking.is_empty() && answer.stop != Some(StopReason::MaxTokens)),
    ("parallel calls", |answer, _| answer.calls.len() > 1),
    ("a refusal", |answer, _| matches!(answer.stop, Some(StopReason::Refusal(_)))),
    ("a cut answer", |answer, _| answer.stop == Some(StopReason::MaxTokens)),
    ("more than ASCII", |_, body| !body.is_ascii()),
];

/// One stream to break.
pub(crate) struct Sample {
    pub(crate) dialect: Dialect,
    pub(crate) place: String,
    pub(crate) feature: &'static str,
    pub(crate) events: Vec<String>,
}

impl Sample {
    /// Where it is broken: behind every event, or, of a long one, behind those at both ends and some between.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let (count, ends) = (self.events.len(), 12);
        let is_chosen =
            |at: &usize| *at <= ends || at + ends >= count || at.is_multiple_of((count / ends).max(1));
        (0..=count).filter(is_chosen).collect()
    }

    pub(crate) fn body(&self) -> String {
        self.events.concat()
    }

    /// Whether nothing but the end mark can be missing behind so many events.
    pub(crate) fn is_complete(&self, events: usize) -> bool {
        self.events[..events].iter().any(|event| ends(self.dialect, event))
    }
}

/// Whether an event says that the answer is over.
pub(crate) fn ends(dialect: Dialect, event: &str) -> bool {
    let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(event).trim();
    if data == "[DONE]" {
        return true;
    }
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    match dialect {
        Dialect::Anthropic => data["type"] == "message_stop",
        Dialect::Chat => {
            let choice = &data["choices"][0];
            choice["finish_reason"].is_string()
        }
        Dialect::Responses => {
            let kind = data["type"].as_str().unwrap_or_default();
            matches!(kind, "response.completed" | "response.incomplete" | "response.done")
        }
        Dialect::Gemini => data["candidates"][0]["finishReason"].is_string(),
        Dialect::Ollama => data["done"] == true,
    }
}

/// The streams; every feature of a dialect that was recorded is in one of them.
pub(crate) fn samples() -> Vec<Sample> {
    let mut all: Vec<Sample> = Vec::new();
    for dialect in Dialect::ALL {
        let mut known: Vec<(Exchange, Answer)> = exchanges_of(dialect)
            .into_iter()
            .filter(|exchange| matches!(exchange.form, Form::Streamed | Form::Whole))
            .filter_map(|exchange| Some((dialect.naive(&exchange.body).ok()?, exchange)))
            .map(|(answer, exchange)| (exchange, answer))
            .collect();
        // What came in pieces is worth more than what was recorded whole.
        known.sort_by_key(|(exchange, _)| (exchange.form, events(dialect, &exchange.body).len()));
        for (feature, holds) in FEATURES {
            let fits = |(exchange, answer): &&(Exchange, Answer)| holds(answer, &exchange.body);
            let Some((exchange, _)) = known.iter().find(fits) else {
                println!("{dialect:?}: nothing with {feature} was recorded");
                continue;
            };
            let place = exchange.place();
            if !all.iter().any(|sample| sample.place == place) {
                let events = events(dialect, &exchange.body);
                all.push(Sample { dialect, place, feature, events });
            }
        }
    }
    all
}

fn events(dialect: Dialect, body: &str) -> Vec<String> {
    let body = body.replace("\r\n", "\n");
    let mark = if dialect == Dialect::Ollama { "\n" } else { "\n\n" };
    body.split_inclusive(mark).filter(|event| !event.trim().is_empty()).map(str::to_owned).collect()
}
