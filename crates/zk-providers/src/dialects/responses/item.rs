//! One item of a response while it arrives.

use std::collections::VecDeque;

use serde_json::Value;
use zk_core::model::CallId;
use zk_core::service::StreamEvent;

type Out = VecDeque<StreamEvent>;

/// An item that has begun and not ended.
pub(super) struct Open {
    /// Index of the item in the output, if the server sends it. It takes precedence over the id, since a
    /// server may change the id with every event.
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
        /// Index of the summary part being written.
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
    /// An item of a kind that only this API has: stored unchanged, or dropped.
    Other,
}

/// Kind of the reasoning text: the first kind that arrives is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Unknown,
    Summary,
    /// The model's raw reasoning text.
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
    /// Adds text to a message.
    pub(super) fn add_text(&mut self, delta: &str, out: &mut Out) {
        if let Kind::Message { text, .. } = &mut self.kind
            && !delta.is_empty()
        {
            text.push_str(delta);
            out.push_back(StreamEvent::Text { block: self.block, delta: delta.to_owned() });
        }
    }

    /// Adds text to a refusal, which becomes the explanation of the stop reason.
    pub(super) fn add_refusal(&mut self, delta: &str) {
        if let Kind::Message { refusal, .. } = &mut self.kind {
            refusal.push_str(delta);
        }
    }

    /// Adds text to reasoning; the parts of a summary are separated.
    pub(super) fn add_thinking(&mut self, from: Source, number: Option<u64>, delta: &str, out: &mut Out) {
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

    /// Adds text to a call's arguments.
    pub(super) fn add_arguments(&mut self, delta: &str, out: &mut Out) {
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

    /// Records that the arguments of a call are complete.
    pub(super) fn end_arguments(&mut self) {
        if let Kind::Call { ended, .. } = &mut self.kind {
            *ended = true;
        }
    }

    /// Whether the server said that the item is complete; always true for text.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.kind, Kind::Call { ended: false, .. })
    }

    /// Emits the beginning of a call once its name is known, with the arguments received before.
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

    /// Adds content of the complete item that its deltas lacked.
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
                let (whole, refused) =
                    (joined_texts(item, "content", "text"), joined_texts(item, "content", "refusal"));
                let (more, refused) = (rest(written, &whole).to_owned(), rest(refusal, &refused).to_owned());
                self.add_text(&more, out);
                self.add_refusal(&refused);
            }
            Kind::Reasoning { text: thought, .. } if thought.is_empty() => {
                let summary: Vec<&str> = parts(item, "summary").map(|part| text(part, "text")).collect();
                self.add_thinking(Source::Summary, None, &summary.join("\n\n"), out);
                if summary.is_empty() {
                    self.add_thinking(Source::Raw, None, &joined_texts(item, "content", "text"), out);
                }
            }
            Kind::Call { args, .. } => {
                let more = rest(args, text(item, "arguments")).to_owned();
                self.add_arguments(&more, out);
            }
            Kind::Reasoning { .. } | Kind::Other => {}
        }
    }
}

/// Returns a text field; empty if it is missing.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn parts<'a>(item: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + Clone {
    item.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn joined_texts(item: &Value, list: &str, field: &str) -> String {
    parts(item, list).map(|part| text(part, field)).collect()
}

/// Returns the part of `whole` after `came`; empty if `whole` does not begin with it.
pub(super) fn rest<'a>(came: &str, whole: &'a str) -> &'a str {
    whole.strip_prefix(came).unwrap_or_default()
}
