/// Maximum number of compared words of a line: longer lines get no emphasis.
const MAX_COMPARED_WORDS: usize = 200;

/// Parts of `text`, and whether each is missing in `other`. `None` if too little is equal for emphasis to
/// help.
///
/// ```
/// let parts = zk_view::changed_words("return sum(x)", "return round(sum(x), 2)");
/// assert!(parts.is_some_and(|parts| parts.iter().all(|(_, is_changed)| !is_changed)));
/// ```
#[must_use]
pub fn changed_words<'a>(text: &'a str, other: &str) -> Option<Vec<(&'a str, bool)>> {
    let (ours, theirs) = (words(text), words(other));
    if ours.len() > MAX_COMPARED_WORDS || theirs.len() > MAX_COMPARED_WORDS {
        return None;
    }
    let kept = in_common_subsequence(&ours, &theirs);
    let same: usize =
        ours.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(word, _)| word.trim().len()).sum();
    if same * 3 < text.trim().len().max(other.trim().len()) {
        return None;
    }
    let mut parts: Vec<(&str, bool)> = Vec::new();
    let mut at = 0;
    for (word, kept) in ours.iter().zip(kept) {
        let end = at + word.len();
        match parts.last_mut() {
            Some((part, is_changed)) if *is_changed != kept => {
                *part = text.get(at - part.len()..end).unwrap_or_default();
            }
            Some(_) | None => parts.push((text.get(at..end).unwrap_or_default(), !kept)),
        }
        at = end;
    }
    Some(parts)
}

/// Words of a line, and the separators between them.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut from = 0;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = None;
    for (at, c) in text.char_indices() {
        if at > from && (!is_word(c) || before.is_some_and(|before| !is_word(before))) {
            words.push(text.get(from..at).unwrap_or_default());
            from = at;
        }
        before = Some(c);
    }
    words.push(text.get(from..).unwrap_or_default());
    words
}

/// Whether each of the words `ours` is in the longest common subsequence.
fn in_common_subsequence(ours: &[&str], theirs: &[&str]) -> Vec<bool> {
    let width = theirs.len() + 1;
    let mut lengths = vec![0u16; (ours.len() + 1) * width];
    let at = |lengths: &[u16], row: usize, column: usize| {
        lengths.get(row * width + column).copied().unwrap_or_default()
    };
    for (row, one) in ours.iter().enumerate().rev() {
        for (column, other) in theirs.iter().enumerate().rev() {
            let best = if one == other {
                at(&lengths, row + 1, column + 1) + 1
            } else {
                at(&lengths, row + 1, column).max(at(&lengths, row, column + 1))
            };
            if let Some(length) = lengths.get_mut(row * width + column) {
                *length = best;
            }
        }
    }
    let mut kept = vec![false; ours.len()];
    let (mut row, mut column) = (0, 0);
    while let (Some(one), Some(other)) = (ours.get(row), theirs.get(column)) {
        if one == other {
            if let Some(kept) = kept.get_mut(row) {
                *kept = true;
            }
            (row, column) = (row + 1, column + 1);
        } else if at(&lengths, row + 1, column) >= at(&lengths, row, column + 1) {
            row += 1;
        } else {
            column += 1;
        }
    }
    kept
}
