use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::MemoryError;

/// Name of the tool with which a model keeps a fact.
pub const REMEMBER: &str = "remember";

/// Size limit of one fact, in bytes.
pub const MAX_FACT_BYTES: usize = 2_000;

/// Id of a fact, never reused. Written as `m12`.
///
/// ```
/// use zk_memory::FactId;
///
/// assert_eq!("m12".parse::<FactId>().unwrap().to_string(), "m12");
/// assert_eq!("12".parse::<FactId>().unwrap(), FactId(12));
/// assert!("m-1".parse::<FactId>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactId(pub i64);

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

impl FromStr for FactId {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let digits = text.trim();
        let digits = digits.strip_prefix(['m', 'M']).unwrap_or(digits);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse().ok()).flatten();
        number.map(Self).ok_or_else(|| MemoryError::NotAnId(text.trim().to_owned()))
    }
}

/// Places in which a fact is recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactScope {
    /// One project, by its canonical root.
    Project(PathBuf),
    /// Every project.
    Everywhere,
}

impl FactScope {
    /// Root of the project as it is stored; empty for a fact of all projects.
    pub(crate) fn project(&self) -> String {
        match self {
            Self::Project(root) => root.to_string_lossy().into_owned(),
            Self::Everywhere => String::new(),
        }
    }

    pub(crate) fn from_project(project: String) -> Self {
        if project.is_empty() { Self::Everywhere } else { Self::Project(project.into()) }
    }

    /// Description of the scope for a person who works in the project at `here`.
    #[must_use]
    pub fn describe(&self, here: &Path) -> String {
        match self {
            Self::Project(root) if root == here => "this project".to_owned(),
            Self::Project(root) => root.display().to_string(),
            Self::Everywhere => "everywhere".to_owned(),
        }
    }
}

/// Author of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactOrigin {
    /// A person typed it.
    Person,
    /// A model asked for it with its tool, and a person or a rule allowed it.
    Model,
    /// A file of the person or the project has it.
    File(PathBuf),
}

impl FactOrigin {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Model => "model",
            Self::File(_) => "file",
        }
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Self::File(path) => path.to_string_lossy().into_owned(),
            Self::Person | Self::Model => String::new(),
        }
    }

    pub(crate) fn from_parts(name: &str, path: String) -> Self {
        match name {
            "file" => Self::File(path.into()),
            "person" => Self::Person,
            _ => Self::Model,
        }
    }

    /// Description of the origin for a person.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Person => "told by you".to_owned(),
            Self::Model => "kept by the model".to_owned(),
            Self::File(path) => format!("from {}", path.display()),
        }
    }
}

/// State of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactState {
    /// The fact is recalled.
    Kept,
    /// A person has to accept the fact before it is recalled.
    Proposed,
}

/// Fact to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    /// Text of the fact.
    pub text: String,
    /// Places in which it is recalled.
    pub scope: FactScope,
    /// Author of the fact.
    pub origin: FactOrigin,
    /// Session in which it was saved.
    pub session: Option<String>,
}

/// One fact of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Number of the fact.
    pub id: FactId,
    /// Text of the fact.
    pub text: String,
    /// Places in which it is recalled.
    pub scope: FactScope,
    /// Author of the fact.
    pub origin: FactOrigin,
    /// Whether it is recalled, or only proposed.
    pub state: FactState,
    /// Session in which it was saved.
    pub session: Option<String>,
    /// Time at which it was saved or last changed, in milliseconds since 1970.
    pub changed_ms: u64,
    /// Time of the last recall, in milliseconds since 1970.
    pub used_ms: Option<u64>,
    /// Number of recalls.
    pub uses: u64,
}

impl Fact {
    /// Whether a file of a project has the fact. Whoever writes to the project writes such facts.
    pub(crate) fn is_of_project_file(&self) -> bool {
        matches!((&self.origin, &self.scope), (FactOrigin::File(_), FactScope::Project(_)))
    }

    /// Description of the origin, the day and the scope of the fact.
    #[must_use]
    pub fn provenance(&self, here: &Path) -> String {
        format!("{}, {}, {}", self.origin.describe(), day(self.changed_ms), self.scope.describe(here))
    }
}

/// Checks a text and removes blanks around it.
///
/// # Errors
/// A text that is empty, too long, or has control characters.
pub(crate) fn checked_text(text: &str) -> Result<&str, MemoryError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(MemoryError::Empty);
    }
    if text.len() > MAX_FACT_BYTES {
        return Err(MemoryError::TooLong { bytes: text.len() });
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Err(MemoryError::ControlCharacters);
    }
    Ok(text)
}

/// Form of a text in which duplicates are equal: case, blanks and a full stop do not count.
pub(crate) fn duplicate_key(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").trim_end_matches(['.', '!']).to_owned()
}

/// Date of a time in UTC, as `2026-11-27`, computed with 400-year cycles that begin in March.
pub(crate) fn day(ms: u64) -> String {
    let days = ms / 86_400_000 + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{date:02}", cycle * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_say_the_same_have_one_key() {
        for (one, other) in
            [("Use  tabs.", "use tabs"), ("Use\ntabs", " USE TABS! "), ("Prefers ÄÖ", "prefers äö.")]
        {
            assert_eq!(duplicate_key(one), duplicate_key(other));
        }
        assert_ne!(duplicate_key("use tabs"), duplicate_key("use tab"));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, wanted) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_305_600, "2026-11-22")]
        {
            assert_eq!(day(seconds * 1_000), wanted);
        }
    }

    #[test]
    fn a_text_is_refused_for_what_it_is() {
        let long = "x".repeat(MAX_FACT_BYTES + 1);
        for text in ["", " \n ", "a\u{1b}[31mb", "a\0b", long.as_str()] {
            assert!(checked_text(text).is_err(), "{text:?}");
        }
        assert_eq!(checked_text(" two\nlines ").unwrap(), "two\nlines");
    }
}
