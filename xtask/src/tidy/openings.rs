use super::Findings;
use crate::workspace::Text;

/// Words that must not begin a comment, since they do not name its subject.
const WEAK: [&str; 10] = ["What", "How", "Who", "Whose", "Why", "Where", "Those", "That", "Its", "It"];

/// Pair of words with the same problem.
const WEAK_PAIR: &str = "The same";

/// Refuses comments that begin with a pronoun or a relative clause instead of the noun that a reader searches for.
pub(super) fn check(file: &Text, findings: &mut Findings) {
    for (line, word) in openings(file) {
        if let Some(word) = word {
            let advice = "begin with the noun or the verb that a reader searches for";
            findings.error(format_args!("{}:{line}", file.path), format_args!("`{word} …`: {advice}"));
        }
    }
}

/// Line of each comment in a file, with the refused word that it begins with, if any.
pub(crate) fn openings(file: &Text) -> Vec<(usize, Option<&'static str>)> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut above = None;
    for (number, line) in file.text.lines().enumerate() {
        let comment = comment_of(line);
        let marker = comment.map(|(marker, _)| marker);
        if let Some((_, text)) = comment.filter(|_| marker != above) {
            found.push((number + 1, weak_opening(text)));
        }
        above = marker;
    }
    found
}

/// Marker of a comment line with its indentation, and the text after it.
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
