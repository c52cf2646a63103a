use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::open::open_shape;
use super::shapes::{MAX_SIGN_BYTES, SIGN_REACH_BYTES, shapes_from};
use super::{REDACTED, Redactor};

/// Number of bytes of emitted text that are kept, because the text before a key tells whether it is one.
const CONTEXT_BYTES: usize = 512;

/// Longest text that is held back only for its form, in bytes; longer than any key.
const MAX_SHAPE_BYTES: usize = 64 * 1024;

/// Redacts secrets in a text that arrives in pieces, also if a key is cut between two pieces.
///
/// Only a possible beginning of a key is held back: at most the length of the longest learned value, or 64
/// KiB of text in the form of a key. All pieces together equal [`Redactor::redact`] of the whole text.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::service::{Redactor, RedactedPieces};
///
/// let redactor = Arc::new(Redactor::new());
/// redactor.learn("correct-horse-battery");
/// let mut pieces = RedactedPieces::new(redactor);
/// assert_eq!(pieces.push("it is corr".to_owned()), "it is ");
/// assert_eq!(pieces.push("ect-horse-battery, I ".to_owned()), "[redacted], I ");
/// assert_eq!(pieces.push("am corr".to_owned()), "am ");
/// assert_eq!(pieces.finish(), "corr");
/// ```
#[derive(Debug)]
pub struct RedactedPieces {
    redactor: Arc<Redactor>,
    /// Recently emitted text, followed by the text that is held back.
    text: String,
    /// Offset in `text` of the held-back part.
    from: usize,
    /// Offset in `text` up to which secrets are already replaced; at least `from`.
    covered: usize,
    signs: Signs,
}

/// Progress of the search for signs of secrets, so that no text is searched twice.
#[derive(Debug, Default)]
struct Signs {
    /// Offset of the last sign.
    last: Option<usize>,
    /// Offset up to which the text was searched.
    searched: usize,
    /// Number of values that the redactor knew at the time.
    known: usize,
}

impl RedactedPieces {
    /// Starts an empty text.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, text: String::new(), from: 0, covered: 0, signs: Signs::default() }
    }

    /// Appends a piece; returns the text that is certain by now.
    pub fn push(&mut self, piece: String) -> String {
        let is_fresh = self.covered == self.text.len();
        self.text.push_str(&piece);
        let has_sign = self.has_sign();
        let found = if has_sign { self.find() } else { Vec::new() };
        let hold = self.undecided_from(has_sign);
        if is_fresh && found.is_empty() && hold == self.text.len() {
            self.go_to(hold, hold);
            return piece;
        }
        self.emit(found, hold)
    }

    /// Ends the text and returns the held-back part. Another text may begin.
    pub fn finish(&mut self) -> String {
        let found = self.find();
        let shown = self.emit(found, self.text.len());
        (self.from, self.covered, self.signs) = (0, 0, Signs::default());
        self.text.clear();
        shown
    }

    /// Whether a sign of a secret is in the held-back text, or before it within reach. Much cheaper than a
    /// search for each secret.
    fn has_sign(&mut self) -> bool {
        let around = self.from.saturating_sub(SIGN_REACH_BYTES);
        self.redactor.search_signs(self.text.as_bytes(), around, &mut self.signs);
        self.signs.last.is_some_and(|at| at >= around)
    }

    /// Returns the ranges of all secrets in the held-back text, in order.
    fn find(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.redactor.find_known(self.text.as_bytes().get(self.from..).unwrap_or_default(), &mut found);
        for range in &mut found {
            *range = range.start + self.from..range.end + self.from;
        }
        found.extend(shapes_from(&self.text, self.from));
        found.sort_unstable_by_key(|range| (range.start, range.end));
        found
    }

    /// Returns the position from which the text may turn out to be a key when more arrives; the length of the
    /// text if there is none.
    fn undecided_from(&self, has_sign: bool) -> usize {
        let end = self.text.len();
        let known = self.redactor.open_value(self.text.as_bytes(), self.from, has_sign);
        let shape = open_shape(&self.text, self.from, has_sign).filter(|at| end - at <= MAX_SHAPE_BYTES);
        known.into_iter().chain(shape).min().unwrap_or(end)
    }

    /// Returns the text up to `hold`, with the secrets in `found` redacted.
    fn emit(&mut self, found: Vec<Range<usize>>, hold: usize) -> String {
        let mut shown = String::new();
        let mut at = self.covered;
        for range in found.into_iter().filter(|range| range.start < hold) {
            if range.end <= at {
                continue;
            }
            if range.start >= at {
                shown.push_str(self.text.get(at..range.start).unwrap_or_default());
                shown.push_str(REDACTED);
            }
            at = range.end;
        }
        shown.push_str(self.text.get(at..hold).unwrap_or_default());
        self.go_to(hold, at);
        shown
    }

    fn go_to(&mut self, hold: usize, covered: usize) {
        let mut gone = hold.saturating_sub(CONTEXT_BYTES);
        // Moving the rest of the text for every piece would cost more than keeping some of it.
        if gone < CONTEXT_BYTES {
            gone = 0;
        }
        while !self.text.is_char_boundary(gone) {
            gone -= 1;
        }
        self.text.drain(..gone);
        self.signs.last = self.signs.last.and_then(|at| at.checked_sub(gone));
        self.signs.searched = self.signs.searched.saturating_sub(gone);
        self.from = hold - gone;
        self.covered = covered.saturating_sub(gone).max(self.from);
    }
}

impl Redactor {
    /// Searches the part of `text` after `around` that was not searched before.
    fn search_signs(&self, text: &[u8], around: usize, signs: &mut Signs) {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if signs.known != all.values.len() {
            *signs = Signs { known: all.values.len(), ..Signs::default() };
        }
        let mut at = signs.searched.max(around);
        while let Some(found) = all.next_sign(text, at) {
            signs.last = Some(found);
            at = found + 1;
        }
        // A sign may begin at the end of the text.
        signs.searched = at.max((text.len() + 1).saturating_sub(MAX_SIGN_BYTES));
    }

    /// Returns the first position from `from` on where a learned value may begin that the end of `text` cuts
    /// off.
    fn open_value(&self, text: &[u8], from: usize, has_sign: bool) -> Option<usize> {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let longest = all.values.iter().map(|known| known.len).max()?;
        let start = all.values.first()?.start.len();
        let from = from.max((text.len() + 1).saturating_sub(longest));
        let is_open = |at: &usize| {
            let rest = text.get(*at..).unwrap_or_default();
            all.values.iter().any(|known| {
                rest.len() < known.len && rest.iter().zip(&known.start).all(|(byte, start)| byte == start)
            })
        };
        // A search finds complete first bytes; at the end of the text there may be fewer.
        let first = has_sign.then(|| all.starts().next(text, from)).flatten();
        let whole = std::iter::successors(first, |at| all.starts().next(text, at + 1));
        let last = from.max((text.len() + 1).saturating_sub(start))..text.len();
        whole.chain(last).find(is_open)
    }
}

#[cfg(test)]
mod tests;
