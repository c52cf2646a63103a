use std::borrow::Cow;
use std::sync::Arc;

use zk_core::events::CompactionStage;
use zk_core::model::{Message, MessageId, ModelRef, TurnId, Usage, context_size};
use zk_core::service::{Reduction, WindowFill, WindowLevel};

use crate::plan::background::BackgroundPlan;
use crate::store::record::{self, Planned, Record};
use crate::text::count::{ByteCounter, TokenCounter, count_message};
use crate::window::budget::Budget;
use crate::window::ledger::Ledger;
use crate::window::trigger::Trigger;
use crate::window::view::View;

/// State of one conversation for the owner of the window.
#[derive(Default)]
pub(crate) struct ConversationWindow {
    pub(crate) view: View,
    pub(crate) ledger: Ledger,
    pub(crate) trigger: Trigger,
    pub(crate) fill: WindowFill,
    pub(crate) plans: PlanLog,
    pub(crate) model: AskedModel,
    pub(crate) announced: Announced,
    /// Instructions for the next compaction, if a person asked for it.
    pub(crate) wishes: Reduction,
    /// Reason why the current request must not be sent.
    pub(crate) refusal: Option<String>,
    /// Plan in the making that takes longer than a request waits.
    pub(crate) background: Option<BackgroundPlan>,
    pub(crate) history: History,
    /// Bytes of the system prompt's sections.
    pub(crate) sections: usize,
    /// Tokens besides the messages, as estimated here.
    pub(crate) overhead: Option<u64>,
    /// Turn of the last prepared request.
    pub(crate) turn: Option<TurnId>,
    /// Whether twice the uncounted tokens would exceed a threshold, so that an exact count matters.
    pub(crate) hinges_on_count: bool,
}

/// Plans of one conversation, and records that its session does not have yet.
#[derive(Default)]
pub(crate) struct PlanLog {
    /// Plans in force.
    pub(crate) held: Vec<Planned>,
    /// Records that are not stored yet.
    pub(crate) unstored: Vec<Record>,
    /// Number of the last compaction.
    pub(crate) number: u32,
    /// Turn of the last compaction.
    pub(crate) numbered_turn: Option<TurnId>,
    /// Last message that an undo brought back.
    pub(crate) taken_back: Option<MessageId>,
    /// Number of the undone compaction, if its undo is stored but the conversation still has to be read
    /// again.
    pub(crate) undo_pending: Option<u32>,
    /// Stage for messages that are sent again, until it is announced.
    pub(crate) resend_stage: Option<CompactionStage>,
}

/// Model of a conversation, and usage from before it was resumed.
#[derive(Default)]
pub(crate) struct AskedModel {
    /// Model of the next request, if known.
    pub(crate) current: Option<ModelRef>,
    /// Whether another model was chosen since the last request.
    pub(crate) has_changed: bool,
    /// Usage that a provider reported before the conversation was left, with its model and answer.
    pub(crate) restored_usage: Option<(ModelRef, Usage, Arc<Message>)>,
}

/// Last announcements to the person.
#[derive(Default)]
pub(crate) struct Announced {
    /// Tokens of pinned messages when the person was warned about them: the lowest count since then.
    pub(crate) pinned_tokens: Option<u64>,
    /// Fill of the window: estimate, usable tokens, level and compactions.
    pub(crate) fill: Option<(u64, Option<u64>, WindowLevel, u32)>,
}

/// Messages of a conversation.
#[derive(Default)]
pub(crate) struct History {
    /// Loaded messages, as of the last request.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Number of earlier messages, which are not loaded.
    pub(crate) earlier: u64,
    /// Earlier messages that are still needed, because they are sent or pinned.
    pub(crate) looked_up: Vec<Arc<Message>>,
}

impl History {
    /// All loaded messages: `history` and the earlier ones that were looked up.
    pub(crate) fn known<'a>(&self, history: &'a [Arc<Message>]) -> Cow<'a, [Arc<Message>]> {
        if self.looked_up.is_empty() {
            return Cow::Borrowed(history);
        }
        self.looked_up.iter().chain(history).cloned().collect()
    }
}

impl ConversationWindow {
    /// Updates the state with `history`, and returns the messages to send.
    pub(crate) fn sync<'a>(
        &mut self,
        history: &'a [Arc<Message>],
        counter: &dyn TokenCounter,
    ) -> Cow<'a, [Arc<Message>]> {
        self.remember(history);
        let sent = self.view.sent(history);
        if let Some((_, usage, answer)) = self.take_restored_usage()
            && let Some(at) = sent.iter().position(|message| is_same(message, &answer))
        {
            self.ledger.sync(sent.get(..at).unwrap_or_default(), self.view.version(), counter);
            self.ledger.anchor(&usage, self.overhead.unwrap_or_default());
        }
        self.ledger.sync(&sent, self.view.version(), counter);
        sent
    }

    fn remember(&mut self, history: &[Arc<Message>]) {
        let messages = &mut self.history.messages;
        let known = messages.len();
        let goes_on = history.len() >= known
            && messages
                .last()
                .zip(history.get(known.wrapping_sub(1)))
                .is_none_or(|(one, other)| Arc::ptr_eq(one, other));
        if !goes_on {
            messages.clear();
        }
        messages.extend(history.iter().skip(messages.len()).cloned());
    }

    /// Number of the conversation's messages that are not sent in any form.
    pub(crate) fn left_out(&mut self, history: &[Arc<Message>]) -> usize {
        let earlier = usize::try_from(self.history.earlier).unwrap_or(usize::MAX);
        let of = &self.history.looked_up;
        let is_earlier = |message: &&Arc<Message>| of.iter().any(|earlier| is_same(message, earlier));
        let sent = self.view.head(history).iter().filter(is_earlier).count();
        self.view.left_out(history).saturating_add(earlier.saturating_sub(sent))
    }

    /// Takes the usage from before the resume; drops it if it is of another model than the current one.
    fn take_restored_usage(&mut self) -> Option<(ModelRef, Usage, Arc<Message>)> {
        let model = self.model.current.as_ref()?;
        self.model.restored_usage.take().filter(|(of, _, _)| of == model)
    }

    /// Estimated tokens of the next request.
    pub(crate) fn estimate(&self) -> u64 {
        self.ledger.estimate(self.overhead.unwrap_or_default())
    }

    /// Updates the measurements.
    pub(crate) fn measure(&mut self, budget: &Budget, window: Option<u64>) {
        let (estimate, bytes) = (self.estimate(), self.ledger.bytes());
        let level = budget.level(estimate, bytes);
        let usable = budget.usable();
        // Without a known window the budget is in bytes, and no count of tokens matters. The lower bound of
        // the text holds with any tokenizer.
        let doubled =
            self.ledger.counted_estimate(self.overhead.unwrap_or_default()) + self.ledger.uncounted();
        self.hinges_on_count = usable.is_some() && budget.level(doubled, bytes) != WindowLevel::Low;
        self.fill = WindowFill { window, bytes, estimate, usable, level, ..self.fill };
    }

    /// Restores the full `history` if it fits the window of the new model.
    pub(crate) fn restore_full_history(&mut self, history: &[Arc<Message>], budget: &Budget) {
        // A conversation whose beginning is not loaded is not read again for that; `/uncompact` does.
        if !std::mem::take(&mut self.model.has_changed) || self.view.is_whole() || self.history.earlier > 0 {
            return;
        }
        self.remember(history);
        let tokens: u64 =
            self.history.messages.iter().map(|message| count_message(message, &ByteCounter)).sum();
        let tokens = tokens + self.overhead.unwrap_or_default();
        let fits = budget.level(tokens, context_size(&self.history.messages)) == WindowLevel::Low;
        if fits {
            self.view.clear();
            self.plans.held.clear();
            self.plans.taken_back = None;
            self.plans.unstored.push(Record::Whole);
            self.plans.resend_stage = Some(CompactionStage::Restored);
        }
    }

    /// Undoes the last compaction among the first `count` plans, those before its stored record.
    pub(crate) fn undo(&mut self, count: usize) {
        let later = self.plans.held.split_off(count.min(self.plans.held.len()));
        let undone = record::undo(&mut self.plans.held);
        self.plans.held.extend(later);
        let known = &self.history.messages;
        let ids = known.iter().filter_map(|message| message.id.as_ref());
        self.plans.taken_back = record::last_of(&undone, ids);
        self.fill.compactions = record::count_compactions(&self.plans.held);
        self.fill.last = None;
        let messages = known.iter().filter_map(|message| Some((message.id.clone()?, message.clone())));
        record::replay(&self.plans.held, &mut self.view, &messages.collect());
        self.plans.resend_stage = Some(CompactionStage::Undone);
        self.trigger.ignore_thresholds();
    }
}

/// Number of sent messages up to and including `last`; 0 if it is not sent.
pub(crate) fn count_up_to(last: Option<&MessageId>, sent: &[Arc<Message>]) -> usize {
    let at = last.and_then(|last| sent.iter().rposition(|message| message.id.as_ref() == Some(last)));
    at.map_or(0, |at| at + 1)
}

/// Whether both are the same message: the same object, or equal ids.
pub(crate) fn is_same(one: &Arc<Message>, other: &Arc<Message>) -> bool {
    Arc::ptr_eq(one, other) || (one.id.is_some() && one.id == other.id)
}

#[cfg(test)]
mod tests {
    use zk_core::model::Block;

    use super::*;
    use crate::WindowOptions;

    #[test]
    fn an_estimate_that_is_the_floor_of_the_text_does_not_hinge_on_a_count() {
        let window = Some(20_000);
        let budget = Budget::new(&WindowOptions::default(), window);
        let history = [Message::user(vec![Block::text("x".repeat(192_000))]).shared()];
        for (counted, hinges) in [(100, false), (12_000, true)] {
            let mut conversation = ConversationWindow::default();
            conversation.sync(&history, &ByteCounter);
            conversation.ledger.anchor(&Usage { input: counted, ..Usage::default() }, 0);
            conversation.measure(&budget, window);
            assert_ne!(conversation.fill.level, WindowLevel::Low, "the floor alone exceeds a threshold");
            assert_eq!(conversation.hinges_on_count, hinges, "{counted} tokens by the provider's count");
        }
    }
}
