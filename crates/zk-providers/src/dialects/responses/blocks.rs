//! Blocks of a response, from the end of their items until they are final.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use zk_core::model::{Block, ModelRef, Text, Thinking};
use zk_core::service::StreamEvent;

use super::item::{Kind, Open, Source, parts, text};
use super::replay_data::ReplayData;
use crate::encode::args;
use crate::encode::block_label::label;

type Out = VecDeque<StreamEvent>;

/// Types of items that the client has to answer, which zk does not support.
const UNANSWERED: &[&str] = &[
    "apply_patch_call",
    "computer_call",
    "custom_tool_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

/// Blocks of items that have ended.
pub(super) struct Blocks {
    origin: ModelRef,
    /// Blocks that may still change: the last one may turn out to be cut off, and some servers send the seal
    /// of reasoning only with the end of the response.
    waiting: Vec<Waiting>,
    /// Id of the last reasoning item, and whether it is the last item so far.
    reasoning: Option<(String, bool)>,
    /// Whether an item was dropped, so that later items cannot be sent back with their ids.
    broken: bool,
    /// Whether the response has a call.
    pub(super) calls: bool,
    pub(super) refusal: String,
}

/// A block that may still change, with its replay data.
struct Waiting {
    index: Option<u64>,
    block: u32,
    content: Block,
    echo: ReplayData,
}

impl Blocks {
    pub(super) fn new(origin: ModelRef) -> Self {
        Self {
            origin,
            waiting: Vec::new(),
            reasoning: None,
            broken: false,
            calls: false,
            refusal: String::new(),
        }
    }

    /// Ends an item, whose complete form is `item` as far as the provider sends it; `cut` says that it is
    /// known to be incomplete.
    pub(super) fn close(&mut self, mut open: Open, item: &Value, cut: bool, out: &mut Out) {
        open.complete(item, out);
        // The id in the final item is the one to send back.
        let id = Some(text(item, "id")).filter(|id| !id.is_empty()).map_or(open.id, str::to_owned);
        let mut echo = ReplayData { id, ..ReplayData::default() };
        let content = match open.kind {
            Kind::Other if !item.is_object() || UNANSWERED.contains(&text(item, "type")) => {
                self.broken = true;
                return;
            }
            Kind::Other => {
                self.record_dependency(&mut echo);
                echo.item = Some(item.clone());
                let detail = item.get("action").unwrap_or(item);
                Block::provider(label(text(item, "type"), detail), &self.origin, Value::Null)
            }
            Kind::Message { text: written, refusal } => {
                self.refusal.push_str(&refusal);
                echo.phase = item.get("phase").and_then(Value::as_str).map(str::to_owned);
                self.record_dependency(&mut echo);
                if written.is_empty() {
                    return;
                }
                Block::Text(Text { text: written, wire: None })
            }
            Kind::Reasoning { text: thought, source, .. } => {
                let seal = item.get("encrypted_content").and_then(Value::as_str).map(str::to_owned);
                let summary: Vec<Value> = parts(item, "summary").cloned().collect();
                echo.raw = source == Source::Raw;
                echo.summary = Some(summary).filter(|parts| parts.len() > 1);
                echo.needs = self.reasoning.take().filter(|(_, is_last)| *is_last).map(|(id, _)| id);
                self.reasoning = Some((echo.id.clone(), true));
                Block::Thinking(Thinking {
                    text: thought,
                    signature: seal,
                    origin: Some(self.origin.clone()),
                    ..Thinking::default()
                })
            }
            Kind::Call { announced: false, .. } => return,
            Kind::Call { id, name, args, ended, .. } => {
                self.calls = true;
                self.record_dependency(&mut echo);
                echo.more = extra_fields(item);
                let mut call = args::tool_call(id, name, &args, cut);
                if cut && !ended {
                    // A call that the provider did not finish is never executed, even if it looks complete.
                    call.malformed = call.malformed.or(Some(args));
                }
                Block::ToolCall(call)
            }
        };
        if self.broken {
            echo =
                ReplayData { phase: echo.phase, more: echo.more, item: echo.item, ..ReplayData::default() };
        }
        self.waiting.push(Waiting { index: open.index, block: open.block, content, echo });
    }

    /// Records in the replay data of an item which reasoning it depends on.
    fn record_dependency(&mut self, echo: &mut ReplayData) {
        if let Some((id, is_last)) = &mut self.reasoning {
            *is_last = false;
            echo.needs = Some(id.clone());
        }
    }

    /// Emits the blocks that are final; all of them once the whole response is known.
    pub(super) fn flush(&mut self, response: Option<&Value>, out: &mut Out) {
        for mut waiting in std::mem::take(&mut self.waiting) {
            if let Block::Thinking(thinking) = &mut waiting.content {
                if thinking.signature.is_none() {
                    let Some(response) = response else {
                        self.waiting.push(waiting);
                        continue;
                    };
                    thinking.signature = seal(response, waiting.index, &waiting.echo.id);
                }
                if thinking.signature.is_none() && thinking.text.is_empty() {
                    continue;
                }
            }
            let wire = waiting.echo.keep(&self.origin);
            match &mut waiting.content {
                Block::Provider(block) => block.wire.data = wire.map_or(Value::Null, |wire| wire.data),
                Block::Text(text) => text.wire = wire,
                Block::Thinking(thinking) => thinking.wire = wire,
                Block::ToolCall(call) => call.wire = wire,
                Block::Image(_) | Block::Document(_) | Block::ToolResult(_) | Block::Compaction(_) => {}
            }
            out.push_back(StreamEvent::Block { block: waiting.block, content: waiting.content });
        }
    }

    /// Whether the last block is a call with complete arguments.
    pub(super) fn ends_in_whole_call(&self) -> bool {
        self.waiting.last().is_some_and(|last| match &last.content {
            Block::ToolCall(call) => {
                call.malformed.is_none() && call.args.as_object().is_some_and(|args| !args.is_empty())
            }
            Block::Text(_)
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => false,
        })
    }

    /// Marks the last call as malformed if it has no arguments, since it may have been cut before them.
    pub(super) fn mark_last_bare_call(&mut self) {
        if let Some(Block::ToolCall(call)) = self.waiting.last_mut().map(|last| &mut last.content)
            && call.malformed.is_none()
            && call.args.as_object().is_none_or(Map::is_empty)
        {
            call.malformed = Some(String::new());
        }
    }
}

/// Returns the fields of a call that have no place in a block.
fn extra_fields(item: &Value) -> Map<String, Value> {
    const TOLD: &[&str] = &["type", "id", "call_id", "name", "arguments", "status"];
    let fields = item.as_object().into_iter().flatten();
    let more = fields.filter(|(name, value)| !TOLD.contains(&name.as_str()) && !value.is_null());
    more.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the seal of a reasoning item from the whole response.
fn seal(response: &Value, index: Option<u64>, id: &str) -> Option<String> {
    let mut output = (0_u64..).zip(parts(response, "output"));
    let is_it = |at: u64, item: &Value| {
        text(item, "type") == "reasoning" && (text(item, "id") == id || index == Some(at))
    };
    let (_, item) = output.find(|(at, item)| is_it(*at, item))?;
    item.get("encrypted_content").and_then(Value::as_str).map(str::to_owned)
}
