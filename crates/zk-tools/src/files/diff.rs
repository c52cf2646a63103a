use zk_core::model::{Display, UnifiedDiff};

use crate::text::{count, head, size};

/// Largest content of which a diff is computed for display, in bytes.
const MAX_INPUT_BYTES: usize = 2 * 1024 * 1024;
const MAX_OUTPUT: usize = 64 * 1024;
/// Largest diff in a preview, in bytes; far more than a person reads.
const MAX_PREVIEW_BYTES: usize = 8 * 1024 * 1024;

/// Whole change of `path` for a person to approve. Nothing is cut: a diff that is too large for a question is
/// replaced by its size, and the arguments next to it show the whole change.
pub(crate) fn preview(path: &str, old: &[u8], new: &[u8]) -> Display {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let text = UnifiedDiff::new(&old, &new).to_string();
    if text.len() <= MAX_PREVIEW_BYTES {
        return Display::Diff { path: path.to_owned(), diff: text };
    }
    let (lines, size) = (count(text.lines().count(), "line"), size(text.len() as u64));
    let text = format!(
        "the difference to what is in `{path}` has {lines} ({size}), too much for a question: \
         the arguments above are everything that runs"
    );
    Display::Line { text }
}

/// Whether a diff is computed for a content of this size.
pub(crate) fn is_shown(len: usize) -> bool {
    len <= MAX_INPUT_BYTES
}

/// Replacement for a diff that is too large.
pub(crate) fn too_large(path: &str) -> Display {
    Display::Line { text: format!("changed {path}") }
}

/// Diff of `path` for display.
pub(crate) fn display(path: &str, old: &[u8], new: &[u8]) -> Display {
    if !is_shown(old.len().max(new.len())) {
        return too_large(path);
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let mut text = UnifiedDiff::new(&old, &new).to_string();
    if text.len() > MAX_OUTPUT {
        text = format!("{}\n… the rest is not shown", head(&text, MAX_OUTPUT));
    }
    Display::Diff { path: path.to_owned(), diff: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_no_question_can_show_is_told_by_its_size_and_never_in_part() {
        let text = |lines: usize| "0123456789abcde\n".repeat(lines);
        let (least, most) = (text(MAX_PREVIEW_BYTES / 32), text(MAX_PREVIEW_BYTES / 16));
        let shown = preview("large", b"", least.as_bytes());
        assert!(
            matches!(&shown, Display::Diff { diff, .. } if diff.matches("+0123").count() == MAX_PREVIEW_BYTES / 32)
        );
        let Display::Line { text } = preview("large", b"", most.as_bytes()) else {
            panic!("a part is no preview")
        };
        for told in ["`large` has 524289 lines (8.5 MB)", "the arguments above are everything that runs"] {
            assert!(text.contains(told), "{text}");
        }
    }
}
