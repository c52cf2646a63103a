use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zk_core::kernel::{Answer, Cx, Event, Handler, WireReply};

use super::BridgeError;
use super::queue::Queue;

/// Handler of events about which the program is asked.
pub(super) struct Ask {
    queue: Arc<Queue>,
    limit: Duration,
}

impl Ask {
    pub(super) fn new(queue: Arc<Queue>, limit: Duration) -> Self {
        Self { queue, limit }
    }
}

impl<E: Event<Reply: WireReply>> Handler<E> for Ask {
    async fn call(&self, event: &E, cx: &Cx) -> Answer<E> {
        let program = || self.queue.shared().program.clone();
        let limit = self.limit;
        let verdict = tokio::time::timeout(limit, self.queue.ask(event, cx)).await;
        match verdict.map_err(|_| BridgeError::TimedOut { program: program(), limit })?? {
            Value::Null => Ok(None),
            reply => {
                let reply = E::Reply::from_json(reply).map_err(|error| BridgeError::Reply {
                    program: program(),
                    event: E::NAME,
                    reason: error.to_string(),
                })?;
                Ok(Some(reply))
            }
        }
    }
}
