use proptest::prelude::*;

use zk_tui::{Abilities, Caret, InlineScreen, Looks, Row, Size, Style, Theme};

use crate::emulator::{BEFORE, Emulator};

const ABILITIES: Abilities =
    Abilities { looks: Looks { theme: Theme::Dark, links: true }, ..Abilities::PLAIN };

fn rows(texts: &[&str]) -> Vec<Row> {
    texts.iter().map(|text| Row::of(Style::PLAIN, text)).collect()
}

#[test]
fn closed_rows_scroll_away_and_live_rows_are_redrawn_below_them() {
    let size = Size::new(20, 5);
    let (mut emulator, mut screen) = (Emulator::new(size), InlineScreen::new(size, ABILITIES));
    for n in 0..10 {
        let closed = rows(&[&format!("closed {n}")]);
        let live = rows(&[&format!("live {n}"), "› draft"]);
        emulator.send(&screen.frame(&closed, &live, Some(Caret { row: 1, column: 7 })));
    }
    let mut expected = vec![BEFORE.to_owned()];
    expected.extend((0..10).map(|n| format!("closed {n}")));
    expected.extend(["live 9".to_owned(), "› draft".to_owned()]);
    assert_eq!(emulator.all_rows(), expected);
    assert_eq!(emulator.cursor(), (4, 7));
    emulator.send(&screen.clear());
    assert_eq!(emulator.all_rows().len(), 11);
    assert_eq!(emulator.cursor(), (3, 0));
}

#[test]
fn a_frame_without_a_change_has_no_bytes() {
    let mut screen = InlineScreen::new(Size::new(20, 5), ABILITIES);
    let live = rows(&["status", "› "]);
    let caret = Some(Caret { row: 1, column: 2 });
    assert!(!screen.frame(&[], &live, caret).is_empty());
    assert_eq!(screen.frame(&[], &live, caret), "");
}

#[test]
fn a_typed_key_costs_few_bytes() {
    let mut screen = InlineScreen::new(Size::new(120, 40), ABILITIES);
    let mut draft =
        "› a draft that is quite long already and goes on and on and on until it fills its row".to_owned();
    let show = |screen: &mut InlineScreen, draft: &str| {
        screen.frame(
            &[],
            &rows(&["status", draft]),
            Some(Caret { row: 1, column: Row::of(Style::PLAIN, draft).columns() }),
        )
    };
    let _ = show(&mut screen, &draft);
    draft.push('x');
    let bytes = show(&mut screen, &draft);
    assert!(bytes.len() <= 16, "{bytes:?}");
}

#[test]
fn nothing_moves_absolutely_clears_the_screen_or_sets_a_scroll_region() {
    let mut screen = InlineScreen::new(Size::new(30, 4), Abilities { synchronized: true, ..ABILITIES });
    let mut sent = screen.frame(&rows(&["a", "b"]), &rows(&["c", "d", "e"]), None);
    sent += &screen.frame(&[], &rows(&["c"]), Some(Caret::default()));
    sent += &screen.resize(Size::new(10, 3));
    sent += &screen.frame(&rows(&["z"]), &rows(&["y", "x"]), None);
    sent += &screen.clear();
    let finals: String = sent
        .split("\u{1b}[")
        .skip(1)
        .filter_map(|rest| rest.chars().find(char::is_ascii_alphabetic))
        .collect();
    assert!(!finals.contains(['H', 'f', 'r', 'd', 'G', 'S', 'T']), "{finals}");
    assert!(!sent.contains("2J") && !sent.contains("3J"));
    assert_eq!(sent.matches("?2026h").count(), sent.matches("?2026l").count());
}

#[test]
fn a_line_that_is_too_long_is_one_line_for_the_terminal() {
    let size = Size::new(10, 6);
    let (mut emulator, mut screen) = (Emulator::new(size), InlineScreen::new(size, ABILITIES));
    let long = "0123456789abcdefghij";
    emulator.send(&screen.frame(&[], &rows(&["live", "more", "even more"]), None));
    emulator.send(&screen.frame(&rows(&[long, "next"]), &rows(&["live"]), None));
    assert_eq!(emulator.all_rows(), [BEFORE, "0123456789", "abcdefghij", "next", "live"]);
    assert!(emulator.is_wrapped(1), "a copy joins both rows");
}

#[test]
fn rows_that_come_or_go_move_the_rows_below_them_as_they_stand() {
    let mut screen = InlineScreen::new(Size::new(40, 12), ABILITIES);
    let rule = "─".repeat(40);
    let show = |screen: &mut InlineScreen, closed: &[&str], open: &[&str]| {
        let live = [open, &[rule.as_str(), "› draft", rule.as_str(), "status"]].concat();
        screen.frame(&rows(closed), &rows(&live), Some(Caret { row: open.len() + 1, column: 7 }))
    };
    let _ = show(&mut screen, &[], &["one"]);
    for (closed, open) in [
        (&["one", "two"][..], &["three"][..]),
        (&[], &["three", "four", "five"]),
        (&["three"], &["four", "five"]),
        (&[], &["six"]),
        (&["six", "seven", "eight"], &[]),
    ] {
        let bytes = show(&mut screen, closed, open);
        assert!(!bytes.contains('─') && !bytes.contains("draft"), "{closed:?}, {open:?}: {bytes:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame { closed: usize, live: Vec<String>, caret: Option<(usize, usize)> },
    Resize(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let text = proptest::string::string_regex("[a-z 漢é]{0,30}").unwrap();
    prop_oneof![
        8 => (0..4usize, proptest::collection::vec(text, 0..8), proptest::option::of((0..9usize, 0..40usize)))
            .prop_map(|(closed, live, caret)| Step::Frame { closed, live, caret }),
        1 => (1..50usize, 1..12usize).prop_map(|(width, height)| Step::Resize(width, height)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases()))]

    /// After any drawing and resizing, each closed row is on the terminal once, in order, below the earlier
    /// content.
    #[test]
    fn every_closed_row_is_there_once_in_order(steps in proptest::collection::vec(step(), 1..30)) {
        let size = Size::new(40, 8);
        let (mut emulator, mut screen) = (Emulator::new(size), InlineScreen::new(size, ABILITIES));
        let mut count = 0;
        for step in steps {
            match step {
                Step::Frame { closed, live, caret } => {
                    let closed: Vec<Row> = (0..closed)
                        .map(|n| Row::of(Style::GREEN, &format!("#{}", count + n)))
                        .collect();
                    count += closed.len();
                    let live: Vec<Row> = live.iter().map(|text| Row::of(Style::PLAIN, text)).collect();
                    let caret = caret.map(|(row, column)| Caret { row, column });
                    emulator.send(&screen.frame(&closed, &live, caret));
                }
                Step::Resize(width, height) => {
                    let size = Size::new(width.max(6), height);
                    emulator.resize(size);
                    emulator.send(&screen.resize(size));
                }
            }
        }
        emulator.send(&screen.clear());
        let shown = emulator.all_rows();
        let numbers: Vec<String> = shown.iter().filter(|row| row.starts_with('#')).map(|row| row.trim().to_owned()).collect();
        let expected: Vec<String> = (0..count).map(|n| format!("#{n}")).collect();
        prop_assert_eq!(numbers, expected, "{:#?}", shown);
        prop_assert_eq!(shown.first().map(|row| row.trim()), Some(BEFORE));
    }

    /// After any change above kept rows, the screen ends with the live rows and the caret in its place.
    #[test]
    fn the_live_rows_stand_at_the_end_with_the_caret_in_its_place(
        steps in proptest::collection::vec(
            (
                proptest::collection::vec("[a-z 漢]{0,50}", 0..6),
                proptest::collection::vec("[ab]{0,2}", 0..6),
                "[xy]?", 1..3usize,
            ),
            1..20,
        ),
        height in 3..16usize,
    ) {
        let size = Size::new(30, height);
        let (mut emulator, mut screen) = (Emulator::new(size), InlineScreen::new(size, ABILITIES));
        for (closed, open, status, drafts) in steps {
            let mut live = open;
            live.push("─".repeat(30));
            let caret = Caret { row: live.len(), column: 2 };
            live.extend((0..drafts).map(|n| format!("› draft {n}")));
            live.extend(["─".repeat(30), format!("status {status}")]);
            live.truncate(size.live_rows());
            let row = |text: &String| Row::of(Style::PLAIN, text);
            let closed: Vec<Row> = closed.iter().map(row).collect();
            let live: Vec<Row> = live.iter().map(row).collect();
            emulator.send(&screen.frame(&closed, &live, Some(caret)));
            let shown = emulator.all_rows();
            let mut wanted: Vec<String> = live.iter().map(|row| row.text().trim_end().to_owned()).collect();
            let row = wanted.get(caret.row.min(live.len() - 1)).cloned().unwrap_or_default();
            while wanted.last().is_some_and(String::is_empty) {
                wanted.pop();
            }
            prop_assert!(shown.ends_with(&wanted), "{:#?}\n{:#?}", shown, wanted);
            let cursor_row = emulator.cursor_row();
            prop_assert_eq!((cursor_row.trim_end(), emulator.cursor().1), (row.as_str(), caret.column));
        }
    }
}
