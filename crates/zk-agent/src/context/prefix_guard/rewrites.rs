use std::sync::Arc;

use zk_core::events::Rewrite;
use zk_core::model::Message;

use super::begins_with;

/// Messages of one request with the handlers' rewrites.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    history: Vec<Arc<Message>>,
    /// Rewrites in the order they were made.
    by: Vec<Rewrite>,
}

impl Rewrites {
    pub(crate) fn new(history: Vec<Arc<Message>>, by: Vec<Rewrite>) -> Self {
        Self { history, by }
    }

    /// Returns the first plugin whose rewrite broke the prefix that its input still had; `None` if the
    /// conversation itself changed.
    pub(super) fn changed_since(&self, before: &Self) -> Option<String> {
        let (mut old, mut new) = (&before.history, &self.history);
        let (mut olds, mut news) = (&*before.by, &*self.by);
        let mut source = None;
        while is_prefix(old, new) {
            source = match (olds.split_first(), news.split_first()) {
                (None, None) => return None,
                (Some((one, rest)), Some((other, others))) if one.source == other.source => {
                    (old, olds, new, news) = (&one.messages, rest, &other.messages, others);
                    Some(&one.source)
                }
                // The handler of this rewrite no longer rewrites the messages.
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

/// Whether `old` is a prefix of `new`.
fn is_prefix(old: &[Arc<Message>], new: &[Arc<Message>]) -> bool {
    old.len() <= new.len() && old.iter().zip(new).all(|(one, other)| begins_with(one, other))
}
