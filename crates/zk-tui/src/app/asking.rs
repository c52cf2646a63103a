use std::time::Duration;

use zk_core::service::Question;
use zk_view::{Card, sanitise};

use super::layout::card_room;
use super::notifying::with_subject;
use super::{Action, App, messages};
use crate::keys::Key;
use crate::question::{CardState, Outcome};
use crate::row::{Row, Style};

/// Pause after which a second Enter sends a text beside an open question.
const KEPT_PAUSE: Duration = Duration::from_millis(300);

/// Questions, and the keys that may answer them.
impl App {
    /// Keeps the draft when Enter is pressed beside an open question, since the text may have been meant as an answer. A
    /// second Enter sends it. Commands are sent at once: they are no answers.
    pub(super) fn keeps_draft_at_question(&mut self) -> bool {
        if self.focus.card().is_none() || self.composer.text().trim_start().starts_with('/') {
            return false;
        }
        let now = self.timing.pressed;
        if self.timing.kept.is_some_and(|kept| now >= kept + KEPT_PAUSE) {
            return false;
        }
        self.timing.kept.get_or_insert(now);
        self.set_hint(messages::DRAFT_KEPT);
        true
    }

    pub(super) fn show_question(&mut self, card: Option<Card>, now: Duration) {
        let size = self.screen.size();
        let has_draft = !self.composer.is_empty();
        let card = card.map(|card| CardState::new(card, has_draft, size.width, card_room(size), now));
        self.focus.set_card(card);
        self.timing.kept = None;
        self.output.is_dirty = true;
    }

    pub(super) fn handle_outcome(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        match outcome {
            Outcome::Draft(key) => self.press(&key, actions),
            Outcome::Told(message) => self.set_hint(message),
            Outcome::Answered(intent, shown) => {
                if !shown.is_empty() {
                    self.transcript.print(vec![Row::of(Style::DIM, &format!("  {shown}"))]);
                }
                self.focus.set_card(None);
                actions.push(Action::Intent(*intent));
            }
        }
    }

    /// Handles keys for the question or the draft; `is_burst` if they were read together with others.
    pub(super) fn press_typed(
        &mut self,
        typed: &[Key],
        is_burst: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.timing.pressed = now;
        if typed != [Key::Enter] {
            self.timing.kept = None;
        }
        let Some(card) = self.focus.card_mut() else {
            typed.iter().for_each(|key| self.press(key, actions));
            return;
        };
        self.hint = None;
        let outcomes = card.press(typed, is_burst, now);
        if outcomes.is_empty() && typed == [Key::Enter] {
            let is_early = card.has_mark();
            self.set_hint(match is_early {
                true => messages::EARLY_ENTER,
                false => messages::UNMARKED,
            });
            return;
        }
        let is_draft = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Draft(_)));
        let (is_idle, before) =
            (is_draft && typed == [Key::Enter] && self.composer.is_empty(), actions.len());
        outcomes.into_iter().for_each(|outcome| self.handle_outcome(outcome, actions));
        if is_idle && actions.len() == before && self.hint.is_none() {
            self.set_hint(messages::UNMARKED);
        }
        if is_draft {
            self.report_draft_change();
        }
    }
}

/// Describes a question by the title of its card, which names a file and no command, or by its text.
pub(super) fn describe_question(card: &Card, mask: impl Fn(&str) -> Option<String>) -> String {
    let waits = |text: &str| with_subject("a question waits", mask(text).as_deref().unwrap_or(text));
    match &card.question {
        Question::Approve(approval) => sanitise(&approval.card().title).into_owned(),
        Question::Select(selection) => waits(&selection.text),
        Question::Confirm { text } | Question::Input { text } => waits(text),
        Question::Trust(_) => "a question waits: is this project trusted?".to_owned(),
    }
}
