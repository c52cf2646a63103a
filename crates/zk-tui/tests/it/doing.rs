use serde_json::json;
use zk_core::model::Display;
use zk_core::service::{Question, Selection};
use zk_tui::{Action, Size, Style};
use zk_view::{Card, CheckRow, Intent, JobRow, Patch, Queued};

use crate::person::{Desk, card, desk, desk_of};
use crate::replay::block;

fn checklist(desk: &mut Desk, items: &[(&str, &str)]) {
    let items: Vec<_> = items.iter().map(|(text, state)| json!({ "text": text, "state": state })).collect();
    let items: Vec<CheckRow> = serde_json::from_value(json!(items)).unwrap();
    desk.patch(Patch::Checklist { items });
}

fn choice() -> Selection {
    let options = ["Half up", "Bankers", "Truncate"].map(str::to_owned).to_vec();
    let descriptions =
        ["like a shop till", "half to even, like Python", "always down"].map(str::to_owned).to_vec();
    Selection::new("Which rounding should totals use?", options).described(descriptions).accepting_words()
}

fn ask(desk: &mut Desk, asked: Selection) {
    let question: Question = asked.into();
    let card = Card { question, ..card(json!({})) };
    desk.patch(Patch::Ask { card: Box::new(card) });
}

#[test]
fn the_to_do_list_stands_above_the_place_to_type_until_it_is_done() {
    let mut desk = desk_of(Size::new(90, 20));
    let items =
        [("find the failing test", "done"), ("fix the discount", "current"), ("run all tests", "open")];
    checklist(&mut desk, &items);
    let one_row = "  ☑ find the failing test   ▸ fix the discount   ☐ run all tests\n";
    assert!(desk.shown().contains(one_row), "{}", desk.shown());
    let many: Vec<String> = (0..9).map(|n| format!("a step of some length with the number {n}")).collect();
    let state = |n| {
        if n < 4 {
            "done"
        } else if n == 4 {
            "current"
        } else {
            "open"
        }
    };
    let many: Vec<(&str, &str)> =
        many.iter().enumerate().map(|(n, text)| (text.as_str(), state(n))).collect();
    checklist(&mut desk, &many);
    let shown = desk.shown();
    assert!(shown.contains("☑ a step of some length with the number 3\n  ▸ a step"), "{shown}");
    assert!(shown.contains("☐ a step of some length with the number 6\n  +5 more\n"), "{shown}");
    checklist(&mut desk, &[("all of it", "done")]);
    assert!(!desk.shown().contains("all of it"), "what is done is gone: {}", desk.shown());
    desk.run();
    assert!(desk.shown().contains("☑ all of it"), "but while the run goes on: {}", desk.shown());
}

#[test]
fn a_to_do_list_gives_way_to_texts_that_wait_where_there_is_not_room_for_both() {
    let mut desk = desk_of(Size::new(60, 12));
    checklist(&mut desk, &[("find the failing test", "current")]);
    desk.run();
    let jobs: Result<Vec<JobRow>, _> = serde_json::from_value(json!([
        {"id": "job-1", "command": "npm run dev", "state": {"state": "running"}}
    ]));
    desk.patch(Patch::Jobs { jobs: jobs.unwrap() });
    let queued = |id, text: &str| Queued { id, steers: false, text: text.into() };
    desk.patch(Patch::Queue { queued: vec![queued(1, "one")] });
    assert!(desk.shown().contains("▸ find the failing test"), "{}", desk.shown());
    desk.patch(Patch::Queue { queued: vec![queued(1, "one"), queued(2, "two")] });
    let shown = desk.shown();
    assert!(shown.contains("then: one") && shown.contains("then: two"), "{shown}");
    assert!(shown.contains("npm run dev") && !shown.contains("find the failing test"), "{shown}");
}

#[test]
fn a_to_do_list_is_drawn_once_when_it_has_other_items() {
    let mut desk = desk_of(Size::new(60, 20));
    let call = |id: &str, reshaped: bool, lines: &[&str]| {
        let call = json!({"type": "call", "call_id": id, "step": 0, "tool": "x", "kind": "plan", "state": "done",
            "summary": "to-do list: 0 done", "body": {"form": {"form": "checklist", "reshaped": reshaped},
            "lines": lines, "total_lines": lines.len(), "expandable": false}});
        Patch::Open { block: block(id, true, None, &call) }
    };
    desk.patch(call("b0", true, &["▸ one", "☐ two"]));
    desk.patch(call("b1", false, &["☑ one", "▸ two"]));
    let shown = desk.shown();
    assert!(shown.contains("  ▸ one\n  ☐ two\n"), "{shown}");
    assert_eq!(shown.matches("one").count(), 1, "{shown}");
}

#[test]
fn a_plan_stays_in_the_transcript_as_it_reads() {
    let mut desk = desk_of(Size::new(60, 20));
    let call = json!({"type": "call", "call_id": "c", "step": 0, "tool": "x", "kind": "ask", "state": "done",
        "summary": "Plan", "body": {"form": {"form": "markdown", "outcome": "Go on"},
        "lines": ["# Fix it", "", "**First** the test."], "total_lines": 3, "expandable": false}});
    desk.patch(Patch::Open { block: block("b0", true, None, &call) });
    let shown = desk.shown();
    assert!(shown.contains("First the test.") && shown.contains("  → Go on"), "{shown}");
    assert!(!shown.contains("**") && !shown.contains("# Fix"), "{shown}");
}

#[test]
fn a_plan_is_read_before_it_is_gone_on_with() {
    let mut desk = desk_of(Size::new(80, 24));
    let text: String = (1..=40).map(|n| format!("{n}. step **{n}**\n")).collect();
    let plan = Display::Markdown { text, outcome: String::new() };
    let options = ["Go on", "Change it", "No"].map(str::to_owned).to_vec();
    ask(&mut desk, Selection::new("Go on with this plan?", options).accepting_words().about(plan));
    desk.wait(600);
    let shown = desk.shown();
    assert!(shown.contains("1. step 1") && shown.contains("more rows: Page Down"), "{shown}");
    assert!(shown.contains("1  Go on") && shown.contains("3  No"), "{shown}");
    for _ in 0..8 {
        desk.keys("\x1b[6~");
    }
    assert!(desk.shown().contains("40. step 40"), "{}", desk.shown());
    desk.keys("\x1b[B");
    desk.wait(300);
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Choice { index: 0 }"]);
}

#[test]
fn an_unchanged_empty_line_of_a_diff_is_empty_and_counted() {
    let mut desk = desk_of(Size::new(80, 24));
    let diff = "--- a.py\n+++ a.py\n@@ -7,4 +7,4 @@\n one\n \n-if x:\n+if not x:\n last\n";
    let diff = Display::Diff { path: "a.py".to_owned(), diff: diff.to_owned() };
    ask(&mut desk, Selection::new("Bring it back?", vec!["yes".to_owned(), "no".to_owned()]).about(diff));
    desk.wait(600);
    let shown = desk.shown();
    assert!(!shown.contains("U+0020") && shown.contains(" 9 + if not x:"), "{shown}");
}

#[test]
fn each_way_to_go_on_with_a_plan_stands_on_twelve_rows_of_sixty_columns_and_the_marked_one_whole() {
    let mut desk = desk_of(Size::new(60, 12));
    let text: String = (1..=9).map(|n| format!("{n}. step **{n}**\n")).collect();
    let plan = Display::Markdown { text, outcome: String::new() };
    let long = "Go on, and let it change files of the workspace unasked";
    let options = ["Go on", long, "Change it, with the same plan for a part of it alone", "No"];
    let options = options.map(str::to_owned).to_vec();
    ask(&mut desk, Selection::new("Go on with this plan?", options).accepting_words().about(plan));
    desk.wait(600);
    let shown = desk.shown();
    for part in ["1. step 1", "1  Go on", "2  Go on, and let", "3  Change it", "4  No", "or type"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    desk.keys("\x1b[B");
    desk.keys("\x1b[B");
    assert!(desk.shown().contains("unasked"), "{}", desk.shown());
    assert!(desk.shown().contains("4  No"), "{}", desk.shown());
    desk.keys("\x1b[6~");
    assert!(desk.shown().contains("2. step 2"), "{}", desk.shown());
}

#[test]
fn a_choice_is_made_with_arrows_and_enter_a_digit_or_in_own_words() {
    let asked = || {
        let mut desk = desk_of(Size::new(80, 24));
        ask(&mut desk, choice());
        desk.wait(600);
        desk
    };
    let mut desk = asked();
    let shown = desk.shown();
    assert!(shown.contains("┌ Which rounding should totals use?\n"), "{shown}");
    assert!(shown.contains("│   2  Bankers   half to even, like Python\n"), "{shown}");
    desk.keys("\r");
    assert!(desk.shown().contains("no choice is marked: ↑↓ marks one"), "{}", desk.shown());
    desk.wait(1000);
    assert_eq!(desk.answers(), Vec::<String>::new(), "Enter takes only what an arrow moved to");
    assert!(desk.shown().contains("↑↓ first, then Enter"), "{}", desk.shown());
    desk.keys("\x1b[B");
    desk.keys("\x1b[B");
    assert!(desk.shown().contains("│ › 2  Bankers"), "{}", desk.shown());
    desk.wait(300);
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Choice { index: 1 }"]);

    let mut desk = asked();
    desk.keys("\x1b[A");
    desk.keys("1");
    assert_eq!(desk.answers(), Vec::<String>::new(), "more may follow");
    desk.wait(500);
    assert_eq!(desk.answers(), ["Choice { index: 0 }"], "a digit behind an arrow is for the question");

    let mut desk = asked();
    desk.type_in("2 decimals, half up please");
    desk.wait(1000);
    assert!(desk.shown().contains("> 2 decimals, half up please"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Text { text: \"2 decimals, half up please\" }"]);
    assert_eq!(desk.app.draft(), "");

    for declines in ["n\r", "\x1b"] {
        let mut desk = asked();
        declines.chars().for_each(|c| desk.keys(&c.to_string()));
        desk.wait(50);
        assert_eq!(desk.answers(), ["No { message: None }"], "{declines:?}");
    }
}

#[test]
fn enter_that_came_with_the_arrow_takes_no_option() {
    for burst in ["\x1b[B\r", "\x1b[B\x1b[B\r"] {
        let mut desk = desk_of(Size::new(80, 24));
        ask(&mut desk, choice());
        desk.wait(600);
        desk.keys(burst);
        desk.wait(1000);
        assert_eq!(desk.answers(), Vec::<String>::new(), "{burst:?}");
        assert!(desk.lines().is_empty() && desk.app.draft().is_empty(), "{burst:?}");
        desk.keys("\x1b[A");
        desk.keys("\r");
        assert_eq!(desk.answers(), Vec::<String>::new(), "{burst:?}");
        desk.wait(300);
        desk.keys("\r");
        assert_eq!(desk.answers().len(), 1, "{burst:?}");
    }
}

#[test]
fn what_is_drawn_of_a_choice_that_its_call_tells_of_does_not_stay() {
    let mut desk = desk_of(Size::new(80, 24));
    ask(&mut desk, choice());
    desk.wait(600);
    desk.keys("\x1b[B");
    desk.wait(300);
    desk.keys("\r");
    let id = serde_json::from_value(json!(7)).unwrap();
    desk.patch(Patch::Answered { id });
    let shown = desk.shown();
    assert!(!shown.contains("Half up") && !shown.contains("Which rounding"), "{shown}");
}

#[test]
fn a_choice_fits_small_screens_and_keeps_the_mark_in_sight() {
    for (width, height) in [(80, 24), (60, 12), (40, 10)] {
        let mut desk = desk_of(Size::new(width, height));
        let options: Vec<String> =
            (1..=9).map(|n| format!("option {n} with a long text that goes on")).collect();
        let described = options.iter().map(|option| format!("what {option} means")).collect();
        ask(&mut desk, Selection::new("Which of them?", options).described(described).accepting_words());
        desk.wait(600);
        for n in 1..=9 {
            desk.keys("\x1b[B");
            let screen = desk.emulator.screen();
            assert!(screen.contains(&format!("› {n}  option {n}")), "{width}x{height}: {screen}");
            assert!(
                screen.contains("Which of them?") && screen.contains("Esc"),
                "{width}x{height}: {screen}"
            );
        }
    }
}

#[test]
fn escape_declines_nothing_while_a_draft_is_typed_or_the_question_just_came() {
    let mut desk = desk();
    desk.run();
    ask(&mut desk, choice());
    desk.keys("\x1b");
    desk.wait(100);
    assert_eq!((desk.answers().len(), desk.actions.last()), (0, Some(&Action::Stop)));
}

#[test]
fn a_text_that_is_held_back_is_sent_with_enter_and_edited_with_an_arrow() {
    let held = || {
        let mut desk = desk_of(Size::new(80, 20));
        desk.patch(Patch::Queue {
            queued: vec![Queued { id: 4, steers: true, text: "run the linter".into() }],
        });
        desk
    };
    let mut desk = held();
    let shown = desk.shown();
    let row = shown.lines().find(|row| row.starts_with("  held: run the linter  ")).unwrap_or_default();
    assert!(row.ends_with("Enter sends it · Alt-↑ edits it · Ctrl-K drops it"), "{shown}");
    desk.keys("\r");
    let expected = [Action::Intent(Intent::Unqueue { id: 4 }), Action::Line("run the linter".to_owned())];
    assert_eq!(desk.actions, expected);
    for arrow in ["\x1b[A", "\x1b[1;3A"] {
        let mut desk = held();
        desk.keys(arrow);
        assert_eq!(desk.actions, [Action::Intent(Intent::Unqueue { id: 4 })]);
        assert_eq!(desk.app.draft(), "run the linter");
    }
    let mut desk = held();
    desk.keys("\x0b");
    assert_eq!(desk.actions, [Action::Intent(Intent::Unqueue { id: 4 })]);
    assert!(desk.shown().contains("dropped: ↑ brings it back"), "{}", desk.shown());
    desk.patch(Patch::Queue { queued: Vec::new() });
    desk.keys("\x1b[A");
    assert_eq!(desk.app.draft(), "run the linter");
}

#[test]
fn a_hint_on_a_second_key_press_goes_with_the_next_key_or_when_that_has_no_effect() {
    for (key, hint) in [("\x1b", "nothing runs that Esc could stop"), ("\u{3}", "Ctrl-C again")] {
        let mut desk = desk();
        desk.keys(key);
        assert!(desk.shown().contains(hint), "{}", desk.shown());
        desk.wait(1900);
        assert!(desk.shown().contains(hint), "{}", desk.shown());
        desk.wait(150);
        assert!(!desk.shown().contains(hint), "{}", desk.shown());
        assert_eq!(desk.app.next_tick(), None, "nothing wakes up for it afterwards");
        desk.keys(key);
        desk.keys("\x1b[Z");
        assert!(!desk.shown().contains(hint), "{}", desk.shown());
    }
}

#[test]
fn a_typed_command_stands_apart_from_what_is_above_and_its_output_below_it() {
    for is_full in [false, true] {
        let mut desk = desk_of(Size::new(80, 24));
        desk.app.set_full(is_full);
        for typed in ["/help", "/cost"] {
            desk.app.echo(typed);
            desk.app.print(Style::PLAIN, "output of it\nand more");
        }
        desk.wait(20);
        let shown = if is_full { desk.emulator.screen() } else { desk.shown() };
        assert!(
            shown.contains("› /help\noutput of it\nand more\n\n› /cost\noutput of it\nand more\n"),
            "{shown}"
        );
    }
}

#[test]
fn a_command_is_put_in_the_background_with_an_empty_draft_only() {
    let mut desk = desk();
    desk.keys("\x02");
    assert!(desk.actions.is_empty() && desk.shown().contains("no command runs"), "{}", desk.shown());
    desk.run();
    desk.keys("\x02");
    assert_eq!(desk.actions, [Action::Background]);
    desk.actions.clear();
    desk.type_in("ab");
    desk.keys("\x02");
    desk.type_in("c");
    assert_eq!((desk.actions.len(), desk.app.draft().as_str()), (0, "acb"));
}

#[test]
fn a_long_question_can_be_read_to_its_end() {
    let mut desk = desk_of(Size::new(60, 16));
    let text: String = (0..90).map(|n| format!("word{n} ")).collect();
    let options = ["a", "b"].map(str::to_owned).to_vec();
    ask(&mut desk, Selection::new(format!("{text}\nlast line"), options));
    desk.wait(600);
    assert!(desk.emulator.screen().contains("word0 "), "{}", desk.emulator.screen());
    let mut seen = String::new();
    for _ in 0..6 {
        seen += &desk.emulator.screen();
        desk.keys("\x1b[6~");
    }
    assert!((0..90).all(|n| seen.contains(&format!("word{n}"))) && seen.contains("last line"), "{seen}");
}

#[test]
fn enter_right_behind_an_arrow_says_that_it_took_nothing() {
    let mut desk = desk();
    desk.run();
    ask(&mut desk, choice());
    desk.wait(1000);
    desk.keys("\x1b[B");
    desk.keys("\r");
    assert_eq!(desk.answers().len(), 0);
    assert!(desk.shown().contains("Enter came right behind the arrow: press it again"), "{}", desk.shown());
    desk.wait(400);
    desk.keys("\r");
    assert_eq!(desk.answers().len(), 1);
}

#[test]
fn text_of_the_program_is_wrapped_at_words_and_keeps_its_columns_and_margin() {
    let mut desk = desk_of(Size::new(60, 24));
    desk.app.print_words(
        Style::PLAIN,
        "commands   in a sandbox: they write to the project alone, and have no network\nshort",
    );
    desk.app
        .print(Style::DIM, "  Commands run in a sandbox: they change this repository only, without network.");
    desk.wait(20);
    let expected = "  commands   in a sandbox: they write to the project alone,\n             and have no network\n  short\n  \
                    Commands run in a sandbox: they change this repository\n  only, without network.\n";
    assert!(desk.shown().contains(expected), "{}", desk.shown());
}
