use super::Findings;
use crate::workspace::Text;

/// Words that say nothing of the subject where a comment begins with them.
const WEAK: [&str; 10] = ["What", "How", "Who", "Whose", "Why", "Where", "Those", "That", "Its", "It"];

/// Two words that do not either.
const WEAK_PAIR: &str = "The same";

/// Refuses comments that begin with a pronoun or a relative clause instead of the noun that a reader searches for.
pub(super) fn check(file: &Text, findings: &mut Findings) {
    if !file.path.ends_with(".rs") {
        return;
    }
    let mut above = None;
    for (number, line) in file.text.lines().enumerate() {
        let comment = comment_of(line);
        let begins = comment.is_some() && comment.map(|(marker, _)| marker) != above;
        above = comment.map(|(marker, _)| marker);
        if let Some((_, text)) = comment.filter(|_| begins)
            && let Some(word) = weak_opening(text)
        {
            let advice = "begin with the noun or the verb that a reader searches for";
            findings
                .error(format_args!("{}:{}", file.path, number + 1), format_args!("`{word} …`: {advice}"));
        }
    }
}

/// The marker of a line that is a comment, with its indentation, and the text behind it.
fn comment_of(line: &str) -> Option<(&str, &str)> {
    let trimmed = line.trim_start();
    let marker = ["///", "//!", "//"].iter().find(|marker| trimmed.starts_with(**marker))?;
    let (marker, text) = line.split_at(line.len() - trimmed.len() + marker.len());
    Some((marker, text.trim_start()))
}

fn weak_opening(text: &str) -> Option<&'static str> {
    let has = |word: &&'static str| {
        text.strip_prefix(*word).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    WEAK.iter().copied().chain([WEAK_PAIR]).find(has)
}
