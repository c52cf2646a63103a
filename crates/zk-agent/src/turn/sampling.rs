use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use zk_core::events::{
    ProviderReport, StreamEnd, StreamProvider, StreamStart, StreamToolArgs, ToolArgsRepaired,
};
use zk_core::kernel::Cx;
use zk_core::model::{
    AgentError, Block, CallId, ErrorKind, Message, ModelRef, Phase, ProviderError, StopReason, Thinking,
    ToolCall, TurnId, Usage,
};
use zk_core::service::{EventStream, StreamEvent};

use super::answer_pipe::{AnswerPipe, Part};
use super::attempts::Attempts;
use crate::run::RunShared;
use crate::tools::Aliases;

/// Result of reading a response.
pub(crate) enum Sampled {
    /// The response is complete.
    Whole {
        message: Message,
        /// Usage of the response and of the attempts before it.
        usage: Usage,
        /// Failure of a required handler at the end of the response, which stops the run.
        spoilt: Option<AgentError>,
    },
    /// The response broke off.
    Broken {
        /// Partial message without its calls, which are not run.
        message: Option<Message>,
        /// Usage counted so far, earlier attempts included, since the provider may bill it.
        usage: Usage,
        error: AgentError,
    },
}

/// Reads a response to its end, and announces its events.
pub(crate) async fn read_response(
    mut stream: EventStream,
    cx: &Cx,
    turn_id: &TurnId,
    attempts: &mut Attempts<'_>,
    aliases: &Aliases,
    shared: &RunShared,
) -> Sampled {
    let model = &attempts.model().reference();
    let mut draft = Draft::default();
    let mut pipe = AnswerPipe::new(cx, turn_id);
    let mut stopped = pin!(cx.stop_token().cancelled());
    let error = loop {
        let event = match select(stream.next(), stopped.as_mut()).await {
            Either::Left(_) if cx.is_stopped() => break AgentError::Aborted,
            Either::Left((Some(Ok(event)), _)) => event,
            Either::Left((Some(Err(error)), _)) => break error.into(),
            Either::Left((None, _)) => break unfinished_error(model).into(),
            Either::Right(_) => break AgentError::Aborted,
        };
        if draft.is_empty()
            && matches!(
                event,
                StreamEvent::Text { .. }
                    | StreamEvent::Thinking { .. }
                    | StreamEvent::ToolCall { .. }
                    | StreamEvent::Block { .. }
            )
        {
            shared.record_first_token();
        }
        let announced = match event {
            StreamEvent::Start { model, request_id } => {
                cx.emit_with(|| StreamStart { turn_id: turn_id.clone(), model, request_id }).await
            }
            StreamEvent::Text { block, delta } => {
                draft.add_text(block, &delta);
                pipe.push(block, || Part::Text, delta).await
            }
            StreamEvent::Thinking { block, delta } => {
                draft.add_thinking(block, &delta);
                pipe.push(block, || Part::Thinking, delta).await
            }
            StreamEvent::ToolCall { block, id, name } => {
                let name: Arc<str> = aliases.canonical(name).into();
                draft.begin_call(block, id.clone(), name.clone());
                let begun =
                    || StreamToolArgs { turn_id: turn_id.clone(), call_id: id, name, delta: String::new() };
                cx.emit_with(begun).await
            }
            StreamEvent::ToolArgs { block, delta } => match draft.add_args(block, &delta) {
                Some((id, name)) => {
                    let args = || Part::Args { call_id: id.clone(), name: name.clone() };
                    pipe.push(block, args, delta).await
                }
                None => Ok(()),
            },
            StreamEvent::Block { block, mut content } => {
                if let Block::ToolCall(call) = &mut content {
                    call.name = aliases.canonical(std::mem::take(&mut call.name));
                }
                let opaque = content.as_provider().map(|opaque| opaque.text.clone());
                let repaired = draft.repaired_call(block, &content).map(|(call, text)| {
                    let (call_id, name, turn_id) = (call.id.clone(), call.name.clone(), turn_id.clone());
                    ToolArgsRepaired { turn_id, call_id, name, text }
                });
                draft.finish(block, content);
                let finished = pipe.end_block(block).await;
                match (finished, opaque, repaired) {
                    (Err(error), _, _) => Err(error),
                    (Ok(()), Some(text), _) => {
                        cx.emit_with(|| StreamProvider { turn_id: turn_id.clone(), text }).await
                    }
                    (Ok(()), None, Some(repaired)) => cx.emit_with(|| repaired).await,
                    (Ok(()), None, None) => Ok(()),
                }
            }
            StreamEvent::Report(report) => {
                let model = model.clone();
                cx.emit_with(|| ProviderReport { turn_id: turn_id.clone(), model, report }).await
            }
            StreamEvent::Usage(usage) => {
                attempts.set_usage(usage);
                Ok(())
            }
            StreamEvent::Retry(_) => {
                draft = Draft::default();
                pipe.discard().await;
                match attempts.begin_next() {
                    Ok(()) => Ok(()),
                    Err(error) => break error,
                }
            }
            StreamEvent::Done { stop, usage } => {
                attempts.set_usage(usage);
                let message = draft.into_message(model, stop);
                let text = message.text();
                let let_go = pipe.end_all_blocks().await;
                let ended = if text.is_empty() {
                    let_go
                } else {
                    let_go.and(cx.emit(StreamEnd { turn_id: turn_id.clone(), text }).await)
                };
                // The answer is complete, even if the run is stopped here.
                let spoilt = ended.err().filter(|_| !cx.is_stopped()).map(AgentError::from);
                return Sampled::Whole { message, usage: attempts.total(), spoilt };
            }
        };
        if let Err(error) = announced {
            break if cx.is_stopped() { AgentError::Aborted } else { error.into() };
        }
    };
    pipe.flush_and_ignore_errors().await;
    let stop = if matches!(error, AgentError::Aborted) { StopReason::Aborted } else { StopReason::Error };
    Sampled::Broken { message: draft.into_broken(model, stop), usage: attempts.total(), error }
}

/// Creates the error for a stream that ended without its final event.
pub(crate) fn unfinished_error(model: &ModelRef) -> ProviderError {
    let mut error = ProviderError::new(
        ErrorKind::Malformed,
        &*model.provider,
        &*model.model,
        Phase::Stream,
        "the stream ended without saying that the response is complete",
    );
    error.hint = Some("That is a bug in the provider; run it again, or use another one".to_owned());
    error
}

/// Message of the current response, as far as it has arrived.
#[derive(Default)]
pub(crate) struct Draft {
    /// Pieces of the message by block number, in order.
    pieces: BTreeMap<u32, Piece>,
}

enum Piece {
    Text(String),
    Thinking(String),
    Call { id: CallId, name: Arc<str>, args: String },
    Done(Block),
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn add_text(&mut self, block: u32, delta: &str) {
        if let Piece::Text(text) = self.pieces.entry(block).or_insert_with(|| Piece::Text(String::new())) {
            text.push_str(delta);
        }
    }

    fn add_thinking(&mut self, block: u32, delta: &str) {
        let piece = self.pieces.entry(block).or_insert_with(|| Piece::Thinking(String::new()));
        if let Piece::Thinking(text) = piece {
            text.push_str(delta);
        }
    }

    fn begin_call(&mut self, block: u32, id: CallId, name: Arc<str>) {
        self.pieces.entry(block).or_insert(Piece::Call { id, name, args: String::new() });
    }

    fn add_args(&mut self, block: u32, delta: &str) -> Option<(&CallId, &Arc<str>)> {
        match self.pieces.get_mut(&block)? {
            Piece::Call { id, name, args } => {
                args.push_str(delta);
                Some((id, name))
            }
            Piece::Text(_) | Piece::Thinking(_) | Piece::Done(_) => None,
        }
    }

    /// Returns a finished tool call and its raw arguments, if these were repaired.
    fn repaired_call<'a>(&self, block: u32, content: &'a Block) -> Option<(&'a ToolCall, String)> {
        let Block::ToolCall(call) = content else { return None };
        let Piece::Call { args, .. } = self.pieces.get(&block)? else { return None };
        let is_plain = args.trim().is_empty() || serde_json::from_str::<Map<String, Value>>(args).is_ok();
        (call.malformed.is_none() && !is_plain).then(|| (call, args.clone()))
    }

    pub(crate) fn finish(&mut self, block: u32, content: Block) {
        self.pieces.insert(block, Piece::Done(content));
    }

    /// Returns the complete message. Unfinished text is kept as received; an unfinished call is marked as
    /// malformed.
    pub(crate) fn into_message(self, model: &ModelRef, stop: StopReason) -> Message {
        let mut content: Vec<Block> = self
            .pieces
            .into_values()
            .map(|piece| match piece {
                Piece::Done(block) => block,
                Piece::Text(text) => Block::text(text),
                Piece::Thinking(text) => unsigned_thinking(text, model),
                Piece::Call { id, name, args } => Block::ToolCall(ToolCall {
                    malformed: Some(args),
                    ..ToolCall::new(id, &*name, serde_json::json!({}))
                }),
            })
            .collect();
        // A call that was cut off before its first argument looks like a call without arguments.
        if stop == StopReason::MaxTokens
            && let Some(Block::ToolCall(call)) = content.last_mut()
            && call.malformed.is_none()
            && call.args.as_object().is_none_or(Map::is_empty)
        {
            call.malformed = Some(String::new());
        }
        assistant_message(content, model, stop)
    }

    /// Returns the message of a broken response: text and reasoning without calls, which are not run.
    fn into_broken(self, model: &ModelRef, stop: StopReason) -> Option<Message> {
        let content: Vec<Block> = self
            .pieces
            .into_values()
            .filter_map(|piece| match piece {
                Piece::Done(Block::ToolCall(_)) | Piece::Call { .. } => None,
                Piece::Done(block) => Some(block),
                Piece::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
                Piece::Thinking(text) => (!text.is_empty()).then(|| unsigned_thinking(text, model)),
            })
            .collect();
        (!content.is_empty()).then(|| assistant_message(content, model, stop))
    }
}

fn unsigned_thinking(text: String, model: &ModelRef) -> Block {
    Block::Thinking(Thinking { text, origin: Some(model.clone()), ..Thinking::default() })
}

fn assistant_message(content: Vec<Block>, model: &ModelRef, stop: StopReason) -> Message {
    let said = Message { origin: Some(model.clone()), stop: Some(stop), ..Message::assistant(content) };
    said.identified()
}
