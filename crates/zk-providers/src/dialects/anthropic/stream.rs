//! Decodes a streamed response of the Messages API.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use zk_core::model::{Block, ModelRef, StopReason, ToolCall};
use zk_core::service::StreamEvent;

use super::blocks::{Kind, Open};
use super::report::Report;
use super::usage::{Pricing, UsageCounts};
use crate::encode::args;
use crate::encode::json_str::{Str, parse_json};
use crate::wire::error::{ErrorBody, WireError, of_stream};
use crate::wire::response::decode::Decode;
use crate::wire::response::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// Hint for a stream of which events are missing.
const LOST: &str =
    "Part of the answer was lost on its way: try again, or ask the server directly if it is behind a proxy";

/// Block index of a block that arrives complete within another event, without an index of its own.
const NO_INDEX: u64 = u64::MAX;

/// Decoder of one response.
pub(crate) struct Decoder {
    origin: ModelRef,
    /// Blocks that have begun and not ended.
    open: Vec<Open>,
    begun: u32,
    /// A call without arguments that is held back, until it is known whether it was cut off.
    bare: Option<(u32, ToolCall)>,
    /// Whether the response has more than thinking.
    has_output: bool,
    /// Container in which the provider runs code of this conversation.
    container: Option<Value>,
    counts: UsageCounts,
    report: Report,
    stop: Option<StopReason>,
    started: bool,
    done: bool,
}

/// Names of the known events.
const KINDS: [&str; 6] = [
    "content_block_delta",
    "content_block_start",
    "content_block_stop",
    "message_start",
    "message_delta",
    "message_stop",
];

#[derive(Deserialize)]
struct Kinded<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
}

/// Any event, with the fields of all kinds, because the kind may come last.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    context_management: Option<Value>,
    input_transformations: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Str<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    stop_sequence: Option<Str<'a>>,
    stop_details: Option<Value>,
    pub(super) citation: Option<Value>,
    container: Option<Value>,
}

impl Delta<'_> {
    /// Whether the delta has no part of an answer.
    fn is_empty(&self) -> bool {
        let texts = [&self.text, &self.thinking, &self.signature, &self.partial_json];
        self.citation.is_none() && texts.into_iter().flatten().all(Str::is_empty)
    }
}

impl Decoder {
    pub(crate) fn new(origin: ModelRef) -> Self {
        Self {
            origin,
            open: Vec::new(),
            begun: 0,
            bare: None,
            has_output: false,
            container: None,
            counts: UsageCounts::default(),
            report: Report::default(),
            stop: None,
            started: false,
            done: false,
        }
    }

    /// Sets the prices for answers that are combined from several responses.
    pub(super) fn priced(mut self, pricing: Pricing) -> Self {
        self.counts = UsageCounts::priced(pricing);
        self
    }

    fn message_start(&mut self, message: Option<&RawValue>, out: &mut Out) -> Result<(), WireError> {
        // A proxy may send the event twice; the first one counts.
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let mut message: Value = parse(message)?;
        let model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        let request_id = message.get("id").and_then(Value::as_str).map(str::to_owned);
        out.push_back(StreamEvent::Start { model, request_id });
        if let Some(usage) = message.get("usage") {
            self.update_usage(usage, out);
        }
        for name in ["context_management", "input_transformations"] {
            self.report.record_field(name, message.get_mut(name).map(Value::take));
        }
        // A call made by code that runs at the provider is complete within the message.
        if let Some(Value::Array(content)) = message.get_mut("content").map(Value::take) {
            for block in content {
                self.block_start(NO_INDEX, block, out);
                self.block_stop(NO_INDEX, out);
            }
        }
        self.set_container(message.get_mut("container").map(Value::take));
        if let Some(reason) = message.get("stop_reason").and_then(Value::as_str) {
            self.stop = Some(stop_reason(reason, None, None));
        }
        Ok(())
    }

    fn set_container(&mut self, container: Option<Value>) {
        self.container = container.filter(Value::is_object).or(self.container.take());
    }

    /// Updates the counts that are present; others stay.
    fn update_usage(&mut self, usage: &Value, out: &mut Out) {
        self.report.record_usage(usage);
        if self.counts.update(usage) {
            out.push_back(StreamEvent::Usage(self.counts.usage()));
        }
    }

    fn block_start(&mut self, index: u64, start: Value, out: &mut Out) {
        // More content follows, so the held-back call was not cut off.
        self.flush_bare_call(false, out);
        // A block that begins again was restarted by the provider: its earlier content is dropped.
        self.open.retain(|open| open.index != index);
        let open = Open::begin(index, self.begun, start);
        open.announce(out);
        if !matches!(open.kind, Kind::Skipped) {
            self.begun += 1;
        }
        self.open.push(open);
    }

    fn find_open_block(&mut self, index: u64) -> Option<&mut Open> {
        self.open.iter_mut().rev().find(|open| open.index == index)
    }

    /// Adds a delta to its block; `data` is the whole event.
    fn block_delta(
        &mut self,
        index: u64,
        delta: Delta<'_>,
        data: &[u8],
        out: &mut Out,
    ) -> Result<(), WireError> {
        let Some(open) = self.find_open_block(index) else {
            if delta.is_empty() {
                return Ok(());
            }
            let message = format!("a piece of block {index} came without the beginning of that block");
            return Err(WireError::malformed(message).hint(LOST));
        };
        if matches!(open.kind, Kind::Opaque { .. }) {
            let mut event: Value = serde_json::from_slice(data).map_err(|error| unreadable(data, &error))?;
            if let Some(delta) = event.get_mut("delta") {
                open.take_opaque(delta);
            }
            return Ok(());
        }
        open.add_delta(delta, out);
        Ok(())
    }

    fn block_stop(&mut self, index: u64, out: &mut Out) {
        if let Some(at) = self.open.iter().rposition(|open| open.index == index) {
            let open = self.open.remove(at);
            self.close_block(open, false, out);
        }
    }

    /// Ends a block and emits it; `cut` says that its end is missing.
    fn close_block(&mut self, open: Open, cut: bool, out: &mut Out) {
        let block = open.block;
        match open.close(cut, &self.origin) {
            Some(Block::ToolCall(call)) if !cut && args::is_bare(&call) => self.bare = Some((block, call)),
            Some(content) => self.emit_block(block, content, out),
            None => {}
        }
    }

    fn emit_block(&mut self, block: u32, content: Block, out: &mut Out) {
        self.has_output |= !matches!(content, Block::Thinking(_));
        out.push_back(StreamEvent::Block { block, content });
    }

    /// Emits the held-back call without arguments; it is malformed if it was cut off (`cut`).
    fn flush_bare_call(&mut self, cut: bool, out: &mut Out) {
        if let Some((block, mut call)) = self.bare.take() {
            if cut {
                call.malformed = Some(String::new());
            }
            self.emit_block(block, Block::ToolCall(call), out);
        }
    }

    fn message_delta(
        &mut self,
        delta: Option<Delta<'_>>,
        usage: Option<&RawValue>,
        out: &mut Out,
    ) -> Result<(), WireError> {
        if let Some(usage) = usage {
            self.update_usage(&parse(Some(usage))?, out);
        }
        let Some(delta) = delta else { return Ok(()) };
        self.set_container(delta.container);
        if let Some(reason) = delta.stop_reason {
            let sequence = delta.stop_sequence.map(Str::into_string);
            self.stop = Some(stop_reason(&reason, sequence, delta.stop_details.as_ref()));
        }
        Ok(())
    }

    fn message_stop(&mut self, out: &mut Out) {
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        self.flush_bare_call(stop == StopReason::MaxTokens, out);
        for open in std::mem::take(&mut self.open) {
            self.close_block(open, true, out);
        }
        if let Some(container) = self.container.take().filter(|_| self.has_output) {
            let content = Block::provider("", &self.origin, json!({ "container": container }));
            out.push_back(StreamEvent::Block { block: self.begun, content });
        }
        if let Some(report) = std::mem::take(&mut self.report).into_value() {
            out.push_back(StreamEvent::Report(report));
        }
        self.done = true;
        out.push_back(StreamEvent::Done { stop, usage: self.counts.usage() });
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Out) -> Result<(), WireError> {
        if self.done || event.data.trim_ascii().is_empty() || event.data == b"[DONE]" {
            return Ok(());
        }
        let parsed: Event<'_> = match parse_json(event.data) {
            Ok(parsed) => parsed,
            Err(_) if event.name == "error" => return Err(stream_error(event.data)),
            Err(_) if is_unknown(event.data) => return Ok(()),
            Err(error) => return Err(unreadable(event.data, &error)),
        };
        let kind = parsed.kind.as_deref().unwrap_or(event.name);
        let index = parsed.index.unwrap_or_default();
        match kind {
            "content_block_delta" => {
                if let Some(delta) = parsed.delta {
                    self.block_delta(index, delta, event.data, out)?;
                }
            }
            "content_block_start" => self.block_start(index, parse(parsed.content_block)?, out),
            "content_block_stop" => self.block_stop(index, out),
            "message_start" => self.message_start(parsed.message, out)?,
            "message_delta" => {
                self.report.record_field("context_management", parsed.context_management);
                self.report.record_field("input_transformations", parsed.input_transformations);
                self.message_delta(parsed.delta, parsed.usage, out)?;
            }
            "message_stop" if !self.started && self.begun == 0 => {
                return Err(WireError::malformed("`message_stop` came without `message_start`").hint(LOST));
            }
            "message_stop" => self.message_stop(out),
            "error" => return Err(stream_error(event.data)),
            // Pings and unknown kinds are ignored.
            _ if event.name == "error" => return Err(stream_error(event.data)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), WireError> {
        let _ = out;
        if self.done { Ok(()) } else { Err(WireError::ended_early(self.started, "message_stop")) }
    }

    fn is_complete(&self) -> bool {
        // Before `message_stop` the stream may be cut without notice, so no other event marks the end.
        self.done
    }
}

/// Whether this is an event of an unknown kind, whose fields may have any form.
fn is_unknown(data: &[u8]) -> bool {
    let kind = serde_json::from_slice(data).ok().and_then(|event: Kinded<'_>| event.kind);
    kind.is_some_and(|kind| !KINDS.contains(&&*kind))
}

fn stream_error(data: &[u8]) -> WireError {
    of_stream(ErrorBody::parse(data))
}

/// Creates the error for an event that violates the protocol.
pub(crate) fn unreadable(data: &[u8], error: &serde_json::Error) -> WireError {
    // The cut is marked with `…`, so that redaction can find the beginning of a key before it.
    let shown = match data.get(..400) {
        Some(start) if data.len() > start.len() => format!("{}…", String::from_utf8_lossy(start)),
        Some(_) | None => String::from_utf8_lossy(data).into_owned(),
    };
    let shown = crate::wire::error::quote(&shown);
    WireError::malformed(format!("an event that cannot be read ({error}): {shown}"))
}

fn parse(raw: Option<&RawValue>) -> Result<Value, WireError> {
    let text = raw.map_or("null", RawValue::get);
    serde_json::from_str(text).map_err(|error| unreadable(text.as_bytes(), &error))
}

fn stop_reason(reason: &str, sequence: Option<String>, details: Option<&Value>) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence(sequence),
        "pause_turn" => StopReason::PauseTurn,
        "refusal" | "sensitive" => {
            let text = |name| details.and_then(|details| details.get(name)?.as_str());
            StopReason::Refusal(
                match (text("explanation"), text("category")) {
                    (Some(why), Some(category)) => Some(format!("{why} (category: {category})")),
                    (why, category) => why.or(category).map(str::to_owned),
                }
                .map(|why| match text("recommended_model") {
                    Some(model) => format!("{why}; the provider recommends {model} for this"),
                    None => why,
                }),
            )
        }
        "model_context_window_exceeded" => StopReason::ContextExceeded,
        "compaction" => StopReason::Compaction,
        other => StopReason::Other(other.to_owned()),
    }
}
