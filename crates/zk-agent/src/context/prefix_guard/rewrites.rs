use std::sync::Arc;

use zk_core::events::Rewrite;
use zk_core::model::Message;

use super::continues;

/// Messages of one request as handlers rewrote them.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    history: Vec<Arc<Message>>,
    /// Rewrites, in the order in which they were made.
    by: Vec<Rewrite>,
}

impl Rewrites {
    pub(crate) fn new(history: Vec<Arc<Message>>, by: Vec<Rewrite>) -> Self {
        Self { history, by }
    }

    /// The first plugin that was given messages that go on as those of the request before, and answered some that do not.
    /// Nothing where the conversation itself is another one.
    pub(super) fn changed_since(&self, before: &Self) -> Option<String> {
        let (mut old, mut new) = (&before.history, &self.history);
        let (mut olds, mut news) = (&*before.by, &*self.by);
        let mut source = None;
        while goes_on(old, new) {
            source = match (olds.split_first(), news.split_first()) {
                (None, None) => return None,
                (Some((one, rest)), Some((other, others))) if one.source == other.source => {
                    (old, olds, new, news) = (&one.messages, rest, &other.messages, others);
                    Some(&one.source)
                }
                // A handler that does not answer leaves the messages as they were.
                (Some((one, rest)), _) if news.iter().all(|other| other.source != one.source) => {
                    (old, olds) = (&one.messages, rest);
                    Some(&one.source)
                }
                (_, Some((other, others))) => {
                    (new, news) = (&other.messages, others);
                    Some(&other.source)
                }
                (Some(_), None) => return None,
            };
        }
        source.map(ToString::to_string)
    }
}

/// Whether `new` begins with `old`.
fn goes_on(old: &[Arc<Message>], new: &[Arc<Message>]) -> bool {
    old.len() <= new.len() && old.iter().zip(new).all(|(one, other)| continues(one, other))
}
