use zk_core::service::HunkHead;

/// A line of a unified diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'a> {
    /// File name, mode, or note of the diff program.
    Header(&'a str),
    /// The beginning of a hunk.
    Hunk(&'a str),
    /// A line that stayed.
    Kept {
        /// Line number in the new file, from 1; 0 if unknown.
        number: u64,
        /// The line without its sign.
        text: &'a str,
    },
    /// Added line.
    Added {
        /// Line number in the new file, from 1; 0 if unknown.
        number: u64,
        /// The line without its sign.
        text: &'a str,
    },
    /// Removed line.
    Removed {
        /// Line number in the old file, from 1; 0 if unknown.
        number: u64,
        /// The line without its sign.
        text: &'a str,
    },
}

/// Line-by-line parser of a unified diff. Hunk headers give the number of lines, so a changed line that looks
/// like a header, such as the removed SQL comment `--- x`, is not mistaken for one.
///
/// ```
/// use zk_view::{DiffLine, DiffReader};
///
/// let mut reader = DiffReader::default();
/// reader.line("@@ -7 +7 @@");
/// assert_eq!(reader.line("--- x"), DiffLine::Removed { number: 7, text: "-- x" });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffReader {
    /// Numbers of the next line in the old and the new file.
    next: (u64, u64),
    /// Numbers of remaining lines of the hunk in the old and the new file.
    left: (u64, u64),
}

impl DiffReader {
    /// Reads the next line.
    pub fn line<'a>(&mut self, line: &'a str) -> DiffLine<'a> {
        let is_within = self.left != (0, 0);
        if !is_within && line.starts_with("@@") {
            if let Some(HunkHead { old, new }) = HunkHead::of(line) {
                (self.next, self.left) = ((old.0, new.0), (old.1, new.1));
            }
            return DiffLine::Hunk(line);
        }
        let text = line.get(1..).unwrap_or_default();
        // Outside of a hunk a line is recognised by its sign, which the headers with the file names also begin
        // with.
        let is_name = !is_within && (line.starts_with("+++") || line.starts_with("---"));
        match line.chars().next() {
            Some('+') if !is_name => {
                let number = self.next_new_number();
                DiffLine::Added { number, text }
            }
            Some('-') if !is_name => {
                let number = self.next_old_number();
                DiffLine::Removed { number, text }
            }
            // `\ No newline at end of file` belongs to neither file.
            Some('\\') => DiffLine::Header(line),
            // Some programs omit the space before an empty context line.
            Some(' ') | None if is_within => {
                self.next_old_number();
                let number = self.next_new_number();
                DiffLine::Kept { number, text }
            }
            Some(_) | None => DiffLine::Header(line),
        }
    }

    fn next_old_number(&mut self) -> u64 {
        advance(&mut self.next.0, &mut self.left.0)
    }

    fn next_new_number(&mut self) -> u64 {
        advance(&mut self.next.1, &mut self.left.1)
    }
}

/// Returns the present line number and advances it.
fn advance(next: &mut u64, left: &mut u64) -> u64 {
    let number = *next;
    *left = left.saturating_sub(1);
    if number > 0 {
        *next = number.saturating_add(1);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(diff: &str) -> Vec<String> {
        let mut reader = DiffReader::default();
        let shown = |line| match reader.line(line) {
            DiffLine::Header(line) => format!("h {line}"),
            DiffLine::Hunk(line) => format!("@ {line}"),
            DiffLine::Kept { number, text } => format!("{number}  {text}"),
            DiffLine::Added { number, text } => format!("{number} +{text}"),
            DiffLine::Removed { number, text } => format!("{number} -{text}"),
        };
        diff.lines().map(shown).collect()
    }

    #[test]
    fn a_changed_line_that_begins_like_a_header_is_a_line() {
        let diff = "--- a.sql\n+++ b.sql\n@@ -1,4 +1,4 @@\n--- old comment\n+-- new comment\n select 1;\n---x;\n+++x;\n last\n--- c\n+++ d\n@@ -9 +9,0 @@\n-gone\n";
        assert_eq!(
            read(diff),
            [
                "h --- a.sql",
                "h +++ b.sql",
                "@ @@ -1,4 +1,4 @@",
                "1 --- old comment",
                "1 +-- new comment",
                "2  select 1;",
                "3 ---x;",
                "3 +++x;",
                "4  last",
                "h --- c",
                "h +++ d",
                "@ @@ -9 +9,0 @@",
                "9 -gone",
            ]
        );
    }

    #[test]
    fn a_diff_without_line_numbers_still_has_added_and_removed_lines() {
        assert_eq!(
            read("--- a\n+++ b\n@@\n-x\n+y\n\\ No newline\n"),
            ["h --- a", "h +++ b", "@ @@", "0 -x", "0 +y", "h \\ No newline"]
        );
        assert_eq!(
            read("@@ -1,2 +1,2 @@\n\n-@@ x\n+@@ y\n"),
            ["@ @@ -1,2 +1,2 @@", "1  ", "2 -@@ x", "2 +@@ y"]
        );
    }
}
