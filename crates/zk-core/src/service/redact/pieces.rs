use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::open::find_open_secret;
use super::shapes::{MARKER_REACH_BYTES, MAX_MARKER_BYTES, find_secret_forms_from};
use super::{REDACTED, Redactor};

/// Number of bytes of emitted text that are kept, because the text before a possible key decides whether it
/// is one.
const CONTEXT_BYTES: usize = 512;

/// Maximum length of text that is held back because of its form, in bytes; longer than any key.
const MAX_HELD_FORM_BYTES: usize = 64 * 1024;

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
    markers: Markers,
}

/// Progress of the search for markers of secrets, so that no text is searched twice.
#[derive(Debug, Default)]
struct Markers {
    /// Offset of the last marker in the text.
    last: Option<usize>,
    /// Offset up to which the text was searched.
    searched: usize,
    /// Number of values that the redactor had learned when the text was searched.
    known: usize,
}

impl RedactedPieces {
    /// Creates a redactor for one text that arrives in pieces.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, text: String::new(), from: 0, covered: 0, markers: Markers::default() }
    }

    /// Appends a piece; returns the redacted text up to a possible incomplete secret.
    pub fn push(&mut self, piece: String) -> String {
        let is_fresh = self.covered == self.text.len();
        self.text.push_str(&piece);
        let has_marker = self.has_marker();
        let found = if has_marker { self.find_secrets() } else { Vec::new() };
        let hold = self.first_open_secret(has_marker);
        if is_fresh && found.is_empty() && hold == self.text.len() {
            self.advance_to(hold, hold);
            return piece;
        }
        self.emit_until(found, hold)
    }

    /// Ends the text and returns the held-back part. Afterwards another text may begin.
    pub fn finish(&mut self) -> String {
        let found = self.find_secrets();
        let shown = self.emit_until(found, self.text.len());
        (self.from, self.covered, self.markers) = (0, 0, Markers::default());
        self.text.clear();
        shown
    }

    /// Whether a marker of a secret is in the held-back text, or close enough before it. Much cheaper than a
    /// search for each secret.
    fn has_marker(&mut self) -> bool {
        let around = self.from.saturating_sub(MARKER_REACH_BYTES);
        self.redactor.search_markers(self.text.as_bytes(), around, &mut self.markers);
        self.markers.last.is_some_and(|at| at >= around)
    }

    /// Returns the ranges of all secrets in the held-back text, in order.
    fn find_secrets(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.redactor
            .find_learned_values(self.text.as_bytes().get(self.from..).unwrap_or_default(), &mut found);
        for range in &mut found {
            *range = range.start + self.from..range.end + self.from;
        }
        found.extend(find_secret_forms_from(&self.text, self.from));
        found.sort_unstable_by_key(|range| (range.start, range.end));
        found
    }

    /// Returns the position from which the text may be an incomplete secret; the length of the text if there
    /// is none.
    fn first_open_secret(&self, has_marker: bool) -> usize {
        let end = self.text.len();
        let known = self.redactor.find_open_value(self.text.as_bytes(), self.from, has_marker);
        let shape =
            find_open_secret(&self.text, self.from, has_marker).filter(|at| end - at <= MAX_HELD_FORM_BYTES);
        known.into_iter().chain(shape).min().unwrap_or(end)
    }

    /// Returns the text up to `hold`, with the secrets in `found` redacted.
    fn emit_until(&mut self, found: Vec<Range<usize>>, hold: usize) -> String {
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
        self.advance_to(hold, at);
        shown
    }

    fn advance_to(&mut self, hold: usize, covered: usize) {
        let mut gone = hold.saturating_sub(CONTEXT_BYTES);
        // Moving the remaining text for every piece would cost more than keeping some emitted text.
        if gone < CONTEXT_BYTES {
            gone = 0;
        }
        while !self.text.is_char_boundary(gone) {
            gone -= 1;
        }
        self.text.drain(..gone);
        self.markers.last = self.markers.last.and_then(|at| at.checked_sub(gone));
        self.markers.searched = self.markers.searched.saturating_sub(gone);
        self.from = hold - gone;
        self.covered = covered.saturating_sub(gone).max(self.from);
    }
}

impl Redactor {
    /// Searches the part of `text` from `around` on for markers, without the part that was searched before.
    fn search_markers(&self, text: &[u8], around: usize, markers: &mut Markers) {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if markers.known != all.values.len() {
            *markers = Markers { known: all.values.len(), ..Markers::default() };
        }
        let mut at = markers.searched.max(around);
        while let Some(found) = all.next_marker(text, at) {
            markers.last = Some(found);
            at = found + 1;
        }
        // A marker may be incomplete at the end of the text.
        markers.searched = at.max((text.len() + 1).saturating_sub(MAX_MARKER_BYTES));
    }

    /// Returns the first position, `from` or later, at which a learned value may begin that is incomplete at
    /// the end of `text`.
    fn find_open_value(&self, text: &[u8], from: usize, has_marker: bool) -> Option<usize> {
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
        // The index finds complete first bytes only; the end of the text may have fewer.
        let first = has_marker.then(|| all.value_starts().next(text, from)).flatten();
        let whole = std::iter::successors(first, |at| all.value_starts().next(text, at + 1));
        let last = from.max((text.len() + 1).saturating_sub(start))..text.len();
        whole.chain(last).find(is_open)
    }
}

#[cfg(test)]
mod tests;
