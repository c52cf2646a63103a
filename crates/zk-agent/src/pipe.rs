use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use zk_core::events::{StreamText, StreamTransform};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::TurnId;

/// The way of an answer's text to those who show it: through the handlers of `stream:transform`, if there are any.
pub(crate) struct TextPipe<'a> {
    cx: &'a Cx,
    turn_id: &'a TurnId,
    /// The block of which a handler may hold something back.
    open: Option<u32>,
}

impl<'a> TextPipe<'a> {
    pub(crate) fn new(cx: &'a Cx, turn_id: &'a TurnId) -> Self {
        Self { cx, turn_id, open: None }
    }

    /// More text of `block`.
    pub(crate) async fn text(&mut self, block: u32, delta: String) -> Result<(), EmitError> {
        if !self.cx.bus().has_handlers::<StreamTransform>() {
            return self.show(self.cx, delta).await;
        }
        if self.open != Some(block) {
            self.end().await?;
            self.open = Some(block);
        }
        self.pass(self.cx, delta, false).await
    }

    /// Nothing more of `block` follows.
    pub(crate) async fn finish(&mut self, block: u32) -> Result<(), EmitError> {
        if self.open == Some(block) { self.end().await } else { Ok(()) }
    }

    /// Nothing more of any block follows.
    pub(crate) async fn end(&mut self) -> Result<(), EmitError> {
        match self.open.take() {
            Some(_) => self.pass(self.cx, String::new(), true).await,
            None => Ok(()),
        }
    }

    /// Flushes held-back text without blocking a cancelled run. The response has failed already, so a handler
    /// that fails now changes nothing.
    pub(crate) async fn break_off(&mut self) {
        if !self.cx.is_stopped() {
            let _ = self.end().await;
        } else if self.open.take().is_some() {
            let cx = self.cx.with_stop(CancellationToken::new());
            let _ = self.pass(&cx, String::new(), true).now_or_never();
        }
    }

    async fn pass(&self, cx: &Cx, delta: String, last: bool) -> Result<(), EmitError> {
        let delta = cx.emit(StreamTransform { turn_id: self.turn_id.clone(), delta, last }).await?.delta;
        if delta.is_empty() { Ok(()) } else { self.show(cx, delta).await }
    }

    async fn show(&self, cx: &Cx, delta: String) -> Result<(), EmitError> {
        cx.emit(StreamText { turn_id: self.turn_id.clone(), delta }).await
    }
}
