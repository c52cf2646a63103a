//! Visit to a provider: everything a history can be made hard by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, ErrorKind, Image, Message, ModelRef, StopReason, Thinking, ThinkingLevel, ThinkingRequest,
    ToolCall, ToolContent, ToolSpec, WireData, WireReady,
};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_testkit::{Asked, FakeServer, Script, Turn};

use super::station::Station;

/// Provider with the requested model.
#[derive(Clone, Copy)]
pub(super) struct Stop<'a> {
    pub(super) station: &'a Station,
    pub(super) model: &'static str,
}

impl<'a> Stop<'a> {
    pub(super) fn first(station: &'a Station) -> Self {
        Self { station, model: station.models[0] }
    }

    pub(super) fn second(station: &'a Station) -> Self {
        Self { station, model: station.models[1] }
    }
}

/// Returns the beginning of every thought of a model.
pub(super) fn thought(model: &str) -> String {
    format!("<{model} thinks>")
}

/// Returns the beginning of every proof of a model.
pub(super) fn proof(model: &str) -> String {
    format!("<{model} proves>")
}

const TOOLS: &str = "Use the tools.";
const LONG: &str = "Talk until I stop you.";
const FAIL: &str = "Fail.";
const LEAVE: &str = "Call, I shall not answer.";
const TALK: &str = "Just talk.";
const CUT: &str = "It goes on ";
/// Name of a tool that models call without an offer.
const MADE_UP: &str = "functions.read";
const GARBLED: &str = "look<|channel|>json";

/// Twelve bytes that pass for a picture.
const PICTURE: &str = "iVBORw0KGgoAAAAN";

/// Model that only draws images, and its output.
pub(super) const PAINTER: &str = "painter-1";
pub(super) const PAINTED: &str = "iVBORw0KGgoAAAAO";

/// Script of the model: answers by its last input.
pub(super) fn script() -> Script {
    Script::answering(|asked| {
        let told = asked.messages.last().map(|message| message.text()).unwrap_or_default();
        let turn = thinking(Turn::new(), asked, 0);
        if told.ends_with(TOOLS) {
            let turn = turn.text("I look at both.");
            turn.call("look", json!({"path": "a.png"})).call(MADE_UP, json!({"path": "größe.txt"}))
        } else if told.ends_with(LONG) {
            turn.chunks([CUT, "and on"]).call("look", json!({"path": "b.png"})).hang()
        } else if told.ends_with(FAIL) {
            turn.text("I was about to").error(ErrorKind::Overloaded, "overloaded")
        } else if told.ends_with(LEAVE) {
            turn.call(GARBLED, json!({}))
        } else {
            // With two thoughts in a row, as some models have them.
            thinking(turn, asked, 1).text("That is all.")
        }
    })
}

fn thinking(turn: Turn, asked: &Asked, more: usize) -> Turn {
    let number = asked.number * 10 + more;
    let (thought, proof) = (thought(&asked.model), proof(&asked.model));
    turn.signed_thinking(format!("{thought} {number}"), format!("{proof}{number}"))
}

/// Turns at one stop: with tools, stopped, failed, with an unanswered call, plain, and one whose results
/// another model reads.
pub(super) async fn stay(stop: &Stop<'_>, server: &FakeServer, history: &mut Vec<Arc<Message>>) {
    let provider = stop.station.provider(server);
    finish_loop(&*provider, stop, history).await;
    begin_loop(&*provider, stop, history).await;
    finish_loop(&*provider, stop, history).await;
    for (words, outcome) in [
        (LONG, StopReason::Aborted),
        (FAIL, StopReason::Error),
        (LEAVE, StopReason::ToolUse),
        (TALK, StopReason::EndTurn),
    ] {
        history.push(Message::user_text(words).shared());
        take_turn(&*provider, stop, history, outcome).await;
    }
    history.push(drawing());
    begin_loop(&*provider, stop, history).await;
}

/// Reads the pending results, and takes a plain turn.
pub(super) async fn call_by(stop: &Stop<'_>, server: &FakeServer, history: &mut Vec<Arc<Message>>) {
    let provider = stop.station.provider(server);
    finish_loop(&*provider, stop, history).await;
    history.push(Message::user_text(TALK).shared());
    take_turn(&*provider, stop, history, StopReason::EndTurn).await;
}

/// Returns the message of a painter somewhere else, with its proof.
fn drawing() -> Arc<Message> {
    let origin = ModelRef::new("elsewhere", PAINTER);
    let wire = WireData { origin: origin.clone(), data: json!({"thoughtSignature": proof(PAINTER)}) };
    let image = Image { wire: Some(wire), ..Image::new("image/png", PAINTED) };
    let content = vec![Block::text("Here it is."), Block::Image(image)];
    let stop = Some(StopReason::EndTurn);
    Message { origin: Some(origin), stop, ..Message::assistant(content) }.shared()
}

/// Two calls and their results: a picture, and a failure with a picture.
async fn begin_loop(provider: &dyn Provider, stop: &Stop<'_>, history: &mut Vec<Arc<Message>>) {
    let picture = || Block::Image(Image::new("image/png", PICTURE));
    history.push(Message::user(vec![picture(), Block::text(TOOLS)]).shared());
    let calls = take_turn(provider, stop, history, StopReason::ToolUse).await;
    assert_eq!(calls.len(), 2, "{}", stop.model);
    let seen = ToolContent::Blocks(vec![Block::text("a picture:"), picture()]);
    let shown = ToolContent::Blocks(vec![Block::text("no such file, but:"), picture()]);
    let results = vec![
        Block::result(calls[0].id.clone(), seen, false),
        Block::result(calls[1].id.clone(), shown, true),
    ];
    history.push(Message::user(results).shared());
}

/// Answers results of any model's calls.
async fn finish_loop(provider: &dyn Provider, stop: &Stop<'_>, history: &mut Vec<Arc<Message>>) {
    if !history.is_empty() {
        take_turn(provider, stop, history, StopReason::EndTurn).await;
    }
}

/// Sends a request, adds the answer to the history, and returns its calls.
async fn take_turn(
    provider: &dyn Provider,
    stop: &Stop<'_>,
    history: &mut Vec<Arc<Message>>,
    outcome: StopReason,
) -> Vec<ToolCall> {
    let message = respond(provider, stop, history).await;
    assert_eq!(message.stop, Some(outcome), "{}: {message:?}", stop.model);
    let calls = message.calls().cloned().collect();
    history.push(message.shared());
    calls
}

/// One response as a loop keeps it: of a broken one everything but its calls.
async fn respond(provider: &dyn Provider, stop: &Stop<'_>, history: &[Arc<Message>]) -> Message {
    let model = provider.model(stop.model);
    let origin = model.reference();
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let request = Request {
        system: Arc::from("You are tested."),
        tools: ["look", "read"].map(|name| ToolSpec::new(name, "A tool.", schema.clone())).into(),
        thinking: ThinkingRequest { level: ThinkingLevel::Medium, budget: Some(1024) },
        ..Request::new(model.clone(), WireReady::normalise(history, &provider.rules(&model)))
    };
    let cancel = CancellationToken::new();
    let mut events = provider.stream(request, &Bus::new().cx().with_stop(cancel.clone()));
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let ended = loop {
        let next = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        match next.expect("the server answers").expect("a stream says how it ends") {
            Ok(StreamEvent::Text { block, delta }) => {
                if delta == CUT {
                    cancel.cancel();
                }
                let begun = blocks.entry(block).or_insert_with(|| Block::text(""));
                if let Block::Text(text) = begun {
                    text.text.push_str(&delta);
                }
            }
            Ok(StreamEvent::Thinking { block, delta }) => {
                let unsigned = Thinking { origin: Some(origin.clone()), ..Thinking::default() };
                if let Block::Thinking(thinking) = blocks.entry(block).or_insert(Block::Thinking(unsigned)) {
                    thinking.text.push_str(&delta);
                }
            }
            Ok(StreamEvent::Block { block, content }) => drop(blocks.insert(block, content)),
            Ok(StreamEvent::Done { stop, .. }) => break stop,
            Ok(
                StreamEvent::Start { .. }
                | StreamEvent::ToolCall { .. }
                | StreamEvent::ToolArgs { .. }
                | StreamEvent::Usage(_)
                | StreamEvent::Report(_)
                | StreamEvent::Retry(_),
            ) => {}
            Err(error) if error.kind == ErrorKind::Aborted => break StopReason::Aborted,
            Err(error) if error.kind == ErrorKind::Overloaded => break StopReason::Error,
            Err(error) => panic!("{} on {}: {error}", stop.model, stop.station.name),
        }
    };
    let is_broken = matches!(ended, StopReason::Aborted | StopReason::Error);
    let content = blocks.into_values().filter(|block| !is_broken || !matches!(block, Block::ToolCall(_)));
    Message { origin: Some(origin), stop: Some(ended), ..Message::assistant(content.collect()) }
}
