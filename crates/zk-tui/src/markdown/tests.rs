use proptest::prelude::*;

use super::*;

fn rows_of(pieces: &[&str], width: usize) -> Vec<Row> {
    let mut markdown = Markdown::new(width);
    let mut rows = Vec::new();
    for piece in pieces {
        markdown.push(piece);
        rows.extend(markdown.take_ready());
        // What is open may be looked at any time.
        let _ = markdown.open_rows();
    }
    markdown.finish();
    rows.extend(markdown.take_ready());
    rows
}

fn shown(source: &str, width: usize) -> String {
    rows_of(&[source], width).iter().map(|row| format!("{}\n", row.text().trim_end())).collect()
}

#[test]
fn blocks_are_drawn_apart_and_lists_and_quotes_keep_their_edges() {
    let source = "# Title\nSome *text* that is long.\n\n- one\n- two **bold** item\n  goes on\n   - deeper\n\n> a quote of\n> two lines\n\n---\n1. first\n1. second\n";
    assert_eq!(
        shown(source, 16),
        "Title\n\nSome text that\nis long.\n\n• one\n• two bold item\n  goes on\n  • deeper\n\n│ a quote of two\n│ lines\n\n────────────────\n\n1. first\n2. second\n"
    );
}

#[test]
fn code_is_never_broken_and_keeps_its_blanks() {
    let line = "let x = \"a line that is longer than the screen\";";
    let source = format!("Look:\n```rust\n  {line}\n\n\tend\n```\nDone.\n");
    assert_eq!(shown(&source, 20), format!("Look:\n\n  {line}\n\n    end\n\nDone.\n"));
}

#[test]
fn a_table_is_held_back_until_it_is_complete() {
    let mut markdown = Markdown::new(40);
    markdown.push("| name | size |\n|---|---:|\n| a | 1 |\n| longer | 200");
    assert_eq!(markdown.take_ready(), []);
    assert_eq!(markdown.open_rows().iter().map(Row::text).collect::<Vec<_>>(), ["┄ table, 2 rows so far"]);
    markdown.push(" |\n\n");
    let rows: Vec<String> = markdown.take_ready().iter().map(Row::text).collect();
    assert_eq!(rows, ["name   │ size", "───────┼─────", "a      │    1", "longer │  200"]);
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
    assert!(shown(source, 8).contains("• 名前: 漢字") || shown(source, 8).contains("• 名前:"));
}

#[test]
fn a_link_says_where_it_leads_and_only_safe_ones_can_be_opened() {
    let looks = crate::row::Looks { theme: crate::style::Theme::Mono, links: true };
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
fn an_entity_cannot_bring_a_control_character_back() {
    let shown = shown("a&#27;[2Jb &#x9b;31m &#x202e;c `&#7;` [x](https://a&#27;)\n", 80);
    assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{shown:?}");
}

#[test]
fn what_is_open_does_not_grow_with_the_answer() {
    let mut markdown = Markdown::new(80);
    for n in 0..2000 {
        markdown.push(&format!("Paragraph {n} with some text.\n\n- item\n- item\n\n"));
        assert!(markdown.source.len() + markdown.partial.len() < 200);
    }
    let mut endless = Markdown::new(80);
    for _ in 0..2000 {
        endless.push("words without an end, ");
        assert!(endless.source.len() + endless.partial.len() <= 2 * MAX_OPEN);
    }
    let words: usize = endless.take_ready().iter().map(|row| row.text().matches("end,").count()).sum();
    endless.finish();
    let rest: usize = endless.take_ready().iter().map(|row| row.text().matches("end,").count()).sum();
    assert!(words + rest >= 1990, "only a word at a cut may be broken: {words} + {rest}");
}

#[test]
fn rows_taken_early_are_not_drawn_again() {
    let source = "one two three four five six seven eight nine ten\n";
    let whole = rows_of(&[source], 10);
    let mut markdown = Markdown::new(10);
    markdown.push(source);
    let mut rows = markdown.take_open(2);
    assert_eq!(markdown.open_rows(), whole[2..]);
    markdown.finish();
    rows.extend(markdown.take_ready());
    assert_eq!(rows, whole);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_pieces_that_an_answer_came_in_change_no_row(
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

    /// Every letter of an answer is shown.
    #[test]
    fn no_word_is_lost(words in proptest::collection::vec("[a-z]{1,12}", 1..60), width in 1..60usize) {
        let source = words.join(" ");
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(letters(&shown(&source, width)), letters(&source));
    }
}
