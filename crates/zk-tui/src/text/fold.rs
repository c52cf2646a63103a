use super::{columns, graphemes};

/// Maximum width of a table's first column, up to which further lines are indented to the second.
const MAX_FIRST_COLUMN: usize = 44;
/// Indentation in columns of the further lines of a text without a table.
const HANG_COLUMNS: usize = 2;

/// Wraps a line at words to `width` columns. Further lines are indented to the second column of a table, or
/// by two columns. A word longer than a line stays whole for copying.
///
/// ```
/// use zk_tui::plain::folded;
///
/// assert_eq!(folded("warn  a local model server needs no key", 30), ["warn  a local model server", "      needs no key"]);
/// ```
#[must_use]
pub fn folded(line: &str, width: usize) -> Vec<String> {
    if columns(line) <= width {
        return vec![line.to_owned()];
    }
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let hang = " ".repeat(
        second_column(line, indent).filter(|hang| *hang <= width / 2).unwrap_or(indent + HANG_COLUMNS),
    );
    let (mut lines, mut taken, mut now) = (Vec::new(), 0, String::new());
    let mut is_empty = true;
    for word in line.split_inclusive(' ') {
        let wide = columns(word.trim_end_matches(' '));
        if !is_empty && wide > 0 && taken + wide > width {
            lines.push(now.trim_end().to_owned());
            (now, taken) = (hang.clone(), hang.len());
        }
        is_empty &= wide == 0;
        now.push_str(word);
        taken += columns(word);
    }
    lines.push(now.trim_end().to_owned());
    lines
}

/// Byte position of the second column, if a line is a row of a table.
fn second_column(line: &str, indent: usize) -> Option<usize> {
    let (mut at, mut blanks) = (0, 0);
    for (grapheme, wide) in graphemes(line) {
        if grapheme == " " {
            blanks += 1;
        } else if blanks >= 2 && at > indent {
            return Some(at);
        } else {
            blanks = 0;
        }
        at += wide;
        if at > MAX_FIRST_COLUMN {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_at_words_and_goes_on_below_its_second_column() {
        let line = "  grep         Search the contents of files for a regular expression";
        let lines = folded(line, 40);
        assert_eq!(
            lines,
            [
                "  grep         Search the contents of",
                "               files for a regular",
                "               expression",
            ]
        );
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines.join(" ")), words(line));
    }

    #[test]
    fn a_text_without_columns_hangs_by_two_and_a_long_word_stays_whole() {
        assert_eq!(folded("zk: no key was found anywhere", 16), ["zk: no key was", "  found anywhere"]);
        let address = "https://example.com/a-path-that-is-longer-than-the-line";
        assert_eq!(folded(&format!("open {address} now"), 20), ["open", &format!("  {address}"), "  now"]);
        assert_eq!(folded("short", 80), ["short"]);
        assert_eq!(folded("", 0), [""]);
    }

    #[test]
    fn wide_characters_count_as_two() {
        assert_eq!(folded("語語語 語語語", 8), ["語語語", "  語語語"]);
    }
}
