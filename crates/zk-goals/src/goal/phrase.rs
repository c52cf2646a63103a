/// Markdown marks that may surround the phrase.
const MARKS: [char; 5] = ['*', '_', '`', '"', '>'];

/// Whether the last line of an answer is the phrase, as a whole; marks of Markdown around it do not count.
///
/// ```
/// use zk_goals::ends_with_phrase;
///
/// let phrase = "The goal is reached.";
/// assert!(ends_with_phrase("All tests pass.\n\n**The goal is reached.**\n", phrase));
/// assert!(!ends_with_phrase("I will say `The goal is reached.` once it is.", phrase));
/// assert!(!ends_with_phrase("The goal is reached.\nNo, one test fails.", phrase));
/// ```
#[must_use]
pub fn ends_with_phrase(answer: &str, phrase: &str) -> bool {
    let phrase = phrase.trim();
    let last = answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let bare = |text: &str| text.trim_matches(|c: char| c.is_whitespace() || MARKS.contains(&c)).to_owned();
    !phrase.is_empty() && bare(last) == bare(phrase)
}

/// Returns a digest that is equal for answers that differ only in blanks.
pub(super) fn answer_digest(answer: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let words = answer.split_whitespace().flat_map(|word| word.bytes().chain([b' ']));
    words.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
