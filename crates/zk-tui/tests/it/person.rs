//! Person at the screen, and what they do there.

use std::time::Duration;

use serde_json::{Value, json};
use zk_tui::{
    Abilities, Action, App, Asked, Key, KeyDecoder, Looks, ModelFacts, NoticeForm, Offered, Size, Style,
    Theme,
};
use zk_view::{Card, Intent, Patch, Queued, Status, View};

use crate::emulator::Emulator;
use crate::replay::block;

pub(crate) struct Desk {
    pub(crate) app: App,
    pub(crate) emulator: Emulator,
    pub(crate) now: Duration,
    pub(crate) actions: Vec<Action>,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn desk() -> Desk {
    desk_of(Size::new(60, 16))
}

pub(crate) fn desk_of(size: Size) -> Desk {
    let complete = |asked: &Asked| {
        let names: &[&str] = match asked {
            Asked::Command => &["help", "hello", "model"],
            Asked::Argument(command) if command == "model" => &["claude-opus-5", "gpt-6"],
            Asked::Argument(_) => &[],
            Asked::Program => &["cargo", "cat"],
            Asked::File | Asked::ShellWord => &["src/main.rs", "docs/", "docs/main.md"],
            Asked::FilePreview(_) => &["# The first line"],
            Asked::SessionPreview(_) | Asked::SessionSearch(_) | Asked::TreePreview(_) => &[],
        };
        Offered { names: names.iter().map(ToString::to_string).collect(), ..Offered::default() }
    };
    desk_offering(size, complete)
}

/// Desk with custom completions.
pub(crate) fn desk_offering(size: Size, complete: impl Fn(&Asked) -> Offered + Send + 'static) -> Desk {
    let abilities = Abilities { looks: Looks { theme: Theme::Dark, links: true }, ..Abilities::PLAIN };
    let history = vec!["older prompt".to_owned(), "newer prompt".to_owned()];
    let app = App::new(View::default(), size, abilities, history, Box::new(complete));
    let mut desk = Desk { app, emulator: Emulator::new(size), now: ms(1000), actions: Vec::new() };
    desk.wait(0);
    desk
}

impl Desk {
    /// Lets time pass like a host, with due ticks and frames.
    pub(crate) fn wait(&mut self, more: u64) {
        for _ in 0..=more {
            if self.app.next_tick().is_some_and(|at| at <= self.now) {
                let acted = self.app.tick(self.now);
                self.actions.extend(acted);
                let frame = self.app.frame(self.now);
                self.emulator.send(&frame);
            }
            self.now += ms(1);
        }
    }

    /// Keys that arrive together.
    pub(crate) fn keys(&mut self, bytes: &str) {
        let mut decoder = KeyDecoder::default();
        let mut keys = decoder.push(bytes.as_bytes());
        keys.extend(decoder.idle());
        let acted = self.app.keys(&keys, self.now);
        self.actions.extend(acted);
        self.wait(20);
    }

    /// Keys that arrive together, without input after them yet.
    pub(crate) fn press(&mut self, bytes: &str) {
        let keys = KeyDecoder::default().push(bytes.as_bytes());
        let acted = self.app.keys(&keys, self.now);
        self.actions.extend(acted);
    }

    /// Submitted lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |action: &Action| if let Action::Line(line) = action { Some(line.clone()) } else { None };
        self.actions.iter().filter_map(line).collect()
    }

    /// Whether a stop was requested.
    pub(crate) fn stops(&self) -> bool {
        self.actions.contains(&Action::Stop)
    }

    /// Paths of pasted images.
    pub(crate) fn attached(&self) -> Vec<String> {
        let path =
            |action: &Action| if let Action::Attach(path) = action { Some(path.clone()) } else { None };
        self.actions.iter().filter_map(path).collect()
    }

    /// Actions about jobs.
    pub(crate) fn jobs(&self) -> Vec<Action> {
        self.actions.iter().filter(|action| matches!(action, Action::Job { .. })).cloned().collect()
    }

    /// Keys with some time between them.
    pub(crate) fn type_in(&mut self, text: &str) {
        for c in text.chars() {
            self.keys(&c.to_string());
            self.wait(60);
        }
    }

    pub(crate) fn patch(&mut self, patch: Patch) {
        self.app.patches(&[patch], self.now);
        self.wait(20);
    }

    pub(crate) fn run(&mut self) {
        let status: Status = serde_json::from_value(json!({
            "activity": {"doing": "answering"}, "activity_ms": 0, "run_ms": 5, "tokens_read": 0, "tokens_written": 0,
        }))
        .unwrap();
        self.patch(Patch::Status { status });
    }

    pub(crate) fn ask(&mut self, args: Value) {
        let card = card(args);
        self.patch(Patch::Ask { card: Box::new(card) });
    }

    /// Asks for a line, or for one of some options.
    pub(crate) fn ask_line(&mut self, options: &[&str]) {
        use zk_core::service::Question;
        let text = "which of them?".to_owned();
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        let question = if options.is_empty() {
            Question::Input { text }
        } else {
            zk_core::service::Selection::new(text, options).into()
        };
        let card = Card { question, ..card(json!({})) };
        self.patch(Patch::Ask { card: Box::new(card) });
    }

    pub(crate) fn shown(&mut self) -> String {
        self.emulator.all_rows().join("\n")
    }

    pub(crate) fn answers(&self) -> Vec<String> {
        let answer = |action: &Action| match action {
            Action::Intent(Intent::Answer { answer, .. }) => Some(format!("{answer:?}")),
            _ => None,
        };
        self.actions.iter().filter_map(answer).collect()
    }
}

pub(crate) fn card(args: Value) -> Card {
    use zk_core::model::Effects;
    use zk_core::service::{Approval, Question};
    let approval = Approval {
        tool: "shell".to_owned(),
        args,
        effects: Effects::executes("of the arguments"),
        session: Some("exactly this call".to_owned()),
        ..Approval::default()
    };
    Card {
        id: serde_json::from_value(json!(7)).unwrap(),
        digest: serde_json::from_value(json!("0000000000000009")).unwrap(),
        agent: None,
        question: Question::Approve(Box::new(approval)),
        approval: None,
    }
}

#[test]
fn a_line_is_sent_and_remembered_and_history_comes_back() {
    let mut desk = desk();
    desk.type_in("hello");
    assert!(desk.shown().contains("\n› hello\n"));
    assert_eq!(desk.emulator.cursor().1, 7);
    desk.keys("\r");
    assert_eq!(desk.actions, [Action::Remember("hello".into()), Action::Line("hello".into())]);
    desk.type_in("draft");
    desk.keys("\x1b[A");
    assert_eq!(desk.app.draft(), "hello");
    desk.keys("\x1b[A");
    assert_eq!(desk.app.draft(), "newer prompt");
    desk.keys("\x1b[B");
    desk.keys("\x1b[B");
    assert_eq!(desk.app.draft(), "draft");
    desk.keys("\x12");
    desk.type_in("older");
    assert!(desk.shown().contains("❯ older prompt"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "older prompt");
}

#[test]
fn a_paste_never_sends_and_comes_out_whole() {
    let mut desk = desk();
    let lines: String = (0..30).map(|n| format!("line {n}\r")).collect();
    desk.keys(&format!("\x1b[200~{lines}\x1b[201~"));
    assert_eq!(desk.actions, []);
    assert!(desk.shown().contains("[paste 1: 30 lines]"));
    desk.keys("\r");
    assert!(matches!(&desk.actions[1], Action::Line(text) if text.lines().count() == 30));
}

#[test]
fn names_are_completed() {
    let mut desk = desk();
    desk.type_in("/hel");
    assert!(desk.shown().contains("❯ /help\n  /hello\n"), "{}", desk.shown());
    desk.keys("\x1b[B");
    assert!(desk.shown().contains("❯ /hello"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "/hello ");
    assert_eq!(desk.actions, [], "the choice is not sent");
    desk.keys("\x15");
    desk.type_in("see @mn");
    desk.keys("\t");
    assert_eq!(desk.app.draft(), "see @src/main.rs ");
    desk.keys("\x15");
    desk.type_in("/mod");
    desk.keys("\t");
    assert!(desk.shown().contains("❯ claude-opus-5"), "an argument follows: {}", desk.shown());
    desk.type_in("g6");
    desk.keys("\t");
    assert_eq!(desk.app.draft(), "/model gpt-6 ");
    desk.keys("\x15");
    desk.type_in("!car");
    assert!(!desk.shown().contains("❯"));
    desk.keys("\t");
    assert_eq!(desk.app.draft(), "!cargo ");
    desk.keys("\x15");
    desk.type_in("!cat mn");
    assert!(!desk.shown().contains("❯"));
    desk.keys("\t");
    desk.keys("\x1b");
    assert!(!desk.shown().contains("❯"), "Esc takes the list away");
    assert_eq!(desk.app.draft(), "!cat mn");
}

#[test]
fn during_a_run_enter_steers_tab_queues_and_both_stay_in_sight() {
    let mut desk = desk();
    desk.run();
    desk.type_in("left");
    desk.keys("\r");
    desk.type_in("then right");
    desk.keys("\t");
    let intents: Vec<&Action> =
        desk.actions.iter().filter(|action| matches!(action, Action::Intent(_))).collect();
    assert_eq!(
        intents,
        [
            &Action::Intent(Intent::Steer { text: "left".into() }),
            &Action::Intent(Intent::Submit { text: "then right".into() }),
        ]
    );
    let queued = |id, steers, text: &str| Queued { id, steers, text: text.into() };
    desk.patch(Patch::Queue { queued: vec![queued(1, true, "left"), queued(2, false, "then right")] });
    assert!(
        desk.shown().contains(
            "  ↳ at the next step: left\n  ↳ then: then right                          Alt-↑ edits it\n"
        ),
        "{}",
        desk.shown()
    );
    desk.actions.clear();
    desk.keys("\x1b[1;3A");
    assert_eq!(desk.actions, [Action::Intent(Intent::Unqueue { id: 2 })]);
    assert_eq!(desk.app.draft(), "then right");
    desk.keys("\x1b");
    assert_eq!(desk.actions.last(), Some(&Action::Stop));
    assert_eq!(desk.app.draft(), "then right");
    desk.patch(Patch::Queue { queued: vec![queued(1, true, "left")] });
    desk.actions.clear();
    desk.keys("\x1b[1;3A");
    assert_eq!(desk.actions, [Action::Unsteer { id: 1, text: "left".into() }]);
    assert_eq!(desk.app.draft(), "then right", "the run has it: the host gives it back, or not");
}

#[test]
fn ctrl_c_stops_a_run_clears_a_draft_and_twice_ends() {
    let mut desk = desk();
    desk.type_in("draft");
    desk.keys("\x03");
    assert_eq!((desk.app.draft().as_str(), desk.actions.len()), ("", 0));
    desk.keys("\x03");
    assert!(desk.shown().contains("Ctrl-C again"));
    desk.keys("\x03");
    assert_eq!(desk.actions, [Action::Quit]);
    desk.keys("\x1b[A");
    assert_eq!(desk.app.draft(), "draft", "what was cleared is not lost");
}

#[test]
fn typing_around_a_question_answers_nothing_and_loses_nothing() {
    // All of them if sessions are generated by the thousand.
    let step = (2000 / crate::cases().max(1) as usize).clamp(1, 20);
    for delay in (0..1000).step_by(step) {
        let mut desk = desk();
        desk.run();
        let text = "so yes 1 y n a s";
        for (at, c) in text.chars().enumerate() {
            desk.keys(&c.to_string());
            if at == 5 {
                desk.wait(delay);
                desk.ask(json!({"command": "rm -rf /"}));
            }
            desk.wait(delay % 300);
        }
        assert_eq!(desk.answers(), Vec::<String>::new());
        assert_eq!(desk.app.draft(), text, "after {delay} ms");
    }
}

#[test]
fn no_pause_of_up_to_two_seconds_in_a_text_makes_an_answer_of_what_follows() {
    // A thousand timings if sessions are generated by the thousand.
    let mut seed = 5u64;
    let mut below = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for timing in 0..u64::from(crate::cases().clamp(10, 1000)) {
        let mut desk = desk();
        desk.run();
        let text = "delete it, yes y n a s 1 2";
        let asked = 1 + below(20) as usize;
        for (at, c) in text.chars().enumerate() {
            desk.keys(&c.to_string());
            if at == asked {
                desk.wait(below(600));
                match timing % 3 {
                    0 => desk.ask(json!({"command": "rm -rf /"})),
                    1 => desk.ask_line(&["keep", "delete"]),
                    _ => desk.ask_line(&[]),
                }
            }
            desk.wait(below(2000));
        }
        assert_eq!(desk.answers(), Vec::<String>::new(), "timing {timing}");
        assert_eq!(desk.app.draft(), text, "timing {timing}");
    }
}

#[test]
fn a_question_that_a_line_answers_takes_no_draft_for_its_answer() {
    let mut desk = desk();
    desk.type_in("tell ");
    desk.ask_line(&["keep", "delete"]);
    assert!(desk.shown().contains("Alt-Q answers: ↑↓ and Enter, or a digit"), "{}", desk.shown());
    desk.wait(3000);
    desk.keys("2");
    desk.wait(3000);
    desk.keys("2");
    assert_eq!((desk.answers().len(), desk.app.draft().as_str()), (0, "tell 22"));
    desk.keys("\x1bq");
    desk.wait(250);
    desk.keys("1");
    assert_eq!(desk.app.draft(), "tell 221", "it is deaf for a moment after Alt-Q too");
    desk.keys("\x1bq");
    desk.wait(300);
    desk.keys("2");
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Choice { index: 1 }"]);
    assert_eq!(desk.app.draft(), "tell 221", "the draft survives");
}

#[test]
fn a_draft_that_was_taken_away_keeps_no_keys_of_a_question() {
    for empties in ["\x15", "\x03", "\x7f"] {
        let mut desk = desk();
        desk.type_in("x");
        desk.ask(json!({"command": "touch x"}));
        desk.wait(600);
        desk.keys("y");
        desk.keys("\x7f");
        assert_eq!(desk.app.draft(), "x");
        desk.keys(empties);
        desk.wait(600);
        desk.keys("y");
        desk.wait(600);
        assert_eq!(desk.answers(), ["Once"], "{empties:?}");
    }
}

#[test]
fn a_question_hears_a_letter_and_its_confirmation_and_enter_alone_never_approves() {
    let mut desk = desk();
    desk.ask(json!({"command": "touch x"}));
    assert!(desk.shown().contains("├ y  Yes"));
    desk.keys("y");
    desk.wait(3000);
    assert_eq!(desk.answers().len(), 0, "too early: it is deaf");
    assert_eq!(desk.app.draft(), "y");
    desk.keys("\x7f");
    desk.wait(600);
    desk.keys("\r");
    desk.wait(1000);
    assert_eq!(desk.answers().len(), 0);
    desk.keys("\x1bq");
    desk.wait(400);
    desk.keys("y");
    desk.wait(1000);
    assert_eq!(desk.answers(), ["Once"]);
}

#[test]
fn a_paste_never_answers_and_a_refusal_can_have_words() {
    let mut desk = desk();
    desk.ask(json!({"command": "touch x"}));
    desk.wait(1000);
    desk.keys("\x1b[200~y\x1b[201~");
    desk.wait(2000);
    assert_eq!((desk.answers().len(), desk.app.draft().as_str()), (0, "y"));
    desk.keys("\x1bq");
    desk.wait(400);
    desk.keys("w");
    desk.keys("\r");
    desk.type_in("use cp");
    desk.keys("\r");
    assert_eq!(desk.answers(), ["No { message: Some(\"use cp\") }"]);
    assert_eq!(desk.app.draft(), "y", "the draft survives the question");
}

#[test]
fn every_row_of_a_long_question_can_be_reached_and_a_tiny_screen_answers_nothing() {
    let command: String = (0..100).map(|n| format!("echo {n}\n")).collect();
    let mut desk = desk();
    desk.ask(json!({"command": command}));
    desk.wait(1000);
    let mut seen = String::new();
    for _ in 0..20 {
        seen += &desk.shown();
        desk.keys("\x1b[6~");
        desk.wait(400);
    }
    assert!((0..100).all(|n| seen.contains(&format!("echo {n}\n"))), "{seen}");
    let mut tiny = desk_of(Size::new(20, 4));
    tiny.ask(json!({"command": command}));
    tiny.wait(1000);
    tiny.keys("y");
    tiny.wait(3000);
    assert_eq!(tiny.answers().len(), 0);
    assert!(tiny.shown().contains("too small"), "{}", tiny.shown());
}

#[test]
fn nothing_is_written_and_nothing_ticks_while_nothing_changes() {
    let mut desk = desk();
    desk.type_in("draft");
    desk.wait(100);
    assert_eq!(desk.app.next_tick(), None);
    assert_eq!(desk.app.frame(desk.now + ms(1000)), "");
}

#[test]
fn there_are_at_most_60_frames_a_second() {
    let mut desk = desk();
    desk.patch(Patch::Open { block: block("b0", false, None, &json!({"type": "answer", "text": ""})) });
    let mut frames = 0;
    for n in 0..1000 {
        let grow = json!({"patch": "grow", "id": "b0", "delta": format!("word {n} ")});
        desk.app.patches(&[serde_json::from_value(grow).unwrap()], desk.now);
        let frame = desk.app.frame(desk.now);
        frames += u32::from(!frame.is_empty());
        desk.emulator.send(&frame);
        desk.now += ms(1);
    }
    assert!((45..=60).contains(&frames), "{frames}");
}

#[test]
fn the_first_words_and_a_key_are_shown_at_once_while_an_answer_streams() {
    let mut desk = desk();
    desk.wait(500);
    desk.app.patches(
        &[Patch::Open { block: block("b0", false, None, &json!({"type": "answer", "text": "First"})) }],
        desk.now,
    );
    assert!(desk.app.frame(desk.now).contains("First"));
    let mut times = Vec::new();
    for n in 0..3000 {
        let grow = json!({"patch": "grow", "id": "b0", "delta": format!("word {n} ")});
        desk.app.patches(&[serde_json::from_value(grow).unwrap()], desk.now);
        let is_key = n % 125 == 60;
        if is_key {
            assert_eq!(desk.app.keys(&[Key::Char('x')], desk.now), []);
        }
        let frame = desk.app.frame(desk.now);
        assert!(!is_key || frame.contains('x'), "key at {n}: {frame:?}");
        if !frame.is_empty() {
            times.push(desk.now);
        }
        desk.now += ms(1);
    }
    for (first, after) in times.iter().zip(times.iter().skip(60)) {
        assert!(*after - *first >= ms(1000), "more than 60 frames in a second");
    }
}

#[test]
fn zk_can_be_stopped_by_its_key_in_the_pager_and_in_a_picker_too() {
    for before in ["\x14", "\x0f", ""] {
        let mut desk = desk();
        desk.keys(before);
        desk.keys("\x1a");
        assert_eq!(desk.actions.last(), Some(&Action::Suspend), "{before:?}");
    }
}

#[test]
fn another_screen_and_the_clipboard_need_not_wait_for_the_end_of_a_run() {
    let mut desk = desk();
    let content = json!({"type": "answer", "text": "An answer."});
    desk.patch(Patch::Open { block: block("b0", true, None, &content) });
    desk.run();
    desk.keys("/screen full");
    desk.keys("\r");
    assert!(desk.app.is_drawn_alternate());
    desk.keys("/screen inline");
    desk.keys("\r");
    assert!(!desk.app.is_drawn_alternate());
    desk.keys("/copy");
    assert_eq!(desk.app.keys(&[Key::Enter], desk.now), []);
    assert!(desk.app.frame(desk.now + ms(50)).contains("\u{1b}]52;c;"), "the answer is copied");
    desk.keys("/model gpt-6");
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "/model gpt-6", "others wait");
}

#[test]
fn all_keys_are_listed_on_a_usual_terminal() {
    let mut desk = desk_of(Size::new(80, 24));
    desk.type_in("??");
    let shown = desk.emulator.screen();
    for key in [
        "Enter",
        "Ctrl-O",
        "Alt-Q",
        "Ctrl-Z",
        "Alt-Y",
        "PgUp",
        "Home End",
        "all of the conversation, with search",
    ] {
        assert!(shown.contains(key), "{key}: {shown}");
    }
    assert!(!shown.contains("more keys"), "{shown}");
}

#[test]
fn a_paste_of_one_long_line_is_folded_too() {
    let mut desk = desk();
    let long = "x".repeat(5000);
    desk.keys(&format!("\x1b[200~{long}\x1b[201~"));
    assert!(desk.emulator.screen().contains("[paste 1: 5 KB]"), "{}", desk.emulator.screen());
    assert_eq!(desk.app.draft(), long);
}

#[test]
fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (1, 5), (2, 2), (5, 1), (300, 100)] {
        let mut desk = desk_of(Size::new(width, height));
        desk.type_in("漢字 and words");
        desk.ask(json!({"command": "touch x"}));
        desk.patch(Patch::Open {
            block: block(
                "b0",
                false,
                None,
                &json!({"type": "answer", "text": "# A\n\n| a | b |\n|--|--|\n"}),
            ),
        });
        let (row, column) = desk.emulator.cursor();
        assert!(row < height && column < width);
        let sent = desk.app.resize(Size::new(40, 10), desk.now);
        desk.emulator.resize(Size::new(40, 10));
        desk.emulator.send(&sent);
        desk.wait(50);
        assert!(desk.shown().contains("and words"), "{}", desk.shown());
    }
}

#[test]
fn what_is_masked_is_not_drawn() {
    let size = Size::new(60, 10);
    let app = App::new(View::default(), size, Abilities::PLAIN, Vec::new(), Box::new(|_| Offered::default()));
    let mut app = app.masked_by(|line| line.contains("hunter2").then(|| line.replace("hunter2", "***")));
    app.print(Style::PLAIN, "the key is hunter2");
    let frame = app.frame(ms(0));
    assert!(frame.contains("the key is ***") && !frame.contains("hunter2"));
    assert_eq!(app.keys(&[Key::Char('x')], ms(1)), []);
}

#[test]
fn who_looks_elsewhere_is_told_of_a_question_once_and_who_looks_is_not() {
    for (keys, expected) in [("\x1b[I", 0), ("\x1b[O", 1), ("\x1b[O\x1b[I", 0)] {
        let size = Size::new(60, 16);
        let abilities = Abilities { notices: NoticeForm::Osc9, ..Abilities::PLAIN };
        let mut app =
            App::new(View::default(), size, abilities, Vec::new(), Box::new(|_| Offered::default()));
        let mut decoder = KeyDecoder::default();
        assert_eq!(app.keys(&decoder.push(keys.as_bytes()), ms(0)), []);
        app.patches(&[Patch::Ask { card: Box::new(card(json!({"command": "touch x"}))) }], ms(20));
        let mut sent = String::new();
        for at in 1..10 {
            sent += &app.frame(ms(at * 100));
        }
        assert_eq!(sent.matches("\u{1b}]9;Run this command?\u{1b}\\").count(), expected, "{keys:?}");
    }
}

#[test]
fn the_status_row_says_how_full_the_context_is() {
    let mut desk = desk();
    desk.app.set_model(ModelFacts { name: "opus".into(), mode: "ask".into(), ..ModelFacts::default() });
    desk.wait(20);
    assert!(
        desk.shown().contains("  ask                                                   opus"),
        "{}",
        desk.shown()
    );
    let status: Status = serde_json::from_value(json!({
        "activity": {"doing": "idle"}, "activity_ms": 0, "tokens_read": 0, "tokens_written": 0, "context_tokens": 150_000,
        "gauge": {"tokens": 150_000, "usable": 200_000, "percent": 75, "colour": "yellow", "compactions": 2},
    }))
    .unwrap();
    desk.patch(Patch::Status { status });
    assert!(
        desk.shown().contains("  ask                opus · context 75 % · compacted 2 times"),
        "{}",
        desk.shown()
    );
}

#[test]
fn during_a_run_the_status_row_says_the_model_and_how_long_the_run_takes() {
    let mut desk = desk_of(Size::new(120, 16));
    desk.app.set_model(ModelFacts { name: "opus".into(), mode: "ask".into(), ..ModelFacts::default() });
    let running = |gauge: Value| -> Status {
        serde_json::from_value(json!({
            "activity": {"doing": "thinking"}, "activity_ms": 3000, "run_ms": 75_000, "tokens_read": 0, "tokens_written": 20,
            "cost": 0.5, "gauge": gauge,
        }))
        .unwrap()
    };
    let gauge = json!({"tokens": 20, "usable": 100_000, "percent": 2, "colour": "green", "compactions": 0});
    desk.patch(Patch::Status { status: running(gauge) });
    assert!(
        desk.shown().contains(
            "  ◐ 75 s · thinking · ↓20 · Esc stops · Enter: at the next step · Tab: afterwards       ask · opus · context 2 % · $0.50"
        ),
        "{}",
        desk.shown()
    );
    assert!(!desk.shown().contains("compacted"), "a badge stands for a compaction");
    desk.patch(Patch::Status { status: running(Value::Null) });
    assert!(desk.shown().contains("  ask · opus · $0.50"), "{}", desk.shown());
    // Earlier runs count, too.
    let end = json!({"type": "end", "status": "completed", "turns": 1, "tokens_read": 1, "tokens_written": 1,
        "cost": 0.25, "cost_is_partial": false, "duration_ms": 10});
    desk.patch(Patch::Open { block: block("b9", true, None, &end) });
    desk.patch(Patch::Status { status: running(Value::Null) });
    assert!(desk.shown().contains("  ask · opus · $0.75"), "{}", desk.shown());
}

#[test]
fn what_waits_stays_in_sight_beside_a_question_of_any_length() {
    let mut desk = desk();
    desk.run();
    let command: String = (0..100).map(|n| format!("echo {n}\n")).collect();
    desk.patch(Patch::Queue { queued: vec![Queued { id: 1, steers: true, text: "and then".into() }] });
    desk.ask(json!({"command": command}));
    assert!(desk.shown().contains("↳ at the next step: and then "), "{}", desk.shown());
    for (id, waits) in
        [(8, "1 more question waits · ↳"), (9, "  2 more questions wait · ↳ at the next step: and then\n")]
    {
        let mut other = card(json!({"command": "touch x"}));
        other.id = serde_json::from_value(json!(id)).unwrap();
        desk.patch(Patch::Ask { card: Box::new(other) });
        assert!(desk.shown().contains(waits), "{}", desk.shown());
    }
    let shown = desk.shown();
    assert!(
        shown.contains("┌ Run this command?") && shown.contains("w  No, and tell it what to do instead"),
        "{shown}"
    );
    assert!(shown.contains("\n›\n"), "there is a row to type in: {shown}");
    let first = serde_json::from_value(json!(7)).unwrap();
    desk.patch(Patch::Answered { id: first });
    assert!(desk.shown().contains("1 more question waits"), "{}", desk.shown());
}
