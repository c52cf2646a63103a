use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use zk_core::kernel::Cx;
use zk_core::model::{Model, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};

use super::plugin::Collected;
use crate::digest::digest_of_json;

/// Provider whose requests are noted.
pub(super) struct NotedProvider {
    pub(super) inner: Arc<dyn Provider>,
    pub(super) collected: Arc<Collected>,
}

#[async_trait]
impl Provider for NotedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        // A sub-agent is one call of its parent, which replays as a whole.
        if cx.origin().depth > 0 {
            return self.inner.stream(request, cx);
        }
        let collected = self.collected.clone();
        if is_side_call(&request) {
            let asked = side_call_digest(&request);
            let mut text = String::new();
            return Box::pin(self.inner.stream(request, cx).inspect(move |event| match event {
                Ok(StreamEvent::Text { delta, .. }) => text.push_str(delta),
                Ok(StreamEvent::Done { .. }) => collected.add_side_call(&asked, std::mem::take(&mut text)),
                Ok(StreamEvent::Retry(_)) => text.clear(),
                Ok(_) | Err(_) => {}
            }));
        }
        collected.add_request(cx.turn_id(), &request);
        Box::pin(self.inner.stream(request, cx).inspect(move |event| {
            if event.is_ok() {
                collected.mark_answered();
            }
        }))
    }
}

/// Whether the request is one beside the conversation.
pub(crate) fn is_side_call(request: &Request) -> bool {
    request.session.is_none() && !request.cache && request.tools.is_empty()
}

/// Returns the digest of a side call's messages.
pub(crate) fn side_call_digest(request: &Request) -> String {
    let said: Vec<String> = request.history.messages().iter().map(|message| message.text()).collect();
    digest_of_json(&(&*request.system, said))
}
