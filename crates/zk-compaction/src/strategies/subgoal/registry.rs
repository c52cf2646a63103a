use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use zk_core::model::Message;

use crate::window::conversation::is_same;

/// Maximum number of subgoals that are remembered; older ones are dropped.
const MAX_SUBGOALS: usize = 200;

/// Subgoals of an agent, with the positions of their messages.
///
/// Positions count from the first message ever seen and never change. The index of a sent message is its
/// position minus the offset, so that any compaction changes only the offset.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    subgoals: Vec<Subgoal>,
    /// Number of messages seen.
    seen: usize,
    /// Last message seen.
    last: Option<Arc<Message>>,
    /// Position of the first message that is sent.
    offset: isize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subgoal {
    pub(crate) text: String,
    pub(crate) state: SubgoalState,
    /// Positions of the subgoal's messages.
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubgoalState {
    Active,
    Completed,
}

/// Relevance of a message, by its subgoal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Message of the active subgoal: never left out by its score.
    Active,
    /// Message of a finished subgoal.
    Completed,
    /// Message of no subgoal.
    Outdated,
}

impl Tier {
    /// Relevance as a number from 0 to 1.
    pub(crate) fn relevance(self) -> f64 {
        match self {
            Self::Active => 1.0,
            Self::Completed => 0.3,
            Self::Outdated => 0.1,
        }
    }
}

impl Registry {
    /// Updates the registry with the sent messages. New ones belong to the active subgoal.
    pub(crate) fn extend(&mut self, messages: &[Arc<Message>]) {
        let known =
            self.last.as_ref().and_then(|last| messages.iter().rposition(|message| is_same(message, last)));
        match known {
            Some(at) => {
                self.offset = to_signed(self.seen) - to_signed(at + 1);
                self.seen += messages.len() - (at + 1);
            }
            // Another conversation, or another branch.
            None => *self = Self { seen: messages.len(), ..Self::default() },
        }
        self.last = messages.last().cloned();
        let seen = self.seen;
        if let Some(active) = self.active_mut() {
            active.span.end = seen;
        }
    }

    /// Adds a message of a stored conversation, after `others` messages without an entry of their own.
    pub(crate) fn add_message(&mut self, message: &Arc<Message>, others: usize) {
        self.seen += others + 1;
        self.last = Some(message.clone());
        let seen = self.seen;
        if let Some(active) = self.active_mut() {
            active.span.end = seen;
        }
    }

    /// Position after the last seen message.
    pub(crate) fn position(&self) -> usize {
        self.seen
    }

    pub(crate) fn active(&self) -> Option<&Subgoal> {
        self.subgoals.last().filter(|last| last.state == SubgoalState::Active)
    }

    fn active_mut(&mut self) -> Option<&mut Subgoal> {
        self.subgoals.last_mut().filter(|last| last.state == SubgoalState::Active)
    }

    /// Completed subgoals, oldest first.
    pub(crate) fn completed(&self) -> impl Iterator<Item = &str> {
        let done = self.subgoals.iter().filter(|subgoal| subgoal.state == SubgoalState::Completed);
        done.map(|subgoal| subgoal.text.as_str())
    }

    /// Marks the active subgoal as completed; its messages end before `position`.
    pub(crate) fn complete(&mut self, position: usize) {
        if let Some(active) = self.active_mut() {
            active.state = SubgoalState::Completed;
            active.span.end = position.max(active.span.start);
        }
    }

    /// Begins a subgoal at `position`; the first one also gets all earlier messages.
    pub(crate) fn begin(&mut self, text: String, position: usize) {
        self.complete(position);
        let start = if self.subgoals.is_empty() { 0 } else { position };
        self.subgoals.push(Subgoal { text, state: SubgoalState::Active, span: start..self.seen });
        if self.subgoals.len() > MAX_SUBGOALS {
            self.subgoals.remove(0);
        }
    }

    /// Relevance of the sent message at `index`.
    pub(crate) fn tier(&self, index: usize) -> Tier {
        let Some(position) = index.checked_add_signed(self.offset) else { return Tier::Outdated };
        let of = self.subgoals.iter().rev().find(|subgoal| subgoal.span.contains(&position));
        match of.map(|subgoal| subgoal.state) {
            Some(SubgoalState::Active) => Tier::Active,
            Some(SubgoalState::Completed) => Tier::Completed,
            None => Tier::Outdated,
        }
    }

    /// Index of the sent message with which the active subgoal begins.
    pub(crate) fn active_from(&self) -> Option<usize> {
        let start = to_signed(self.active()?.span.start) - self.offset;
        Some(usize::try_from(start).unwrap_or(0))
    }

    /// Dump of the registry, for debugging.
    pub(crate) fn dump(&self) -> String {
        let mut text =
            format!("{} messages seen, the first that is sent now is at {}\n", self.seen, self.offset);
        for Subgoal { text: about, state, span } in &self.subgoals {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>6}..{:<6} {state:?} {about}", span.start, span.end);
        }
        text
    }
}

/// Converts a count of messages, which is far below the limit of the type.
fn to_signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered_messages(count: usize) -> Vec<Arc<Message>> {
        (0..count).map(|number| Message::user_text(format!("m{number}")).identified().shared()).collect()
    }

    #[test]
    fn the_first_subgoal_gets_earlier_messages_and_a_new_one_completes_the_active_one() {
        let (mut registry, messages) = (Registry::default(), numbered_messages(10));
        registry.extend(&messages[..4]);
        assert_eq!(registry.tier(0), Tier::Outdated, "before any subgoal");
        registry.begin("one".into(), 4);
        registry.extend(&messages[..6]);
        assert!((0..6).all(|at| registry.tier(at) == Tier::Active));
        registry.begin("two".into(), 5);
        registry.extend(&messages);
        assert_eq!(registry.completed().collect::<Vec<_>>(), ["one"]);
        assert_eq!(
            (registry.tier(4), registry.tier(5), registry.tier(9)),
            (Tier::Completed, Tier::Active, Tier::Active)
        );
        registry.complete(8);
        assert_eq!((registry.active(), registry.tier(9)), (None, Tier::Outdated));
    }

    #[test]
    fn omitted_or_inserted_messages_change_only_the_offset() {
        let (mut registry, messages) = (Registry::default(), numbered_messages(10));
        registry.extend(&messages[..5]);
        registry.begin("one".into(), 5);
        registry.extend(&messages[..8]);
        registry.begin("two".into(), 6);
        let compacted: Vec<_> =
            numbered_messages(2).into_iter().chain(messages[4..].iter().cloned()).collect();
        registry.extend(&compacted);
        assert_eq!(
            (registry.active_from(), registry.tier(3), registry.tier(4)),
            (Some(4), Tier::Completed, Tier::Active)
        );
        assert_eq!(registry.position(), 10);
        registry.extend(&messages);
        assert_eq!(registry.active_from(), Some(6), "and back");
        let deeper: Vec<_> = numbered_messages(1).into_iter().chain(messages[9..].iter().cloned()).collect();
        registry.extend(&deeper);
        assert_eq!(registry.active_from(), Some(0), "it began before what is sent");
        assert_eq!(registry.tier(1), Tier::Active);
    }

    #[test]
    fn another_conversation_resets_the_registry() {
        let mut registry = Registry::default();
        registry.extend(&numbered_messages(3));
        registry.begin("one".into(), 3);
        registry.extend(&numbered_messages(2));
        assert_eq!((registry.active(), registry.position()), (None, 2));
    }
}
