//! One item of a response while it arrives.

use std::collections::VecDeque;

use serde_json::Value;
use zk_core::model::CallId;
use zk_core::service::StreamEvent;

type Out = VecDeque<StreamEvent>;

/// An item that has begun and not ended.
pub(super) struct Open {
    /// Place of the item in the output, where the server says it. It outranks the id: a server may give an
    /// item another id in every event.
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) block: u32,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Message {
        text: String,
        refusal: String,
    },
    Reasoning {
        text: String,
        /// The part of the summary that is being written.
        part: Option<u64>,
        source: Source,
    },
    Call {
        id: String,
        name: String,
        args: String,
        announced: bool,
        /// Whether the server said that the arguments are complete.
        ended: bool,
    },
    /// A kind only this API has: kept as it is, or dropped.
    Other,
}

/// Source of the text of reasoning: the first kind that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Unknown,
    Summary,
    /// The model's own text.
    Raw,
}

impl Kind {
    pub(super) fn of(item: &Value) -> Self {
        match item.get("type").and_then(Value::as_str) {
            Some("message") => Self::Message { text: String::new(), refusal: String::new() },
            Some("reasoning") => Self::Reasoning { text: String::new(), part: None, source: Source::Unknown },
            Some("function_call") => Self::Call {
                id: text(item, "call_id").to_owned(),
                name: text(item, "name").to_owned(),
                args: String::new(),
                announced: false,
                ended: false,
            },
            Some(_) | None => Self::Other,
        }
    }
}

impl Open {
    /// More text of a message.
    pub(super) fn say(&mut self, delta: &str, out: &mut Out) {
        if let Kind::Message { text, .. } = &mut self.kind
            && !delta.is_empty()
        {
            text.push_str(delta);
            out.push_back(StreamEvent::Text { block: self.block, delta: delta.to_owned() });
        }
    }

    /// More of a refusal, which is no answer and is reported as the reason of the end.
    pub(super) fn refuse(&mut self, delta: &str) {
        if let Kind::Message { refusal, .. } = &mut self.kind {
            refusal.push_str(delta);
        }
    }

    /// More reasoning; parts of a summary stand apart.
    pub(super) fn think(&mut self, from: Source, number: Option<u64>, delta: &str, out: &mut Out) {
        let Kind::Reasoning { text, part, source } = &mut self.kind else { return };
        if delta.is_empty() {
            return;
        }
        if *source == Source::Unknown {
            *source = from;
        }
        if *source != from {
            return;
        }
        let is_next = !text.is_empty() && part.is_some() && number.is_some() && *part != number;
        *part = number.or(*part);
        let delta = if is_next { format!("\n\n{delta}") } else { delta.to_owned() };
        text.push_str(&delta);
        out.push_back(StreamEvent::Thinking { block: self.block, delta });
    }

    /// More of a call's arguments.
    pub(super) fn argue(&mut self, delta: &str, out: &mut Out) {
        self.announce(out);
        if let Kind::Call { args, announced, .. } = &mut self.kind
            && !delta.is_empty()
        {
            args.push_str(delta);
            if !*announced {
                return;
            }
            out.push_back(StreamEvent::ToolArgs { block: self.block, delta: delta.to_owned() });
        }
    }

    /// Notes that the arguments of a call are complete.
    pub(super) fn end_arguments(&mut self) {
        if let Kind::Call { ended, .. } = &mut self.kind {
            *ended = true;
        }
    }

    /// Whether the server said that there is no more of it; of text that does not matter.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.kind, Kind::Call { ended: false, .. })
    }

    /// Says that a call began, once its name is known, and what came of its arguments before.
    pub(super) fn announce(&mut self, out: &mut Out) {
        if let Kind::Call { id, name, args, announced, .. } = &mut self.kind
            && !*announced
            && !name.is_empty()
        {
            *announced = true;
            if id.is_empty() {
                *id = CallId::fresh().as_str().to_owned();
            }
            out.push_back(StreamEvent::ToolCall {
                block: self.block,
                id: id.as_str().into(),
                name: name.clone(),
            });
            if !args.is_empty() {
                out.push_back(StreamEvent::ToolArgs { block: self.block, delta: args.clone() });
            }
        }
    }

    /// Takes what a whole item says and its pieces did not.
    pub(super) fn complete(&mut self, item: &Value, out: &mut Out) {
        if let Kind::Call { id, name, announced: false, .. } = &mut self.kind {
            let (whole_id, whole_name) = (text(item, "call_id"), text(item, "name"));
            if id.is_empty() {
                id.push_str(whole_id);
            }
            if name.is_empty() {
                name.push_str(whole_name);
            }
        }
        match &self.kind {
            Kind::Message { text: written, refusal } => {
                let (whole, refused) = (joined(item, "content", "text"), joined(item, "content", "refusal"));
                let (more, refused) = (rest(written, &whole).to_owned(), rest(refusal, &refused).to_owned());
                self.say(&more, out);
                self.refuse(&refused);
            }
            Kind::Reasoning { text: thought, .. } if thought.is_empty() => {
                let summary: Vec<&str> = parts(item, "summary").map(|part| text(part, "text")).collect();
                self.think(Source::Summary, None, &summary.join("\n\n"), out);
                if summary.is_empty() {
                    self.think(Source::Raw, None, &joined(item, "content", "text"), out);
                }
            }
            Kind::Call { args, .. } => {
                let more = rest(args, text(item, "arguments")).to_owned();
                self.argue(&more, out);
            }
            Kind::Reasoning { .. } | Kind::Other => {}
        }
    }
}

/// A field that is text, or nothing.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn parts<'a>(item: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + Clone {
    item.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn joined(item: &Value, list: &str, field: &str) -> String {
    parts(item, list).map(|part| text(part, field)).collect()
}

/// Returns the rest of `whole` behind what came already; nothing if `whole` says something else.
pub(super) fn rest<'a>(came: &str, whole: &'a str) -> &'a str {
    whole.strip_prefix(came).unwrap_or_default()
}
