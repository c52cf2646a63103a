//! Purposes of families of models, in a few words.

use zk_core::model::Model;

pub(super) const SMALL: &str = "fast, small tasks";
const EVERYDAY: &str = "everyday coding";
const HARD: &str = "hard tasks";
const CODING: &str = "coding";

/// Rows of a word in a model's id and the purpose. The first matching row counts.
const PURPOSES: [(&str, &str); 18] = [
    ("lite", SMALL),
    ("nano", SMALL),
    ("mini", SMALL),
    ("haiku", SMALL),
    ("luna", SMALL),
    ("codex", CODING),
    ("coder", CODING),
    ("codestral", CODING),
    ("devstral", CODING),
    ("flash", "fast, everyday work"),
    ("terra", "fast, everyday work"),
    ("sonnet", EVERYDAY),
    ("sol", EVERYDAY),
    ("opus", HARD),
    ("astra", HARD),
    ("pro", HARD),
    ("reasoner", HARD),
    ("large", EVERYDAY),
];

/// Returns the purpose of a model in a few words; `None` if its id is of no known family.
///
/// ```
/// use zk_core::model::Model;
/// use zk_providers::purpose;
///
/// assert_eq!(purpose(&Model::unknown("anthropic", "claude-haiku-4-5")), Some("fast, small tasks"));
/// assert_eq!(purpose(&Model::unknown("lab", "solar-1")), None);
/// ```
#[must_use]
pub fn purpose(model: &Model) -> Option<&'static str> {
    let id = model.id.to_lowercase();
    let has = |word: &str| id.split(|c: char| !c.is_ascii_alphabetic()).any(|part| part == word);
    PURPOSES.iter().find(|(word, _)| has(word)).map(|(_, purpose)| *purpose)
}
