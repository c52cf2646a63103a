use std::fmt::Write;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffTag};
use zk_core::model::Display;

use crate::text::{count, head, size};

/// Largest content of which a diff is computed for display, in bytes.
const MAX_INPUT_BYTES: usize = 2 * 1024 * 1024;
const MAX_OUTPUT: usize = 64 * 1024;
/// Largest diff in a preview, in bytes; far more than a person reads.
const MAX_PREVIEW_BYTES: usize = 8 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_millis(200);

/// Whole change of `path` for a person to approve. Nothing is cut: a diff that is too large for a question is
/// replaced by its size, and the arguments next to it show the whole change.
pub(crate) fn preview(path: &str, old: &[u8], new: &[u8]) -> Display {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let text = unified(&old, &new, Instant::now() + PATIENCE);
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
    let mut text = unified(&old, &new, Instant::now() + PATIENCE);
    if text.len() > MAX_OUTPUT {
        text = format!("{}\n… the rest is not shown", head(&text, MAX_OUTPUT));
    }
    Display::Diff { path: path.to_owned(), diff: text }
}

/// Unified diff with three lines of context; coarser if `deadline` passes.
///
/// Uses one algorithm for one type, since `similar::TextDiff` would add 0.7 MB for all of its algorithms.
fn unified(old: &str, new: &str, deadline: Instant) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut found = Compact::new(Replace::new(Capture::new()), &*old, &*new);
    let (all_old, all_new) = (0..old.len(), 0..new.len());
    let Ok(()) = myers::diff_deadline(&mut found, &*old, all_old, &*new, all_new, Some(deadline));
    let mut text = String::new();
    for ops in found.into_inner().into_inner().into_grouped_ops(3) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", UnifiedHunkHeader::new(&ops));
        for op in &ops {
            let (tag, old_range, new_range) = op.as_tag_tuple();
            let (old, new) = (old.get(old_range).unwrap_or_default(), new.get(new_range).unwrap_or_default());
            match tag {
                DiffTag::Equal => write_lines(ChangeTag::Equal, old, &mut text),
                DiffTag::Delete => write_lines(ChangeTag::Delete, old, &mut text),
                DiffTag::Insert => write_lines(ChangeTag::Insert, new, &mut text),
                DiffTag::Replace => {
                    write_lines(ChangeTag::Delete, old, &mut text);
                    write_lines(ChangeTag::Insert, new, &mut text);
                }
            }
        }
    }
    text
}

fn write_lines(tag: ChangeTag, lines: &[&str], text: &mut String) {
    for line in lines {
        let _ = write!(text, "{tag}{line}");
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use similar::TextDiff;

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

    proptest! {
        #[test]
        fn a_diff_has_the_unified_format(
            old in prop::collection::vec("[a-d]{0,2}\n", 0..30),
            new in prop::collection::vec("[a-d]{0,2}\n", 0..30),
            ends in any::<[bool; 2]>(),
        ) {
            let text = |lines: Vec<String>, ends: bool| lines.concat() + if ends { "" } else { "end" };
            let (old, new) = (text(old, ends[0]), text(new, ends[1]));
            let usual = TextDiff::from_lines(&old, &new).unified_diff().context_radius(3).to_string();
            prop_assert_eq!(unified(&old, &new, Instant::now() + Duration::from_secs(60)), usual);
        }
    }
}
