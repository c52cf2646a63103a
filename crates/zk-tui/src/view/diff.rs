use zk_view::{DiffLine, DiffReader};

use crate::row::{Row, Style};

/// Words of a line that are compared: longer lines are shown without emphasis.
const MAX_COMPARED_WORDS: usize = 200;

/// A changed line: whether it was added, its number, and its text without its sign.
#[derive(Clone, Debug)]
struct Change<'a> {
    is_added: bool,
    number: u64,
    text: &'a str,
}

/// The lines of a unified diff that say what changed, with their numbers. Of a line that was replaced, the words that
/// changed are heavy.
pub(super) fn changes<'a>(lines: impl Iterator<Item = &'a str>, most: usize) -> Vec<Row> {
    let mut rows = rows(lines, most, false);
    rows.truncate(most);
    rows
}

/// All lines of a unified diff, as [`changes`] shows those that changed.
pub(crate) fn whole_diff<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Row> {
    rows(lines, usize::MAX, true)
}

fn rows<'a>(lines: impl Iterator<Item = &'a str>, most: usize, is_whole: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    // Lines that follow each other without one between them that stayed.
    let mut block: Vec<Change<'a>> = Vec::new();
    let mut reader = DiffReader::default();
    for line in lines {
        let other = match reader.line(line) {
            DiffLine::Added { number, text } => {
                block.push(Change { is_added: true, number, text });
                continue;
            }
            DiffLine::Removed { number, text } => {
                // Lines that were added before belong to others.
                if block.last().is_some_and(|last| last.is_added) {
                    flush(&mut block, &mut rows);
                }
                block.push(Change { is_added: false, number, text });
                continue;
            }
            DiffLine::Header(line) => Row::of(Style::DIM, line),
            DiffLine::Hunk(line) => Row::of(Style::CYAN, line),
            DiffLine::Kept { number, text } => {
                Row::of(Style::DIM, &numbered(number)).with(Style::PLAIN, &format!(" {text}"))
            }
        };
        flush(&mut block, &mut rows);
        if is_whole {
            rows.push(other);
        }
        if rows.len() >= most {
            break;
        }
    }
    flush(&mut block, &mut rows);
    rows
}

/// The number of a line before its sign; blanks where it is not known.
fn numbered(number: u64) -> String {
    if number == 0 { " ".repeat(7) } else { format!("{number:>6} ") }
}

/// The rows of lines that were replaced by each other: the first by the first, and so on.
fn flush(block: &mut Vec<Change<'_>>, rows: &mut Vec<Row>) {
    let count = |is_added| block.iter().filter(|change| change.is_added == is_added).count();
    let is_replaced = count(true) == count(false);
    let (removed, added): (Vec<&Change<'_>>, Vec<&Change<'_>>) =
        block.iter().partition(|change| !change.is_added);
    let pair = |changes: &[&Change<'_>], at: usize| changes.get(at).map(|change| change.text.to_owned());
    let row = |change: &Change<'_>, other: Option<String>| {
        let style = if change.is_added { Style::GREEN } else { Style::RED };
        let sign = if change.is_added { "+" } else { "-" };
        let mut row = Row::of(Style::DIM, &numbered(change.number)).with(style, sign);
        match other.filter(|_| is_replaced).and_then(|other| emphasis(change.text, &other)) {
            Some(parts) => {
                for (part, is_changed) in parts {
                    let style =
                        if is_changed { Style { bold: true, underline: true, ..style } } else { style };
                    row = row.with(style, part);
                }
            }
            None => row = row.with(style, change.text),
        }
        row
    };
    rows.extend(removed.iter().enumerate().map(|(at, change)| row(change, pair(&added, at))));
    rows.extend(added.iter().enumerate().map(|(at, change)| row(change, pair(&removed, at))));
    block.clear();
}

/// The parts of `text`, and whether each is missing in `other`. Nothing where too little is the same for that to help.
fn emphasis<'a>(text: &'a str, other: &str) -> Option<Vec<(&'a str, bool)>> {
    let (ours, theirs) = (words(text), words(other));
    if ours.len() > MAX_COMPARED_WORDS || theirs.len() > MAX_COMPARED_WORDS {
        return None;
    }
    let kept = common(&ours, &theirs);
    let same: usize =
        ours.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(word, _)| word.trim().len()).sum();
    if same * 3 < text.trim().len().max(other.trim().len()) {
        return None;
    }
    let mut parts: Vec<(&str, bool)> = Vec::new();
    let mut at = 0;
    for (word, kept) in ours.iter().zip(kept) {
        let end = at + word.len();
        match parts.last_mut() {
            Some((part, is_changed)) if *is_changed != kept => {
                *part = text.get(at - part.len()..end).unwrap_or_default();
            }
            Some(_) | None => parts.push((text.get(at..end).unwrap_or_default(), !kept)),
        }
        at = end;
    }
    Some(parts)
}

/// The words of a line, and what stands between them.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut from = 0;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = None;
    for (at, c) in text.char_indices() {
        if at > from && (!is_word(c) || before.is_some_and(|before| !is_word(before))) {
            words.push(text.get(from..at).unwrap_or_default());
            from = at;
        }
        before = Some(c);
    }
    words.push(text.get(from..).unwrap_or_default());
    words
}

/// Finds which of `ours` are in the longest common sequence of both.
fn common(ours: &[&str], theirs: &[&str]) -> Vec<bool> {
    let width = theirs.len() + 1;
    let mut lengths = vec![0u16; (ours.len() + 1) * width];
    let at = |lengths: &[u16], row: usize, column: usize| {
        lengths.get(row * width + column).copied().unwrap_or_default()
    };
    for (row, one) in ours.iter().enumerate().rev() {
        for (column, other) in theirs.iter().enumerate().rev() {
            let best = if one == other {
                at(&lengths, row + 1, column + 1) + 1
            } else {
                at(&lengths, row + 1, column).max(at(&lengths, row, column + 1))
            };
            if let Some(length) = lengths.get_mut(row * width + column) {
                *length = best;
            }
        }
    }
    let mut kept = vec![false; ours.len()];
    let (mut row, mut column) = (0, 0);
    while let (Some(one), Some(other)) = (ours.get(row), theirs.get(column)) {
        if one == other {
            if let Some(kept) = kept.get_mut(row) {
                *kept = true;
            }
            (row, column) = (row + 1, column + 1);
        } else if at(&lengths, row + 1, column) >= at(&lengths, row, column + 1) {
            row += 1;
        } else {
            column += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heavy(row: &Row) -> Vec<String> {
        let is_heavy = |span: &&crate::row::Span| span.style().bold;
        row.spans().iter().filter(is_heavy).map(|span| span.text().to_owned()).collect()
    }

    #[test]
    fn the_words_that_changed_in_a_line_are_heavy_and_signs_and_numbers_stay() {
        let diff = "--- a\n+++ b\n@@ -7,2 +7,2 @@\n let x = old_name(1);\n-let total = count(a, b);\n+let total = count(a, c) + 1;\n";
        let rows = changes(diff.lines(), 20);
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(texts, ["     8 -let total = count(a, b);", "     8 +let total = count(a, c) + 1;"]);
        assert_eq!(heavy(&rows[0]), ["b"]);
        assert_eq!(heavy(&rows[1]), ["c", " + 1"]);
    }

    #[test]
    fn a_changed_comment_of_two_dashes_is_shown_and_the_numbers_after_it_are_right() {
        let diff = "--- a\n+++ b\n@@ -3,4 +3,4 @@\n--- first\n+-- second\n keep\n-old\n+new\n keep\n";
        let texts = |rows: Vec<Row>| rows.iter().map(Row::text).collect::<Vec<_>>();
        assert_eq!(
            texts(changes(diff.lines(), 20)),
            ["     3 --- first", "     3 +-- second", "     5 -old", "     5 +new"]
        );
        assert_eq!(
            texts(whole_diff(diff.lines())),
            [
                "--- a",
                "+++ b",
                "@@ -3,4 +3,4 @@",
                "     3 --- first",
                "     3 +-- second",
                "     4  keep",
                "     5 -old",
                "     5 +new",
                "     6  keep"
            ]
        );
    }

    #[test]
    fn lines_that_have_little_in_common_are_shown_without_emphasis() {
        for diff in [
            "@@ -1 +1 @@\n-one thing\n+quite another matter\n",
            "@@ -1,2 +1 @@\n-let a = 1;\n-let b = 2;\n+let a = 3;\n",
            "@@ -1 +1 @@\n+only new\n",
        ] {
            let rows = changes(diff.lines(), 20);
            assert!(!rows.is_empty() && rows.iter().all(|row| heavy(row).is_empty()), "{diff}");
        }
    }

    #[test]
    fn any_two_lines_can_be_compared_and_nothing_of_them_is_lost() {
        let lines = ["", "a", "漢字 é 👩\u{200d}🚀", "fn f(a: &str) -> usize {", "    }", "a a a a a"];
        for one in lines {
            for other in lines {
                let diff = format!("@@ -1 +1 @@\n-{one}\n+{other}\n");
                let rows = changes(diff.lines(), 20);
                assert_eq!(
                    rows[0].text(),
                    format!("     1 -{}", crate::row::Span::new(Style::PLAIN, one).text())
                );
                assert_eq!(rows.len(), 2);
            }
        }
        let long = format!("@@ -1 +1 @@\n-{}\n+{}\n", "a ".repeat(5000), "b ".repeat(5000));
        assert_eq!(changes(long.lines(), 20).len(), 2);
    }
}
