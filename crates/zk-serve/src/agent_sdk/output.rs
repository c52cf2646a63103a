//! Plugin that says what an agent does as lines of the protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use zk_core::events::{
    AgentStart, PermissionDecided, ProviderRetry, SpawnBefore, StreamStart, StreamText, StreamThinking,
    StreamToolArgs, ToolBegin, ToolGate, ToolResultsAfter, TurnAfter, TurnBefore,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::{Block, Message, StopReason, Usage};
use zk_core::service::Tool;

use super::host::Host;
use super::wire::{fresh_uuid, now, uuid_of_id};

/// Plugin that sends the activity of a conversation's agents to the host.
pub(super) struct Output(pub(super) Arc<Host>);

/// Arriving answer of an agent.
struct Stream {
    id: String,
    model: String,
    /// Index and kind of the current block.
    block: Option<(usize, Kind)>,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call(String),
}

struct Speaker {
    host: Arc<Host>,
    streams: Mutex<HashMap<String, Stream>>,
    partial: bool,
    forwards_text: bool,
}

impl Plugin for Output {
    fn name(&self) -> &'static str {
        "agent-sdk-output"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let speaker = Arc::new(Speaker {
            host: self.0.clone(),
            streams: Mutex::default(),
            partial: self.0.args().has("include-partial-messages"),
            forwards_text: self.0.asked("forwardSubagentText").is_some_and(|asked| asked == true),
        });
        let all = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        macro_rules! listen {
            ($event:ty, $method:ident) => {{
                let speaker = speaker.clone();
                scope.on_sync_at(all, move |event: &$event, cx: &Cx| speaker.$method(event, cx));
            }};
        }
        listen!(AgentStart, start);
        listen!(TurnBefore, turn_before);
        listen!(StreamStart, stream_start);
        listen!(StreamText, text);
        listen!(StreamThinking, thinking);
        listen!(StreamToolArgs, tool_args);
        listen!(TurnAfter, turn_after);
        listen!(ToolResultsAfter, results);
        listen!(ToolBegin, tool_begin);
        listen!(SpawnBefore, spawn);
        listen!(PermissionDecided, decided);
        listen!(ProviderRetry, retry);
        let early = HookOptions { stage: Stage::Early, ..all };
        let host = self.0.clone();
        scope.on_sync_at(early, move |gate: &ToolGate, _: &Cx| {
            let call = &gate.call;
            host.known().calls.push((call.name.clone(), gate.args.clone(), call.call_id.as_str().to_owned()));
        });
        Ok(())
    }
}

impl Speaker {
    fn streams(&self) -> MutexGuard<'_, HashMap<String, Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, event: &AgentStart, cx: &Cx) {
        for tool in cx.items::<dyn Tool>() {
            self.host.names.learn_server(&*tool.value);
        }
        if cx.origin().depth == 0 {
            let agent = self.host.present().map(|hosted| hosted.agent());
            self.host.send_init(agent.as_ref(), &event.tools);
        }
    }

    fn turn_before(&self, _: &TurnBefore, cx: &Cx) {
        if self.partial && cx.origin().depth == 0 {
            self.host.send(json!({"type": "system", "subtype": "status", "status": "requesting"}));
        }
    }

    fn stream_start(&self, event: &StreamStart, cx: &Cx) {
        let model = event.model.clone().unwrap_or_else(|| self.model());
        let stream = Stream { id: format!("msg_{}", fresh_uuid().replace('-', "")), model, block: None };
        let start =
            json!({"type": "message_start", "message": message_line(&stream, &[], &Usage::default())});
        self.streams().insert(cx.origin().agent.to_string(), stream);
        if cx.origin().depth == 0 {
            let mut known = self.host.known();
            known.turn.streaming = true;
            known.turn.begun_text.clear();
        }
        self.send_event(&start, cx);
    }

    fn model(&self) -> String {
        self.host.present().map(|hosted| hosted.agent().model().id).unwrap_or_default()
    }

    fn send_event(&self, event: &Value, cx: &Cx) {
        if self.partial && cx.origin().depth == 0 {
            self.host.send(json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}));
        }
    }

    /// Sends a piece of a block; before it, the start of the block if the block is new.
    fn send_piece(&self, kind: Kind, start: &Value, delta: &Value, cx: &Cx) {
        let (index, ended) = {
            let mut streams = self.streams();
            let Some(stream) = streams.get_mut(&*cx.origin().agent) else { return };
            match &stream.block {
                Some((index, same)) if *same == kind => (*index, None),
                before => {
                    let ended = before.as_ref().map(|(index, _)| *index);
                    let index = ended.map_or(0, |index| index + 1);
                    stream.block = Some((index, kind));
                    (index, Some(ended))
                }
            }
        };
        if let Some(before) = ended {
            if let Some(before) = before {
                self.send_event(&json!({"type": "content_block_stop", "index": before}), cx);
            }
            self.send_event(
                &json!({"type": "content_block_start", "index": index, "content_block": start}),
                cx,
            );
        }
        let is_empty = delta.get("partial_json").is_some_and(|text| text == "");
        if !is_empty {
            self.send_event(&json!({"type": "content_block_delta", "index": index, "delta": delta}), cx);
        }
    }

    fn text(&self, event: &StreamText, cx: &Cx) {
        if cx.origin().depth == 0 {
            self.host.known().turn.begun_text.push_str(&event.delta);
        }
        let delta = json!({"type": "text_delta", "text": event.delta});
        self.send_piece(Kind::Text, &json!({"type": "text", "text": ""}), &delta, cx);
    }

    fn thinking(&self, event: &StreamThinking, cx: &Cx) {
        let delta = json!({"type": "thinking_delta", "thinking": event.delta});
        self.send_piece(
            Kind::Thinking,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
            &delta,
            cx,
        );
    }

    fn tool_args(&self, event: &StreamToolArgs, cx: &Cx) {
        let name = self.host.names.to_sdk_name(&event.name);
        let start = json!({"type": "tool_use", "id": event.call_id, "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": event.delta});
        self.send_piece(Kind::Call(event.call_id.as_str().to_owned()), &start, &delta, cx);
    }

    fn turn_after(&self, event: &TurnAfter, cx: &Cx) {
        let origin = cx.origin();
        if origin.depth == 0 {
            self.host.known().turn.streaming = event.error.is_some();
        }
        let Some(said) = &event.message else { return };
        let stream = self.streams().remove(&*origin.agent).unwrap_or_else(|| Stream {
            id: format!("msg_{}", fresh_uuid().replace('-', "")),
            model: self.model(),
            block: None,
        });
        for (index, block) in said.content.iter().enumerate() {
            let Some(shown) = self.host.names.block(block) else { continue };
            self.add_transcript_line(
                &origin.agent,
                origin.depth,
                "assistant",
                &json!({
                    "role": "assistant", "model": stream.model, "id": stream.id, "content": [shown.clone()],
                }),
                &line_uuid(said, index),
            );
            let mut line = json!({
                "type": "assistant",
                "message": message_line(&stream, &[shown], &event.usage),
                "uuid": line_uuid(said, index),
                "timestamp": now(),
            });
            extend(&mut line, self.host.of_agent(&origin.agent, origin.depth));
            let is_text = matches!(block, Block::Text(_) | Block::Thinking(_));
            if origin.depth == 0 || !is_text || self.forwards_text {
                self.host.send(line);
            }
        }
        if origin.depth == 0 {
            let calls = said.calls().map(|call| call.id.as_str().to_owned()).collect();
            self.host.known().turn.open_calls = calls;
        }
        if let Some((index, _)) = stream.block {
            self.send_event(&json!({"type": "content_block_stop", "index": index}), cx);
        }
        let delta = json!({"stop_reason": stop_reason(said.stop.as_ref()), "stop_sequence": null});
        let usage = json!({"output_tokens": event.usage.output});
        self.send_event(&json!({"type": "message_delta", "delta": delta, "usage": usage}), cx);
        self.send_event(&json!({"type": "message_stop"}), cx);
    }

    fn results(&self, event: &ToolResultsAfter, cx: &Cx) {
        let origin = cx.origin();
        if origin.depth == 0 {
            self.host.known().turn.open_calls.clear();
        }
        for (index, block) in event.results.content.iter().enumerate() {
            let Block::ToolResult(result) = block else { continue };
            let id = result.call_id.as_str();
            let words = self.host.known().refusals.remove(id);
            let Some(mut shown) = self.host.names.block(block) else { continue };
            if let (Some(words), Some(content)) = (words, shown.get_mut("content")) {
                *content = words.into();
            }
            let said = json!({"role": "user", "content": [shown]});
            self.add_transcript_line(
                &origin.agent,
                origin.depth,
                "user",
                &said,
                &line_uuid(&event.results, index),
            );
            let mut line = json!({
                "type": "user",
                "message": said,
                "tool_use_result": result.content.to_text(),
                "uuid": line_uuid(&event.results, index),
                "timestamp": now(),
            });
            extend(&mut line, self.host.of_agent(&origin.agent, origin.depth));
            self.host.send(line);
        }
        let ended: Vec<&str> = event.assistant.calls().map(|call| call.id.as_str()).collect();
        self.host.known().calls.retain(|(_, _, id)| !ended.contains(&id.as_str()));
    }

    fn tool_begin(&self, event: &ToolBegin, _: &Cx) {
        if event.call.name == "spawn"
            && let Some(task) = event.args.get("task").and_then(Value::as_str)
        {
            let begun = (task.to_owned(), event.call.call_id.as_str().to_owned());
            self.host.known().spawning.push(begun);
        }
    }

    fn spawn(&self, event: &SpawnBefore, _: &Cx) {
        let mut known = self.host.known();
        if let Some(at) = known.spawning.iter().position(|(task, _)| event.prompt.contains(task.as_str())) {
            let (_, call) = known.spawning.remove(at);
            known.parents.insert(event.child.clone(), call);
        }
        drop(known);
        let prompt = json!({"role": "user", "content": event.prompt});
        self.add_transcript_line(&event.child, event.depth, "user", &prompt, &fresh_uuid());
    }

    /// Adds a line of a sub-agent for its transcript.
    fn add_transcript_line(&self, agent: &str, depth: u32, kind: &str, message: &Value, uuid: &str) {
        if depth > 0 {
            let line = json!({"type": kind, "uuid": uuid, "message": message, "timestamp": now()});
            self.host.known().sidechains.entry(agent.to_owned()).or_default().push(line);
        }
    }

    fn decided(&self, event: &PermissionDecided, _: &Cx) {
        if event.allowed {
            return;
        }
        let call = &event.call;
        let made = self.host.names.call_as_made(call.call_id.as_str());
        let (name, input) = made.unwrap_or_else(|| {
            (self.host.names.to_sdk_name(&call.name), self.host.names.to_sdk_input(&call.name, &event.args))
        });
        let denial = json!({"tool_name": name, "tool_use_id": call.call_id, "tool_input": input});
        self.host.known().turn.denials.push(denial);
    }

    fn retry(&self, event: &ProviderRetry, cx: &Cx) {
        if cx.origin().depth > 0 {
            return;
        }
        self.host.send(json!({
            "type": "system", "subtype": "api_retry", "attempt": event.retry.attempt,
            "max_retries": event.retry.max_attempts, "retry_delay_ms": event.retry.delay.as_millis() as u64,
            "error": event.retry.message,
        }));
    }
}

/// Returns the UUID of the line about one part of a message.
pub(super) fn line_uuid(message: &Message, index: usize) -> String {
    let part = u16::try_from(index).unwrap_or_default();
    message.id.as_ref().map_or_else(fresh_uuid, |id| uuid_of_id(id.as_str(), part))
}

fn extend(line: &mut Value, fields: Map<String, Value>) {
    if let Some(line) = line.as_object_mut() {
        line.extend(fields);
    }
}

fn message_line(stream: &Stream, content: &[Value], usage: &Usage) -> Value {
    json!({
        "id": stream.id,
        "type": "message",
        "role": "assistant",
        "model": stream.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage_line(usage),
    })
}

/// Converts token counts to the fields of the Messages API.
pub(super) fn usage_line(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    })
}

/// Returns the stop reason of the Messages API.
pub(super) fn stop_reason(stop: Option<&StopReason>) -> Value {
    stop.map_or(Value::Null, |stop| stop.as_str().into())
}
