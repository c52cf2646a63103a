//! A protocol that zk does not know, spoken with what `zk-providers` exports: the size of a provider from outside.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Block, ErrorKind, Message, Model, ProviderError, StopReason, Usage, WireRules};
use zk_core::service::{Request, StreamEvent};
use zk_providers::sse::SseEvent;
use zk_providers::wire::{
    ApiClient, Attempt, BaseUrl, Decode, Dialect, Framing, HttpProvider, ModelList, WireError, WireRequest,
    tool_call,
};
use zk_providers::{Access, Vendor, VendorDialect};

/// The row that makes it a vendor: `zk_cli::Zk::builder().vendor(own_provider::AVIARY)`.
pub const AVIARY: Vendor = Vendor {
    name: "aviary",
    base_url: Some("https://birds.example/v1"),
    access: Access::Key(&["AVIARY_API_KEY"]),
    dialect: VendorDialect::Own(|connection, _| {
        Ok(Arc::new(HttpProvider::with_dialect(connection, Parrot)?))
    }),
    default_model: Some("grey"),
};

/// Posts `{"model", "turns": [{"who", "says"}]}` and answers with JSON lines.
pub struct Parrot;

fn turns(message: &Message) -> impl Iterator<Item = Value> {
    message.content.iter().map(|block| match block {
        Block::ToolCall(call) => {
            json!({"who": "model", "calls": call.name, "id": call.id, "with": call.args})
        }
        Block::ToolResult(result) => {
            json!({"who": "tool", "id": result.call_id, "says": result.content.to_text()})
        }
        other => json!({"who": message.role, "says": other.as_text()}),
    })
}

#[async_trait]
impl Dialect for Parrot {
    const BASE_URL: BaseUrl = BaseUrl { strip: &["/generate"], advice: "It ends before `/generate`" };
    const KEY_HEADER: Option<&'static str> = Some("x-parrot-key");

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        client.known_model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules { vision: false, ..WireRules::tolerant(model.reference()) }
    }

    fn request(&self, _: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        let turns: Vec<_> = request.history.messages().iter().flat_map(|message| turns(message)).collect();
        let body = json!({"model": request.model.id, "system": *request.system, "turns": turns});
        WireRequest::json("/generate", &body)
    }

    fn decoder(&self, _: &ApiClient, _: &Request, _: Attempt) -> Box<dyn Decode> {
        Box::new(ParrotDecoder::default())
    }

    fn resend_reason(&self, error: &ProviderError, _: &Request) -> Option<String> {
        (error.code.as_deref() == Some("bird_asleep")).then(|| "the bird is awake now".to_owned())
    }

    fn model_list(&self) -> Option<ModelList> {
        Some(ModelList { path: "/birds", field: "birds" })
    }

    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let mut model = client.known_model(entry.get("name")?.as_str()?);
        model.window = entry.get("window").and_then(Value::as_u64);
        Some(model)
    }
}

/// Reads `{"say"}`, `{"call": {"id", "name", "with"}}`, `{"error"}` and last `{"done": {"in", "out"}}`.
#[derive(Default)]
pub struct ParrotDecoder {
    text: String,
    blocks: u32,
    has_calls: bool,
    started: bool,
    done: bool,
}

impl ParrotDecoder {
    fn close_text(&mut self, out: &mut VecDeque<StreamEvent>) {
        if !self.text.is_empty() {
            let content = Block::text(std::mem::take(&mut self.text));
            out.push_back(StreamEvent::Block { block: self.blocks, content });
            self.blocks += 1;
        }
    }
}

impl Decode for ParrotDecoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut VecDeque<StreamEvent>) -> Result<(), WireError> {
        let line: Value = serde_json::from_slice(event.data)
            .map_err(|error| WireError::malformed(format!("a line is not JSON: {error}")))?;
        if line.get("error").is_some() {
            return Err(WireError::from_event(line));
        }
        if !std::mem::replace(&mut self.started, true) {
            out.push_back(StreamEvent::Start { model: None, request_id: None });
        }
        if let Some(delta) = line.get("say").and_then(Value::as_str).filter(|delta| !delta.is_empty()) {
            self.text.push_str(delta);
            out.push_back(StreamEvent::Text { block: self.blocks, delta: delta.to_owned() });
        }
        if let Some(call) = line.get("call") {
            self.close_text(out);
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let content = tool_call(field("id"), field("name"), &field("with"), false);
            let (block, id, name) = (self.blocks, content.id.clone(), content.name.clone());
            out.push_back(StreamEvent::ToolCall { block, id, name });
            out.push_back(StreamEvent::Block { block, content: Block::ToolCall(content) });
            self.blocks += 1;
            self.has_calls = true;
        }
        if let Some(counts) = line.get("done") {
            self.close_text(out);
            if self.blocks == 0 {
                return Err(WireError::new(ErrorKind::Overloaded, "the bird said nothing"));
            }
            let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or_default();
            let usage = Usage { input: count("in"), output: count("out"), ..Usage::default() };
            let stop = if self.has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
            out.push_back(StreamEvent::Done { stop, usage });
            self.done = true;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<StreamEvent>) -> Result<(), WireError> {
        if self.done { Ok(()) } else { Err(WireError::ended_early(self.started, "done")) }
    }

    fn is_complete(&self) -> bool {
        self.done
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }
}
