//! Resizes while a picker or a question is open: none of its rows stays behind.

use proptest::prelude::*;
use serde_json::json;
use zk_tui::{Size, Style};
use zk_view::Patch;

use crate::emulator::{BEFORE, Emulator};
use crate::foreign::Foreign;
use crate::person::card;
use crate::reflow::{Reflowing, Reflows};
use crate::sessions::{Session, Terminal};

const NAMES: &[&str] = &[
    "pick-one",
    "pick-two",
    "pick-three",
    "pick-four",
    "pick-five",
    "pick-six",
    "pick-seven",
    "pick-eight",
    "pick-nine",
    "pick-ten",
    "pick-eleven",
    "pick-twelve",
    "pick-thirteen",
    "pick-fourteen",
];

/// Part of the screen that is open while the terminal is resized.
#[derive(Clone, Copy, Debug)]
enum Open {
    Picker,
    Question,
    /// Completions of a typed command.
    Names,
}

/// Implementation of a terminal.
#[derive(Clone, Copy, Debug)]
enum Made {
    Cutting,
    Reflowing(Reflows),
    Foreign,
}

fn terminal(made: Made, size: Size) -> Terminal {
    match made {
        Made::Cutting => Terminal::Plain(Box::new(Emulator::new(size))),
        Made::Reflowing(reflows) => Terminal::Reflowing(Box::new(Reflowing::new(size, reflows))),
        Made::Foreign => {
            let mut terminal = Foreign::new(size);
            terminal.send(&format!("{BEFORE}\r\n"));
            Terminal::Foreign(Box::new(terminal))
        }
    }
}

/// Sizes after the first: each has at least four fifths of the rows and columns of the one before. Rows that a
/// terminal of half the height moves above its first row can no longer be erased.
fn later_sizes(first: Size, changes: &[(usize, usize)]) -> Vec<Size> {
    let mut last = first;
    let next = |(wider, higher): &(usize, usize)| {
        let change = |cells: usize, percent: usize, least: usize, most: usize| {
            (cells * percent).div_ceil(100).clamp(least, most)
        };
        last = Size::new(change(last.width, *wider, 60, 160), change(last.height, *higher, 12, 50));
        last
    };
    changes.iter().map(next).collect()
}

/// Marks of rows that belong to what was open.
fn left_behind(text: &str) -> Vec<&str> {
    let is_of_it = |row: &&str| {
        ["pick-", "[commands]", "touch made-by", "tell it what to do", "❯ "]
            .iter()
            .any(|mark| row.contains(mark))
    };
    text.lines().filter(is_of_it).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::cases(),
        rng_seed: proptest::test_runner::RngSeed::Fixed(29),
        ..ProptestConfig::default()
    })]

    /// After any resizes with something open, its rows are on the screen once, and gone when it is closed.
    #[test]
    fn what_is_open_while_the_terminal_is_resized_leaves_no_row_behind(
        first in (60..=160usize, 12..=50usize).prop_map(|(width, height)| Size::new(width, height)),
        changes in proptest::collection::vec((80..140usize, 80..140usize), 1..7),
        // Alacritty moves rows above its first one when others are broken anew, also if rows below are empty.
        lines in 50..90usize,
        open in prop_oneof![Just(Open::Picker), Just(Open::Question), Just(Open::Names)],
        made in prop_oneof![
            Just(Made::Cutting), Just(Made::Reflowing(Reflows::Away)), Just(Made::Reflowing(Reflows::Back)),
            Just(Made::Foreign),
        ],
    ) {
        let mut session = Session::offering(first, terminal(made, first), NAMES);
        session.wait(20);
        for n in 0..lines {
            session.app.print(Style::PLAIN, &format!("line {n}"));
        }
        session.wait(20);
        match open {
            Open::Picker => session.keys("\x0f"),
            Open::Names => session.keys("/pick"),
            Open::Question => {
                let card = card(json!({"command": "touch made-by-the-question"}));
                session.app.patches(&[Patch::Ask { card: Box::new(card) }], std::time::Duration::from_secs(9));
                session.wait(20);
            }
        }
        for size in later_sizes(first, &changes) {
            session.terminal.resize(size);
            session.tell_size(size);
            session.wait(500);
        }
        let text = session.terminal.text();
        for name in NAMES {
            let shown = text.lines().filter(|row| row.trim_end().ends_with(name)).count();
            prop_assert!(shown <= 1, "{} stands {} times:\n{}", name, shown, text);
        }
        match open {
            Open::Picker => session.keys("\x1b"),
            Open::Names => {
                session.keys("\x1b");
                session.keys("\x15");
            }
            Open::Question => {
                let id = card(json!({})).id;
                session.app.patches(&[Patch::Answered { id }], std::time::Duration::from_secs(99));
            }
        }
        session.wait(500);
        let text = session.terminal.text();
        prop_assert_eq!(left_behind(&text), Vec::<&str>::new(), "in:\n{}", text);
        for n in 0..lines {
            let line = format!("line {n}");
            prop_assert_eq!(text.lines().filter(|row| row.trim_end() == line).count(), 1, "{} in:\n{}", line, text);
        }
    }
}
