use std::time::Duration;

use zk_core::service::WiderKind;

use crate::keys::Key;

#[cfg(test)]
mod tests;

/// How long a question hears no answer after it was drawn and after each key that belongs to the draft: text that is
/// being typed, or was on its way, is for the draft.
pub(crate) const DEAF: Duration = Duration::from_millis(500);

/// How long a question hears no answer after the person turned to it on purpose.
const FOCUSED: Duration = Duration::from_millis(300);

/// How long a chosen letter stands alone before it answers: the first letter of a word has another one after it.
const QUIET: Duration = Duration::from_millis(400);

/// What a person may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Once,
    Session,
    Always,
    /// This prefix or directory, for the session.
    WiderSession,
    /// This prefix or directory, from now on.
    WiderAlways,
    No,
    /// No, with words to the model, which are typed next.
    NoWithWords,
}

impl Choice {
    /// Whether it holds in later sessions too, and is confirmed with a second key therefore.
    pub(crate) fn is_lasting(self) -> bool {
        match self {
            Self::Always | Self::WiderAlways => true,
            Self::Once | Self::Session | Self::WiderSession | Self::No | Self::NoWithWords => false,
        }
    }
}

/// The choices of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) session: bool,
    pub(crate) always: bool,
    pub(crate) wider: Option<WiderKind>,
    pub(crate) words: bool,
    /// Whether there is more to read than what is drawn.
    pub(crate) more: bool,
}

/// What a key means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It belongs to the draft.
    Draft(Key),
    /// A choice was made and waits to be confirmed.
    Chosen(Choice),
    /// The choice is taken back.
    Unchosen,
    /// The next part is wanted.
    NextPage,
    /// The question is answered.
    Answer(Choice),
}

/// Decides which keys answer a question, on a clock of its caller's.
///
/// A letter chooses. It answers when Enter follows, or nothing for a moment; what
/// holds for good shows its rule and needs a second key. Any other key takes the choice back, and both belong to the draft. Keys that come together, pasted or
/// from a program, never choose.
#[derive(Debug)]
pub(crate) struct AnswerKeys {
    offer: Offer,
    deaf_until: Duration,
    chosen: Option<Chosen>,
    /// Whether the draft was typed at since the question was drawn, or had text before: only Enter confirms then.
    is_typing: bool,
}

#[derive(Clone, Debug)]
struct Chosen {
    choice: Choice,
    key: Key,
    at: Duration,
}

impl AnswerKeys {
    /// Keys of a question that is drawn at `now`.
    pub(crate) fn new(offer: Offer, has_draft: bool, now: Duration) -> Self {
        Self { offer, deaf_until: now + DEAF, chosen: None, is_typing: has_draft }
    }

    /// The person turned to the question on purpose, such as to its next part: keys are for it, not for the draft.
    pub(crate) fn focus(&mut self, now: Duration) {
        (self.deaf_until, self.is_typing, self.chosen) = (now + FOCUSED, false, None);
    }

    /// The question was drawn anew, and not because the person wanted it.
    pub(crate) fn redrawn(&mut self, now: Duration) {
        (self.deaf_until, self.chosen) = (now + DEAF, None);
    }

    /// Other choices than before.
    pub(crate) fn offer(&mut self, offer: Offer) {
        self.offer = offer;
    }

    /// The choice that waits to be confirmed.
    pub(crate) fn chosen(&self) -> Option<Choice> {
        self.chosen.as_ref().map(|chosen| chosen.choice)
    }

    /// Whether only Enter confirms, since a draft is being typed.
    pub(crate) fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// What keys that were read at once, at `now`, mean.
    pub(crate) fn press(&mut self, keys: &[Key], now: Duration) -> Vec<Effect> {
        match keys {
            [] => Vec::new(),
            [key] if now >= self.deaf_until => self.press_one(key, now),
            keys => {
                let mut effects = self.unchoose(now);
                effects.extend(keys.iter().map(|key| self.draft(key, now)));
                effects
            }
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        let chosen = self.chosen.as_ref().filter(|chosen| !chosen.choice.is_lasting() && !self.is_typing)?;
        Some(chosen.at + QUIET)
    }

    /// The answer of a choice after which nothing came.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<Effect> {
        if self.next_tick().is_none_or(|at| now < at) {
            return None;
        }
        self.chosen.take().map(|chosen| Effect::Answer(chosen.choice))
    }

    fn press_one(&mut self, key: &Key, now: Duration) -> Vec<Effect> {
        if let Some(chosen) = self.chosen.clone() {
            let lasts = chosen.choice.is_lasting();
            let confirms = *key == Key::Enter || (lasts && self.choice(key) == Some(chosen.choice));
            // The second key of what lasts is deliberate: it is not one that came with the first.
            let is_early = lasts && now < chosen.at + QUIET;
            if confirms && !is_early {
                self.chosen = None;
                return vec![Effect::Answer(chosen.choice)];
            }
            let mut effects = self.unchoose(now);
            effects.push(self.draft(key, now));
            return effects;
        }
        if *key == Key::Char(' ') && self.offer.more && !self.is_typing {
            return vec![Effect::NextPage];
        }
        match self.choice(key) {
            Some(choice) => {
                self.chosen = Some(Chosen { choice, key: key.clone(), at: now });
                vec![Effect::Chosen(choice)]
            }
            None => vec![self.draft(key, now)],
        }
    }

    fn choice(&self, key: &Key) -> Option<Choice> {
        let Key::Char(letter) = *key else { return None };
        if let Some(kind) = self.offer.wider {
            let own = match kind {
                WiderKind::Prefix => 'p',
                WiderKind::Directory => 'd',
            };
            if letter == own {
                return Some(Choice::WiderSession);
            }
            if letter == own.to_ascii_uppercase() {
                return Some(Choice::WiderAlways);
            }
        }
        match letter.to_ascii_lowercase() {
            'y' => Some(Choice::Once),
            's' if self.offer.session => Some(Choice::Session),
            'a' if self.offer.always => Some(Choice::Always),
            'n' => Some(Choice::No),
            'w' if self.offer.words => Some(Choice::NoWithWords),
            _ => None,
        }
    }

    /// Gives the key of a choice to the draft, if there is one.
    fn unchoose(&mut self, now: Duration) -> Vec<Effect> {
        match self.chosen.take() {
            Some(chosen) => vec![Effect::Unchosen, self.draft(&chosen.key, now)],
            None => Vec::new(),
        }
    }

    fn draft(&mut self, key: &Key, now: Duration) -> Effect {
        self.deaf_until = now + DEAF;
        // A line that was ended, or emptied, leaves nothing to go on with.
        self.is_typing = !matches!(key, Key::Enter | Key::Ctrl('u' | 'c'));
        Effect::Draft(key.clone())
    }
}
