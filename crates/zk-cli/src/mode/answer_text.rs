use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{StreamStart, StreamText, TurnAfter};
use zk_core::kernel::{Cx, Scope};

/// Text of a run's final answer as it is shown to people, which `stream:transform` may have changed.
///
/// Text of a response that ends in tool calls is interim: it is no part of the answer.
#[derive(Clone, Default)]
pub(crate) struct AnswerText(Arc<Mutex<String>>);

impl AnswerText {
    /// Collects from now on; `on_interim` gets each interim text before its calls run.
    pub(crate) fn listen(&self, scope: &Scope, on_interim: impl Fn(&str) + Send + Sync + 'static) {
        let answer = self.clone();
        scope.on_sync(move |_: &StreamStart, _: &Cx| answer.lock().clear());
        let answer = self.clone();
        scope.on_sync(move |event: &StreamText, _: &Cx| answer.lock().push_str(&event.delta));
        let answer = self.clone();
        scope.on_sync(move |event: &TurnAfter, _: &Cx| {
            let has_calls = event.message.as_ref().is_some_and(|message| message.calls().next().is_some());
            if has_calls {
                let interim = std::mem::take(&mut *answer.lock());
                if !interim.trim().is_empty() {
                    on_interim(&interim);
                }
            }
        });
    }

    /// Hands the text over.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
