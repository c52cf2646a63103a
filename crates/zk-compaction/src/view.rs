use std::collections::HashMap;
use std::sync::Arc;

use zk_core::model::{Message, MessageId};
use zk_core::service::WindowPlan;

/// What is sent of conversations.
///
/// Stored messages are known by their id, so that a plan holds for a conversation that was read again, and those without
/// one by their address, which an entry keeps alive: a message always becomes the same bytes.
#[derive(Default)]
pub(crate) struct View {
    /// What is sent for a stored message.
    replaced: HashMap<Key, (Arc<Message>, Arc<Message>)>,
    /// One for each conversation that was cut: each point that one went on from may have its own.
    cuts: Vec<Cut>,
}

/// The beginning of a conversation that is not sent.
struct Cut {
    /// The first message after it.
    first: Arc<Message>,
    /// What stands for it.
    head: Vec<Arc<Message>>,
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("its plan names message {index} of {count}")]
    Index { index: usize, count: usize },
    #[error("its plan leaves messages out from {start} to {end}, of {count}")]
    Range { start: usize, end: usize, count: usize },
}

impl View {
    /// Whether everything is sent as it is stored.
    pub(crate) fn is_whole(&self) -> bool {
        self.cuts.is_empty() && self.replaced.is_empty()
    }

    /// What is sent for `history`.
    pub(crate) fn sent(&self, history: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let (head, rest) = self.parts(history);
        let rest =
            rest.iter().map(|stored| self.replaced.get(&Key::of(stored)).map_or(stored, |(_, sent)| sent));
        head.iter().chain(rest).cloned().collect()
    }

    /// How many messages of `history` are not sent in any form.
    pub(crate) fn left_out(&self, history: &[Arc<Message>]) -> usize {
        let (head, rest) = self.parts(history);
        let gone = history.len() - rest.len();
        let gone = history.iter().take(gone);
        gone.filter(|stored| !head.iter().any(|sent| Key::of(sent) == Key::of(stored))).count()
    }

    /// Sends `history` as `plan` says from now on.
    pub(crate) fn apply(&mut self, history: &[Arc<Message>], plan: WindowPlan) -> Result<(), PlanError> {
        let sent = self.sent(history);
        let count = sent.len();
        let head = self.parts(history).0.len();
        let before_rest = history.len() - (count - head);
        let range = |start, end| PlanError::Range { start, end, count };
        if let Some((cut, _)) = &plan.cut
            && (cut.start >= cut.end || cut.end < head || cut.end >= count)
        {
            return Err(range(cut.start, cut.end));
        }
        if let Some((index, _)) = plan.replace.iter().find(|(index, _)| *index >= count) {
            return Err(PlanError::Index { index: *index, count });
        }
        let stored = |index: usize| history.get(before_rest + index - head);
        for (index, with) in &plan.replace {
            if *index < head {
                let at = self.cut_of(history).map(|(cut, _)| cut);
                let place = at.and_then(|at| self.cuts.get_mut(at)?.head.get_mut(*index));
                if let Some(place) = place {
                    *place = with.clone();
                }
            } else if let Some(stored) = stored(*index) {
                self.replaced.insert(Key::of(stored), (stored.clone(), with.clone()));
            }
        }
        let Some((cut, with)) = plan.cut else { return Ok(()) };
        let first = stored(cut.end).ok_or_else(|| range(cut.start, cut.end))?.clone();
        let kept = self.sent(history).into_iter().take(cut.start);
        let new = Cut { first, head: kept.chain(with).collect() };
        match self.cut_of(history).and_then(|(at, _)| self.cuts.get_mut(at)) {
            Some(cut) => *cut = new,
            None => self.cuts.push(new),
        }
        Ok(())
    }

    /// What stands for the beginning of `history`, and what it does not stand for.
    fn parts<'a>(&'a self, history: &'a [Arc<Message>]) -> (&'a [Arc<Message>], &'a [Arc<Message>]) {
        let Some((cut, at)) = self.cut_of(history) else { return (&[], history) };
        let head = self.cuts.get(cut).map_or(&[][..], |cut| &cut.head);
        (head, history.get(at..).unwrap_or_default())
    }

    /// Which cut `history` has, and how many of its messages are before the cut's end.
    fn cut_of(&self, history: &[Arc<Message>]) -> Option<(usize, usize)> {
        let ends = self.cuts.iter().enumerate().filter_map(|(cut, Cut { first, .. })| {
            let first = Key::of(first);
            Some((cut, history.iter().position(|message| Key::of(message) == first)?))
        });
        ends.max_by_key(|(_, at)| *at)
    }
}

/// What a stored message is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Id(MessageId),
    Address(usize),
}

impl Key {
    fn of(message: &Arc<Message>) -> Self {
        match &message.id {
            Some(id) => Self::Id(id.clone()),
            None => Self::Address(Arc::as_ptr(message).addr()),
        }
    }
}
