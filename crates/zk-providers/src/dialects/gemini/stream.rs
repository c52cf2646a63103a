//! Decodes a streamed response of the Gemini API.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::{Block, CallId, Image, ModelRef, StopReason, ToolCall, ToolSpec, Usage, WireData};
use zk_core::service::StreamEvent;

use super::chunk::{Candidate, Chunk, Counts, Feedback, FunctionCall, InlineData, Part};
use super::small_list::SmallList;
use super::text_run::Run;
use super::{finish, tool_names};
use crate::dialects::anthropic::unreadable;
use crate::encode::block_label::label;
use crate::encode::json_str::parse_json;
use crate::wire::error::{ErrorBody, WireError, of_stream};
use crate::wire::response::decode::Decode;
use crate::wire::response::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// Error code of a response without content.
pub(super) const EMPTY: &str = "empty_response";

/// Decoder of one response.
pub(crate) struct Decoder {
    origin: ModelRef,
    tools: Arc<[Arc<ToolSpec>]>,
    /// Whether an empty response is a failure.
    refuses_empty: bool,
    /// Text that has begun and not ended.
    run: Option<Run>,
    /// Call that has begun and not ended.
    call: Option<OpenCall>,
    /// Ids of the calls so far.
    ids: HashSet<String>,
    begun: u32,
    has_calls: bool,
    counts: Counts,
    usage: Usage,
    /// Last finish reason, with its explanation.
    reason: Option<(String, Option<String>)>,
    /// Reason for which the prompt was blocked.
    blocked: Option<String>,
    started: bool,
    done: bool,
}

struct OpenCall {
    block: u32,
    call: ToolCall,
    args: Map<String, Value>,
    /// Whether the path of a value was invalid.
    is_broken: bool,
}

impl Decoder {
    pub(crate) fn new(origin: ModelRef, tools: Arc<[Arc<ToolSpec>]>) -> Self {
        Self {
            origin,
            tools,
            refuses_empty: false,
            run: None,
            call: None,
            ids: HashSet::new(),
            begun: 0,
            has_calls: false,
            counts: Counts::default(),
            usage: Usage::default(),
            reason: None,
            blocked: None,
            started: false,
            done: false,
        }
    }

    /// Makes an empty response a failure with the code [`EMPTY`].
    pub(super) fn refusing_empty(mut self) -> Self {
        self.refuses_empty = true;
        self
    }

    fn next_block(&mut self) -> u32 {
        let block = self.begun;
        self.begun += 1;
        block
    }

    fn add_candidate(&mut self, candidate: Candidate<'_>, out: &mut Out) {
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flatten() {
            self.add_part(part, out);
        }
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
            let message = candidate.finish_message.filter(|message| !message.is_empty());
            self.reason = Some((reason.into_string(), message.map(|message| message.into_string())));
        }
    }

    fn add_part(&mut self, mut part: Part<'_>, out: &mut Out) {
        let is_thought = part.thought.unwrap_or_default();
        let signature = part.thought_signature.take().filter(|signature| !signature.is_empty());
        let signature = signature.map(|signature| signature.into_string());
        if let Some(call) = part.function_call.take() {
            self.end_run(out);
            self.add_function_call(call, signature, out);
        } else if let Some(text) = part.text.take() {
            self.add_text(&text, is_thought, signature, out);
        } else if let Some(data) = part.inline_data.take() {
            self.end_run(out);
            if !is_thought {
                self.add_image(data, signature, out);
            }
        } else {
            // Unknown parts have no block.
            self.end_run(out);
            if let Some((field, words, value)) = part.take_hosted() {
                let text = label(words, &value);
                let mut data = Map::from_iter([(field.to_owned(), value)]);
                data.extend(signature.map(|signature| ("thoughtSignature".to_owned(), signature.into())));
                let content = Block::provider(text, &self.origin, data.into());
                let block = self.next_block();
                out.push_back(StreamEvent::Block { block, content });
            }
        }
    }

    fn add_text(&mut self, text: &str, is_thought: bool, signature: Option<String>, out: &mut Out) {
        if text.is_empty() && signature.is_none() {
            return;
        }
        if self.run.as_ref().is_some_and(|run| run.is_thought != is_thought) {
            self.end_run(out);
        }
        let mut run = match self.run.take() {
            Some(run) => run,
            None => Run::new(self.next_block(), is_thought),
        };
        run.push(text, signature);
        if !text.is_empty() {
            let (block, delta) = (run.block, text.to_owned());
            out.push_back(match is_thought {
                true => StreamEvent::Thinking { block, delta },
                false => StreamEvent::Text { block, delta },
            });
        }
        self.run = Some(run);
    }

    fn end_run(&mut self, out: &mut Out) {
        let Some(run) = self.run.take() else { return };
        let mut number = Some(run.block);
        for content in run.close(&self.origin) {
            let block = number.take().unwrap_or_else(|| self.next_block());
            out.push_back(StreamEvent::Block { block, content });
        }
    }

    fn add_image(&mut self, data: InlineData<'_>, signature: Option<String>, out: &mut Out) {
        let (Some(kind), Some(bytes)) = (data.mime_type, data.data) else { return };
        if kind.starts_with("image/") {
            let mut image = Image::new(kind.into_string(), bytes.into_string());
            let data = signature.map(|signature| json!({ "thoughtSignature": signature }));
            image.wire = data.map(|data| WireData { origin: self.origin.clone(), data });
            let block = self.next_block();
            out.push_back(StreamEvent::Block { block, content: Block::Image(image) });
        }
    }

    /// Handles a complete call, the beginning of one, or the next piece of the open one, which has no name.
    fn add_function_call(&mut self, call: FunctionCall<'_>, signature: Option<String>, out: &mut Out) {
        let mut open = match call.name.filter(|name| !name.is_empty()) {
            Some(name) => {
                self.end_call(false, out);
                self.begin_call(&name, call.id.map(|id| id.into_string()), signature, out)
            }
            None => match self.call.take() {
                Some(open) => open,
                None => return,
            },
        };
        match call.args {
            Some(Value::Object(args)) => open.args.extend(args),
            Some(Value::Null) | None => {}
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                open.is_broken = true;
            }
        }
        for value in call.partial_args.into_iter().flatten() {
            open.is_broken |= !value.apply(&mut open.args);
        }
        self.call = Some(open);
        if call.will_continue != Some(true) {
            self.end_call(false, out);
        }
    }

    fn begin_call(
        &mut self,
        name: &str,
        id: Option<String>,
        signature: Option<String>,
        out: &mut Out,
    ) -> OpenCall {
        // Older models give no ids, and some repeat an id.
        let given = id.filter(|id| !id.is_empty() && self.ids.insert(id.clone()));
        let mut data = Map::new();
        if given.is_some() {
            data.insert("id".into(), true.into());
        }
        if let Some(signature) = signature {
            data.insert("thoughtSignature".into(), signature.into());
        }
        let id = given.map_or_else(CallId::fresh, CallId::from);
        let block = self.next_block();
        self.has_calls = true;
        let name = tool_names::to_canonical(name, &self.tools);
        out.push_back(StreamEvent::ToolCall { block, id: id.clone(), name: name.to_owned() });
        let mut call = ToolCall::new(id, name, json!({}));
        if !data.is_empty() {
            call.wire = Some(WireData { origin: self.origin.clone(), data: data.into() });
        }
        OpenCall { block, call, args: Map::new(), is_broken: false }
    }

    /// Ends and emits the open call; `cut` says that its end is missing.
    fn end_call(&mut self, cut: bool, out: &mut Out) {
        let Some(OpenCall { block, mut call, args, is_broken }) = self.call.take() else { return };
        let args = Value::Object(args);
        out.push_back(StreamEvent::ToolArgs { block, delta: args.to_string() });
        if cut || is_broken {
            call.malformed = Some(args.to_string());
        } else {
            call.args = args;
        }
        out.push_back(StreamEvent::Block { block, content: Block::ToolCall(call) });
    }

    fn update_usage(&mut self, counts: Counts, out: &mut Out) {
        self.counts = counts.or(self.counts);
        let usage = self.counts.usage();
        if std::mem::replace(&mut self.usage, usage) != usage {
            out.push_back(StreamEvent::Usage(usage));
        }
    }

    fn emit_start(&mut self, chunk: &mut Chunk<'_>, out: &mut Out) {
        if !std::mem::replace(&mut self.started, true) {
            let model = chunk.model_version.take().map(|model| model.into_string());
            let request_id = chunk.response_id.take().map(|id| id.into_string());
            out.push_back(StreamEvent::Start { model, request_id });
        }
    }

    fn record_blocked_prompt(&mut self, feedback: Feedback<'_>) {
        if let Some(reason) = feedback.block_reason.filter(|reason| !reason.is_empty()) {
            let words = feedback.block_reason_message.filter(|words| !words.is_empty()).unwrap_or_default();
            let detail = if words.is_empty() { String::new() } else { format!(": {}", &*words) };
            self.blocked =
                Some(crate::wire::error::quote(&format!("the prompt was blocked ({}){detail}", &*reason)));
        }
    }

    /// Whether nothing was emitted so far. Text with only a signature is not emitted before its end.
    fn is_empty(&self) -> bool {
        self.begun == 0 || (self.begun == 1 && self.run.as_ref().is_some_and(Run::is_silent))
    }

    /// Returns the stop reason of the response, if it ended.
    fn outcome(&self) -> Result<StopReason, WireError> {
        match (&self.reason, &self.blocked) {
            (Some((reason, message)), _) => finish::stop(reason, message.as_deref(), self.has_calls),
            (None, Some(why)) => Ok(StopReason::Refusal(Some(why.clone()))),
            (None, None) => Err(WireError::ended_early(self.started, "finishReason")),
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Out) -> Result<(), WireError> {
        if event.data.trim_ascii().is_empty() || event.data == b"[DONE]" {
            return Ok(());
        }
        let mut chunk: Chunk<'_> = parse_json(event.data).map_err(|error| unreadable(event.data, &error))?;
        if chunk.error.is_some() {
            return Err(of_stream(ErrorBody::parse(event.data)));
        }
        self.emit_start(&mut chunk, out);
        // One answer is requested; if there are several, the first one counts.
        if let Some(first) = chunk.candidates.and_then(SmallList::first) {
            self.add_candidate(first, out);
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.record_blocked_prompt(feedback);
        }
        if let Some(counts) = chunk.usage_metadata {
            self.update_usage(counts, out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), WireError> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        if self.refuses_empty && self.is_empty() && matches!(self.outcome(), Ok(StopReason::EndTurn)) {
            let mut error = WireError::malformed("the model answered nothing")
                .hint("Try again, or say it in other words");
            error.code = Some(EMPTY.to_owned());
            return Err(error);
        }
        // If the response has no end, open blocks are not emitted.
        let stop = self.outcome()?;
        self.end_run(out);
        self.end_call(true, out);
        out.push_back(StreamEvent::Done { stop, usage: self.usage });
        Ok(())
    }

    fn is_complete(&self) -> bool {
        // A finish reason is not final, since a response may have several.
        self.reason.is_some() || self.blocked.is_some()
    }
}
