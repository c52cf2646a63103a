//! Which keys answer a question: the same rules for every screen.

use std::time::Duration;

use zk_core::service::{ApprovalCard, UiAnswer, WORDS_KEY};

use crate::keys::{Direction, Key};

#[cfg(test)]
mod tests;

/// Time for which a question hears no answer after it was drawn and after each key that belongs to the draft:
/// text that is being typed, or was on its way, is for the draft.
pub const DEAF: Duration = Duration::from_millis(500);

/// Time for which a question hears no answer after the person turned to it on purpose.
pub(super) const FOCUSED: Duration = Duration::from_millis(300);

/// Time for which a chosen letter stands alone before it answers: the first letter of a word has another one
/// after it.
pub(super) const QUIET: Duration = Duration::from_millis(400);

/// A key, as far as a question must know it.
pub trait AnswerKey: Clone {
    /// The character that was typed with it; nothing for one that was pasted.
    fn letter(&self) -> Option<char>;

    /// Whether it is Enter.
    fn is_enter(&self) -> bool;

    /// Whether it takes everything back that is in the draft.
    fn empties_draft(&self) -> bool;

    /// Rows by which it moves the mark of the choices: 1 down, -1 up.
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
    /// Yes, this time, in the sandbox that the call wants to leave.
    Contained,
    /// Yes, for the session.
    Session,
    /// Yes, from now on.
    Always,
    /// Calls like this one, for the session.
    WiderSession,
    /// Calls like this one, from now on.
    WiderAlways,
    /// Further calls like this one, by their place, for the session.
    MoreSession(usize),
    /// Further calls like this one, by their place, from now on.
    MoreAlways(usize),
    /// No.
    No,
    /// No, with words to the model, which are typed next.
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

    /// The answer that it is.
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
    /// Whether it has a row of its own, which arrows and digits reach.
    pub is_row: bool,
}

/// The choices of one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The choices, in the order of their rows.
    pub keys: Vec<OfferedKey>,
    /// Whether `?` says why it is asked.
    pub why: bool,
    /// Whether there is more to read than what is drawn.
    pub more: bool,
}

impl Offer {
    /// The choices of a question about a call.
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

    /// The choice of a letter or of the digit of a row.
    fn choice(&self, letter: char) -> Option<Choice> {
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
    /// The key belongs to the draft.
    Draft(K),
    /// A choice was made, or marked by an arrow, and waits to be confirmed.
    Chosen(Choice),
    /// The choice is taken back.
    Unchosen,
    /// The next part is wanted.
    NextPage,
    /// Reasons for the question are wanted, or no longer.
    Why,
    /// The question is answered.
    Answer(Choice),
}

/// Decides which keys answer a question, on a clock of its caller's.
///
/// A letter or a digit chooses. It answers when Enter follows, or nothing for a moment; what holds for good shows its rule and
/// needs a second key. An arrow marks a choice, which Enter answers; without a mark Enter never does. Any other key takes the choice back, and both belong to the draft. Keys that come together,
/// pasted or from a program, never choose. While there is a draft every key is for it, until [`focus`](Self::focus).
#[derive(Debug)]
pub struct AnswerKeys<K = Key> {
    offer: Offer,
    deaf_until: Duration,
    chosen: Option<Chosen<K>>,
    /// Row that an arrow marked, and when it came there.
    marked: Option<(usize, Duration)>,
    /// Whether there is a draft: keys are for it, until the person turns to the question.
    is_typing: bool,
}

#[derive(Clone, Debug)]
struct Chosen<K> {
    choice: Choice,
    key: K,
    at: Duration,
}

impl<K: AnswerKey> AnswerKeys<K> {
    /// Keys of a question that is drawn at `now`.
    #[must_use]
    pub fn new(offer: Offer, has_draft: bool, now: Duration) -> Self {
        Self { offer, deaf_until: now + DEAF, chosen: None, marked: None, is_typing: has_draft }
    }

    /// The person turned to the question on purpose, such as to its next part: keys are for it, not for the draft.
    pub fn focus(&mut self, now: Duration) {
        (self.deaf_until, self.is_typing, self.chosen, self.marked) = (now + FOCUSED, false, None, None);
    }

    /// The person turned to the next part of the question with a key that was for it, and stays with it.
    #[must_use]
    pub fn turned(mut self, now: Duration) -> Self {
        self.focus(now);
        self
    }

    /// Other rows of the question are in sight, by a key that neither answers nor types: a draft stays one.
    pub fn scrolled(&mut self, now: Duration) {
        (self.deaf_until, self.chosen) = (self.deaf_until.max(now + FOCUSED), None);
    }

    /// Whether there is a draft now, after keys that belong to it, or after something else changed it.
    pub fn set_typing(&mut self, is_typing: bool) {
        self.is_typing = is_typing;
    }

    /// The question was drawn anew, and not because the person wanted it.
    pub fn redrawn(&mut self, now: Duration) {
        (self.deaf_until, self.chosen, self.marked) = (now + DEAF, None, None);
    }

    /// Other choices than before.
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

    /// Whether keys are for a draft that is being typed.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Returns the meanings of keys that were read at once, at `now`.
    pub fn press(&mut self, keys: &[K], now: Duration) -> Vec<KeyMeaning<K>> {
        self.press_part(keys, keys.len() > 1, now)
    }

    /// Variant of [`press`](Self::press) for keys that, if `is_burst`, were read together with others.
    pub(crate) fn press_part(&mut self, keys: &[K], is_burst: bool, now: Duration) -> Vec<KeyMeaning<K>> {
        match keys {
            [] => Vec::new(),
            [key] if !is_burst && now >= self.deaf_until => self.press_one(key, now),
            // An arrow that is held repeats, and neither answers nor types.
            keys if self.hears_arrows(now)
                && keys.len() > 1
                && keys.iter().all(|key| key.steps().is_some()) =>
            {
                keys.iter().flat_map(|key| self.press_one(key, now)).collect()
            }
            keys => {
                let mut meanings = self.unchoose(now);
                meanings.extend(keys.iter().map(|key| self.draft(key, now)));
                meanings
            }
        }
    }

    /// Time at which [`tick`](Self::tick) has something to do.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let chosen = self.chosen.as_ref().filter(|chosen| !chosen.choice.is_lasting())?;
        Some(chosen.at + QUIET)
    }

    /// The answer of a choice after which nothing came.
    pub fn tick(&mut self, now: Duration) -> Option<KeyMeaning<K>> {
        if self.next_tick().is_none_or(|at| now < at) {
            return None;
        }
        self.chosen.take().map(|chosen| KeyMeaning::Answer(chosen.choice))
    }

    fn press_one(&mut self, key: &K, now: Duration) -> Vec<KeyMeaning<K>> {
        if let Some(chosen) = self.chosen.clone() {
            let lasts = chosen.choice.is_lasting();
            let confirms = key.is_enter() || (lasts && self.choice(key) == Some(chosen.choice));
            // The second key of what lasts is deliberate: it is not one that came with the first.
            let is_early = lasts && now < chosen.at + QUIET;
            if confirms && !is_early {
                self.chosen = None;
                return vec![KeyMeaning::Answer(chosen.choice)];
            }
            let mut meanings = self.unchoose(now);
            meanings.push(self.draft(key, now));
            return meanings;
        }
        if self.is_typing {
            return vec![self.draft(key, now)];
        }
        if let Some(steps) = key.steps().filter(|_| self.hears_arrows(now)) {
            return self.mark(steps, now).into_iter().collect();
        }
        if let Some((row, at)) = self.marked.filter(|_| key.is_enter()) {
            // One that came right behind the arrow is neither an answer nor text.
            if now < at + FOCUSED {
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
        match self.choice(key) {
            Some(choice) => {
                self.marked = None;
                self.chosen = Some(Chosen { choice, key: key.clone(), at: now });
                vec![KeyMeaning::Chosen(choice)]
            }
            None => vec![self.draft(key, now)],
        }
    }

    fn choice(&self, key: &K) -> Option<Choice> {
        self.offer.choice(key.letter()?)
    }

    /// Whether arrows are for the choices.
    fn hears_arrows(&self, now: Duration) -> bool {
        let has_rows = self.offer.rows().next().is_some();
        has_rows && !self.is_typing && self.chosen.is_none() && now >= self.deaf_until
    }

    /// Moves the mark: the first step down marks the first row, the first one up the last.
    fn mark(&mut self, steps: isize, now: Duration) -> Option<KeyMeaning<K>> {
        let count = self.offer.rows().count();
        let row = match self.marked {
            None if steps > 0 => 0,
            None => count.checked_sub(1)?,
            Some((row, _)) => row.saturating_add_signed(steps).min(count.checked_sub(1)?),
        };
        self.marked = Some((row, now));
        self.offer.rows().nth(row).map(KeyMeaning::Chosen)
    }

    /// Gives the key of a choice to the draft, if there is one.
    fn unchoose(&mut self, now: Duration) -> Vec<KeyMeaning<K>> {
        match self.chosen.take() {
            Some(chosen) => vec![KeyMeaning::Unchosen, self.draft(&chosen.key, now)],
            None => Vec::new(),
        }
    }

    fn draft(&mut self, key: &K, now: Duration) -> KeyMeaning<K> {
        (self.deaf_until, self.marked) = (now + DEAF, None);
        // A line that was ended, or emptied, leaves nothing to go on with.
        self.is_typing = !(key.is_enter() || key.empties_draft());
        KeyMeaning::Draft(key.clone())
    }
}

/// Decides when a line that answers a question hears keys, on a clock of its caller's. Its rules are those of
/// [`AnswerKeys`]: a draft keeps its keys, and so does one that was typed at a moment ago.
#[derive(Clone, Copy, Debug)]
pub struct LineFocus {
    deaf_until: Duration,
    is_typing: bool,
    is_focused: bool,
}

impl LineFocus {
    /// The line of a question that is drawn at `now`.
    #[must_use]
    pub fn new(has_draft: bool, now: Duration) -> Self {
        Self { deaf_until: now + DEAF, is_typing: has_draft, is_focused: false }
    }

    /// A line that the person just asked for: it hears every key.
    #[must_use]
    pub fn wanted() -> Self {
        Self { deaf_until: Duration::ZERO, is_typing: false, is_focused: true }
    }

    /// The person turned to the line on purpose.
    pub fn focus(&mut self, now: Duration) {
        if !self.is_focused {
            *self = Self { deaf_until: now + FOCUSED, is_typing: false, is_focused: true };
        }
    }

    /// The question was drawn anew, and not because the person wanted it.
    pub fn redrawn(&mut self, now: Duration) {
        if !self.is_focused {
            self.deaf_until = now + DEAF;
        }
    }

    /// Whether there is a draft now, after keys that belong to it, or after something else changed it.
    pub fn set_typing(&mut self, is_typing: bool) {
        self.is_typing = is_typing;
    }

    /// Whether what is typed is the line.
    #[must_use]
    pub fn is_focused(&self) -> bool {
        self.is_focused
    }

    /// Whether keys are for a draft that is being typed.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.is_typing && !self.is_focused
    }

    /// Whether keys that were read at once, at `now`, are for the line; the draft's if not. The first key after a
    /// moment without any turns to the line, unless it is Enter or pasted: those may have been on their way.
    pub fn hears<K: AnswerKey>(&mut self, keys: &[K], now: Duration) -> bool {
        self.hears_part(keys, keys.len() > 1, now)
    }

    /// Whether an arrow at `now` is for the line, and turns to it: it neither answers nor types.
    pub(crate) fn hears_arrow(&mut self, now: Duration) -> bool {
        let hears = self.is_free(now);
        self.is_focused |= hears;
        hears
    }

    /// Whether keys at `now` are for no draft.
    pub(crate) fn is_free(&self, now: Duration) -> bool {
        self.is_focused || (now >= self.deaf_until && !self.is_typing)
    }

    /// Variant of [`hears`](Self::hears) for keys that, if `is_burst`, were read together with others.
    pub(crate) fn hears_part<K: AnswerKey>(&mut self, keys: &[K], is_burst: bool, now: Duration) -> bool {
        let turns = matches!(keys, [key] if !is_burst && key.letter().is_some());
        if now >= self.deaf_until && (self.is_focused || (turns && !self.is_typing)) {
            self.is_focused = true;
            return true;
        }
        (self.deaf_until, self.is_typing, self.is_focused) = (now + DEAF, true, false);
        false
    }
}
