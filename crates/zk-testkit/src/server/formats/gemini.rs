//! Gemini format of a turn.

use serde_json::{Map, Value, json};
use zk_core::model::{CallId, StopReason, Usage};

use super::pieces::{Part, Piece, Pieces, Rendering};
use crate::rules::{SIGNED, generation};
use crate::script::{Step, Turn, parse_args};

/// Builder of a response's parts.
struct Speaker<'a> {
    rendering: Rendering<'a>,
    /// Signature for the next suitable part.
    signature: Option<String>,
    has_called: bool,
    /// Reason why a call is malformed.
    malformed: Option<String>,
}

impl<'a> Speaker<'a> {
    fn new(rendering: Rendering<'a>) -> Self {
        Self { rendering, signature: None, has_called: false, malformed: None }
    }

    /// Parts of a step. A thinking signature goes with the next call, or with the end.
    fn parts(&mut self, step: &Step) -> Vec<Value> {
        match step {
            Step::Text(chunks) => chunks.iter().map(|text| json!({ "text": text })).collect(),
            Step::Thinking { chunks, signature } => {
                self.signature = signature.clone().or(self.signature.take());
                chunks.iter().map(|text| json!({"text": text, "thought": true})).collect()
            }
            Step::Redacted(payload) => {
                self.signature = Some(payload.clone());
                Vec::new()
            }
            Step::Call { id, name, args } => self.call(id.as_ref(), name, &args.concat()),
            Step::Usage(_) | Step::Stop(_) | Step::Delay(_) | Step::Fail(_) | Step::Hang => Vec::new(),
        }
    }

    fn call(&mut self, id: Option<&CallId>, name: &str, args: &str) -> Vec<Value> {
        let (args, malformed) = parse_args(args);
        if malformed.is_some() {
            self.malformed = malformed;
            return Vec::new();
        }
        let signs = generation(self.rendering.model) >= SIGNED;
        let mut call = Map::new();
        // Older models send no call ids.
        if let Some(id) = id.filter(|_| signs) {
            call.insert("id".into(), id.as_str().into());
        }
        call.insert("name".into(), name.into());
        call.insert("args".into(), args);
        let mut part = Map::new();
        part.insert("functionCall".into(), call.into());
        let is_first = !std::mem::replace(&mut self.has_called, true);
        let own = (is_first && signs).then(|| format!("c2lnbmF0dXJl{}", self.rendering.number));
        if let Some(signature) = self.signature.take().or(own) {
            part.insert("thoughtSignature".into(), signature.into());
        }
        vec![part.into()]
    }

    /// Empty text part with the pending signature, if there is one.
    fn pending_signature(&mut self) -> Option<Value> {
        self.signature.take().map(|signature| json!({"text": "", "thoughtSignature": signature}))
    }

    fn finish_fields(&self, turn: &Turn) -> Map<String, Value> {
        let why = turn.stop_reason();
        let mut fields = Map::new();
        let (reason, message) = match (&self.malformed, stop_reason(&why)) {
            (Some(raw), _) => ("MALFORMED_FUNCTION_CALL", Some(format!("Malformed function call: {raw}"))),
            (None, reason) => (reason, None),
        };
        fields.insert("finishReason".into(), reason.into());
        if let Some(message) = message {
            fields.insert("finishMessage".into(), message.into());
        }
        fields
    }

    /// Response, or a chunk of one.
    fn response(&self, parts: &[Value], finish: Option<Map<String, Value>>) -> Value {
        let mut candidate = Map::new();
        candidate.insert("content".into(), json!({"parts": parts, "role": "model"}));
        candidate.insert("index".into(), 0.into());
        let is_last = finish.is_some();
        candidate.extend(finish.unwrap_or_default());
        let mut response = json!({
            "candidates": [candidate],
            "modelVersion": self.rendering.model,
            "responseId": format!("resp_{}", self.rendering.number),
        });
        if let (Some(usage), Some(fields)) = (self.rendering.usage, response.as_object_mut()) {
            fields.insert("usageMetadata".into(), usage_of(&usage, is_last));
        }
        response
    }
}

pub(crate) fn stream(turn: &Turn, rendering: Rendering<'_>) -> Vec<Piece> {
    let mut out = Pieces::new(rendering.pace);
    let mut speaker = Speaker::new(rendering);
    for step in &turn.steps {
        if out.interrupt(step).is_break() {
            return out.all;
        }
        match step {
            Step::Delay(_) | Step::Fail(_) | Step::Hang => {}
            Step::Text(_)
            | Step::Thinking { .. }
            | Step::Redacted(_)
            | Step::Call { .. }
            | Step::Usage(_)
            | Step::Stop(_) => {
                for part in speaker.parts(step) {
                    out.delta(event(&speaker.response(&[part], None)));
                }
            }
        }
    }
    let last = speaker.pending_signature().unwrap_or_else(|| json!({"text": ""}));
    let finish = speaker.finish_fields(turn);
    out.event(Part::Finish, event(&speaker.response(&[last], Some(finish))));
    out.all
}

pub(crate) fn response_body(turn: &Turn, rendering: Rendering<'_>) -> Value {
    let mut speaker = Speaker::new(rendering);
    let mut parts = Vec::new();
    for step in &turn.steps {
        let said = speaker.parts(step);
        match step {
            Step::Text(chunks) => parts.push(json!({"text": chunks.concat()})),
            Step::Thinking { chunks, .. } => parts.push(json!({"text": chunks.concat(), "thought": true})),
            Step::Redacted(_)
            | Step::Call { .. }
            | Step::Usage(_)
            | Step::Stop(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => parts.extend(said),
        }
    }
    parts.extend(speaker.pending_signature());
    let finish = speaker.finish_fields(turn);
    speaker.response(&parts, Some(finish))
}

/// Wire form of a response.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Usage fields; before the end of the stream, only input tokens are reported.
fn usage_of(usage: &Usage, is_last: bool) -> Value {
    let output = if is_last { usage.output } else { 0 };
    let mut counts = json!({
        "promptTokenCount": usage.read(),
        "totalTokenCount": usage.read() + output,
    });
    if let Some(fields) = counts.as_object_mut() {
        if usage.cache_read > 0 {
            fields.insert("cachedContentTokenCount".into(), usage.cache_read.into());
        }
        if is_last {
            // Thoughts are counted separately.
            let said = usage.output.saturating_sub(usage.reasoning);
            fields.insert("candidatesTokenCount".into(), said.into());
            fields.insert("thoughtsTokenCount".into(), usage.reasoning.into());
        }
    }
    counts
}

fn stop_reason(reason: &StopReason) -> &str {
    match reason {
        // Responses with calls have the same finish reason.
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence(_)
        | StopReason::PauseTurn
        | StopReason::Compaction => "STOP",
        StopReason::MaxTokens | StopReason::ContextExceeded => "MAX_TOKENS",
        StopReason::Refusal(_) => "SAFETY",
        StopReason::Aborted | StopReason::Error => "OTHER",
        StopReason::Other(raw) => raw,
    }
}
