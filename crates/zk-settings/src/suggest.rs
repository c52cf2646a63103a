/// Returns the candidates similar to `word`, nearest first.
#[must_use]
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    nearest(word, &mut candidates.into_iter())
}

/// Not generic, so that the sorting is compiled once.
fn nearest<'a>(word: &str, candidates: &mut dyn Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().map(|(_, candidate)| candidate).take(3).collect()
}

/// Returns `; did you mean …?`, or an empty string.
#[must_use]
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(word, candidates);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", either(&near)) }
}

/// Returns `a, b or c` with each word in backticks.
#[must_use]
pub fn either(words: &[impl AsRef<str>]) -> String {
    or(&words.iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>())
}

/// Returns `a, b or c`.
#[must_use]
pub fn or(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_start_with_the_nearest_word_and_exclude_distant_ones() {
        assert_eq!(near("antropic", ["openai_compat", "anthropic"]), ["anthropic"]);
        assert_eq!(did_you_mean("xyz", ["anthropic"]), "");
    }

    #[test]
    fn choices_read_as_a_sentence() {
        assert_eq!(either(&["a"]), "`a`");
        assert_eq!(either(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
