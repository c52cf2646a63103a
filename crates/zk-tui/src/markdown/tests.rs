use proptest::prelude::*;

use super::*;

fn rows_of(pieces: &[&str], width: usize) -> Vec<Row> {
    let mut markdown = Markdown::new(width);
    let mut rows = Vec::new();
    for piece in pieces {
        markdown.push(piece);
        rows.extend(markdown.take_ready());
        // Open rows may be read at any time.
        let _ = markdown.open_rows();
    }
    markdown.finish();
    rows.extend(markdown.take_ready());
    rows
}

fn rows_as_text(source: &str, width: usize) -> String {
    rows_of(&[source], width).iter().map(|row| format!("{}\n", row.text().trim_end())).collect()
}

#[test]
fn blocks_are_drawn_apart_and_lists_and_quotes_keep_their_edges() {
    let source = "# Title\nSome *text* that is long.\n\n- one\n- two **bold** item\n  goes on\n   - deeper\n\n> a quote of\n> two lines\n\n---\n1. first\n1. second\n";
    assert_eq!(
        rows_as_text(source, 16),
        "Title\n\nSome text that\nis long.\n\n• one\n• two bold item\n  goes on\n  • deeper\n\n│ a quote of two\n│ lines\n\n────────────────\n\n1. first\n2. second\n"
    );
}

#[test]
fn code_is_never_broken_and_keeps_its_blanks() {
    let line = "let x = \"a line that is longer than the screen\";";
    let source = format!("Look:\n```rust\n  {line}\n\n\tend\n```\nDone.\n");
    assert_eq!(rows_as_text(&source, 20), format!("Look:\n\n  {line}\n\n    end\n\nDone.\n"));
}

#[test]
fn a_table_is_held_back_until_it_is_complete() {
    let mut markdown = Markdown::new(40);
    markdown.push("| name | size |\n|---|---:|\n| a | 1 |\n");
    assert_eq!(markdown.open_rows().iter().map(Row::text).collect::<Vec<_>>(), ["┄ table, 1 row so far"]);
    markdown.push("| longer | 200");
    assert_eq!(markdown.take_ready(), []);
    assert_eq!(markdown.open_rows().iter().map(Row::text).collect::<Vec<_>>(), ["┄ table, 2 rows so far"]);
    markdown.push(" |\n\n");
    let rows: Vec<String> = markdown.take_ready().iter().map(Row::text).collect();
    assert_eq!(rows, ["name   │ size", "───────┼─────", "a      │    1", "longer │  200"]);
}

/// Table of many rows, the later ones wider than the first ones.
fn long_table(rows: usize) -> String {
    let row = |n: usize| format!("| row {n} | {} |\n", "word ".repeat(if n < 40 { 1 } else { 1 + n % 12 }));
    format!("Before.\n\n| name | what |\n|---|---|\n{}", (0..rows).map(row).collect::<String>())
}

#[test]
fn a_long_table_has_its_columns_once_it_is_as_high_as_the_screen_and_grows_from_then_on() {
    let mut markdown = Markdown::new(40);
    markdown.set_room(10);
    let source = long_table(500);
    let mut rows = Vec::new();
    for (at, line) in source.split_inclusive('\n').enumerate() {
        markdown.push(line);
        rows.extend(markdown.take_ready());
        // The first two rows appear before the columns are fixed.
        match at {
            0..4 => {}
            4..12 => assert_eq!(markdown.open_rows().len(), 2, "{at}"),
            _ => assert_eq!(markdown.open_rows(), [], "{at}"),
        }
    }
    markdown.push("\nAfter.\n");
    markdown.finish();
    rows.extend(markdown.take_ready());
    let texts: Vec<String> = rows.iter().map(Row::text).collect();
    assert_eq!(texts[2..5], ["name  │ what", "──────┼─────", "row 0 │ word"]);
    assert!(texts.iter().all(|text| !text.starts_with('|')), "{texts:#?}");
    assert!(texts.len() > 500);
    let edges =
        rows[4..rows.len() - 2].iter().map(Row::text).filter(|text| text.find('│') != Some("row 0 ".len()));
    assert_eq!(edges.collect::<Vec<_>>(), Vec::<String>::new(), "the columns stay");
    assert_eq!(texts[texts.len() - 2..], ["", "After."]);
    // Held back again, the same table is laid out by all of its rows.
    markdown = Markdown::new(40);
    markdown.set_room(1000);
    markdown.push(&source);
    markdown.finish();
    assert!(markdown.take_ready().iter().any(|row| row.text().starts_with("row 499 │")));
}

#[test]
fn a_table_of_40_kb_is_drawn_the_same_however_it_is_split_and_none_of_it_is_raw() {
    let source = long_table(1200);
    assert!(source.len() > 40_000);
    let whole = rows_of(&[&source], 60);
    assert!(whole.iter().all(|row| !row.text().starts_with('|')));
    for size in [1, 7, 1000, 16 * 1024, 20_000] {
        let mut pieces: Vec<&str> = Vec::new();
        let mut rest = source.as_str();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        // Requesting the open rows each time would be slow for single bytes.
        let mut markdown = Markdown::new(60);
        let mut rows = Vec::new();
        for piece in pieces {
            markdown.push(piece);
            rows.extend(markdown.take_ready());
        }
        markdown.finish();
        rows.extend(markdown.take_ready());
        assert_eq!(rows, whole, "in pieces of {size}");
    }
}

#[test]
fn an_address_in_a_table_is_never_broken() {
    let address = "https://example.org/a/path/that/is/longer/than/its/column";
    let source = format!("| name | where |\n|---|---|\n| one | {address} |\n| two | [here]({address}) |\n");
    assert_eq!(rows_as_text(&source, 80).lines().next(), Some("name │ where"));
    let narrow = rows_as_text(&source, 40);
    assert_eq!(narrow.matches(address).count(), 2, "{narrow}");
    assert!(narrow.starts_with("• name: one\n"), "{narrow}");
    // One of the addresses comes when the columns are fixed.
    let rows: String = (0..30).map(|n| format!("| {n} | short |\n")).collect();
    let late = rows_as_text(&format!("| name | where |\n|---|---|\n{rows}| last | {address} |\n"), 40);
    assert!(late.contains("29   │ short\n") && late.contains(address), "{late}");
}

#[test]
fn a_table_fits_the_screen_and_wide_characters_keep_its_columns() {
    let source = "| 名前 | what it does |\n|---|---|\n| 漢字 | some words that have to be broken |\n| 👩\u{200d}🚀 | x |\n";
    let rows = rows_of(&[source], 24);
    assert!(rows.iter().all(|row| row.columns() <= 24), "{rows:#?}");
    let edges: Vec<usize> = rows
        .iter()
        .filter_map(|row| row.text().split_once('│').map(|(before, _)| crate::text::columns(before)))
        .collect();
    assert!(edges.len() > 3 && edges.iter().all(|edge| *edge == 5), "{edges:?}");
    assert!(rows_as_text(source, 8).contains("• 名前: 漢字") || rows_as_text(source, 8).contains("• 名前:"));
}

#[test]
fn a_link_says_where_it_leads_and_only_safe_ones_can_be_opened() {
    let looks = crate::row::Looks { theme: crate::row::Theme::Mono, links: true };
    let encoded = |source: &str| {
        rows_of(&[source], 80).iter().map(|row| row.encode(looks, Some("/w"))).collect::<String>()
    };
    let link = encoded("[safe](https://example.org)\n");
    assert!(link.contains("\u{1b}]8;;https://example.org\u{1b}\\") && link.contains("(https://example.org)"));
    let file = encoded("[the parser](src/parse.rs)\n");
    assert!(file.contains("\u{1b}]8;;file:///w/src/parse.rs\u{1b}\\") && file.contains("(src/parse.rs)"));
    for target in ["javascript:x", "file:///x", "vscode://x", "mailto:a@b.c", "../x", "/etc/passwd"] {
        let shown = encoded(&format!("[click]({target})\n"));
        let target = target.trim_start_matches("mailto:");
        assert!(!shown.contains("\u{1b}]8") && shown.contains(target), "{shown:?}");
    }
}

#[test]
fn an_entity_cannot_produce_a_control_character() {
    let shown = rows_as_text("a&#27;[2Jb &#x9b;31m &#x202e;c `&#7;` [x](https://a&#27;)\n", 80);
    assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{shown:?}");
}

#[test]
fn the_open_block_does_not_grow_with_the_answer() {
    let mut markdown = Markdown::new(80);
    for n in 0..2000 {
        markdown.push(&format!("Paragraph {n} with some text.\n\n- item\n- item\n\n"));
        assert!(markdown.source.len() + markdown.partial.len() < 200);
    }
    let mut endless = Markdown::new(80);
    for _ in 0..2000 {
        endless.push("words without an end, ");
        assert!(endless.source.len() + endless.partial.len() <= 2 * MAX_OPEN_BYTES);
    }
    let words: usize = endless.take_ready().iter().map(|row| row.text().matches("end,").count()).sum();
    endless.finish();
    let rest: usize = endless.take_ready().iter().map(|row| row.text().matches("end,").count()).sum();
    assert!(words + rest >= 1990, "only a word at a cut may be broken: {words} + {rest}");
}

fn trimmed(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
}

#[test]
fn rows_taken_early_are_not_drawn_again() {
    let source = "one two three four five six seven eight nine ten\n";
    let whole = rows_of(&[source], 10);
    let mut markdown = Markdown::new(10);
    markdown.push(source);
    let mut rows = markdown.take_open(2);
    assert_eq!(trimmed(&markdown.open_rows()), trimmed(&whole[2..]));
    markdown.finish();
    rows.extend(markdown.take_ready());
    assert_eq!(trimmed(&rows), trimmed(&whole));
}

#[test]
fn a_line_taken_while_incomplete_continues_at_any_width() {
    let mut markdown = Markdown::new(10);
    markdown.push("one two three four five six");
    let mut rows = markdown.take_open(3);
    markdown.set_width(40);
    markdown.push(" seven eight\nnine\n\nanother paragraph\n");
    markdown.finish();
    rows.extend(markdown.take_ready());
    assert_eq!(
        trimmed(&rows),
        ["one two", "three four", "five six seven eight nine", "", "another paragraph"]
    );
}

#[test]
fn the_rest_of_an_item_a_quote_or_code_looks_like_its_beginning() {
    let rows = |source: &str, width: usize, count: usize| {
        let mut markdown = Markdown::new(width);
        markdown.push(source);
        let mut rows = markdown.take_open(count);
        assert_eq!(rows.len(), count);
        markdown.finish();
        rows.extend(markdown.take_ready());
        trimmed(&rows)
    };
    for (source, width) in [
        ("12. one two three four five six\n    - deep\n", 12),
        ("- one\n  ```rust\n  let a;\n  let b;\n  let c;\n  ```\n  end\n", 20),
        ("> one two three four five six\n> seven\n", 10),
        ("one **two** three four *five* six\n", 8),
    ] {
        let whole = trimmed(&rows_of(&[source], width));
        for count in 1..whole.len() - 1 {
            let (taken, mut markdown) = (rows(source, width, 1), Markdown::new(width));
            assert_eq!(taken, whole, "{source:?}");
            markdown.push(source);
            let taken = markdown.take_open(count).len();
            assert!((1..=count).contains(&taken), "{source:?}, {count}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn cases() -> u32 {
    std::env::var("ZK_TUI_SESSIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

/// Lines as models write them, and lines that they should not.
fn source() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# Title".to_owned()),
        Just("```rust".to_owned()),
        Just("```".to_owned()),
        Just("~~~~".to_owned()),
        Just("---".to_owned()),
        Just("===".to_owned()),
        Just(String::new()),
        Just("| a | b |".to_owned()),
        Just("|---|:-:|".to_owned()),
        Just("> quoted *text*".to_owned()),
        Just("    indented".to_owned()),
        "[-*+] [a-z 漢]{0,20}",
        "[0-9]{1,3}\\. [a-z `*]{0,20}",
        " {0,5}[a-zé漢👩\\*_`\\[\\]()|<>&;#!~-]{0,60}",
        "[a-z ]{0,200}",
    ];
    proptest::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"))
}

/// Block with distinct words.
fn generated_words(kind: u8, words: usize, markup: usize, count: &mut usize) -> String {
    let mut text = String::new();
    for at in 0..words {
        let word = format!("w{count}w");
        *count += 1;
        let is_marked = markup > 0 && at % (markup + 1) == 0;
        match (is_marked, markup) {
            (true, 1) => text += &format!("**{word}** "),
            (true, 2) => text += &format!("*{word} "),
            (true, 3) => text += &format!("`{word}` "),
            (true, 4) => text += &format!("- {word} "),
            (true, _) => text += &format!("{word}\n{}", if kind == 2 { "  " } else { "" }),
            (false, _) => text += &format!("{word} "),
        }
    }
    match kind {
        0 => format!("# {}\n", text.replace('\n', " ")),
        1 => format!("> {}\n\n", text.replace('\n', "\n> ")),
        2 => format!("- {text}\n"),
        3 => format!("7. {}\n", text.replace('\n', "\n   - ")),
        4 => format!("```rust\n{text}\n```\n"),
        5 => format!("- x\n  ```rust\n  {}\n  ```\n", text.replace('\n', "\n  ")),
        6 => format!("| a |\n|---|\n| {} |\n\n", text.replace('\n', " |\n| ")),
        _ => format!("{text}\n\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn rows_do_not_depend_on_how_an_answer_is_split(
        source in source(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        width in 1..100usize,
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(source.len() + 1)).filter(|at| source.is_char_boundary(*at)).collect();
        at.extend([0, source.len()]);
        at.sort_unstable();
        let pieces: Vec<&str> = at.windows(2).filter_map(|ends| source.get(ends[0]..ends[1])).collect();
        prop_assert_eq!(rows_of(&pieces, width), rows_of(&[&source], width));
    }

    /// Every word of an answer is shown.
    #[test]
    fn no_word_is_lost(words in proptest::collection::vec("[a-z]{1,12}", 1..60), width in 1..60usize) {
        let source = words.join(" ");
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(letters(&rows_as_text(&source, width)), letters(&source));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases() / 4))]

    /// Taking rows early, at any width, shows each word once and in order.
    #[test]
    fn no_word_is_lost_or_doubled_that_is_taken_early(
        blocks in proptest::collection::vec((0..9u8, 1..30usize, 0..6usize), 1..5),
        steps in proptest::collection::vec((1..60usize, 0..9usize, proptest::option::of(1..60usize)), 1..40),
    ) {
        let mut count = 0;
        let source: String = blocks.iter().map(|(kind, words, markup)| generated_words(*kind, *words, *markup, &mut count)).collect();
        let mut markdown = Markdown::new(20);
        let (mut rest, mut rows) = (source.as_str(), Vec::new());
        for (bytes, taken, width) in steps.iter().cycle().take(200) {
            let (piece, after) = rest.split_at((*bytes).min(rest.len()));
            rest = after;
            markdown.push(piece);
            rows.extend(markdown.take_ready());
            rows.extend(markdown.take_open(*taken));
            if let Some(width) = width {
                markdown.set_width(*width);
            }
        }
        markdown.finish();
        rows.extend(markdown.take_ready());
        let shown = rows.iter().map(|row| format!("{}\n", row.text())).collect::<String>();
        let found: Vec<&str> = shown.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with('w')).collect();
        let expected: Vec<String> = (0..count).map(|n| format!("w{n}w")).collect();
        prop_assert_eq!(found, expected, "{}\nshown as\n{}", source, shown);
    }
}

#[test]
fn code_beyond_what_an_answer_colours_is_plain_wherever_it_is_split() {
    let line = "let a = 1;\n";
    let block = format!("```rust\n{}```\n", line.repeat(7000));
    let source = block.repeat(2);
    let whole = rows_of(&[&source], 80);
    let coloured = whole.iter().filter(|row| row.spans().len() > 1).count();
    assert_eq!(coloured, COLOURED / (line.len() - 1));
    assert!(whole.len() > coloured);
    let (one, other) = source.split_at(source.len() * 3 / 5 + 3);
    assert_eq!(rows_of(&[one, other], 80), whole);
}
