//! Generated sessions of everything at once: streaming, resizing, stopping, paging, questions, typing.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use zk_tui::{Abilities, App, Asked, Key, KeyDecoder, Looks, Offered, Size, Style, Theme};
use zk_view::{Patch, View};

use crate::emulator::{BEFORE, Emulator};
use crate::foreign::Foreign;
use crate::person::card;
use crate::reflow::{Reflowing, Reflows};
use crate::replay::block;

#[derive(Clone, Debug)]
enum Step {
    /// Prompt of the person.
    Prompt,
    /// Answer of paragraphs, in pieces of this many bytes.
    Answer {
        paragraphs: usize,
        piece: usize,
    },
    /// Call that prints lines while it runs.
    Call {
        lines: usize,
    },
    /// A line of the program.
    Print,
    Type(String),
    /// Keys in the pager.
    Page(String),
    Full(bool),
    Resize(usize, usize),
    /// Consecutive sizes. The program is told the one at this index while the terminal has the last.
    ResizeLate(Vec<(usize, usize)>, usize),
    /// Sizes while a window is dragged, with the milliseconds between them. Each follows the terminal's
    /// answer to the earlier frame.
    Drag(Vec<(usize, usize)>, u64),
    Suspend,
    Ask,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Prompt),
        4 => (1..8usize, 1..30usize).prop_map(|(paragraphs, piece)| Step::Answer { paragraphs, piece }),
        3 => (0..9usize).prop_map(|lines| Step::Call { lines }),
        1 => Just(Step::Print),
        2 => "[a-z漢 ]{1,12}".prop_map(Step::Type),
        2 => "[gGjk\\[\\]e bn]{0,6}".prop_map(Step::Page),
        1 => any::<bool>().prop_map(Step::Full),
        2 => (20..90usize, 3..24usize).prop_map(|(width, height)| Step::Resize(width, height)),
        2 => (proptest::collection::vec((1..90usize, 1..24usize), 2..4), 0..3usize)
            .prop_map(|(sizes, told)| Step::ResizeLate(sizes, told)),
        2 => (proptest::collection::vec((1..90usize, 1..24usize), 2..5), 1..50u64)
            .prop_map(|(sizes, ms)| Step::Drag(sizes, ms)),
        1 => Just(Step::Suspend),
        1 => Just(Step::Ask),
        1 => (0..60u64).prop_map(Step::Wait),
    ]
}

/// The terminal of a session.
pub(crate) enum Terminal {
    Plain(Box<Emulator>),
    /// Terminal that reflows, as the screen knows.
    Reflowing(Box<Reflowing>),
    /// Reflowing terminal of another implementation.
    Foreign(Box<Foreign>),
}

impl Terminal {
    pub(crate) fn resize(&mut self, size: Size) {
        match self {
            Self::Plain(terminal) => terminal.resize(size),
            Self::Reflowing(terminal) => terminal.resize(size),
            Self::Foreign(terminal) => terminal.resize(size),
        }
    }

    /// Sends bytes, and returns the answer to them.
    fn send(&mut self, bytes: &str) -> String {
        match self {
            Self::Plain(terminal) => {
                terminal.send(bytes);
                String::new()
            }
            Self::Reflowing(terminal) => {
                terminal.send(bytes);
                let Size { width, height } = terminal.size();
                let asks = bytes.contains("\u{1b}[18t");
                if asks { format!("\u{1b}[8;{height};{width}t\u{1b}[?62c") } else { String::new() }
            }
            Self::Foreign(terminal) => {
                terminal.send(bytes);
                terminal.take_replies()
            }
        }
    }

    pub(crate) fn text(&mut self) -> String {
        match self {
            Self::Plain(terminal) => terminal.all_rows().join("\n"),
            Self::Reflowing(terminal) => terminal.text(),
            Self::Foreign(terminal) => terminal.text(),
        }
    }

    /// Minimum width that cuts nothing off.
    fn least_width(&self) -> usize {
        match self {
            Self::Plain(_) => 20,
            Self::Reflowing(_) => 1,
            Self::Foreign(_) => 2,
        }
    }
}

pub(crate) struct Session {
    pub(crate) app: App,
    pub(crate) terminal: Terminal,
    now: Duration,
    marks: Vec<String>,
    draft: String,
    n: usize,
}

impl Session {
    pub(crate) fn new(size: Size, terminal: Terminal) -> Self {
        Self::offering(size, terminal, &[])
    }

    /// Session with names to choose from.
    pub(crate) fn offering(size: Size, terminal: Terminal, names: &'static [&'static str]) -> Self {
        let looks = Looks { theme: Theme::Dark, links: true };
        let reflows = !matches!(terminal, Terminal::Plain(_));
        let abilities = Abilities { looks, reflows, ..Abilities::PLAIN };
        let offer = move |_: &Asked| Offered {
            names: names.iter().map(ToString::to_string).collect(),
            ..Offered::default()
        };
        let app = App::new(View::default(), size, abilities, Vec::new(), Box::new(offer));
        let now = Duration::from_secs(1);
        Self { app, terminal, now, marks: Vec::new(), draft: String::new(), n: 0 }
    }

    fn send(&mut self, bytes: &str) {
        let replies = self.terminal.send(bytes);
        if !replies.is_empty() {
            let keys = KeyDecoder::default().push(replies.as_bytes());
            assert!(keys.iter().all(Key::is_reply), "{replies:?}: {keys:?}");
            let _ = self.app.keys(&keys, self.now);
        }
    }

    pub(crate) fn tell_size(&mut self, size: Size) {
        let bytes = self.app.resize(size, self.now);
        self.send(&bytes);
        self.wait(20);
    }

    fn run(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        self.wait(20);
        steps.iter().for_each(|step| self.step(step));
        prop_assert_eq!(self.app.draft(), self.draft.clone());
        let bytes = self.app.leave();
        self.send(&bytes);
        Ok(())
    }

    /// Checks that each closed row appears once, in order, below the earlier content.
    fn check(&self, text: &str) -> Result<(), TestCaseError> {
        let mut from = 0;
        for mark in &self.marks {
            prop_assert_eq!(text.matches(mark.as_str()).count(), 1, "{} in:\n{}", mark, text);
            let at = text.get(from..).unwrap_or_default().find(mark.as_str());
            prop_assert!(at.is_some(), "{} is out of order in:\n{}", mark, text);
            from += at.unwrap_or_default();
        }
        prop_assert!(text.starts_with(BEFORE), "{}", text);
        Ok(())
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let _ = self.app.tick(self.now);
        let frame = self.app.frame(self.now);
        self.send(&frame);
    }

    pub(crate) fn patch(&mut self, patch: serde_json::Value) {
        self.app.patches(&[serde_json::from_value(patch).unwrap()], self.now);
        self.wait(7);
    }

    pub(crate) fn keys(&mut self, bytes: &str) {
        let mut decoder = KeyDecoder::default();
        let mut keys = decoder.push(bytes.as_bytes());
        keys.extend(decoder.idle());
        let _ = self.app.keys(&keys, self.now);
        self.wait(20);
    }

    /// Unique mark for a row.
    fn mark(&mut self) -> String {
        self.n += 1;
        let mark = format!("#{}.", self.n);
        self.marks.push(mark.clone());
        mark
    }

    /// Sizes that the terminal can take. One without reflow cuts off the columns beyond its width.
    fn sizes(&self, sizes: &[(usize, usize)]) -> Vec<Size> {
        let least = self.terminal.least_width();
        sizes.iter().map(|(width, height)| Size::new((*width).max(least), *height)).collect()
    }

    fn step(&mut self, step: &Step) {
        let id = format!("b{}", self.n);
        match step {
            Step::Prompt => {
                let text = self.mark();
                let content = json!({"type": "user", "text": text, "attachments": 0});
                self.app.patches(&[Patch::Open { block: block(&id, true, None, &content) }], self.now);
                self.wait(20);
            }
            Step::Answer { paragraphs, piece } => {
                let content = |text: &str| json!({"type": "answer", "text": text});
                self.app.patches(&[Patch::Open { block: block(&id, false, None, &content("")) }], self.now);
                let text: String =
                    (0..*paragraphs).map(|_| format!("{} some words\n\n", self.mark())).collect();
                for piece in text.as_bytes().chunks(*piece) {
                    self.patch(
                        json!({"patch": "grow", "id": id, "delta": std::str::from_utf8(piece).unwrap()}),
                    );
                }
                self.app
                    .patches(&[Patch::Close { block: block(&id, true, None, &content(&text)) }], self.now);
                self.wait(20);
            }
            Step::Call { lines } => {
                let mark = self.mark();
                let call = |state: &str| json!({"type": "call", "call_id": "c", "step": 0, "tool": "shell", "summary": mark, "state": state});
                self.app
                    .patches(&[Patch::Open { block: block(&id, false, None, &call("running")) }], self.now);
                for n in 0..*lines {
                    self.patch(json!({"patch": "grow", "id": id, "delta": format!("line {n}\n")}));
                }
                self.app
                    .patches(&[Patch::Close { block: block(&id, true, None, &call("skipped")) }], self.now);
                self.wait(20);
            }
            Step::Print => {
                let text = self.mark();
                self.app.print(Style::DIM, &text);
                self.wait(20);
            }
            Step::Type(text) => {
                self.keys(text);
                self.draft.push_str(text);
            }
            Step::Page(keys) => {
                self.keys("\x14");
                for key in keys.chars() {
                    self.keys(&key.to_string());
                }
                self.keys("q");
            }
            Step::Full(is_full) => {
                self.app.set_full(*is_full);
                self.wait(20);
            }
            Step::Resize(width, height) => {
                let size = Size::new(*width, *height);
                self.terminal.resize(size);
                self.tell_size(size);
            }
            Step::ResizeLate(sizes, told) => {
                let sizes = self.sizes(sizes);
                sizes.iter().for_each(|size| self.terminal.resize(*size));
                let last = sizes[sizes.len() - 1];
                self.tell_size(*sizes.get(*told).unwrap_or(&last));
                self.step(&Step::Prompt);
                self.step(&Step::Type("typed".to_owned()));
                self.tell_size(last);
            }
            Step::Drag(sizes, ms) => {
                let sizes = self.sizes(sizes);
                self.terminal.resize(sizes[0]);
                for (n, size) in sizes.iter().enumerate() {
                    let bytes = self.app.resize(*size, self.now);
                    self.send(&bytes);
                    if let Some(next) = sizes.get(n + 1) {
                        self.terminal.resize(*next);
                        (0..*ms).for_each(|_| self.wait(1));
                    }
                }
                self.wait(20);
            }
            Step::Suspend => {
                let bytes = self.app.leave();
                self.send(&bytes);
                self.wait(20);
                self.app.enter(self.now);
                self.wait(20);
            }
            Step::Ask => {
                let card = card(json!({"command": "touch x"}));
                let id = card.id;
                self.app.patches(&[Patch::Ask { card: Box::new(card) }], self.now);
                self.wait(20);
                self.app.patches(&[Patch::Answered { id }], self.now);
                self.wait(20);
            }
            Step::Wait(ms) => self.wait(*ms),
        }
    }
}

#[test]
fn what_is_typed_on_a_terminal_that_is_narrower_than_was_told_takes_no_closed_row_away() {
    for reflows in [Reflows::Away, Reflows::Back] {
        let size = Size::new(20, 3);
        let mut session = Session::new(size, Terminal::Reflowing(Box::new(Reflowing::new(size, reflows))));
        let late = |sizes: [(usize, usize); 2]| Step::ResizeLate(sizes.to_vec(), 0);
        session.run(&[late([(1, 1), (1, 1)]), late([(13, 1), (1, 12)])]).unwrap();
        let text = session.terminal.text();
        session.check(&text).unwrap();
    }
}

#[test]
fn one_live_row_that_became_several_is_taken_away_whole() {
    let size = Size::new(20, 6);
    let mut session = Session::new(size, Terminal::Reflowing(Box::new(Reflowing::new(size, Reflows::Away))));
    let narrow = Step::ResizeLate(vec![(1, 1), (4, 5)], 1);
    session.run(&[narrow, Step::Resize(20, 3), Step::Prompt]).unwrap();
    let text = session.terminal.text();
    session.check(&text).unwrap();
}

#[test]
fn wide_characters_on_a_terminal_of_one_row_take_no_closed_row_away() {
    let size = Size::new(20, 3);
    let mut terminal = Foreign::new(size);
    terminal.send(&format!("{BEFORE}\r\n"));
    let mut session = Session::new(size, Terminal::Foreign(Box::new(terminal)));
    let typed = ["aaa漢a漢 ", "漢漢  aa漢aa漢  ", "a漢aaa漢 a漢a"].map(|text| Step::Type(text.to_owned()));
    let late = |sizes: [(usize, usize); 2]| Step::ResizeLate(sizes.to_vec(), 0);
    let steps = [&[late([(1, 1), (46, 1)])][..], &typed, &[late([(11, 1), (22, 4)])]].concat();
    session.run(&steps).unwrap();
    let text = session.terminal.text();
    session.check(&text).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::cases(),
        rng_seed: proptest::test_runner::RngSeed::Fixed(12),
        ..ProptestConfig::default()
    })]

    /// After any session each closed row is on the main screen once, in order, the earlier content and the
    /// draft are intact, and no mode is left set.
    #[test]
    fn a_session_of_everything_leaves_each_row_once_and_the_draft_whole(
        steps in proptest::collection::vec(step(), 1..25),
        (width, height) in (20..90usize, 3..24usize),
    ) {
        let size = Size::new(width, height);
        let mut session = Session::new(size, Terminal::Plain(Box::new(Emulator::new(size))));
        session.run(&steps)?;
        if let Terminal::Plain(emulator) = &session.terminal {
            emulator.check_untouched("a session");
        }
        let text = session.terminal.text();
        session.check(&text)?;
    }

    /// A session on a terminal that reflows at every resize leaves the same rows and draft.
    #[test]
    fn a_session_on_a_terminal_that_reflows_leaves_each_row_once_and_the_draft_whole(
        steps in proptest::collection::vec(step(), 1..25),
        (width, height) in (20..90usize, 3..24usize),
        reflows in prop_oneof![Just(Reflows::Away), Just(Reflows::Back)],
    ) {
        let size = Size::new(width, height);
        let mut session = Session::new(size, Terminal::Reflowing(Box::new(Reflowing::new(size, reflows))));
        session.run(&steps)?;
        let text = session.terminal.text();
        session.check(&text)?;
    }

    /// A session on a foreign terminal implementation, which answers queries itself, leaves the same rows and
    /// draft.
    #[test]
    fn a_session_on_a_terminal_that_others_wrote_leaves_each_row_once_and_the_draft_whole(
        steps in proptest::collection::vec(step(), 1..25),
        (width, height) in (20..90usize, 3..24usize),
    ) {
        let size = Size::new(width, height);
        let mut terminal = Foreign::new(size);
        terminal.send(&format!("{BEFORE}\r\n"));
        let mut session = Session::new(size, Terminal::Foreign(Box::new(terminal)));
        session.run(&steps)?;
        if let Terminal::Foreign(foreign) = &session.terminal {
            foreign.check_untouched();
        }
        let text = session.terminal.text();
        session.check(&text)?;
    }
}
