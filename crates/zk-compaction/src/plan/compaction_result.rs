//! Result of a compaction: pinned content, its size, and the announcements.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;
use zk_core::events::{CompactionTrigger, ContextFill, ContextTransform, PartKind, PartLeftOut};
use zk_core::kernel::{BoxError, Cx, EmitError};
use zk_core::model::{Message, TurnId, context_size};
use zk_core::service::{Compacted, ContextId};

use crate::plan::ask_strategies::record_change;
use crate::plan::pins::{self, Pin};
use crate::plan::prepare::{Preparation, Size};
use crate::store::record::Record;
use crate::text::count::count_message;
use crate::window::budget::Budget;
use crate::window::owner::{WindowOwner, now_ms};
use crate::window::report::report;
use crate::window::trigger::CompactionResult;

/// Growth of pinned content after which a warned person is warned again; a smaller factor would interrupt
/// every prompt.
const PINNED_GROWTH: f64 = 1.2;

impl WindowOwner {
    /// Attaches pinned content that would otherwise be lost. Only content that plugins provide until
    /// `deadline` is included.
    pub(crate) async fn attach_pinned(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        preparation: &mut Preparation<'_>,
        deadline: Instant,
        cx: &Cx,
    ) -> Result<Vec<Pin>, EmitError> {
        let history = &event.messages;
        let known = {
            let mut state = self.lock();
            let conversation = state.conversation(context);
            // A plugin may rely on its pinned content being sent.
            if !conversation.view.has_cut(history) {
                return Ok(Vec::new());
            }
            conversation.history.known(history)
        };
        let until = match preparation.trigger {
            // The person who asked for a compaction waits for it.
            Some(CompactionTrigger::Manual) => None,
            Some(CompactionTrigger::Soft | CompactionTrigger::Hard | CompactionTrigger::Overflow) | None => {
                Some(deadline)
            }
        };
        let (pinned, failed) = pins::collect(&known, &preparation.sent, until, cx).await;
        let (all, _) = self.list_pinned(&pinned);
        {
            let messages: Vec<_> = pinned.iter().map(|pin| pin.message.clone()).collect();
            let mut state = self.lock();
            let conversation = state.conversation(context);
            conversation.announced.pinned_tokens =
                conversation.announced.pinned_tokens.map(|told| told.min(all));
            if let Some(change) = conversation.view.pin(history, &messages) {
                record_change(conversation, &event.turn_id, "pinned", preparation.trigger, change);
                preparation.sent = Cow::Owned(conversation.view.sent(history).into_owned());
                preparation.bytes = context_size(&preparation.sent);
            }
        }
        for pins::Failed { name, source, error } in failed {
            self.announce_failed_part(&name, &source, &error, cx).await?;
        }
        Ok(pinned)
    }

    /// Refuses the current request, and stops further attempts until a person acts.
    pub(crate) fn stop(&self, context: Option<&ContextId>, why: String) {
        let mut state = self.lock();
        let conversation = state.conversation(context);
        conversation.refusal = Some(why);
        conversation.trigger.stop();
    }

    /// Refuses a request whose text alone exceeds a window of so many tokens.
    pub(crate) fn refuse_oversized(&self, context: Option<&ContextId>, window: Option<u64>) {
        let mut state = self.lock();
        let conversation = state.conversation(context);
        let (least, bytes) = (conversation.ledger.min_text_tokens(), conversation.ledger.bytes());
        if let Some(window) = window.filter(|window| least > *window) {
            let why = format!(
                "the messages have {bytes} bytes, which is more than {least} tokens, and the window has {window}: \
                 nothing was sent. Compact, go on from an earlier prompt, or begin a new conversation"
            );
            conversation.refusal.get_or_insert(why);
        }
    }

    /// Whether the person was warned about the size of pinned messages, and these have grown by less than
    /// [`PINNED_GROWTH`] since.
    pub(crate) fn was_warned_about_pinned(
        &self,
        context: Option<&ContextId>,
        pinned: &[Pin],
        after: Size,
    ) -> bool {
        let (all, _) = self.list_pinned(pinned);
        let told = self.lock().conversation(context).announced.pinned_tokens;
        is_most_of_request(all, after) && told.is_some_and(|told| (all as f64) < told as f64 * PINNED_GROWTH)
    }

    /// Records that the person is warned about pinned messages, if these are most of the request.
    pub(crate) fn record_pinned_warning(&self, context: Option<&ContextId>, pinned: &[Pin], after: Size) {
        let (all, _) = self.list_pinned(pinned);
        self.lock().conversation(context).announced.pinned_tokens =
            is_most_of_request(all, after).then_some(all);
    }

    /// Message for the person if the pinned content alone fills the window.
    pub(crate) fn describe_too_much_pinned(
        &self,
        context: Option<&ContextId>,
        budget: &Budget,
        window: Option<u64>,
        pinned: &[Pin],
    ) -> Option<String> {
        let beside = self.lock().conversation(context).overhead.unwrap_or_default();
        let (all, listed) = self.list_pinned(pinned);
        let bytes = pinned.iter().map(|pin| pin.message.size()).sum();
        // If the prompt and the tools alone are too large, the message names these.
        if !budget.is_exceeded(beside + all, bytes) || budget.is_exceeded(beside, 0) {
            return None;
        }
        let of = window.map_or(String::new(), |window| format!(" of a window of {window}"));
        Some(format!(
            "what has to stay takes about {all} tokens{of} by itself: {listed}. Take back what has to stay, such as \
             to-dos and sub-agents, and compact again, go on with a model that has a larger window, or begin a new \
             conversation; a new prompt goes on as it is"
        ))
    }

    /// Tokens of the pinned content, and the names of its largest parts.
    fn list_pinned(&self, pinned: &[Pin]) -> (u64, String) {
        let tokens = |pin: &Pin| count_message(&pin.message, self.counter());
        let mut sized: Vec<_> = pinned.iter().map(|pin| (tokens(pin), &pin.name)).collect();
        sized.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
        let all = sized.iter().map(|(tokens, _)| tokens).sum();
        let listed: Vec<_> = sized.iter().take(5).map(|(tokens, name)| format!("{name} {tokens}")).collect();
        (all, listed.join(", "))
    }

    pub(crate) fn measure(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        sent: &[Arc<Message>],
        budget: &Budget,
    ) -> Size {
        let mut state = self.lock();
        let conversation = state.conversation(context);
        conversation.ledger.sync(sent, conversation.view.version(), self.counter());
        conversation.measure(budget, event.window);
        Size { tokens: conversation.fill.estimate, bytes: conversation.fill.bytes }
    }

    pub(crate) fn evaluate_compaction(
        &self,
        context: Option<&ContextId>,
        budget: &Budget,
        preparation: &Preparation<'_>,
        after: Size,
        at_ms: u64,
    ) -> CompactionResult {
        let mut state = self.lock();
        let conversation = state.conversation(context);
        let (before, now) = match budget.usable() {
            Some(_) => (preparation.before.tokens, after.tokens),
            None => (preparation.before.bytes as u64, after.bytes as u64),
        };
        if now < before {
            conversation.fill.compactions += 1;
            let size = Compacted { before: preparation.before.tokens, after: after.tokens, at_ms };
            conversation.fill.last = Some(size);
            let number = conversation.plans.number;
            conversation.plans.unstored.push(Record::Measured { number, size });
        }
        let result = conversation.trigger.evaluate(&self.options, before, now);
        match (result, preparation.trigger) {
            // The person who asked sees the result.
            (CompactionResult::Stopped, Some(CompactionTrigger::Manual)) => {
                conversation.trigger.reset();
                CompactionResult::TooLittle
            }
            (result, _) => result,
        }
    }

    pub(crate) fn describe_too_little_freed(&self, before: Size, after: Size) -> String {
        let freed = before.tokens.saturating_sub(after.tokens);
        let least = (self.options.least_freed * 100.0).round();
        format!("it freed {freed} of about {} tokens, less than {least} %", before.tokens)
    }

    /// Explains why no further compaction is tried, the content that fills the window, and the person's
    /// options.
    pub(crate) async fn describe_what_fills_the_window(
        &self,
        context: Option<&ContextId>,
        window: Option<u64>,
        pinned: &[Pin],
        (before, after): (Size, Size),
        cx: &Cx,
    ) -> String {
        let sent = {
            let mut state = self.lock();
            let conversation = state.conversation(context);
            let history = conversation.history.messages.clone();
            conversation.view.sent(&history).into_owned()
        };
        let report = report(&sent, self.counter(), cx).await;
        let unlisted = match after.tokens.saturating_sub(report.tokens) {
            0 => String::new(),
            tokens => format!(", about {tokens} that nothing here accounts for"),
        };
        let of = window.map_or(String::new(), |window| format!(" of a window of {window}"));
        let (all, listed) = self.list_pinned(pinned);
        let (stays, choices) = if is_most_of_request(all, after) {
            let stays = format!(", of which {all} have to ({listed})");
            (stays, "Take back what has to stay, such as to-dos and sub-agents, and compact again")
        } else {
            (String::new(), "Compact with instructions, take back what fills the window")
        };
        format!(
            "compaction freed too little twice in a row ({}); about {} tokens{of} stay{stays}: {}{unlisted}. \
             {choices}, go on with a model that has a larger window, or begin a new conversation; a new prompt goes \
             on as it is",
            self.describe_too_little_freed(before, after),
            after.tokens,
            report.largest(5),
        )
    }

    pub(crate) async fn announce_failed_part(
        &self,
        name: &str,
        source: &str,
        error: &BoxError,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let left_out = PartLeftOut {
            kind: PartKind::WindowStrategy,
            name: name.to_owned(),
            source: source.to_owned(),
            error: error.to_string(),
        };
        cx.emit(left_out).await.map(drop)
    }

    /// Announces the fill of the window, unless it is unchanged.
    pub(crate) async fn announce_fill(
        &self,
        turn: &TurnId,
        context: Option<&ContextId>,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let fill = {
            let mut state = self.lock();
            let conversation = state.conversation(context);
            let fill = conversation.fill;
            let news = Some((fill.estimate, fill.usable, fill.level, fill.compactions));
            if conversation.announced.fill == news {
                return Ok(());
            }
            conversation.announced.fill = news;
            fill
        };
        let event = || ContextFill {
            turn_id: turn.clone(),
            tokens: fill.estimate,
            usable: fill.usable,
            level: fill.level,
            compactions: fill.compactions,
            last: fill.last,
            age_ms: fill.last.map(|last| now_ms(cx).saturating_sub(last.at_ms)),
        };
        cx.emit_with(event).await.map(drop)
    }
}

/// Whether the pinned tokens are most of the request.
fn is_most_of_request(pinned: u64, sent: Size) -> bool {
    pinned * 2 > sent.tokens
}
