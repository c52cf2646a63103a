use std::fmt;

use aho_corasick::packed::Searcher;

/// Vectorised search for the first of several byte strings, so that text without a match costs next to
/// nothing.
#[derive(Default)]
pub(super) struct Starts {
    /// The byte strings, sorted.
    all: Vec<Box<[u8]>>,
    /// For each first byte, the index in `all` of the first string with it; a last element ends the table.
    by_first: Vec<usize>,
    /// Searchers that share the strings; `None` if the processor lacks the vector instructions.
    searchers: Vec<Searcher>,
    /// Minimum length of text for a vectorised search, in bytes. Shorter text is searched byte by byte.
    min_simd_len: usize,
    pairs: Pairs,
}

/// Approximate set of the strings' first two bytes, by their lowest six bits: a row for the first byte, a bit
/// for the second.
struct Pairs(Box<[u64; 64]>);

impl Default for Pairs {
    fn default() -> Self {
        Self(Box::new([0; 64]))
    }
}

impl Pairs {
    fn add(&mut self, start: &[u8]) {
        let bits = start.get(1).map_or(u64::MAX, |second| 1 << (second & 63));
        if let Some(row) = start.first().and_then(|first| self.0.get_mut(usize::from(first & 63))) {
            *row |= bits;
        }
    }

    fn may_begin(&self, first: u8, second: Option<u8>) -> bool {
        let row = self.0.get(usize::from(first & 63)).copied().unwrap_or_default();
        row & second.map_or(u64::MAX, |second| 1 << (second & 63)) != 0
    }
}

/// Minimum length of text for which one searcher is worth its setup, in bytes.
const MIN_SEARCHED_BYTES: usize = 48;

/// Maximum number of strings for one searcher.
const MAX_OF_SEARCHER: usize = 48;

/// Hides the strings in debug output, since they are prefixes of secrets.
impl fmt::Debug for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starts").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

impl Starts {
    /// Creates a search for these strings. None of them may be empty.
    pub(super) fn new<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all: Vec<Box<[u8]>> = all.into_iter().map(Into::into).collect();
        all.sort_unstable();
        // A string with another one as its prefix is found by that prefix.
        all.dedup_by(|longer, shorter| longer.starts_with(shorter));
        // A searcher compares only as many bytes as its shortest string has, so that short strings would give
        // many false matches.
        let (short, long): (Vec<_>, Vec<_>) = all.iter().partition(|start| start.len() < 4);
        let parts = short.chunks(MAX_OF_SEARCHER).chain(long.chunks(MAX_OF_SEARCHER));
        let searchers: Option<_> = parts.map(Searcher::new).collect();
        let searchers: Vec<Searcher> = searchers.unwrap_or_default();
        let min_simd_len = searchers
            .iter()
            .map(Searcher::minimum_len)
            .max()
            .map_or(usize::MAX, |least| least.max(MIN_SEARCHED_BYTES));
        let mut pairs = Pairs::default();
        all.iter().for_each(|start| pairs.add(start));
        let before = |first: u16| {
            all.partition_point(|start| start.first().is_some_and(|own| u16::from(*own) < first))
        };
        let by_first = (0..=256).map(before).collect();
        Self { all, by_first, searchers, min_simd_len, pairs }
    }

    /// Returns the first position from `at` on where a string begins.
    pub(super) fn next(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.all.is_empty() {
            return None;
        }
        let rest = text.get(at..)?;
        let found = if rest.len() < self.min_simd_len {
            let follows = rest.iter().skip(1).copied().map(Some).chain([None]);
            let mut pairs = rest.iter().zip(follows).enumerate();
            pairs
                .find(|(at, (first, second))| {
                    self.pairs.may_begin(**first, *second)
                        && self.begins_with_string(**first, rest.get(*at..).unwrap_or_default())
                })
                .map(|(at, _)| at)
        } else {
            self.searchers.iter().filter_map(|searcher| searcher.find(rest)).map(|found| found.start()).min()
        };
        found.map(|found| at + found)
    }

    /// Whether a string begins `text`, whose first byte is `first`.
    fn begins_with_string(&self, first: u8, text: &[u8]) -> bool {
        let place = |first: usize| self.by_first.get(first).copied().unwrap_or_default();
        let first = usize::from(first);
        let with_first = self.all.get(place(first)..place(first + 1)).unwrap_or_default();
        with_first.iter().any(|start| text.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_string_is_found_in_order_also_within_another(
            starts in prop::collection::vec("[a-d!]{1,5}", 0..160),
            text in "[a-e!]{0,200}",
        ) {
            let found = |all: &Starts| {
                std::iter::successors(all.next(text.as_bytes(), 0), |at| all.next(text.as_bytes(), at + 1))
                    .collect::<Vec<_>>()
            };
            let fast = Starts::new(starts.iter().map(String::as_bytes));
            let slow = Starts { min_simd_len: usize::MAX, ..Starts::new(starts.iter().map(String::as_bytes)) };
            let places: Vec<usize> = (0..text.len())
                .filter(|at| starts.iter().any(|start| text.as_bytes()[*at..].starts_with(start.as_bytes())))
                .collect();
            prop_assert_eq!(&found(&fast), &places);
            prop_assert_eq!(&found(&slow), &places);
        }
    }

    #[test]
    fn debug_output_shows_no_prefix_of_a_secret() {
        assert!(!format!("{:?}", Starts::new([&b"corr"[..]])).contains("corr"));
    }
}
