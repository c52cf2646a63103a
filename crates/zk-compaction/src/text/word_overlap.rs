//! Similarity of two texts, by their words.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Minimum length in bytes of a counted word; shorter ones say little about a topic.
const MIN_WORD_BYTES: usize = 3;

/// Set of a text's words, as hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordSet(HashSet<u64>);

impl WordSet {
    pub(crate) fn of(text: &str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= MIN_WORD_BYTES);
        Self(words.map(hash).collect())
    }

    /// Fraction of these words that `other` also has, from 0 to 1.
    pub(crate) fn part_in(&self, other: &Self) -> f64 {
        self.count_shared(other) as f64 / self.0.len().max(1) as f64
    }

    /// Number of common words divided by the number of all words of both texts, from 0 to 1.
    pub(crate) fn likeness(&self, other: &Self) -> f64 {
        let shared = self.count_shared(other);
        shared as f64 / (self.0.len() + other.0.len() - shared).max(1) as f64
    }

    fn count_shared(&self, other: &Self) -> usize {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().filter(|word| many.0.contains(word)).count()
    }
}

fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.to_lowercase().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_by_words_whatever_their_case_and_signs() {
        let (one, other) = (WordSet::of("Fix the login form."), WordSet::of("the FORM of the login"));
        assert!((one.part_in(&other) - 0.75).abs() < 1e-9);
        assert!((one.likeness(&other) - 0.75).abs() < 1e-9);
        assert!(WordSet::of("").likeness(&one).abs() < 1e-9);
    }
}
