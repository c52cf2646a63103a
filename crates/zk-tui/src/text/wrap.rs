use super::{columns, graphemes};
use crate::row::{Row, Span};

/// Wraps a line at words to rows of `width` columns, with the prefix `first` for the first row and `rest` for
/// the others. A word longer than a row stays whole for copying.
pub(crate) fn wrap(line: &Row, first: &Row, rest: &Row, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = first.clone();
    let mut taken = first.columns();
    let mut is_empty = true;
    for word in words(line) {
        let room = width.saturating_sub(taken);
        if !is_empty && word.columns > room {
            rows.push(std::mem::replace(&mut row, rest.clone()));
            taken = rest.columns();
        }
        for span in word.spans.into_iter().chain(word.blank.into_iter().take(1)) {
            row.push(span);
        }
        taken += word.columns + word.blank_columns;
        is_empty = false;
    }
    rows.push(row);
    rows
}

/// Minimum width at which words are cut, in columns.
const MIN_CUT_COLUMNS: usize = 8;

/// Wraps a line like [`wrap`], and cuts words that are longer than a row, so that every row keeps its prefix.
/// Only an address stays whole for copying.
pub(crate) fn wrap_within(line: &Row, first: &Row, rest: &Row, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, row) in wrap(line, first, rest, width).into_iter().enumerate() {
        let prefix = if at == 0 { first } else { rest };
        let room = width.saturating_sub(prefix.columns());
        let text = row.cut(prefix.text_len(), row.text_len());
        if room < MIN_CUT_COLUMNS || text.text().contains("://") {
            rows.push(row);
            continue;
        }
        for (part_at, part) in soft_split(&text, room).iter().enumerate() {
            let mut row = if part_at == 0 { prefix } else { rest }.clone();
            part.spans().iter().for_each(|span| row.push(span.clone()));
            rows.push(row);
        }
    }
    rows
}

/// Splits a row at the screen's edge, like a terminal.
pub(crate) fn soft_split(row: &Row, width: usize) -> Vec<Row> {
    let width = width.max(1);
    // Trailing spaces of a row are not written and need no room.
    if row.columns() <= width || columns(row.text().trim_end_matches(' ')) <= width {
        return vec![row.clone()];
    }
    let (mut rows, mut part, mut taken) = (Vec::new(), Row::default(), 0);
    for span in row.spans() {
        let mut text = String::new();
        for (grapheme, wide) in graphemes(span.text()) {
            if taken + wide > width && taken > 0 {
                part.push(span.part(&std::mem::take(&mut text)));
                rows.push(std::mem::take(&mut part));
                (part, taken) = (Row::default().continued(), 0);
            }
            // A grapheme wider than the screen cannot be shown.
            if wide <= width {
                text.push_str(grapheme);
                taken += wide;
            }
        }
        part.push(span.part(&text));
    }
    rows.push(part);
    rows
}

/// Word of a line, with the blank after it.
#[derive(Default)]
struct Word {
    spans: Vec<Span>,
    columns: usize,
    blank: Option<Span>,
    blank_columns: usize,
}

impl Word {
    fn push(&mut self, span: &Span, text: &str, columns: usize) {
        self.columns += columns;
        match self.spans.last_mut() {
            Some(last) if last.continues(span) => last.push_str(text),
            Some(_) | None => self.spans.push(span.part(text)),
        }
    }
}

fn words(line: &Row) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut word = Word::default();
    for span in line.spans() {
        for (grapheme, wide) in graphemes(span.text()) {
            let is_blank = grapheme == " ";
            // Scripts without blanks break between any two characters.
            let breaks = wide == 2 && word.columns > 0;
            if (word.blank.is_some() && !is_blank) || breaks {
                words.push(std::mem::take(&mut word));
            }
            if is_blank {
                match &mut word.blank {
                    Some(blank) => blank.push_str(grapheme),
                    None => word.blank = Some(span.part(grapheme)),
                }
                word.blank_columns += 1;
            } else {
                word.push(span, grapheme, wide);
                if wide == 2 {
                    words.push(std::mem::take(&mut word));
                }
            }
        }
    }
    if word.columns > 0 || word.blank.is_some() {
        words.push(word);
    }
    debug_assert_eq!(
        words.iter().map(|word| word.columns + word.blank_columns).sum::<usize>(),
        columns(&line.text())
    );
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Style;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let (line, indent) = (Row::of(Style::PLAIN, text), Row::of(Style::PLAIN, "  "));
        wrap(&line, &Row::default(), &indent, width)
            .iter()
            .map(|row| row.text().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn lines_break_at_words_and_long_words_stay_whole() {
        assert_eq!(wrapped("one two three", 8), ["one two", "  three"]);
        assert_eq!(
            wrapped("see https://example.org/a/long/path now", 12),
            ["see", "  https://example.org/a/long/path", "  now"]
        );
        assert_eq!(wrapped("漢字漢字漢", 6), ["漢字漢", "  字漢"]);
        assert_eq!(wrapped("", 6), [""]);
    }

    #[test]
    fn a_word_longer_than_a_row_is_cut_within_the_margin_and_an_address_stays_whole() {
        let within = |text: &str, width: usize| {
            let (line, edge) = (Row::of(Style::PLAIN, text), Row::of(Style::PLAIN, "  "));
            let rows = wrap_within(&line, &edge, &edge, width);
            rows.iter().map(|row| row.text().trim_end().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(within("see abcdefghijklmnopq now", 12), ["  see", "  abcdefghij", "  klmnopq", "  now"]);
        assert_eq!(
            within("at https://example.org/long now", 12),
            ["  at", "  https://example.org/long", "  now"]
        );
        assert_eq!(within("    deep words stay in", 12), ["      deep", "  words stay", "  in"]);
        assert_eq!(within("", 12), [""]);
    }

    #[test]
    fn a_row_is_split_where_a_terminal_would() {
        let rows = soft_split(&Row::of(Style::PLAIN, "ab漢字c"), 3);
        assert_eq!(rows.iter().map(Row::text).collect::<Vec<_>>(), ["ab", "漢", "字c"]);
        assert_eq!(rows.iter().map(Row::is_continuation).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(soft_split(&Row::of(Style::PLAIN, "漢"), 1).len(), 1);
        assert_eq!(soft_split(&Row::of(Style::PLAIN, "full "), 4).len(), 1, "a blank at the end is not seen");
    }
}
