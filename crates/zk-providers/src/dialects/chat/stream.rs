//! Decodes a streamed response of Chat Completions.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;
use zk_core::model::{Block, ErrorKind, Model, ModelRef, StopReason, Text, Thinking, Usage, WireData};
use zk_core::service::StreamEvent;

use super::calls::Calls;
use super::chunk::{Chunk, Content, Delta};
use super::details::Details;
use super::think_tags::{Part, Tags};
use super::usage;
use crate::catalogue::names::OWN_COUNTS;
use crate::catalogue::profiles::CompatProfile;
use crate::catalogue::tiers::Tiers;
use crate::dialects::anthropic::unreadable;
use crate::encode::json_str::{Str, parse_json};
use crate::wire::error::{ErrorBody, WireError, of_stream, quote};
use crate::wire::response::decode::Decode;
use crate::wire::response::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// Decoder of one response.
pub(crate) struct Decoder {
    origin: ModelRef,
    window: Option<u64>,
    finish_optional: bool,
    silent_overflow: bool,
    begun: u32,
    thinking: Option<(u32, String)>,
    details: Details,
    text: Option<(u32, String)>,
    tags: Tags,
    refusal: String,
    calls: Calls,
    usage: Usage,
    tiers: Tiers,
    /// Name of the service tier that answers, as JSON.
    tier: Option<Box<RawValue>>,
    finish: Option<String>,
    /// Finish reason of the vendor behind a gateway.
    native_finish: Option<String>,
    /// Index of the answer to read, the first to begin if several were requested.
    choice: Option<Box<RawValue>>,
    started: bool,
    done: bool,
}

impl Decoder {
    pub(crate) fn new(model: &Model, profile: &CompatProfile) -> Self {
        Self {
            origin: model.reference(),
            window: model.window,
            finish_optional: profile.finish_optional,
            silent_overflow: profile.silent_overflow,
            begun: 0,
            thinking: None,
            details: Details::default(),
            text: None,
            tags: if profile.think_tags { Tags::default() } else { Tags::off() },
            refusal: String::new(),
            calls: Calls::default(),
            usage: Usage::default(),
            tiers: Tiers::of(profile.catalogue.as_deref().unwrap_or_default(), model),
            tier: None,
            finish: None,
            native_finish: None,
            choice: None,
            started: false,
            done: false,
        }
    }

    fn add_chunk(&mut self, chunk: Chunk<'_>, out: &mut Out) -> Result<(), WireError> {
        if !self.started {
            self.started = true;
            out.push_back(StreamEvent::Start {
                model: chunk.model.filter(|model| !model.is_empty()).map(Str::into_string),
                request_id: chunk.id.filter(|id| !id.is_empty()).map(Str::into_string),
            });
        }
        // Every chunk repeats the tier; it is stored once.
        let known = self.tier.as_deref().map(RawValue::get);
        if let Some(tier) = chunk.service_tier.filter(|tier| known != Some(tier.get())) {
            self.tier = Some(tier.to_owned());
        }
        let mut choice_usage = None;
        if let Some(choice) = chunk.choices.0.filter(|choice| self.is_current_choice(choice.index)) {
            if let Some(error) = choice.error {
                return Err(response_error(error));
            }
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.add_delta(delta, out);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(reason.into_string());
            }
            if let Some(reason) = choice.native_finish_reason.filter(|reason| !reason.is_empty()) {
                self.native_finish = Some(reason.into_string());
            }
            choice_usage = choice.usage;
        }
        for raw in [choice_usage, chunk.usage].into_iter().flatten() {
            self.update_usage(raw, out);
        }
        Ok(())
    }

    /// Whether a choice belongs to the answer being read, since an extra body can request several.
    fn is_current_choice(&mut self, index: Option<&RawValue>) -> bool {
        let Some(index) = index else { return true };
        self.choice.get_or_insert_with(|| index.to_owned()).get() == index.get()
    }

    fn add_delta(&mut self, delta: Delta<'_>, out: &mut Out) {
        let reasoning = [delta.reasoning_content, delta.reasoning, delta.reasoning_text];
        let detailed = delta.reasoning_details.map(|raw| self.details.add(raw)).unwrap_or_default();
        // Servers that send two of these fields repeat the same text.
        let thought = reasoning.into_iter().flatten().find(|thought| !thought.is_empty());
        self.add_thinking(thought.map_or(Cow::Owned(detailed), |thought| thought.0), out);
        if !self.details.is_empty() && self.thinking.is_none() {
            // Only encrypted reasoning so far.
            self.thinking = Some((self.begun, String::new()));
            self.begun += 1;
        }
        match delta.content {
            Some(Content::Text(text)) => self.add_content(text, out),
            Some(Content::Parts { thoughts, text }) => {
                self.add_thinking(thoughts.into(), out);
                self.add_content(text.into(), out);
            }
            None => {}
        }
        if let Some(refusal) = delta.refusal {
            self.refusal.push_str(&refusal);
        }
        let calls = delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        if calls || delta.function_call.is_some() {
            // Held-back text, which may begin a tag, belongs before the call in any case.
            self.flush_tags(out);
        }
        for piece in delta.tool_calls.iter().flatten() {
            self.calls.add_delta(piece, &mut self.begun, out);
        }
        if let Some(function) = &delta.function_call {
            self.calls.add_legacy_delta(function, &mut self.begun, out);
        }
    }

    fn add_content(&mut self, delta: Cow<'_, str>, out: &mut Out) {
        let mut tags = std::mem::take(&mut self.tags);
        tags.split(delta, |part| self.add_part(part, out));
        self.tags = tags;
    }

    fn flush_tags(&mut self, out: &mut Out) {
        if let Some(rest) = self.tags.end() {
            self.add_part(rest, out);
        }
    }

    fn add_part(&mut self, part: Part<'_>, out: &mut Out) {
        match part {
            Part::Thought(delta) => self.add_thinking(delta, out),
            Part::Answer(delta) => self.add_text(delta, out),
        }
    }

    fn add_text(&mut self, delta: Cow<'_, str>, out: &mut Out) {
        if let Some(block) = append(&mut self.text, &delta, &mut self.begun) {
            out.push_back(StreamEvent::Text { block, delta: delta.into_owned() });
        }
    }

    fn add_thinking(&mut self, delta: Cow<'_, str>, out: &mut Out) {
        if let Some(block) = append(&mut self.thinking, &delta, &mut self.begun) {
            out.push_back(StreamEvent::Thinking { block, delta: delta.into_owned() });
        }
    }

    fn update_usage(&mut self, raw: &RawValue, out: &mut Out) {
        let Ok(value) = serde_json::from_str::<Value>(raw.get()) else { return };
        // A vendor-specific copy has the counts one level deeper.
        let value = value.get("usage").unwrap_or(&value);
        if let Some(usage) = usage::read(value)
            && usage != self.usage
        {
            self.usage = usage;
            out.push_back(StreamEvent::Usage(usage));
        }
    }

    fn finish_response(&mut self, out: &mut Out) -> Result<(), WireError> {
        let stop = self.stop_reason()?;
        let cut = stop == StopReason::MaxTokens || stop == StopReason::ContextExceeded;
        self.flush_tags(out);
        let details = std::mem::take(&mut self.details);
        if let Some((block, text)) = self.thinking.take() {
            let signature = details.signature().map(str::to_owned);
            let origin = self.origin.clone();
            let wire = (!details.is_empty())
                .then(|| WireData { origin: origin.clone(), data: details.into_value() });
            let thinking = Thinking { text, signature, wire, origin: Some(origin), redacted: None };
            out.push_back(StreamEvent::Block { block, content: Block::Thinking(thinking) });
        }
        if let Some((block, text)) = self.text.take() {
            out.push_back(StreamEvent::Block { block, content: Block::Text(Text { text, wire: None }) });
        }
        self.calls.finish(cut, &mut self.begun, out)?;
        self.done = true;
        let tier = self.tier.take().and_then(|tier| serde_json::from_str::<String>(tier.get()).ok());
        let usage = self.tiers.with_billed_cost(self.usage, tier.as_deref().unwrap_or_default());
        out.push_back(StreamEvent::Done { stop, usage });
        Ok(())
    }

    fn stop_reason(&self) -> Result<StopReason, WireError> {
        let calls = || if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let window = self.window.unwrap_or(u64::MAX);
        if self.silent_overflow && self.usage.context() > window {
            return Ok(StopReason::ContextExceeded);
        }
        if self.native_finish.as_deref() == Some("model_context_window_exceeded") {
            return Ok(StopReason::ContextExceeded);
        }
        Ok(match self.finish.as_deref() {
            None => calls(),
            Some("stop" | "end" | "eos" | "end_turn" | "stop_sequence") if !self.refusal.is_empty() => {
                StopReason::Refusal(Some(self.refusal.clone()))
            }
            // Several servers give the reason `stop` for calls too.
            Some("stop" | "end" | "eos" | "end_turn" | "tool_calls" | "tool_use" | "function_call") => {
                calls()
            }
            Some("stop_sequence") => StopReason::StopSequence(None),
            // The input left no room for an answer.
            Some("length")
                if self.usage.output == 0 && self.usage.context() as f64 >= window as f64 * 0.99 =>
            {
                StopReason::ContextExceeded
            }
            Some("length" | "max_tokens" | "model_length") => StopReason::MaxTokens,
            Some("content_filter" | "refusal" | "safety" | "sensitive") => {
                StopReason::Refusal(Some(self.refusal.clone()).filter(|text| !text.is_empty()))
            }
            Some("model_context_window_exceeded") => StopReason::ContextExceeded,
            Some(reason @ ("error" | "network_error" | "insufficient_system_resource")) => {
                let native = self.native_finish.as_deref().filter(|native| *native != reason);
                let native = native.map(|native| format!(" (`{}`)", quote(native))).unwrap_or_default();
                let message = format!("the provider ended the response with `{reason}`{native}");
                return Err(WireError::new(ErrorKind::Overloaded, message));
            }
            Some(other) => StopReason::Other(other.to_owned()),
        })
    }
}

/// Appends to a block, and begins it if necessary; returns its index, or `None` for an empty delta.
fn append(target: &mut Option<(u32, String)>, delta: &str, begun: &mut u32) -> Option<u32> {
    if delta.is_empty() {
        return None;
    }
    let (block, whole) = target.get_or_insert_with(|| {
        *begun += 1;
        (*begun - 1, String::new())
    });
    whole.push_str(delta);
    Some(*block)
}

/// Returns the counts in a vendor-specific field, which only the last chunk has.
fn vendor_counts(data: &[u8]) -> Option<&RawValue> {
    let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(data).ok()?;
    OWN_COUNTS.iter().find_map(|name| fields.get(*name).copied())
}

fn response_error(raw: &RawValue) -> WireError {
    of_stream(ErrorBody::parse(format!("{{\"error\":{}}}", raw.get()).as_bytes()))
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Out) -> Result<(), WireError> {
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            if self.finish.is_none() && !(self.finish_optional && self.started) {
                return Err(WireError::ended_early(self.started, "finish_reason"));
            }
            return self.finish_response(out);
        }
        let chunk: Chunk<'_> = parse_json(data).map_err(|error| {
            // The data of an error event need not be a chunk.
            if event.name == "error" { of_stream(ErrorBody::parse(data)) } else { unreadable(data, &error) }
        })?;
        // Some servers put the error's name next to the error object.
        if chunk.error.is_some() || event.name == "error" {
            return Err(of_stream(ErrorBody::parse(data)));
        }
        let is_last = chunk.choices.0.as_ref().is_none_or(|choice| choice.finish_reason.is_some());
        let own = (is_last && chunk.usage.is_none()).then(|| vendor_counts(data)).flatten();
        self.add_chunk(chunk, out)?;
        if let Some(own) = own {
            self.update_usage(own, out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), WireError> {
        match (self.done, self.finish.is_some()) {
            (true, _) => Ok(()),
            (false, true) => self.finish_response(out),
            (false, false) => Err(WireError::ended_early(self.started, "finish_reason")),
        }
    }

    fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn is_complete_without_end_event(&self) -> bool {
        // Only token counts and the end mark follow the finish reason.
        self.finish.is_some()
    }
}
