//! The recorded streams that are broken: for each dialect the smallest with each feature.

use serde_json::Value;
use zk_core::model::StopReason;

use crate::collect::Answer;
use crate::recordings::{Dialect, Exchange, Form, exchanges_of};

type Holds = fn(&Answer, &str) -> bool;

/// Features that make a stream worth breaking.
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
    /// Index of the first event that announces the answer's end.
    end: Option<usize>,
    /// Index of the last event that adds content after it.
    more: Option<usize>,
}

impl Sample {
    fn new(exchange: &Exchange, feature: &'static str) -> Self {
        let dialect = exchange.dialect;
        let events = events(dialect, &exchange.body);
        let end = events.iter().position(|event| ends(dialect, event));
        let more = events.iter().rposition(|event| says_more(dialect, event)).filter(|at| Some(*at) > end);
        Self { dialect, place: exchange.place(), feature, events, end, more }
    }

    /// Positions of the faults: after every event, or in a long stream after those at both ends and some
    /// between.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let (count, ends) = (self.events.len(), 12);
        let is_chosen =
            |at: &usize| *at <= ends || at + ends >= count || at.is_multiple_of((count / ends).max(1));
        (0..=count).filter(is_chosen).collect()
    }

    /// Positions of the faults in memory: after every event of a short stream; in a long one after 8 at each
    /// end and about 16 between.
    pub(crate) fn more_boundaries(&self) -> Vec<usize> {
        let count = self.events.len();
        let step = (count / 16).max(1);
        let is_chosen = |at: &usize| count <= 40 || *at < 8 || at + 8 > count || at.is_multiple_of(step);
        (0..=count).filter(is_chosen).collect()
    }

    pub(crate) fn body(&self) -> String {
        self.events.concat()
    }

    /// Whether only the end mark can be missing after this number of events.
    pub(crate) fn is_complete(&self, events: usize) -> bool {
        self.end.is_some_and(|end| end < events) && !self.is_open(events)
    }

    /// Whether the answer's end is announced and content follows after this number of events, so that a
    /// reader cannot detect the fault.
    pub(crate) fn is_open(&self, events: usize) -> bool {
        self.end.is_some_and(|end| end < events) && self.more.is_some_and(|more| more >= events)
    }
}

/// Whether an event announces the answer's end.
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
            choice["finish_reason"].is_string() && choice["index"].as_u64().unwrap_or_default() == 0
        }
        Dialect::Responses => {
            let kind = data["type"].as_str().unwrap_or_default();
            matches!(kind, "response.completed" | "response.incomplete" | "response.done")
        }
        Dialect::Gemini => data["candidates"][0]["finishReason"].is_string(),
        Dialect::Ollama => data["done"] == true,
    }
}

/// Whether an event after the end adds to the answer: Gemini ends a stream several times if its own tools
/// ran.
fn says_more(dialect: Dialect, event: &str) -> bool {
    let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or_default();
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let parts = data["candidates"][0]["content"]["parts"].as_array();
    dialect == Dialect::Gemini && parts.into_iter().flatten().any(|part| part["text"] != "")
}

/// Streams that together contain every recorded feature of a dialect.
pub(crate) fn samples() -> Vec<Sample> {
    let mut all: Vec<Sample> = Vec::new();
    for dialect in Dialect::ALL {
        let mut known: Vec<(Exchange, Answer)> = exchanges_of(dialect)
            .into_iter()
            .filter(|exchange| matches!(exchange.form, Form::Streamed | Form::Whole))
            .filter_map(|exchange| Some((dialect.naive(&exchange.body).ok()?, exchange)))
            .map(|(answer, exchange)| (exchange, answer))
            .collect();
        // An answer recorded in pieces is worth more than one recorded whole.
        known.sort_by_key(|(exchange, _)| (exchange.form, events(dialect, &exchange.body).len()));
        for (feature, holds) in FEATURES {
            let fits = |(exchange, answer): &&(Exchange, Answer)| holds(answer, &exchange.body);
            let Some((exchange, _)) = known.iter().find(fits) else {
                println!("{dialect:?}: nothing with {feature} was recorded");
                continue;
            };
            if !all.iter().any(|sample| sample.place == exchange.place()) {
                all.push(Sample::new(exchange, feature));
            }
        }
    }
    all
}

/// All recorded streams and whole answers of a dialect, except broken ones.
pub(crate) fn recorded(dialect: Dialect) -> Vec<Sample> {
    let mut all = exchanges_of(dialect);
    all.retain(|exchange| {
        matches!(exchange.form, Form::Streamed | Form::Whole) && dialect.naive(&exchange.body).is_ok()
    });
    all.iter().map(|exchange| Sample::new(exchange, "recorded")).collect()
}

fn events(dialect: Dialect, body: &str) -> Vec<String> {
    let body = body.replace("\r\n", "\n");
    let mark = if dialect == Dialect::Ollama { "\n" } else { "\n\n" };
    let events = body.split_inclusive(mark).filter(|event| !event.trim().is_empty());
    // Nothing can follow an event that has no end: some recordings lack the last one's.
    events.map(|event| event.strip_suffix(mark).unwrap_or(event).to_owned() + mark).collect()
}
