/// Maximum number of words that are searched for.
const MAX_QUERY_WORDS: usize = 32;

/// Bytes at the beginning and at the end of a prompt in which words are looked for: what a person asks stands
/// before or behind what they pasted.
const MAX_EDGE_BYTES: usize = 2_048;

/// Words that say nothing about the subject of a prompt.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "done", "for", "from", "get", "had", "has",
    "have", "he", "her", "here", "his", "how", "i", "if", "in", "into", "is", "it", "its", "let", "like",
    "ll", "may", "me", "more", "my", "need", "no", "not", "now", "of", "on", "one", "only", "or", "our",
    "out", "please", "re", "remember", "s", "should", "so", "some", "t", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "to", "too", "up", "us", "use", "ve", "was", "we",
    "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
    // German.
    "aber", "als", "auch", "auf", "aus", "bei", "bitte", "das", "dass", "dem", "den", "der", "des", "die",
    "du", "ein", "eine", "einen", "er", "es", "für", "hat", "ich", "im", "ist", "kann", "man", "mein",
    "mich", "mir", "mit", "nach", "nicht", "noch", "nur", "oder", "sich", "sie", "sind", "über", "um", "und",
    "uns", "von", "vor", "warum", "wenn", "wer", "wie", "wir", "zu", "zum", "zur",
];

/// Words of a prompt to search for, in their order, each once.
pub(crate) fn query_words(prompt: &str) -> Vec<String> {
    let head_end = floor_boundary(prompt, MAX_EDGE_BYTES);
    let tail_start = floor_boundary(prompt, prompt.len().saturating_sub(MAX_EDGE_BYTES)).max(head_end);
    let head = words_in(prompt.get(..head_end).unwrap_or_default());
    let tail = words_in(prompt.get(tail_start..).unwrap_or_default());
    let mut words: Vec<String> = Vec::new();
    let half = if tail.is_empty() { MAX_QUERY_WORDS } else { MAX_QUERY_WORDS / 2 };
    let last_words = tail.len().saturating_sub(MAX_QUERY_WORDS - half);
    for word in head.into_iter().take(half).chain(tail.into_iter().skip(last_words)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Distinct words of a text without stop words. A word is a run of letters and digits, as the index has it.
pub(crate) fn words_in(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let word = word.to_lowercase();
        let is_short = word.chars().nth(1).is_none() && word.is_ascii();
        if !word.is_empty() && !is_short && !STOP_WORDS.contains(&&*word) && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Expression of FTS5 that matches any of the words.
pub(crate) fn to_fts(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    quoted.join(" OR ")
}

/// Largest character boundary that is at most `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_subject() {
        for (prompt, wanted) in [
            ("How do I run the tests of this crate?", vec!["run", "tests", "crate"]),
            ("fix src/parse_line.rs, please", vec!["fix", "src", "parse", "line", "rs"]),
            ("Wie heißt die Datenbank für Kunden?", vec!["heißt", "datenbank", "kunden"]),
            ("\" OR NEAR(*) -- \u{202e}", vec!["near"]),
            ("?!", vec![]),
        ] {
            assert_eq!(query_words(prompt), wanted, "{prompt}");
        }
    }

    #[test]
    fn of_a_pasted_log_the_question_behind_it_counts() {
        let mut prompt: String = (0..10_000).map(|number| format!("line{number} ")).collect();
        prompt.push_str("why does the zeppelin fail?");
        let words = query_words(&prompt);
        assert!(words.contains(&"zeppelin".to_owned()) && words.len() <= MAX_QUERY_WORDS, "{words:?}");
    }
}
