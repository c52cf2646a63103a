//! Decodes a streamed response of the Responses API.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use zk_core::model::{ModelRef, StopReason, Usage};
use zk_core::service::StreamEvent;

use super::blocks::Blocks;
use super::finish::{self, Ending};
use super::item::{Kind, Open, Source, parts, rest, text};
use crate::catalogue::tiers::Tiers;
use crate::dialects::anthropic::unreadable;
use crate::encode::json_str::{Str, parse_json};
use crate::wire::error::{ErrorBody, WireError, of_stream};
use crate::wire::response::decode::Decode;
use crate::wire::response::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// Names of the events with deltas of an answer.
const DELTA_EVENTS: [&str; 3] =
    ["response.output_text.delta", "response.function_call_arguments.delta", "response.refusal.delta"];

/// Decoder of one response.
pub(crate) struct Decoder {
    /// Output limit of the request in tokens.
    limit: Option<u64>,
    open: Vec<Open>,
    begun: u32,
    blocks: Blocks,
    tiers: Tiers,
    started: bool,
    /// Whether any item was streamed.
    streamed: bool,
    /// Whether a delta arrived for an item that had not begun; the complete item may follow.
    lost: bool,
    done: bool,
}

/// Any event, with the fields of all kinds, because the kind may come last.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item_id: Option<Str<'a>>,
    summary_index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Str<'a>>,
    #[serde(borrow)]
    arguments: Option<Str<'a>>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// Fields of a response that are known at its beginning.
#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
}

impl Decoder {
    pub(crate) fn new(origin: ModelRef, limit: Option<u64>) -> Self {
        Self {
            limit,
            open: Vec::new(),
            begun: 0,
            blocks: Blocks::new(origin),
            tiers: Tiers::default(),
            started: false,
            streamed: false,
            lost: false,
            done: false,
        }
    }

    /// Sets the tiers, to compute the cost by the tier that answers.
    pub(super) fn with_tiers(mut self, tiers: Tiers) -> Self {
        self.tiers = tiers;
        self
    }

    fn emit_start(&mut self, response: Option<&RawValue>, out: &mut Out) {
        if !std::mem::replace(&mut self.started, true) {
            let head = response.and_then(|response| serde_json::from_str::<Head<'_>>(response.get()).ok());
            let head = head.unwrap_or_default();
            let text = |field: Option<Str<'_>>| field.map(Str::into_string).filter(|text| !text.is_empty());
            out.push_back(StreamEvent::Start { model: text(head.model), request_id: text(head.id) });
        }
    }

    /// Finds the item of an event by its index, by its id, or else takes the last one.
    fn find_item(&self, index: Option<u64>, id: &str) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().rposition(|open| open.index == index),
            None if !id.is_empty() => {
                let named = |name: &str| self.open.iter().rposition(|open| open.id == name);
                named(id).or_else(|| named(""))
            }
            None => self.open.len().checked_sub(1),
        }
    }

    fn begin_item(&mut self, index: Option<u64>, item: &Value, out: &mut Out) -> usize {
        self.streamed = true;
        let kind = Kind::of(item);
        let block = self.begun;
        self.blocks.flush(None, out);
        self.begun += 1;
        let mut open = Open { index, id: text(item, "id").to_owned(), block, kind };
        open.announce(out);
        self.open.push(open);
        self.open.len() - 1
    }

    fn end_item(&mut self, index: Option<u64>, item: &Value, out: &mut Out) {
        let at = self.find_item(index, text(item, "id")).unwrap_or_else(|| {
            self.lost = false;
            self.begin_item(index, item, out)
        });
        if at < self.open.len() {
            let open = self.open.remove(at);
            self.blocks.close(open, item, text(item, "status") == "incomplete", out);
        }
    }

    fn finish(&mut self, ending: Ending, response: &Value, out: &mut Out) -> Result<(), WireError> {
        let usage = self.tiers.with_billed_cost(finish::usage(response), text(response, "service_tier"));
        if usage != Usage::default() {
            // The usage counts in any case.
            out.push_back(StreamEvent::Usage(usage));
        }
        if ending == Ending::Failed {
            return Err(finish::failure(response));
        }
        let output = (0_u64..).zip(parts(response, "output"));
        if !self.streamed {
            // Some servers send only the final event.
            for (index, item) in output.clone() {
                self.end_item(Some(index), item, out);
            }
        }
        for open in std::mem::take(&mut self.open) {
            let is_it = |at: u64, item: &Value| {
                open.index == Some(at) || (open.index.is_none() && text(item, "id") == open.id)
            };
            let whole = output.clone().find(|(at, item)| is_it(*at, item)).map(|(_, item)| item);
            // The end of the item was never announced.
            let cut = ending == Ending::Incomplete || (whole.is_none() && !open.has_ended());
            self.blocks.close(open, whole.unwrap_or(&Value::Null), cut, out);
        }
        if self.lost {
            return Err(WireError::malformed("a piece of an item came without the beginning of that item")
                .hint("Part of the answer was lost on its way: try again"));
        }
        let stop = self.stop_reason(ending, response, usage.output);
        if stop == StopReason::MaxTokens {
            self.blocks.mark_last_bare_call();
        }
        self.blocks.flush(Some(response), out);
        self.done = true;
        out.push_back(StreamEvent::Done { stop, usage });
        Ok(())
    }

    fn stop_reason(&mut self, ending: Ending, response: &Value, output: u64) -> StopReason {
        let refusal = Some(std::mem::take(&mut self.blocks.refusal)).filter(|text| !text.is_empty());
        // llama.cpp reports a response as complete that reached its limit.
        let used_up = self.limit.is_some_and(|limit| output >= limit);
        match ending {
            Ending::Incomplete => finish::incomplete(response, refusal),
            Ending::Completed | Ending::Failed if refusal.is_some() => StopReason::Refusal(refusal),
            Ending::Completed | Ending::Failed if used_up && !self.blocks.ends_in_whole_call() => {
                StopReason::MaxTokens
            }
            Ending::Completed | Ending::Failed if self.blocks.calls => StopReason::ToolUse,
            // The back end for subscriptions paused in the middle of a turn.
            Ending::Completed | Ending::Failed if response.get("end_turn") == Some(&Value::Bool(false)) => {
                StopReason::PauseTurn
            }
            Ending::Completed | Ending::Failed => StopReason::EndTurn,
        }
    }

    fn add_delta(&mut self, kind: &str, event: &Event<'_>, out: &mut Out) {
        let id = event.item_id.as_deref().unwrap_or_default();
        let Some(at) = self.find_item(event.output_index, id) else {
            let says = event.delta.as_ref().is_some_and(|delta| !delta.is_empty());
            self.lost |= says && DELTA_EVENTS.contains(&kind);
            return;
        };
        let Some(open) = self.open.get_mut(at) else { return };
        let delta = event.delta.as_deref().unwrap_or_default();
        let number = event.summary_index;
        match kind {
            "response.output_text.delta" => open.add_text(delta, out),
            "response.function_call_arguments.delta" => open.add_arguments(delta, out),
            "response.refusal.delta" => open.add_refusal(delta),
            "response.reasoning_summary_text.delta" => open.add_thinking(Source::Summary, number, delta, out),
            "response.reasoning_text.delta" => open.add_thinking(Source::Raw, None, delta, out),
            "response.function_call_arguments.done" => {
                if let Kind::Call { args, .. } = &open.kind {
                    let more = rest(args, event.arguments.as_deref().unwrap_or_default()).to_owned();
                    open.add_arguments(&more, out);
                    open.end_arguments();
                }
            }
            _ => {}
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Out) -> Result<(), WireError> {
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let parsed: Event<'_> = parse_json(data).map_err(|error| {
            // The data of an error event need not be an event object.
            if event.name == "error" { of_stream(ErrorBody::parse(data)) } else { unreadable(data, &error) }
        })?;
        let kind = parsed.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or(event.name);
        let index = parsed.output_index;
        match kind {
            "response.output_item.added" => {
                self.begin_item(index, &parse(parsed.item)?, out);
            }
            "response.output_item.done" => self.end_item(index, &parse(parsed.item)?, out),
            "response.created" | "response.in_progress" | "response.queued" => {
                self.emit_start(parsed.response, out);
            }
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                self.emit_start(parsed.response, out);
                let response = parse(parsed.response)?;
                if !response.is_object() {
                    let message = format!("`{}` came without its response", crate::wire::error::quote(kind));
                    return Err(WireError::malformed(message)
                        .hint("Try again; if it persists, the server is at fault"));
                }
                if let Some(ending) = finish::ending(kind, &response) {
                    return self.finish(ending, &response, out);
                }
            }
            "error" => return Err(of_stream(ErrorBody::parse(data))),
            _ if event.name == "error" => return Err(of_stream(ErrorBody::parse(data))),
            // Unknown kinds are ignored there.
            kind => self.add_delta(kind, &parsed, out),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), WireError> {
        let _ = out;
        if self.done { Ok(()) } else { Err(WireError::ended_early(self.started, "response.completed")) }
    }

    fn is_complete(&self) -> bool {
        self.done
    }
}

fn parse(raw: Option<&RawValue>) -> Result<Value, WireError> {
    let text = raw.map_or("null", RawValue::get);
    serde_json::from_str(text).map_err(|error| unreadable(text.as_bytes(), &error))
}
