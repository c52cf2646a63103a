use std::collections::VecDeque;
use std::sync::Arc;

use zk_core::events::SteerKind;
use zk_core::model::{Block, Message};
use zk_core::service::RunEnded;

/// Number of queued messages that are delivered at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "settings",
    derive(serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum QueueMode {
    /// The oldest message; the next one follows after the next turn.
    #[default]
    One,
    /// All queued messages.
    All,
}

/// Messages that wait to join the conversation.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Whether the run is over, so that no more messages are accepted.
    closed: bool,
    pub(crate) steer: VecDeque<Arc<Message>>,
    pub(crate) follow_up: VecDeque<Arc<Message>>,
    /// Messages of the harness, delivered after the batch of calls that caused them.
    pub(crate) nudges: Vec<Arc<Message>>,
    /// Messages about ended sub-agents, delivered between two turns.
    pub(crate) notices: Vec<Arc<Message>>,
}

impl Queues {
    /// Queues a message; returns it if the run accepts no more.
    pub(crate) fn add(&mut self, kind: SteerKind, message: Arc<Message>) -> Result<(), RunEnded> {
        if self.closed {
            return Err(RunEnded { message });
        }
        match kind {
            SteerKind::Steer => self.steer.push_back(message),
            SteerKind::FollowUp => self.follow_up.push_back(message),
        }
        Ok(())
    }

    /// Queues a message for the next turn, without interrupting the calls of this one. Returns it if the run
    /// accepts no more.
    pub(crate) fn add_notice(&mut self, message: Arc<Message>) -> Result<(), Arc<Message>> {
        if self.closed {
            return Err(message);
        }
        self.notices.push(message);
        Ok(())
    }

    /// Removes the newest undelivered steering message with this text. Returns false if there is none.
    pub(crate) fn unsteer(&mut self, text: &str) -> bool {
        let has_text = |message: &Arc<Message>| matches!(message.content.first(), Some(Block::Text(block)) if block.text == text);
        let found = self.steer.iter().rposition(has_text);
        found.and_then(|at| self.steer.remove(at)).is_some()
    }

    /// Returns messages to their queue after a failed delivery.
    pub(crate) fn put_back(&mut self, kind: SteerKind, messages: Vec<Arc<Message>>) {
        let queue = match kind {
            SteerKind::Steer => &mut self.steer,
            SteerKind::FollowUp => &mut self.follow_up,
        };
        for message in messages.into_iter().rev() {
            queue.push_front(message);
        }
    }

    /// Closes the queues, and returns the undelivered messages except notices. Messages sent later are
    /// returned to their senders.
    pub(crate) fn close(&mut self) -> Vec<Arc<Message>> {
        self.closed = true;
        self.steer.drain(..).chain(self.follow_up.drain(..)).collect()
    }
}

pub(crate) fn take_queued(queue: &mut VecDeque<Arc<Message>>, mode: QueueMode) -> Vec<Arc<Message>> {
    match mode {
        QueueMode::One => queue.pop_front().into_iter().collect(),
        QueueMode::All => queue.drain(..).collect(),
    }
}
