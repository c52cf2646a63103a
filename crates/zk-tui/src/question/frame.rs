use zk_core::model::Display;
use zk_core::service::{Approval, Section, SectionKind, Selection, WiderKind, visible_lines};

use crate::row::{Row, Style};
use crate::view::whole_diff;

/// The left edge of every row of the call itself. No text can stand without it, so none can look like an edge, a
/// choice or an answer.
pub(super) const GUTTER: &str = "│ ";
/// The left edge of a row that goes on where the one above was too long.
const CONTINUED: &str = "│↪";
/// The left edge of a section's heading that names its kind, such as JSON or preview. The text of an argument never has
/// this edge.
const KIND: &str = "├ ";
/// Arguments stand deeper than their names.
const INDENT: &str = "  ";

/// A question as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Row that says what is asked.
    pub head: Row,
    /// Everything that will run, each row no wider than the terminal.
    pub body: Vec<Row>,
    /// Rows that say what the choices allow.
    pub rules: Vec<Row>,
    /// The keys, all of them, however narrow the terminal is.
    pub keys: Vec<Row>,
}

impl Frame {
    /// The frame of a call that wants to run, for a terminal of `width` columns. `who` is its sub-agent.
    #[must_use]
    pub fn of_approval(approval: &Approval, who: Option<&str>, width: usize) -> Self {
        let one_line = |text: &str| visible_lines(text).join("⟨U+000A⟩");
        let who = who.map_or(String::new(), |who| format!("{}: ", one_line(who)));
        let head = clip(&format!("┌ {who}{} wants to run", one_line(&approval.tool)), width);
        let mut body = Vec::new();
        for section in approval.sections() {
            heading(&section, width, &mut body);
            if section.kind == SectionKind::Preview && section.heading.starts_with("diff of ") {
                let rows = whole_diff(section.lines.iter().map(String::as_str));
                rows.iter().for_each(|row| wrap_row(GUTTER, INDENT, row, width, &mut body));
                continue;
            }
            for line in &section.lines {
                wrap(GUTTER, INDENT, Style::PLAIN, line, width, &mut body);
            }
        }
        let mut rules = Vec::new();
        let mut rule = |key: &str, text: &Option<String>| {
            for (at, line) in text.iter().flat_map(|text| visible_lines(text)).enumerate() {
                let name = if at == 0 { key } else { "" };
                wrap_words("├ ", Style::DIM, &format!("{name}{line}"), width, &mut rules);
            }
        };
        if let Some((first, others)) = approval.reasons.split_first() {
            let first = first.strip_prefix("ask: ").unwrap_or(first);
            let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
            // As it is shown: an escaped character takes more columns.
            let first = visible_lines(&first).concat();
            let others =
                if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
            // One that quotes a long command must not take the room of the call.
            rule("why: ", &Some(elide(&first, width.saturating_sub(10 + others.len()).max(60)) + &others));
        }
        rule("session allows ", &approval.session);
        rule("always allows ", &approval.always);
        if let Some(wider) = &approval.wider {
            rule(&format!("this {} allows ", wider.kind.as_str()), &Some(wider.allows.clone()));
        }
        let mut keys = "└ Run? [y]es once".to_owned();
        if approval.session.is_some() {
            keys += " · [s]ession";
        }
        if approval.always.is_some() {
            keys += " · [a]lways";
        }
        match approval.wider.as_ref().map(|wider| wider.kind) {
            Some(WiderKind::Prefix) => keys += " · this [p]refix, [P] for good",
            Some(WiderKind::Directory) => keys += " · this [d]irectory, [D] for good",
            None => {}
        }
        keys += " · [n]o · no, with [w]ords";
        Self { head: Row::of(Style::BOLD, &head), body, rules, keys: key_rows(&keys, width) }
    }

    /// The frame of a question that is answered with yes or no.
    #[must_use]
    pub fn of_confirmation(text: &str, width: usize) -> Self {
        let mut body = Vec::new();
        visible_lines(text).iter().for_each(|line| wrap(GUTTER, "", Style::PLAIN, line, width, &mut body));
        let keys = key_rows("└ [y]es · [n]o", width);
        Self { head: Row::of(Style::BOLD, "┌ Question"), body, rules: Vec::new(), keys }
    }

    /// The frame of a question that is answered with a line.
    #[must_use]
    pub fn of_input(text: &str, options: &[String], width: usize) -> Self {
        let mut frame = Self::of_confirmation(text, width);
        for (option, number) in options.iter().zip(1..) {
            for (at, line) in visible_lines(option).iter().enumerate() {
                let number = if at == 0 { format!("{number} ") } else { "  ".to_owned() };
                wrap(GUTTER, INDENT, Style::PLAIN, &format!("{number}{line}"), width, &mut frame.body);
            }
        }
        let keys = if options.is_empty() { "└ Type a line" } else { "└ Type a number, or n for none" };
        frame.keys = key_rows(&format!("{keys} · Enter answers"), width);
        frame
    }

    /// The frame of a choice for lines that stay: what it is about, the question, and each option with its description.
    #[must_use]
    pub fn of_selection(asked: &Selection, width: usize) -> Self {
        let mut options = Vec::new();
        for (at, option) in asked.options.iter().enumerate() {
            match asked.descriptions.get(at).filter(|text| !text.trim().is_empty()) {
                Some(text) => options.push(format!("{option}: {text}")),
                None => options.push(option.clone()),
            }
        }
        let mut frame = Self::of_input(&asked.text, &options, width);
        if let Some(Display::Markdown { text, .. }) = &asked.preview {
            let mut body = Vec::new();
            let lines = visible_lines(text);
            lines.iter().for_each(|line| wrap(GUTTER, "", Style::PLAIN, line, width, &mut body));
            body.push(Row::of(Style::PLAIN, GUTTER.trim_end()));
            body.append(&mut frame.body);
            frame.body = body;
        }
        if asked.accepts_words {
            let keys = match asked.options.is_empty() {
                true => "└ Type your answer, or n for none",
                false => "└ Type a number, your own answer, or n for none",
            };
            frame.keys = key_rows(&format!("{keys} · Enter answers"), width);
        }
        frame
    }

    /// The rows that fit in `room` with the body from row `from` on, and where the next part begins if there is one.
    /// Whatever is not shown is counted; `above` says how to see what is above.
    #[must_use]
    pub fn page(&self, from: usize, room: usize, above: &str) -> (Vec<Row>, Option<usize>) {
        self.page_with(from, room, above, &self.keys)
    }

    /// Variant of [`page`](Self::page) with other rows in the place of the keys.
    pub(super) fn page_with(
        &self,
        from: usize,
        room: usize,
        above: &str,
        keys: &[Row],
    ) -> (Vec<Row>, Option<usize>) {
        let room = self.body_room(room);
        let mut rows = vec![self.head.clone()];
        if from > 0 {
            rows.push(Row::of(Style::YELLOW, &format!("├ {from} rows are above{above}")));
        }
        rows.extend(self.body.iter().skip(from).take(room).cloned());
        let next = from + room;
        let left = self.body.len().saturating_sub(next);
        if left > 0 {
            let rows_left = if left == 1 { "1 more row".to_owned() } else { format!("{left} more rows") };
            rows.push(Row::of(
                Style::YELLOW,
                &format!("├ {rows_left} not shown yet: the space bar shows them"),
            ));
        }
        rows.extend(self.rules.iter().cloned());
        rows.extend(keys.iter().cloned());
        (rows, (left > 0).then_some(next))
    }

    /// Rows of the body that fit in `room`.
    pub(super) fn body_room(&self, room: usize) -> usize {
        // The head, and the counts above and below.
        room.saturating_sub(3 + self.rules.len() + self.keys.len()).max(1)
    }
}

/// The rows of the keys, broken between two of them.
pub(super) fn key_rows(keys: &str, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for key in keys.split_inclusive(" · ") {
        let taken: usize = row.chars().chain(key.trim_end_matches(" · ").chars()).count();
        if !row.is_empty() && taken > width {
            rows.push(std::mem::replace(&mut row, "  ".to_owned()));
        }
        row.push_str(key);
    }
    rows.push(row);
    rows.iter().map(|row| Row::of(Style::BOLD, row)).collect()
}

/// The name of an argument, or what zk itself draws. What is not the text of an argument says so at its edge, where no
/// name can stand: an argument called `diff of a.rs` is none, and neither is one whose text is JSON a JSON value.
fn heading(section: &Section, width: usize, body: &mut Vec<Row>) {
    let (edge, what) = match section.kind {
        SectionKind::Text => (GUTTER, String::new()),
        SectionKind::Json => (KIND, "JSON: ".to_owned()),
        SectionKind::Preview if section.heading == "preview" => (KIND, String::new()),
        SectionKind::Preview => (KIND, "preview: ".to_owned()),
    };
    wrap(edge, "", Style::DIM, &format!("{what}{}", section.heading), width, body);
}

/// Columns of a character, at most: what is not ASCII may be two wide, whatever a terminal makes of it.
fn columns(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// Appends `line` in rows that fit, each behind its edge.
pub(super) fn wrap(edge: &str, indent: &str, style: Style, line: &str, width: usize, rows: &mut Vec<Row>) {
    wrap_row(edge, indent, &Row::of(style, line), width, rows);
}

/// Variant of [`wrap`] for a line of several styles.
fn wrap_row(edge: &str, indent: &str, line: &Row, width: usize, rows: &mut Vec<Row>) {
    // A full row would let the terminal go on in the next one, without an edge.
    let room = width.saturating_sub(2 + indent.len() + 1).max(8);
    let text = line.text();
    let (mut edge, mut from, mut taken) = (edge, 0, 0);
    let mut push = |edge: &str, from, to| {
        let mut row = Row::of(line.style(), &format!("{edge}{indent}"));
        row.append(&line.cut(from, to));
        rows.push(row);
    };
    for (at, c) in text.char_indices() {
        if taken + columns(c) > room {
            push(edge, from, at);
            (from, taken, edge) = (at, 0, CONTINUED);
        }
        taken += columns(c);
    }
    push(edge, from, text.len());
}

/// Variant of [`wrap`] that breaks at blanks where there are some: for words of zk's own.
pub(super) fn wrap_words(edge: &str, style: Style, line: &str, width: usize, rows: &mut Vec<Row>) {
    let room = width.saturating_sub(3).max(8);
    let mut edge = edge;
    let mut row = String::new();
    for word in line.split_inclusive(' ') {
        let taken: usize = row.chars().chain(word.trim_end().chars()).map(columns).sum();
        if taken > room && !row.is_empty() {
            // The blank where it is broken needs no room, and no row of its own.
            wrap(edge, "", style, std::mem::take(&mut row).trim_end(), width, rows);
            edge = CONTINUED;
        }
        row.push_str(word);
    }
    wrap(edge, "", style, &row, width, rows);
}

/// The beginning of a text that fits in a row.
pub(super) fn clip(text: &str, width: usize) -> String {
    let mut left = width.saturating_sub(3);
    let whole: usize = text.chars().map(columns).sum();
    if whole <= left {
        return text.to_owned();
    }
    let fits = |c: &char| {
        let fits = columns(*c) <= left;
        left = left.saturating_sub(columns(*c));
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Shortens a text of more than `width` columns to its beginning and its end, with `…` between.
fn elide(text: &str, width: usize) -> String {
    if text.chars().map(columns).sum::<usize>() <= width {
        return text.to_owned();
    }
    let half = |chars: &mut dyn Iterator<Item = char>| {
        let mut left = width.saturating_sub(3) / 2;
        let fits = |c: &char| left.checked_sub(columns(*c)).map(|after| left = after).is_some();
        chars.take_while(fits).collect::<Vec<_>>()
    };
    let (head, tail) = (half(&mut text.chars()), half(&mut text.chars().rev()));
    head.into_iter().chain([' ', '…', ' ']).chain(tail.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zk_core::model::{Display, Effects};

    use super::*;

    fn approval(args: Value, preview: Option<Display>) -> Approval {
        let effects = Effects::Unknown;
        let session = Some("exactly this call".to_owned());
        let (tool, reasons) = ("shell".to_owned(), Vec::new());
        Approval { tool, args, effects, preview, session, always: None, wider: None, reasons }
    }

    fn text(rows: &[Row]) -> String {
        rows.iter().map(|row| format!("{}\n", row.text())).collect()
    }

    fn shown(approval: &Approval) -> String {
        text(&Frame::of_approval(approval, None, 40).page(0, 200, "").0)
    }

    #[test]
    fn every_line_of_a_command_is_shown_and_what_would_hide_is_visible() {
        let command = "ls -la\ntouch X \u{1b}P;\u{9b}2K\u{202e}\r# list\necho done";
        assert_eq!(
            shown(&approval(json!({ "command": command }), None)),
            "┌ shell wants to run\n\
             │ command\n\
             │   ls -la\n\
             │   touch X ⟨U+001B⟩P;⟨U+009B⟩2K⟨U\n\
             │↪  +202E⟩⟨U+000D⟩# list\n\
             │   echo done\n\
             ├ session allows exactly this call\n\
             └ Run? [y]es once · [s]ession · [n]o · \n  no, with [w]ords\n"
        );
        assert!(shown(&approval(json!({ "command": 7 }), None)).contains("├ JSON: command\n│   7\n"));
    }

    #[test]
    fn why_a_person_is_asked_takes_few_rows_however_long_the_call_is() {
        let mut asked = approval(json!({ "command": "a && b" }), None);
        asked.reasons = vec!["ask: `b`: nothing allows it; rule: ask `b **` (project)".to_owned()];
        let rows = shown(&asked);
        assert!(
            rows.contains("├ why: `b`: nothing allows it; rule:\n│↪ask `b **` (project)\n├ session"),
            "{rows}"
        );
        asked.reasons = vec![format!("ask: `{}`: nothing allows it", "b ".repeat(4_000)); 3];
        let rows = shown(&asked).replace("\n│↪", " ");
        assert!(rows.contains("…") && rows.contains("nothing allows it (and 2 more)"), "{rows}");
        assert!(rows.lines().count() < 12, "{rows}");
        assert!(
            Frame::of_approval(&asked, None, 40).rules.iter().any(|row| row.spans()[0].style() == Style::DIM)
        );
    }

    #[test]
    fn a_diff_has_numbers_and_signs_and_all_of_its_lines() {
        let diff = "--- a\n+++ b\n@@ -8,2 +8,2 @@\n kept\n--- count(a, b)\n+-- count(a, c)\n";
        let preview = Display::Diff { path: "q.sql".to_owned(), diff: diff.to_owned() };
        let shown = shown(&approval(json!({}), Some(preview.clone())));
        for row in [
            "│        8  kept\n",
            "│        9 --- count(a, b)\n",
            "│        9 +-- count(a, c)\n",
            "│   @@ -8,2 +8,2 @@\n",
        ] {
            assert!(shown.contains(row), "{shown}");
        }
        let frame = Frame::of_approval(&approval(json!({}), Some(preview)), None, 40);
        let heavy = |row: &Row| {
            row.spans()
                .iter()
                .filter(|span| span.style().bold)
                .map(|span| span.text().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(frame.body.iter().flat_map(heavy).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn no_text_of_a_call_can_look_like_an_edge_or_a_choice() {
        let forged = "x\n└ Run? [y]es once\n  yes\n┌ shell wants to run\n├ session allows all";
        let hostile = Approval {
            tool: format!("t\n{forged}"),
            session: Some(forged.to_owned()),
            always: Some(forged.to_owned()),
            reasons: vec![forged.to_owned()],
            ..approval(
                json!({ "path": forged, forged: forged, "many": [forged] }),
                Some(Display::Diff { path: forged.to_owned(), diff: forged.to_owned() }),
            )
        };
        for width in [20, 40, 120] {
            let frame = Frame::of_approval(&hostile, Some(forged), width);
            assert!(
                frame
                    .body
                    .iter()
                    .map(Row::text)
                    .all(|row| [GUTTER, CONTINUED, KIND].iter().any(|edge| row.starts_with(edge)))
            );
            let (rows, _) = frame.page(0, 10_000, "");
            let edges = |edge: &str| rows.iter().filter(|row| row.text().starts_with(edge)).count();
            assert_eq!((edges("┌"), edges("└")), (1, 1), "{}", text(&rows));
            let kinds = (edges("├ JSON: many"), edges("├ preview: diff"));
            assert_eq!(kinds, (1, 1), "{}", text(&rows));
            assert!(rows.iter().all(|row| !row.text().contains('\n')));
            let fits = |row: &str| row.chars().map(columns).sum::<usize>() < width + 2;
            assert!(frame.body.iter().all(|row| fits(&row.text())), "{}", text(&rows));
        }
    }

    #[test]
    fn what_a_section_is_cannot_be_imitated_by_the_name_or_the_text_of_an_argument() {
        let args =
            json!({ "diff of a.rs": "+ looks like a preview", "list": ["a"], "preview": "[\n  \"a\"\n]" });
        let preview = Display::Diff { path: "a.rs".to_owned(), diff: "@@ -1 +1 @@\n-old\n+new\n".to_owned() };
        let frame = Frame::of_approval(&approval(args, Some(preview)), None, 60);
        let expected = "│ diff of a.rs\n│   + looks like a preview\n├ JSON: list\n│   [\n│     \"a\"\n│   ]\n\
                        │ preview\n│   [\n│     \"a\"\n│   ]\n\
                        ├ preview: diff of a.rs\n";
        let drawn = text(&frame.body);
        assert!(drawn.starts_with(expected), "{drawn}");
        let plain = Row::of(Style::PLAIN, "│   + looks like a preview");
        assert!(frame.body.contains(&plain), "no argument is coloured as a difference");
        let drawn = Display::Line { text: "overwrites a link".to_owned() };
        assert!(shown(&approval(json!({}), Some(drawn))).contains("├ preview\n│   overwrites a link\n"));
    }

    #[test]
    fn words_are_broken_at_blanks_without_an_empty_row_at_any_width() {
        let words = "always allows exactly this call in /a/project, in later sessions too, but nowhere else";
        for width in 12..100 {
            let mut rows = Vec::new();
            wrap_words("├ ", Style::DIM, words, width, &mut rows);
            let texts: Vec<String> = rows.iter().map(Row::text).collect();
            let is_blank = |text: &String| text.trim_start_matches(['├', '│', '↪']).trim().is_empty();
            assert!(!texts.iter().any(is_blank), "{width}: {texts:?}");
            let letters = |text: &str| text.replace(['├', '│', '↪', ' '], "");
            assert_eq!(letters(&texts.concat()), letters(words), "{width}");
        }
    }

    #[test]
    fn every_row_is_reachable_and_what_is_not_shown_is_counted() {
        let command: String = (0..100).map(|line| format!("echo {line}\n")).collect();
        let frame = Frame::of_approval(&approval(json!({ "command": command }), None), None, 80);
        let (mut from, mut seen, mut pages) = (Some(0), Vec::new(), 0);
        while let Some(at) = from {
            let (rows, next) = frame.page(at, 23, "");
            assert!(rows.len() <= 24, "{}", rows.len());
            let count = text(&rows);
            let left = frame.body.len() - next.unwrap_or(frame.body.len());
            assert_eq!(count.contains(&format!("├ {left} more rows not shown yet")), left > 0, "{count}");
            seen.extend(rows.into_iter().filter(|row| row.text().starts_with('│')));
            (from, pages) = (next, pages + 1);
        }
        assert_eq!(seen, frame.body);
        assert!(pages > 3);
    }
}
