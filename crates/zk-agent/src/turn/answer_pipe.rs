use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use zk_core::events::{StreamText, StreamThinking, StreamToolArgs, StreamTransform};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{CallId, TurnId};
use zk_core::service::{RedactedPieces, Redactor};

/// Pipe for the pieces of an answer to front-ends: redacts secrets, even across pieces, and passes text
/// through the handlers of `stream:transform`.
pub(crate) struct AnswerPipe<'a> {
    cx: &'a Cx,
    turn_id: &'a TurnId,
    redactor: Option<Arc<Redactor>>,
    /// Unfinished blocks by number. Handlers may hold back their last part.
    open: BTreeMap<u32, Open>,
    /// Number of the text block that handlers are transforming; they may hold back a part of it.
    transformed: Option<u32>,
}

struct Open {
    part: Part,
    pieces: RedactedPieces,
}

/// Kind of a piece: text, reasoning, or arguments of a call.
#[derive(Clone)]
pub(crate) enum Part {
    Text,
    Thinking,
    Args { call_id: CallId, name: Arc<str> },
}

impl<'a> AnswerPipe<'a> {
    pub(crate) fn new(cx: &'a Cx, turn_id: &'a TurnId) -> Self {
        Self { cx, turn_id, redactor: cx.service::<Redactor>(), open: BTreeMap::new(), transformed: None }
    }

    /// Passes on the next piece of `block`. An end that may begin a secret is held back.
    pub(crate) async fn push(
        &mut self,
        block: u32,
        part: impl FnOnce() -> Part,
        delta: String,
    ) -> Result<(), EmitError> {
        let Some(redactor) = &self.redactor else {
            return self.emit_piece(self.cx, block, part(), delta).await;
        };
        let open = self
            .open
            .entry(block)
            .or_insert_with(|| Open { part: part(), pieces: RedactedPieces::new(redactor.clone()) });
        let delta = open.pieces.push(delta);
        if delta.is_empty() {
            return Ok(());
        }
        let part = open.part.clone();
        self.emit_piece(self.cx, block, part, delta).await
    }

    /// Ends `block` and releases its held-back part.
    pub(crate) async fn end_block(&mut self, block: u32) -> Result<(), EmitError> {
        if let Some(open) = self.open.remove(&block) {
            self.flush(self.cx, block, open).await?;
        }
        if self.transformed == Some(block) { self.end_text(self.cx).await } else { Ok(()) }
    }

    /// Ends all blocks.
    pub(crate) async fn end_all_blocks(&mut self) -> Result<(), EmitError> {
        self.end_all(self.cx).await
    }

    /// Drops held-back text because the answer is retried. Handlers get the end event, but their output and
    /// failures are ignored.
    pub(crate) async fn discard(&mut self) {
        self.open.clear();
        if self.transformed.take().is_some() {
            let rest = StreamTransform { turn_id: self.turn_id.clone(), delta: String::new(), last: true };
            let _ = self.cx.emit(rest).await;
        }
    }

    /// Flushes held-back text without blocking a cancelled run. The response has failed already, so a
    /// handler's failure has no effect.
    pub(crate) async fn flush_and_ignore_errors(&mut self) {
        if self.cx.is_stopped() {
            let cx = self.cx.with_stop(CancellationToken::new());
            let _ = self.end_all(&cx).now_or_never();
        } else {
            let _ = self.end_all_blocks().await;
        }
    }

    async fn end_all(&mut self, cx: &Cx) -> Result<(), EmitError> {
        for (block, open) in std::mem::take(&mut self.open) {
            self.flush(cx, block, open).await?;
        }
        self.end_text(cx).await
    }

    async fn flush(&mut self, cx: &Cx, block: u32, mut open: Open) -> Result<(), EmitError> {
        let delta = open.pieces.finish();
        if delta.is_empty() { Ok(()) } else { self.emit_piece(cx, block, open.part, delta).await }
    }

    async fn emit_piece(&mut self, cx: &Cx, block: u32, part: Part, delta: String) -> Result<(), EmitError> {
        let turn_id = || self.turn_id.clone();
        match part {
            Part::Thinking => cx.emit(StreamThinking { turn_id: turn_id(), delta }).await,
            Part::Args { call_id, name } => {
                cx.emit_with(|| StreamToolArgs { turn_id: turn_id(), call_id, name, delta }).await
            }
            Part::Text if cx.bus().has_handlers::<StreamTransform>() => {
                if self.transformed != Some(block) {
                    self.end_text(cx).await?;
                    self.transformed = Some(block);
                }
                self.transform_text(cx, delta, false).await
            }
            Part::Text => self.emit_text(cx, delta).await,
        }
    }

    async fn end_text(&mut self, cx: &Cx) -> Result<(), EmitError> {
        match self.transformed.take() {
            Some(_) => self.transform_text(cx, String::new(), true).await,
            None => Ok(()),
        }
    }

    async fn transform_text(&self, cx: &Cx, delta: String, last: bool) -> Result<(), EmitError> {
        let delta = cx.emit(StreamTransform { turn_id: self.turn_id.clone(), delta, last }).await?.delta;
        if delta.is_empty() { Ok(()) } else { self.emit_text(cx, delta).await }
    }

    async fn emit_text(&self, cx: &Cx, delta: String) -> Result<(), EmitError> {
        cx.emit(StreamText { turn_id: self.turn_id.clone(), delta }).await
    }
}
