use zk_core::service::{ApprovalCard, CardChoice, Question, visible_lines};

use super::answer_keys::{Choice, Offer};
use super::frame::wrap_words;
use crate::row::{Row, Style};

/// Choices of a question answered by keys, with their texts.
#[derive(Debug)]
pub(crate) struct Asking {
    /// Texts of a question about a call.
    card: Option<ApprovalCard>,
    /// Whether the question is about trust in a project's settings.
    is_trust: bool,
    offer: Offer,
}

impl Asking {
    pub(crate) fn of(question: &Question) -> Self {
        let (card, is_trust, offer) = match question {
            Question::Approve(approval) => {
                let card = approval.card();
                let offer = Offer::of_approval(&card);
                (Some(card), false, offer)
            }
            Question::Trust(asked) => {
                (None, true, Offer { why: !asked.details.is_empty(), ..Offer::of_confirmation() })
            }
            Question::Confirm { .. } | Question::Select(_) | Question::Input { .. } => {
                (None, false, Offer::of_confirmation())
            }
        };
        Self { card, is_trust, offer }
    }

    /// Choices of the question; `more` tells that further pages follow.
    pub(crate) fn offer(&self, more: bool) -> Offer {
        Offer { more, ..self.offer.clone() }
    }

    /// Whether it is about a call.
    pub(crate) fn is_approval(&self) -> bool {
        self.card.is_some()
    }

    /// The key of a choice.
    pub(crate) fn key_of(&self, choice: Choice) -> char {
        self.offer.keys.iter().find(|offered| offered.choice == choice).map_or(' ', |offered| offered.key)
    }

    /// Choice in the row with this index.
    pub(crate) fn row_choice(&self, row: usize) -> Option<Choice> {
        self.offer.keys.iter().filter(|offered| offered.is_row).nth(row).map(|offered| offered.choice)
    }

    fn choice_text(&self, choice: Choice) -> Option<&CardChoice> {
        let key = self.key_of(choice);
        self.card.as_ref()?.choices.iter().find(|offered| offered.key == key)
    }

    /// Description of a choice, for a person.
    pub(crate) fn describe(&self, choice: Choice) -> String {
        match self.choice_text(choice) {
            Some(words) => words.text.clone(),
            None if choice == Choice::No && self.is_trust => "No, go on without it".to_owned(),
            None if choice == Choice::No => "no".to_owned(),
            None if self.is_trust => "Yes, trust it exactly as it is".to_owned(),
            None => "yes".to_owned(),
        }
    }

    /// Message after a choice.
    pub(crate) fn done_message(&self, choice: Choice) -> String {
        match self.choice_text(choice) {
            Some(words) => words.done.clone(),
            None => match (self.is_trust, choice == Choice::No) {
                (true, true) => "not trusted".to_owned(),
                (true, false) => "trusted".to_owned(),
                (false, _) => self.describe(choice),
            },
        }
    }

    /// Rows about a permanent choice: its rule, and the key to confirm; one row if there is no room for more.
    pub(crate) fn confirm_rows(&self, choice: Choice, width: usize, room: usize) -> Vec<Row> {
        let key = self.key_of(choice);
        let allows = self.choice_text(choice).and_then(|words| words.allows.as_ref());
        let what = match allows.filter(|_| choice != Choice::Always) {
            Some(allows) => visible_lines(allows).join(" "),
            None => "exactly this, here".to_owned(),
        };
        let text = format!("Always allow {what}. `zk policy revoke` undoes it. [{key}] again confirms");
        let mut rows = Vec::new();
        wrap_words("└ ", Style::YELLOW, &text, width, &mut rows);
        for row in rows.iter_mut().skip(1) {
            *row = Row::of(Style::YELLOW, &row.text().replacen("│↪", "  ", 1));
        }
        if rows.len() > room.max(1) {
            return vec![Row::of(Style::YELLOW, &format!("└ [{key}] again allows it always · ? says what"))];
        }
        rows
    }
}
