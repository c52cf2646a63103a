//! Decodes a streamed response of Ollama's native API: one JSON object per line.

use std::collections::{HashSet, VecDeque};

use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::model::{Block, CallId, ModelRef, StopReason, Text, Thinking, ToolCall, Usage};
use zk_core::service::StreamEvent;

use crate::dialects::anthropic::unreadable;
use crate::encode::args;
use crate::encode::json_str::{Str, parse_json};
use crate::wire::error::{ErrorBody, WireError, of_stream};
use crate::wire::response::decode::{Decode, Framing};
use crate::wire::response::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// Limits and size of a request, known before the answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestSize {
    /// Output limit in tokens.
    pub(crate) limit: u64,
    /// Estimated input tokens, for servers that do not count input they had cached.
    pub(crate) input: u64,
}

/// Decoder of one response.
pub(crate) struct Decoder {
    origin: ModelRef,
    /// Name of the forced tool, whose arguments the answer is.
    forced: Option<String>,
    size: RequestSize,
    open: Option<Open>,
    ids: HashSet<String>,
    begun: u32,
    has_calls: bool,
    usage: Usage,
    started: bool,
    /// Whether a message arrived, even an empty one.
    has_message: bool,
    done: bool,
}

/// The block that has begun and not ended.
struct Open {
    block: u32,
    kind: Kind,
    text: String,
}

#[derive(Clone, PartialEq)]
enum Kind {
    Text,
    Thinking,
    /// Arguments of the forced tool.
    Args(CallId),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<MessagePiece<'a>>,
    done: Option<bool>,
    #[serde(borrow)]
    done_reason: Option<Str<'a>>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct MessagePiece<'a> {
    #[serde(borrow)]
    content: Option<Str<'a>>,
    #[serde(borrow)]
    thinking: Option<Str<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Called<'a>>>,
}

#[derive(Deserialize)]
struct Called<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Str<'a>>,
    arguments: Option<Value>,
}

impl Decoder {
    pub(crate) fn new(origin: ModelRef, forced: Option<String>, size: RequestSize) -> Self {
        Self {
            origin,
            forced,
            size,
            open: None,
            ids: HashSet::new(),
            begun: 0,
            has_calls: false,
            usage: Usage::default(),
            started: false,
            has_message: false,
            done: false,
        }
    }

    fn next_block(&mut self) -> u32 {
        let block = self.begun;
        self.begun += 1;
        block
    }

    fn add_message(&mut self, message: MessagePiece<'_>, out: &mut Out) {
        if let Some(thought) = message.thinking.filter(|text| !text.is_empty()) {
            self.add_delta(false, thought.into_string(), out);
        }
        if let Some(text) = message.content.filter(|text| !text.is_empty()) {
            self.add_delta(true, text.into_string(), out);
        }
        for called in message.tool_calls.into_iter().flatten() {
            self.close_block(false, out);
            self.add_call(called, out);
        }
    }

    /// Adds a delta of the answer, or of the thinking before it.
    fn add_delta(&mut self, is_answer: bool, delta: String, out: &mut Out) {
        let fits = self.open.as_ref().is_some_and(|open| (open.kind != Kind::Thinking) == is_answer);
        if !fits {
            self.close_block(false, out);
            let block = self.next_block();
            let kind = match &self.forced {
                _ if !is_answer => Kind::Thinking,
                None => Kind::Text,
                Some(name) => {
                    self.has_calls = true;
                    let id = CallId::fresh();
                    out.push_back(StreamEvent::ToolCall { block, id: id.clone(), name: name.clone() });
                    Kind::Args(id)
                }
            };
            self.open = Some(Open { block, kind, text: String::new() });
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(&delta);
            let block = open.block;
            out.push_back(match open.kind {
                Kind::Text => StreamEvent::Text { block, delta },
                Kind::Thinking => StreamEvent::Thinking { block, delta },
                Kind::Args(_) => StreamEvent::ToolArgs { block, delta },
            });
        }
    }

    /// Ends and emits the open block; `cut` says that its end is missing.
    fn close_block(&mut self, cut: bool, out: &mut Out) {
        let Some(Open { block, kind, text }) = self.open.take() else { return };
        let content = match kind {
            Kind::Text => Block::Text(Text { text, wire: None }),
            Kind::Thinking => {
                Block::Thinking(Thinking { text, origin: Some(self.origin.clone()), ..Thinking::default() })
            }
            Kind::Args(id) => {
                let name = self.forced.clone().unwrap_or_default();
                Block::ToolCall(args::tool_call(id.to_string(), name, &text, cut))
            }
        };
        out.push_back(StreamEvent::Block { block, content });
    }

    /// Handles a call, which always arrives complete.
    fn add_call(&mut self, called: Called<'_>, out: &mut Out) {
        let Some(function) = called.function else { return };
        // Older servers give no ids.
        let given = called.id.map(Str::into_string);
        let given = given.filter(|id| !id.is_empty() && self.ids.insert(id.clone()));
        let id = given.map_or_else(CallId::fresh, CallId::from);
        let name = function.name.map(Str::into_string).unwrap_or_default();
        let (raw, args) = match function.arguments {
            None | Some(Value::Null) => ("{}".to_owned(), Some(json!({}))),
            Some(Value::String(raw)) => (raw, None),
            Some(args) => (args.to_string(), Some(args).filter(Value::is_object)),
        };
        let block = self.next_block();
        self.has_calls = true;
        out.push_back(StreamEvent::ToolCall { block, id: id.clone(), name: name.clone() });
        let call = match args {
            Some(args) => ToolCall::new(id, name, args),
            None => args::tool_call(id.to_string(), name, &raw, false),
        };
        if !raw.is_empty() {
            out.push_back(StreamEvent::ToolArgs { block, delta: raw });
        }
        out.push_back(StreamEvent::Block { block, content: Block::ToolCall(call) });
    }

    fn finish(&mut self, reason: &str, out: &mut Out) {
        let stop = match reason {
            "stop" | "" if self.has_calls => StopReason::ToolUse,
            "stop" | "" => StopReason::EndTurn,
            // The answer ended before its output limit, so the window is full.
            "length" if self.usage.output > 0 && self.usage.output < self.size.limit => {
                StopReason::ContextExceeded
            }
            "length" => StopReason::MaxTokens,
            other => StopReason::Other(other.to_owned()),
        };
        self.close_block(reason == "length", out);
        self.done = true;
        out.push_back(StreamEvent::Done { stop, usage: self.usage });
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Out) -> Result<(), WireError> {
        if self.done {
            return Ok(());
        }
        let line: Line<'_> = parse_json(event.data).map_err(|error| unreadable(event.data, &error))?;
        if line.error.is_some_and(|error| !error.is_null()) {
            return Err(of_stream(ErrorBody::parse(event.data)));
        }
        if !std::mem::replace(&mut self.started, true) {
            out.push_back(StreamEvent::Start { model: line.model.map(Str::into_string), request_id: None });
        }
        if let Some(message) = line.message {
            self.has_message = true;
            self.add_message(message, out);
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            self.usage.input = line.prompt_eval_count.unwrap_or(self.size.input);
            self.usage.output = line.eval_count.unwrap_or(self.usage.output);
            out.push_back(StreamEvent::Usage(self.usage));
        }
        if line.done == Some(true) && !self.has_message {
            return Err(WireError::malformed("`done` came without a message").hint(
                "Try again; if it persists, something on the way to the server drops parts of answers",
            ));
        }
        if line.done == Some(true) {
            self.finish(line.done_reason.as_deref().unwrap_or_default(), out);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<(), WireError> {
        if self.done { Ok(()) } else { Err(WireError::ended_early(self.started, "done")) }
    }

    fn is_complete(&self) -> bool {
        self.done
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }
}
