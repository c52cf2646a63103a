use std::fmt::Write;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffTag};

/// Time for the exact comparison of two texts; then the rest is compared coarsely.
const PATIENCE: Duration = Duration::from_millis(200);

/// Unified diff of two texts, line by line.
///
/// One algorithm for one type, compiled once: a `similar::TextDiff` in each crate that shows a change would add 0.7 MB
/// of all its algorithms to the program, each time.
///
/// # Example
///
/// ```
/// use zk_core::model::UnifiedDiff;
///
/// let diff = UnifiedDiff::new("one\ntwo\n", "one\n2\n").named("a/list", "b/list").to_string();
/// assert_eq!(diff, "--- a/list\n+++ b/list\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnifiedDiff<'a> {
    old: &'a str,
    new: &'a str,
    names: Option<(&'a str, &'a str)>,
    context_lines: usize,
    patience: Duration,
}

impl<'a> UnifiedDiff<'a> {
    /// Creates the diff that turns `old` into `new`, with three lines of context and no header.
    #[must_use]
    pub fn new(old: &'a str, new: &'a str) -> Self {
        Self { old, new, names: None, context_lines: 3, patience: PATIENCE }
    }

    /// Adds a header with the names of both sides; texts that are equal have none.
    #[must_use]
    pub fn named(self, old: &'a str, new: &'a str) -> Self {
        Self { names: Some((old, new)), ..self }
    }

    /// Sets the number of unchanged lines around a change.
    #[must_use]
    pub fn keep_context(self, lines: usize) -> Self {
        Self { context_lines: lines, ..self }
    }

    /// Sets the time for the exact comparison; then the rest is compared coarsely.
    #[must_use]
    pub fn wait_at_most(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl std::fmt::Display for UnifiedDiff<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let old: Vec<&str> = self.old.split_inclusive('\n').collect();
        let new: Vec<&str> = self.new.split_inclusive('\n').collect();
        let mut found = Compact::new(Replace::new(Capture::new()), &*old, &*new);
        let (all_old, all_new) = (0..old.len(), 0..new.len());
        let deadline = Some(Instant::now() + self.patience);
        let Ok(()) = myers::diff_deadline(&mut found, &*old, all_old, &*new, all_new, deadline);
        let mut names = self.names;
        for ops in found.into_inner().into_inner().into_grouped_ops(self.context_lines) {
            if let Some((old, new)) = names.take() {
                write!(out, "--- {old}\n+++ {new}\n")?;
            }
            writeln!(out, "{}", UnifiedHunkHeader::new(&ops))?;
            for op in &ops {
                let (tag, old_range, new_range) = op.as_tag_tuple();
                let (old, new) =
                    (old.get(old_range).unwrap_or_default(), new.get(new_range).unwrap_or_default());
                match tag {
                    DiffTag::Equal => write_lines(ChangeTag::Equal, old, out)?,
                    DiffTag::Delete => write_lines(ChangeTag::Delete, old, out)?,
                    DiffTag::Insert => write_lines(ChangeTag::Insert, new, out)?,
                    DiffTag::Replace => {
                        write_lines(ChangeTag::Delete, old, out)?;
                        write_lines(ChangeTag::Insert, new, out)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn write_lines(tag: ChangeTag, lines: &[&str], out: &mut impl Write) -> std::fmt::Result {
    for line in lines {
        write!(out, "{tag}{line}")?;
        if !line.ends_with('\n') {
            out.write_str("\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use similar::TextDiff;

    use super::*;

    proptest! {
        #[test]
        fn a_diff_has_the_unified_format(
            old in prop::collection::vec("[a-d]{0,2}\n", 0..30),
            new in prop::collection::vec("[a-d]{0,2}\n", 0..30),
            ends in any::<[bool; 2]>(),
            context in 0..4_usize,
        ) {
            let text = |lines: Vec<String>, ends: bool| lines.concat() + if ends { "" } else { "end" };
            let (old, new) = (text(old, ends[0]), text(new, ends[1]));
            let usual = TextDiff::from_lines(&old, &new);
            let usual = usual.unified_diff().context_radius(context).header("a", "b").to_string();
            let diff = UnifiedDiff::new(&old, &new).named("a", "b").keep_context(context);
            prop_assert_eq!(diff.wait_at_most(Duration::from_secs(60)).to_string(), usual);
        }
    }
}
