use crate::row::{Row, Style};
use crate::text::columns;

/// Rows of a table of keys, at most `room`: short entries share a row if there are too many.
pub(crate) fn key_table(keys: &[(String, impl AsRef<str>)], width: usize, room: usize) -> Vec<Row> {
    let wide = keys.iter().map(|(keys, _)| columns(keys)).max().unwrap_or_default();
    let row = |keys: &str, what: &str| {
        let pad = " ".repeat(2 + wide.saturating_sub(columns(keys)));
        Row::of(Style::CYAN, keys).with(Style::DIM, &pad).with(Style::PLAIN, what)
    };
    if keys.len() <= room {
        return keys.iter().map(|(keys, what)| row(keys, what.as_ref())).collect();
    }
    // Short entries share a row, starting with the last ones.
    let middle = width / 2;
    let short = |keys: &str, what: &str| {
        let row = Row::of(Style::CYAN, keys).with(Style::PLAIN, "  ").with(Style::PLAIN, what);
        (row.columns() < middle).then_some(row)
    };
    let (mut rows, mut left, mut over) = (Vec::new(), keys, keys.len() - room);
    while let Some((last, before)) = left.split_last() {
        left = before;
        let pair = before.split_last().filter(|_| over > 0);
        if let Some((first, rest)) = pair
            && let (Some(mut both), Some(second)) =
                (short(&first.0, first.1.as_ref()), short(&last.0, last.1.as_ref()))
        {
            both = both.clone().with(Style::PLAIN, &" ".repeat(middle - both.columns()));
            both.append(&second);
            rows.push(both);
            (left, over) = (rest, over - 1);
        } else {
            rows.push(row(&last.0, last.1.as_ref()));
        }
    }
    rows.reverse();
    if rows.len() > room {
        rows.truncate(room.saturating_sub(1));
        rows.push(Row::of(Style::DIM, "… more keys in a larger terminal"));
    }
    rows
}

/// Rows of a table of keys in two columns, at most `room`.
pub(crate) fn key_columns(keys: &[(String, &str)], width: usize, room: usize) -> Vec<Row> {
    let middle = width / 2;
    let wide = keys.iter().map(|(keys, _)| columns(keys)).max().unwrap_or_default();
    let cell = |(keys, what): &(String, &str)| {
        let pad = " ".repeat(2 + wide.saturating_sub(columns(keys)));
        Row::of(Style::PLAIN, "  ").with(Style::CYAN, keys).with(Style::PLAIN, &pad).with(Style::DIM, what)
    };
    let pair = |pair: &[(String, &str)]| {
        let mut cells = pair.iter().map(|one| cell(one).clipped(middle));
        let mut row = cells.next().unwrap_or_default();
        if let Some(second) = cells.next() {
            row = row.clone().with(Style::PLAIN, &" ".repeat(middle.saturating_sub(row.columns())));
            row.append(&second);
        }
        row
    };
    keys.chunks(2).take(room).map(pair).collect()
}
