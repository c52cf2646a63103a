//! Which keys answer a question: the same rules for every screen.

use std::time::Duration;

use zk_core::service::{ApprovalCard, UiAnswer, WORDS_KEY};

use crate::keys::{Direction, Key};

#[cfg(test)]
mod tests;

/// Time for which a question ignores answers after it is drawn and after each key of the draft, since such
/// keys were typed for the draft.
pub const DEAF: Duration = Duration::from_millis(500);

/// Time for which a question ignores answers after the person focused on it.
pub(super) const FOCUS_PAUSE: Duration = Duration::from_millis(300);

/// Pause after a letter, after which the letter answers: within a word, another letter follows sooner.
pub(super) const LETTER_PAUSE: Duration = Duration::from_millis(400);

/// The properties of a key that matter for a question.
pub trait AnswerKey: Clone {
    /// Typed character; `None` for a paste.
    fn letter(&self) -> Option<char>;

    /// Whether the key is Enter.
    fn is_enter(&self) -> bool;

    /// Whether the key clears the draft.
    fn empties_draft(&self) -> bool;

    /// Number of rows by which it moves the mark: 1 down, -1 up.
    fn steps(&self) -> Option<isize>;
}

impl AnswerKey for Key {
    fn letter(&self) -> Option<char> {
        if let Self::Char(letter) = self { Some(*letter) } else { None }
    }

    fn is_enter(&self) -> bool {
        *self == Self::Enter
    }

    fn empties_draft(&self) -> bool {
        matches!(self, Self::Ctrl('u' | 'c'))
    }

    fn steps(&self) -> Option<isize> {
        match self {
            Self::Move { to: Direction::Down, word: false } => Some(1),
            Self::Move { to: Direction::Up, word: false } => Some(-1),
            _ => None,
        }
    }
}

/// Answer that a person may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Yes, this time.
    Once,
    /// Yes, once, inside the sandbox that the call wants to leave.
    Contained,
    /// Yes, for the session.
    Session,
    /// Yes, from now on.
    Always,
    /// Similar calls, for the session.
    WiderSession,
    /// Similar calls, permanently.
    WiderAlways,
    /// Further similar calls, by index, for the session.
    MoreSession(usize),
    /// Further similar calls, by index, permanently.
    MoreAlways(usize),
    /// No.
    No,
    /// No, with a message to the model, which is typed next.
    NoWithWords,
}

impl Choice {
    /// Whether it holds in later sessions too, and is confirmed with a second key therefore.
    #[must_use]
    pub fn is_lasting(self) -> bool {
        match self {
            Self::Always | Self::WiderAlways | Self::MoreAlways(_) => true,
            Self::Once
            | Self::Contained
            | Self::Session
            | Self::WiderSession
            | Self::MoreSession(_)
            | Self::No
            | Self::NoWithWords => false,
        }
    }

    /// Answer of the person that the choice stands for.
    #[must_use]
    pub fn answer(self) -> UiAnswer {
        match self {
            Self::Once => UiAnswer::Once,
            Self::Contained => UiAnswer::Contained,
            Self::Session => UiAnswer::Session,
            Self::Always => UiAnswer::Always,
            Self::WiderSession => UiAnswer::WiderSession,
            Self::WiderAlways => UiAnswer::WiderAlways,
            Self::MoreSession(index) => UiAnswer::MoreSession { index },
            Self::MoreAlways(index) => UiAnswer::MoreAlways { index },
            Self::No | Self::NoWithWords => UiAnswer::No { message: None },
        }
    }

    fn of(answer: &UiAnswer, key: char) -> Option<Self> {
        Some(match answer {
            UiAnswer::Once => Self::Once,
            UiAnswer::Contained => Self::Contained,
            UiAnswer::Session => Self::Session,
            UiAnswer::Always => Self::Always,
            UiAnswer::WiderSession => Self::WiderSession,
            UiAnswer::WiderAlways => Self::WiderAlways,
            UiAnswer::MoreSession { index } => Self::MoreSession(*index),
            UiAnswer::MoreAlways { index } => Self::MoreAlways(*index),
            UiAnswer::No { .. } if key == WORDS_KEY => Self::NoWithWords,
            UiAnswer::No { .. } => Self::No,
            UiAnswer::Choice { .. } | UiAnswer::Text { .. } | UiAnswer::Absent => return None,
        })
    }
}

/// A choice and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedKey {
    /// The key.
    pub key: char,
    /// The choice.
    pub choice: Choice,
    /// Whether it has its own row, which arrows and digits reach.
    pub is_row: bool,
}

/// Choices that a question offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The choices, in the order of their rows.
    pub keys: Vec<OfferedKey>,
    /// Whether `?` shows the reason for the question.
    pub why: bool,
    /// Whether the question has further pages.
    pub more: bool,
}

impl Offer {
    /// Choices of a question about a call.
    #[must_use]
    pub fn of_approval(card: &ApprovalCard) -> Self {
        let keys = card.choices.iter().filter_map(|choice| {
            let chosen = Choice::of(&choice.answer, choice.key)?;
            Some(OfferedKey { key: choice.key, choice: chosen, is_row: choice.is_row })
        });
        Self { keys: keys.collect(), why: true, more: false }
    }

    /// Yes and no.
    #[must_use]
    pub fn of_confirmation() -> Self {
        let row = |key, choice| OfferedKey { key, choice, is_row: true };
        Self { keys: vec![row('y', Choice::Once), row('n', Choice::No)], why: false, more: false }
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = Choice> + '_ {
        self.keys.iter().filter(|offered| offered.is_row).map(|offered| offered.choice)
    }

    /// Returns the choice for a letter, or for the number of a row.
    fn find_choice(&self, letter: char) -> Option<Choice> {
        if let Some(number) = letter.to_digit(10) {
            return self.rows().nth(usize::try_from(number).ok()?.checked_sub(1)?);
        }
        let of =
            |letter| self.keys.iter().find(|offered| offered.key == letter).map(|offered| offered.choice);
        of(letter).or_else(|| of(letter.to_ascii_lowercase()))
    }
}

/// Meaning of a key for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMeaning<K = Key> {
    /// Key of the draft.
    Draft(K),
    /// Choice to be confirmed, by its key or an arrow.
    Chosen(Choice),
    /// A choice is cancelled before it was confirmed.
    Unchosen,
    /// Next page.
    NextPage,
    /// Show or hide the reasons for the question.
    Why,
    /// The question is answered.
    Answer(Choice),
}

/// State machine that decides which keys answer a question, on the caller's clock.
///
/// A letter or a digit chooses. It answers when Enter follows, or no key for a moment; a permanent choice
/// shows its rule and needs a second key. An arrow marks a choice, which Enter confirms; without a mark Enter
/// does nothing. Any other key cancels the choice, and both go to the draft. Keys that arrive together,
/// pasted or from a program, never choose. With a draft every key goes to it, until [`focus`](Self::focus).
#[derive(Debug)]
pub struct AnswerKeys<K = Key> {
    offer: Offer,
    deaf_until: Duration,
    chosen: Option<Chosen<K>>,
    /// Row that an arrow marked, and the time of that.
    marked: Option<(usize, Duration)>,
    /// Whether keys go to a draft, until the person focuses on the question.
    is_typing: bool,
}

#[derive(Clone, Debug)]
struct Chosen<K> {
    choice: Choice,
    key: K,
    at: Duration,
}

impl<K: AnswerKey> AnswerKeys<K> {
    /// Creates the state for a question drawn at `now`.
    #[must_use]
    pub fn new(offer: Offer, has_draft: bool, now: Duration) -> Self {
        Self { offer, deaf_until: now + DEAF, chosen: None, marked: None, is_typing: has_draft }
    }

    /// Focuses on the question, such as on its next page, instead of the draft.
    pub fn focus(&mut self, now: Duration) {
        (self.deaf_until, self.is_typing, self.chosen, self.marked) = (now + FOCUS_PAUSE, false, None, None);
    }

    /// Keeps the focus after a key that turned to the next page.
    #[must_use]
    pub fn turned(mut self, now: Duration) -> Self {
        self.focus(now);
        self
    }

    /// Records scrolling by a key, which neither answers nor types, so an existing draft keeps its keys.
    pub fn scrolled(&mut self, now: Duration) {
        (self.deaf_until, self.chosen) = (self.deaf_until.max(now + FOCUS_PAUSE), None);
    }

    /// Sets whether there is a draft, after any change to it.
    pub fn set_typing(&mut self, is_typing: bool) {
        self.is_typing = is_typing;
    }

    /// Ignores answers for a moment after a redraw that the person did not cause.
    pub fn redrawn(&mut self, now: Duration) {
        (self.deaf_until, self.chosen, self.marked) = (now + DEAF, None, None);
    }

    /// Replaces the choices.
    pub fn offer(&mut self, offer: Offer) {
        self.offer = offer;
    }

    /// The choice that waits to be confirmed.
    #[must_use]
    pub fn chosen(&self) -> Option<Choice> {
        self.chosen.as_ref().map(|chosen| chosen.choice)
    }

    /// The row that an arrow marked, from 0.
    #[must_use]
    pub fn marked(&self) -> Option<usize> {
        self.marked.map(|(row, _)| row).filter(|_| self.chosen.is_none())
    }

    /// Whether keys go to a draft.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Meanings of keys that were read together at `now`.
    pub fn press(&mut self, keys: &[K], now: Duration) -> Vec<KeyMeaning<K>> {
        self.press_part(keys, keys.len() > 1, now)
    }

    /// Variant of [`press`](Self::press) for part of the keys; `is_burst` if others were read with them.
    pub(crate) fn press_part(&mut self, keys: &[K], is_burst: bool, now: Duration) -> Vec<KeyMeaning<K>> {
        match keys {
            [] => Vec::new(),
            [key] if !is_burst && now >= self.deaf_until => self.press_one(key, now),
            // A held arrow repeats, and neither answers nor types.
            keys if self.takes_arrows(now)
                && keys.len() > 1
                && keys.iter().all(|key| key.steps().is_some()) =>
            {
                keys.iter().flat_map(|key| self.press_one(key, now)).collect()
            }
            keys => {
                let mut meanings = self.cancel_choice(now);
                meanings.extend(keys.iter().map(|key| self.pass_to_draft(key, now)));
                meanings
            }
        }
    }

    /// Time of the next [`tick`](Self::tick).
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let chosen = self.chosen.as_ref().filter(|chosen| !chosen.choice.is_lasting())?;
        Some(chosen.at + LETTER_PAUSE)
    }

    /// Answers with a choice that no key followed.
    pub fn tick(&mut self, now: Duration) -> Option<KeyMeaning<K>> {
        if self.next_tick().is_none_or(|at| now < at) {
            return None;
        }
        self.chosen.take().map(|chosen| KeyMeaning::Answer(chosen.choice))
    }

    fn press_one(&mut self, key: &K, now: Duration) -> Vec<KeyMeaning<K>> {
        if let Some(chosen) = self.chosen.clone() {
            let lasts = chosen.choice.is_lasting();
            let confirms = key.is_enter() || (lasts && self.choice_for_key(key) == Some(chosen.choice));
            // The second key of a permanent choice must be deliberate, so it cannot come together with the
            // first.
            let is_early = lasts && now < chosen.at + LETTER_PAUSE;
            if confirms && !is_early {
                self.chosen = None;
                return vec![KeyMeaning::Answer(chosen.choice)];
            }
            let mut meanings = self.cancel_choice(now);
            meanings.push(self.pass_to_draft(key, now));
            return meanings;
        }
        if self.is_typing {
            return vec![self.pass_to_draft(key, now)];
        }
        if let Some(steps) = key.steps().filter(|_| self.takes_arrows(now)) {
            return self.move_mark(steps, now).into_iter().collect();
        }
        if let Some((row, at)) = self.marked.filter(|_| key.is_enter()) {
            // A key right behind the arrow is neither an answer nor text.
            if now < at + FOCUS_PAUSE {
                return Vec::new();
            }
            self.marked = None;
            return self.offer.rows().nth(row).map(KeyMeaning::Answer).into_iter().collect();
        }
        if key.letter() == Some(' ') && self.offer.more {
            return vec![KeyMeaning::NextPage];
        }
        if key.letter() == Some('?') && self.offer.why {
            return vec![KeyMeaning::Why];
        }
        match self.choice_for_key(key) {
            Some(choice) => {
                self.marked = None;
                self.chosen = Some(Chosen { choice, key: key.clone(), at: now });
                vec![KeyMeaning::Chosen(choice)]
            }
            None => vec![self.pass_to_draft(key, now)],
        }
    }

    fn choice_for_key(&self, key: &K) -> Option<Choice> {
        self.offer.find_choice(key.letter()?)
    }

    /// Whether arrows move the mark, instead of the draft's caret.
    fn takes_arrows(&self, now: Duration) -> bool {
        let has_rows = self.offer.rows().next().is_some();
        has_rows && !self.is_typing && self.chosen.is_none() && now >= self.deaf_until
    }

    /// Moves the mark: the first step down marks the first row, the first step up the last.
    fn move_mark(&mut self, steps: isize, now: Duration) -> Option<KeyMeaning<K>> {
        let count = self.offer.rows().count();
        let row = match self.marked {
            None if steps > 0 => 0,
            None => count.checked_sub(1)?,
            Some((row, _)) => row.saturating_add_signed(steps).min(count.checked_sub(1)?),
        };
        self.marked = Some((row, now));
        self.offer.rows().nth(row).map(KeyMeaning::Chosen)
    }

    /// Returns the key of an unconfirmed choice to the draft.
    fn cancel_choice(&mut self, now: Duration) -> Vec<KeyMeaning<K>> {
        match self.chosen.take() {
            Some(chosen) => vec![KeyMeaning::Unchosen, self.pass_to_draft(&chosen.key, now)],
            None => Vec::new(),
        }
    }

    fn pass_to_draft(&mut self, key: &K, now: Duration) -> KeyMeaning<K> {
        (self.deaf_until, self.marked) = (now + DEAF, None);
        // A line that was submitted or cleared is no draft any more.
        self.is_typing = !(key.is_enter() || key.empties_draft());
        KeyMeaning::Draft(key.clone())
    }
}

/// State machine that decides when an answer line receives keys, on the caller's clock. As with [`AnswerKeys`],
/// a draft keeps its keys, and so does one that was used a moment ago.
#[derive(Clone, Copy, Debug)]
pub struct LineFocus {
    deaf_until: Duration,
    is_typing: bool,
    is_focused: bool,
}

impl LineFocus {
    /// Creates the state for a question drawn at `now`.
    #[must_use]
    pub fn new(has_draft: bool, now: Duration) -> Self {
        Self { deaf_until: now + DEAF, is_typing: has_draft, is_focused: false }
    }

    /// Creates the state for a line that the person asked for, which receives every key.
    #[must_use]
    pub fn wanted() -> Self {
        Self { deaf_until: Duration::ZERO, is_typing: false, is_focused: true }
    }

    /// Focuses on the line.
    pub fn focus(&mut self, now: Duration) {
        if !self.is_focused {
            *self = Self { deaf_until: now + FOCUS_PAUSE, is_typing: false, is_focused: true };
        }
    }

    /// Ignores answers for a moment after a redraw that the person did not cause.
    pub fn redrawn(&mut self, now: Duration) {
        if !self.is_focused {
            self.deaf_until = now + DEAF;
        }
    }

    /// Sets whether there is a draft, after any change to it.
    pub fn set_typing(&mut self, is_typing: bool) {
        self.is_typing = is_typing;
    }

    /// Whether the line has the focus.
    #[must_use]
    pub fn is_focused(&self) -> bool {
        self.is_focused
    }

    /// Whether keys go to a draft.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.is_typing && !self.is_focused
    }

    /// Whether keys read together at `now` go to the line instead of the draft. The first key after a pause
    /// focuses on the line, unless it is Enter or a paste, which may have been meant for the draft.
    pub fn takes_keys<K: AnswerKey>(&mut self, keys: &[K], now: Duration) -> bool {
        self.takes_part(keys, keys.len() > 1, now)
    }

    /// Whether an arrow at `now` focuses on the line: it neither answers nor types.
    pub(crate) fn takes_arrow(&mut self, now: Duration) -> bool {
        let hears = self.is_past_draft(now);
        self.is_focused |= hears;
        hears
    }

    /// Whether keys at `now` do not belong to a draft.
    pub(crate) fn is_past_draft(&self, now: Duration) -> bool {
        self.is_focused || (now >= self.deaf_until && !self.is_typing)
    }

    /// Variant of [`takes_keys`](Self::takes_keys) for part of the keys; `is_burst` if others were read with them.
    pub(crate) fn takes_part<K: AnswerKey>(&mut self, keys: &[K], is_burst: bool, now: Duration) -> bool {
        let turns = matches!(keys, [key] if !is_burst && key.letter().is_some());
        if now >= self.deaf_until && (self.is_focused || (turns && !self.is_typing)) {
            self.is_focused = true;
            return true;
        }
        (self.deaf_until, self.is_typing, self.is_focused) = (now + DEAF, true, false);
        false
    }
}
