use zk_view::{DiffLine, DiffReader, changed_words};

use crate::row::{Ground, Row, Style, Tone};

/// A changed line: whether it was added, its number, and its text without its sign.
#[derive(Clone, Debug)]
struct Change<'a> {
    is_added: bool,
    number: u64,
    text: &'a str,
}

/// Minimum width of the line number column.
const MIN_NUMBER_COLUMNS: usize = 3;

/// Separator row between two hunks of a diff.
const GAP_MARK: &str = "⋮";

/// First `most` rows of a unified diff behind `edge`, and the number of changes in them. Lines are numbered;
/// changed words of a replaced line are bold. Backgrounds of changed lines extend to `width`.
pub(crate) fn short_diff<'a>(
    lines: impl Iterator<Item = &'a str> + Clone,
    edge: &str,
    most: usize,
    width: usize,
) -> (Vec<Row>, u64) {
    let mut drawing = Drawing { edge, width, columns: number_columns(lines.clone()), rows: Vec::new() };
    drawing.draw(lines, most);
    let mut rows = drawing.rows;
    rows.truncate(most);
    let changes = rows.iter().filter(|(_, is_change)| *is_change).count() as u64;
    (rows.into_iter().map(|(row, _)| row).collect(), changes)
}

/// All rows of a unified diff, styled like [`short_diff`]. Backgrounds end with the text.
pub(crate) fn whole_diff<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Vec<Row> {
    short_diff(lines, "", usize::MAX, 0).0
}

/// All rows of the unified diffs of several files, each below the name of its file.
pub(crate) fn diff_of_files<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Row> {
    let mut reader = DiffReader::default();
    let mut files: Vec<Vec<&str>> = vec![Vec::new()];
    for line in lines {
        let begins_file = matches!(reader.line(line), DiffLine::Header(_)) && line.starts_with("--- ");
        match files.last_mut() {
            Some(file) if !begins_file => file.push(line),
            _ => files.push(vec![line]),
        }
    }
    let mut rows = Vec::new();
    for file in files {
        let name = |sign: &str, side: &str| {
            let line = file.iter().find_map(|line| line.strip_prefix(sign))?;
            line.strip_prefix(side).map(|name| name.trim_end_matches('\t'))
        };
        if let Some(name) = name("+++ ", "b/").or_else(|| name("--- ", "a/")) {
            rows.push(Row::of(Style::BOLD, name));
        }
        rows.extend(whole_diff(file.into_iter()));
    }
    rows
}

/// Width of the largest line number, in columns.
fn number_columns<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
    let mut reader = DiffReader::default();
    let number = |line| match reader.line(line) {
        DiffLine::Added { number, .. } | DiffLine::Removed { number, .. } | DiffLine::Kept { number, .. } => {
            number
        }
        DiffLine::Header(_) | DiffLine::Hunk(_) => 0,
    };
    let largest = lines.map(number).max().unwrap_or_default();
    largest.to_string().len().max(MIN_NUMBER_COLUMNS)
}

/// State of drawing a diff as rows.
struct Drawing<'a> {
    edge: &'a str,
    width: usize,
    /// Width of the line numbers, in columns.
    columns: usize,
    /// Rows, and whether each shows a change.
    rows: Vec<(Row, bool)>,
}

impl Drawing<'_> {
    fn draw<'a>(&mut self, lines: impl Iterator<Item = &'a str>, most: usize) {
        // Block of consecutive changed lines.
        let mut block: Vec<Change<'a>> = Vec::new();
        let mut reader = DiffReader::default();
        for line in lines {
            let other = match reader.line(line) {
                DiffLine::Added { number, text } => {
                    block.push(Change { is_added: true, number, text });
                    continue;
                }
                DiffLine::Removed { number, text } => {
                    // An added line ends a block, so a removed line begins the next one.
                    if block.last().is_some_and(|last| last.is_added) {
                        self.draw_changes(&mut block);
                    }
                    block.push(Change { is_added: false, number, text });
                    continue;
                }
                // The file names are shown above the diff.
                DiffLine::Header(line)
                    if line.is_empty() || line.starts_with("--- ") || line.starts_with("+++ ") =>
                {
                    None
                }
                DiffLine::Header(line) => Some(Row::of(Style::DIM, &format!("{}{line}", self.edge))),
                DiffLine::Hunk(_) => {
                    let is_first = self.rows.is_empty() && block.is_empty();
                    let mark = format!("{}{GAP_MARK:>columns$}", self.edge, columns = self.columns);
                    (!is_first).then(|| Row::of(Style::DIM, &mark))
                }
                DiffLine::Kept { number, text } => {
                    let number = self.numbered(number);
                    Some(Row::of(Style::DIM, &number).with(Style::PLAIN, &format!("   {text}")))
                }
            };
            self.draw_changes(&mut block);
            self.rows.extend(other.map(|row| (row, false)));
            if self.rows.len() >= most {
                return;
            }
        }
        self.draw_changes(&mut block);
    }

    /// Edge and line number; blanks if unknown.
    fn numbered(&self, number: u64) -> String {
        let number = if number == 0 { String::new() } else { number.to_string() };
        format!("{}{number:>columns$}", self.edge, columns = self.columns)
    }

    /// Draws a block of changed lines. Removed and added lines are paired in order.
    fn draw_changes(&mut self, block: &mut Vec<Change<'_>>) {
        let (removed, added): (Vec<&Change<'_>>, Vec<&Change<'_>>) =
            block.iter().partition(|change| !change.is_added);
        let is_replaced = removed.len() == added.len();
        let pair = |changes: &[&Change<'_>], at: usize| changes.get(at).map(|change| change.text.to_owned());
        let row = |change: &Change<'_>, other: Option<String>| {
            let (style, sign) = if change.is_added {
                (Style { ground: Ground::Added, ..Style::GREEN }, "+")
            } else {
                (Style { ground: Ground::Removed, ..Style::RED }, "-")
            };
            let number = Style { dim: true, tone: Tone::Plain, ..style };
            let mut row = Row::of(number, &self.numbered(change.number)).with(style, &format!(" {sign} "));
            match other.filter(|_| is_replaced).and_then(|other| changed_words(change.text, &other)) {
                Some(parts) => {
                    for (part, is_changed) in parts {
                        let style =
                            if is_changed { Style { bold: true, underline: true, ..style } } else { style };
                        row = row.with(style, part);
                    }
                }
                None => row = row.with(style, change.text),
            }
            (row.with_fill(self.width), true)
        };
        let removed_rows = removed.iter().enumerate().map(|(at, change)| row(change, pair(&added, at)));
        let added_rows = added.iter().enumerate().map(|(at, change)| row(change, pair(&removed, at)));
        let rows: Vec<(Row, bool)> = removed_rows.chain(added_rows).collect();
        self.rows.extend(rows);
        block.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(diff: &str) -> Vec<Row> {
        let rows = whole_diff(diff.lines());
        rows.into_iter().filter(|row| row.text().contains(" + ") || row.text().contains(" - ")).collect()
    }

    #[test]
    fn each_of_several_files_stands_below_its_name() {
        let diff = "--- a/one\n+++ b/one\n@@ -1 +1 @@\n-- old\n++ new\n--- a/two\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
        let rows: Vec<String> =
            diff_of_files(diff.lines()).iter().map(|row| row.text().trim().to_owned()).collect();
        assert_eq!(rows, ["one", "1 - - old", "1 + + new", "two", "1 - gone"]);
    }

    fn bold_texts(row: &Row) -> Vec<String> {
        let is_heavy = |span: &&crate::row::Span| span.style().bold;
        row.spans().iter().filter(is_heavy).map(|span| span.text().to_owned()).collect()
    }

    #[test]
    fn the_changed_words_of_a_line_are_bold_and_signs_and_numbers_are_not() {
        let diff = "--- a\n+++ b\n@@ -7,2 +7,2 @@\n let x = old_name(1);\n-let total = count(a, b);\n+let total = count(a, c) + 1;\n";
        let rows = changes(diff);
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(texts, ["  8 - let total = count(a, b);", "  8 + let total = count(a, c) + 1;"]);
        assert_eq!(bold_texts(&rows[0]), ["b"]);
        assert_eq!(bold_texts(&rows[1]), ["c", " + 1"]);
    }

    #[test]
    fn a_changed_comment_of_two_dashes_is_shown_and_the_numbers_after_it_are_right() {
        let diff = "--- a\n+++ b\n@@ -3,4 +3,4 @@\n--- first\n+-- second\n keep\n-old\n+new\n keep\n";
        let texts: Vec<String> = whole_diff(diff.lines()).iter().map(Row::text).collect();
        assert_eq!(
            texts,
            ["  3 - -- first", "  3 + -- second", "  4   keep", "  5 - old", "  5 + new", "  6   keep"]
        );
    }

    #[test]
    fn a_diff_has_the_lines_around_what_changed_and_a_mark_between_its_parts() {
        let diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n@@ -1200,2 +1200,3 @@\n far\n+new\n end\n\\ No newline at end of file\n";
        let (rows, changes) = short_diff(diff.lines(), "    ", 20, 40);
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(
            texts,
            [
                "       1   one",
                "       2 - two",
                "       2 + zwei",
                "       3   three",
                "       ⋮",
                "    1200   far",
                "    1201 + new",
                "    1202   end",
                "    \\ No newline at end of file"
            ]
        );
        assert_eq!(changes, 3);
        let (rows, changes) = short_diff(diff.lines(), "", 2, 40);
        assert_eq!((rows.len(), changes), (2, 1), "what is left out is counted");
    }

    #[test]
    fn the_background_of_a_changed_line_fills_the_row_and_is_not_copied() {
        use crate::row::{Looks, Theme};
        let encoded = |theme, width| {
            let (rows, _) = short_diff("@@ -1 +1 @@\n+new\n".lines(), "", 20, width);
            rows[0].encode(Looks { theme, links: false }, None)
        };
        let dark = encoded(Theme::Dark, 20);
        assert!(dark.ends_with("+ new\u{1b}[K\u{1b}[m") && dark.contains("48;5;22"), "{dark:?}");
        assert!(!encoded(Theme::Dark, 9).contains("\u{1b}[K"), "a full row has no columns left");
        for theme in [Theme::Sixteen, Theme::ColourBlind, Theme::Mono] {
            let row = encoded(theme, 20);
            assert!(row.contains("+ new") && !row.contains("\u{1b}[K") && !row.contains("48;"), "{row:?}");
        }
    }

    #[test]
    fn lines_that_have_little_in_common_are_shown_without_changed_words() {
        for diff in [
            "@@ -1 +1 @@\n-one thing\n+quite another matter\n",
            "@@ -1,2 +1 @@\n-let a = 1;\n-let b = 2;\n+let a = 3;\n",
            "@@ -1 +1 @@\n+only new\n",
        ] {
            let rows = changes(diff);
            assert!(!rows.is_empty() && rows.iter().all(|row| bold_texts(row).is_empty()), "{diff}");
        }
    }

    #[test]
    fn any_two_lines_can_be_compared_and_nothing_of_them_is_lost() {
        let lines = ["", "a", "漢字 é 👩\u{200d}🚀", "fn f(a: &str) -> usize {", "    }", "a a a a a"];
        for one in lines {
            for other in lines {
                let diff = format!("@@ -1 +1 @@\n-{one}\n+{other}\n");
                let rows = changes(&diff);
                assert_eq!(
                    rows[0].text(),
                    format!("  1 - {}", crate::row::Span::new(Style::PLAIN, one).text())
                );
                assert_eq!(rows.len(), 2);
            }
        }
        let long = format!("@@ -1 +1 @@\n-{}\n+{}\n", "a ".repeat(5000), "b ".repeat(5000));
        assert_eq!(changes(&long).len(), 2);
    }
}
