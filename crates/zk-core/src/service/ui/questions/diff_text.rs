use serde_json::Value;

use super::hunk::HunkHead;

/// Parsed unified diff, in which texts can be searched.
pub(super) struct DiffText<'a> {
    path: &'a str,
    /// Lines after the change; `None` for unknown lines between two hunks.
    new: Vec<Option<&'a str>>,
    /// Lines before the change; `None` for unknown lines between two hunks.
    old: Vec<Option<&'a str>>,
    added: usize,
    removed: usize,
    /// Whether the file is new.
    is_new: bool,
}

impl<'a> DiffText<'a> {
    pub(super) fn new(path: &'a str, diff: &'a str) -> Self {
        let mut text = Self { path, new: Vec::new(), old: Vec::new(), added: 0, removed: 0, is_new: false };
        let (mut left_old, mut left_new) = (0_u64, 0_u64);
        let mut hunks = 0;
        for line in diff.split('\n') {
            if (left_old, left_new) == (0, 0) {
                if let Some(HunkHead { old, new }) = HunkHead::of(line) {
                    (left_old, left_new) = (old.1, new.1);
                    hunks += 1;
                    text.is_new = hunks == 1 && old == (0, 0);
                    text.new.push(None);
                    text.old.push(None);
                }
                continue;
            }
            let rest = line.get(1..).unwrap_or_default();
            match line.chars().next() {
                Some('+') => {
                    left_new = left_new.saturating_sub(1);
                    text.added += 1;
                    text.new.push(Some(rest));
                }
                Some('-') => {
                    left_old = left_old.saturating_sub(1);
                    text.removed += 1;
                    text.old.push(Some(rest));
                }
                Some('\\') => {}
                Some(_) | None => {
                    (left_old, left_new) = (left_old.saturating_sub(1), left_new.saturating_sub(1));
                    text.new.push(Some(rest));
                    text.old.push(Some(rest));
                }
            }
        }
        text
    }

    pub(super) fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the number of added lines, and of removed ones.
    pub(super) fn line_counts(&self) -> (usize, usize) {
        (self.added, self.removed)
    }

    /// Returns the number of lines of a file that the change creates; `None` if it changes an existing file.
    pub(super) fn created_lines(&self) -> Option<usize> {
        self.is_new.then_some(self.added)
    }

    /// Whether these lines occur consecutively on one side of the change.
    fn contains_lines(&self, text: &str) -> bool {
        let wanted: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
        let last = wanted.len().saturating_sub(1);
        // The first and the last wanted line may be parts of the lines found.
        let fits = |at: usize, found: &str, wanted: &str| match (at == 0, at == last) {
            (true, true) => found.contains(wanted),
            (true, false) => found.ends_with(wanted),
            (false, true) => found.starts_with(wanted),
            (false, false) => found == wanted,
        };
        let is_in = |lines: &[Option<&str>]| {
            lines.windows(wanted.len()).any(|found| {
                let mut pairs = found.iter().zip(&wanted).enumerate();
                pairs.all(|(at, (found, wanted))| found.is_some_and(|found| fits(at, found, wanted)))
            })
        };
        is_in(&self.new) || is_in(&self.old)
    }
}

/// Whether a diff shows all texts of an argument.
pub(super) fn shows_value(value: &Value, diff: &DiffText<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text == diff.path || diff.contains_lines(text),
        Value::Array(items) => items.iter().all(|item| shows_value(item, diff)),
        Value::Object(fields) => fields.values().all(|field| shows_value(field, diff)),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DIFF: &str =
        "--- a\n+++ b\n@@ -7,3 +7,4 @@\n one\n-two\n+2\n+++ three\n four\n@@ -20,1 +21,1 @@\n-x\n+y\n";

    #[test]
    fn a_diff_shows_the_texts_in_it_and_no_others() {
        let diff = DiffText::new("a.py", DIFF);
        assert_eq!((diff.line_counts(), diff.created_lines()), ((3, 2), None));
        for said in [
            json!("a.py"),
            json!("one\ntwo\nfour"),
            json!("2\n++ three\n"),
            json!([{"old": "x", "new": "y"}]),
        ] {
            assert!(shows_value(&said, &diff), "{said}");
        }
        for other in [json!("one\nfour"), json!("four\nx"), json!("b.py"), json!(true), json!({"n": 1})] {
            assert!(!shows_value(&other, &diff), "{other}");
        }
    }

    #[test]
    fn the_lines_of_a_created_file_are_counted() {
        let diff = DiffText::new("a", "--- a\n+++ a\n@@ -0,0 +1,2 @@\n+one\n+two\n");
        assert_eq!(diff.created_lines(), Some(2));
        assert!(shows_value(&json!("one\ntwo\n"), &diff));
    }
}
