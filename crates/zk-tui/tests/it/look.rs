//! Look of the screen: the edge between conversation and composer, first words, signs, colours and the title.

use std::time::Duration;

use serde_json::{Value, json};
use zk_tui::{Abilities, App, Looks, ModelFacts, Offered, Size, Style, Theme};
use zk_view::{Patch, Status, View};

use crate::person::{Desk, card, desk_of};
use crate::replay::block;

fn facts() -> ModelFacts {
    ModelFacts {
        name: "Sonnet 5.5".into(),
        mode: "auto".into(),
        walls: "sandbox".into(),
        directory: "~/src/shopcart".into(),
        branch: "main".into(),
        ..ModelFacts::default()
    }
}

fn rules(shown: &str) -> usize {
    shown.lines().filter(|row| !row.is_empty() && row.chars().all(|c| c == '─')).count()
}

fn call(id: &str, summary: &str, state: &str, body: &Value) -> Patch {
    let content = json!({"type": "call", "call_id": id, "step": 0, "tool": "t", "summary": summary, "state": state,
        "elapsed_ms": 230, "body": body});
    let is_closed = state != "running";
    let block = block(id, is_closed, None, &content);
    if is_closed { Patch::Close { block } } else { Patch::Open { block } }
}

fn command(code: i32, lines: &[&str], total: u64) -> Value {
    json!({"form": {"form": "command", "exit": {"how": "code", "code": code}}, "lines": lines, "total_lines": total,
        "expandable": false})
}

#[test]
fn an_empty_composer_between_two_rules_says_what_can_be_typed_and_the_status_stands_below() {
    let mut desk = desk_of(Size::new(80, 24));
    desk.app.set_model(facts());
    desk.wait(20);
    let shown = desk.shown();
    let rows: Vec<&str> = shown.lines().rev().take(4).collect();
    assert!(
        rows[0].starts_with("  auto · sandbox  ") && rows[0].ends_with("~/src/shopcart main · Sonnet 5.5"),
        "{shown}"
    );
    assert_eq!(rows[2], "› Ask anything            / commands   @ files   ! shell   ? keys");
    assert_eq!((rules(rows[1]), rules(rows[3])), (1, 1), "{shown}");
    desk.keys("x");
    assert!(desk.shown().contains("\n› x\n") && !desk.shown().contains("Ask anything"), "{}", desk.shown());
}

#[test]
fn a_low_screen_gives_up_the_rules_first_and_then_the_words_of_an_empty_composer() {
    let shown = |height| {
        let mut desk = desk_of(Size::new(60, height));
        desk.app.set_model(facts());
        desk.wait(20);
        let shown = desk.shown();
        (rules(&shown), shown.contains("Ask anything"), shown.contains("auto"))
    };
    assert_eq!(shown(24), (2, true, true));
    assert_eq!(shown(8), (0, true, true));
    assert_eq!(shown(5), (0, false, true));
}

#[test]
fn no_rule_takes_a_row_from_a_question() {
    let mut desk = desk_of(Size::new(80, 24));
    desk.ask(json!({"command": "touch x"}));
    assert_eq!(rules(&desk.shown()), 0, "{}", desk.shown());
}

#[test]
fn a_call_keeps_its_name_and_gets_its_sign_and_outcome_on_its_own_row() {
    let mut desk = desk_of(Size::new(80, 24));
    desk.patch(call("b0", "$ python3 -m unittest -q", "running", &Value::Null));
    let running: Status = serde_json::from_value(json!({
        "activity": {"doing": "running", "calls": ["$ python3 -m unittest -q"]}, "activity_ms": 14_000, "run_ms": 18_000,
        "tokens_read": 0, "tokens_written": 269,
    }))
    .unwrap();
    desk.patch(Patch::Status { status: running });
    let row = |sign: &str, facts: &str| {
        let text = format!("  {sign} $ python3 -m unittest -q");
        format!("{text}{}{facts}\n", " ".repeat(80 - text.chars().count() - facts.chars().count()))
    };
    assert!(desk.shown().contains(&row("●", "14 s")), "{}", desk.shown());
    assert!(
        desk.shown().contains("  ◐ 18 s · ↓269 · Esc stops · Enter: at the next step"),
        "{}",
        desk.shown()
    );
    desk.patch(call("b0", "$ python3 -m unittest -q", "failed", &command(1, &["FAILED (failures=2)"], 19)));
    let shown = desk.shown();
    assert!(shown.contains(&row("✗", "exit 1 · 0.2 s")), "{shown}");
    let output = format!("      FAILED (failures=2){}18 lines more · Ctrl-T\n", " ".repeat(80 - 25 - 22));
    assert!(shown.contains(&output), "{shown}");
    assert_eq!(shown.matches("unittest").count(), 1, "no row repeats another: {shown}");
}

#[test]
fn a_command_of_more_than_one_row_hangs_under_its_start_with_the_facts_below() {
    let mut desk = desk_of(Size::new(40, 24));
    desk.patch(call(
        "b0",
        "$ cargo test --workspace --all-targets --no-fail-fast",
        "failed",
        &command(101, &["x"], 1),
    ));
    assert!(
        desk.shown().contains("  ✗ $ cargo test --workspace\n      --all-targets --no-fail-fast\n    exit 101 · 0.2 s\n      x\n"),
        "{}",
        desk.shown()
    );
}

#[test]
fn an_edit_has_the_lines_around_it_with_their_numbers_and_says_how_many_changed() {
    let mut desk = desk_of(Size::new(60, 24));
    let lines =
        ["--- a", "+++ b", "@@ -8,2 +8,2 @@", " def percent(cents):", "-    return 1", "+    return 2"];
    let body = json!({"form": {"form": "diff", "path": "discounts.py", "added": 1, "removed": 1}, "lines": lines,
        "total_lines": 6, "expandable": false});
    desk.patch(call("b0", "edit discounts.py", "done", &body));
    let head = format!("  ✓ edit discounts.py{}+1 −1\n", " ".repeat(60 - 21 - 5));
    let rows = "      8   def percent(cents):\n      9 -     return 1\n      9 +     return 2\n";
    assert!(desk.shown().contains(&format!("{head}{rows}")), "{}", desk.shown());
}

#[test]
fn prose_has_a_margin_and_code_that_can_be_copied_has_none() {
    let mut desk = desk_of(Size::new(60, 24));
    let text = "Run this:\n\n```sh\nmake all\n```\n\n- [x] done\n- [ ] open\n";
    desk.patch(Patch::Open { block: block("b0", true, None, &json!({"type": "answer", "text": text})) });
    let shown = desk.shown();
    assert!(shown.contains("  Run this:\n\nmake all\n\n  ☑ done\n  ☐ open\n"), "{shown}");
}

#[test]
fn a_stopped_answer_is_said_to_be_stopped_once() {
    let mut desk = desk_of(Size::new(60, 24));
    let answer = json!({"type": "answer", "text": "Half of it", "end": {"end": "stopped"}});
    desk.patch(Patch::Close { block: block("b0", true, None, &answer) });
    let end = json!({"type": "end", "status": "aborted", "turns": 1, "tokens_read": 12, "tokens_written": 1,
        "cost_is_partial": false, "duration_ms": 2700});
    desk.patch(Patch::Close { block: block("b1", true, None, &end) });
    let shown = desk.shown();
    assert!(shown.contains("  stopped · 1 turn"), "{shown}");
    assert_eq!(shown.matches("stopped").count(), 1, "{shown}");
}

#[test]
fn a_word_about_a_question_goes_with_the_question() {
    let mut desk = desk_of(Size::new(80, 24));
    desk.patch(Patch::Ask { card: Box::new(card(json!({"command": "touch x"}))) });
    desk.keys("\x0f");
    assert!(desk.shown().contains("a question waits: answer it first"), "{}", desk.shown());
    desk.patch(Patch::Answered { id: serde_json::from_value(json!(7)).unwrap() });
    assert!(!desk.shown().contains("a question waits"), "{}", desk.shown());
}

/// Bytes of the frames after each of these states.
fn frames(titles: bool, states: &[bool]) -> String {
    let looks = Looks { theme: Theme::Dark, links: true };
    let abilities = Abilities { looks, ..Abilities::PLAIN };
    let none = Box::new(|_: &zk_tui::Asked| Offered::default());
    let mut app = App::new(View::default(), Size::new(60, 16), abilities, Vec::new(), none);
    app.set_titles(titles);
    app.set_model(ModelFacts { directory: "~/a\u{7}b\u{1b}]2;x\u{7}c".into(), ..facts() });
    let mut sent = String::new();
    for (is_running, at) in states.iter().zip(1..) {
        let activity = if *is_running { json!({"doing": "answering"}) } else { json!({"doing": "idle"}) };
        let status: Status = serde_json::from_value(json!({
            "activity": activity, "activity_ms": at, "tokens_read": at, "tokens_written": 0,
        }))
        .unwrap();
        app.patches(&[Patch::Status { status }], Duration::from_secs(at));
        sent += &app.frame(Duration::from_secs(at));
    }
    sent
}

#[test]
fn the_title_says_where_the_conversation_is_and_whether_something_goes_on() {
    let sent = frames(true, &[false, true, true, false]);
    let titles: Vec<&str> =
        sent.split("\u{1b}]2;").skip(1).filter_map(|rest| rest.split("\u{1b}\\").next()).collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(
        titles[0].starts_with("zk · ") && titles[1].starts_with("● zk · ") && titles[2] == titles[0],
        "{titles:?}"
    );
    assert!(titles.iter().all(|title| title.chars().all(|c| !c.is_control())), "{titles:?}");
    assert!(!frames(false, &[false, true]).contains("\u{1b}]2;"));
}

#[test]
fn no_colour_says_what_no_sign_says() {
    let shown = |theme: Theme| {
        let abilities = Abilities { looks: Looks { theme, links: false }, ..Abilities::PLAIN };
        let none = Box::new(|_: &zk_tui::Asked| Offered::default());
        let mut app = App::new(View::default(), Size::new(60, 30), abilities, Vec::new(), none);
        let patches = [
            call("b0", "$ good", "done", &command(0, &[], 0)),
            call("b1", "$ bad", "failed", &command(1, &[], 0)),
            call("b2", "$ works", "running", &Value::Null),
        ];
        app.patches(&patches, Duration::ZERO);
        app.frame(Duration::from_secs(1))
    };
    let mono = shown(Theme::Mono);
    assert!(["✓", "✗", "●"].iter().all(|sign| mono.contains(sign)), "{mono:?}");
    assert!(!mono.contains("\u{1b}[3") && !mono.contains(";3"), "{mono:?}");
    for theme in [Theme::Dark, Theme::Sixteen, Theme::Light, Theme::ColourBlind] {
        let sequence = |style: Style| style.sequence(theme);
        let drawn = shown(theme);
        for (style, sign) in [(Style::GREEN, "✓"), (Style::RED, "✗"), (Style::BLUE, "●")] {
            assert!(drawn.contains(&format!("{}{sign}", sequence(style))), "{theme:?} {sign}: {drawn:?}");
        }
    }
}

#[test]
fn a_hint_of_the_host_stays_until_the_next_key_and_no_row_keeps_it() {
    let mut desk: Desk = desk_of(Size::new(80, 24));
    desk.app.set_model(facts());
    desk.app.set_hint(format!("mode {}: reads run", "ask"));
    desk.wait(20);
    assert!(desk.shown().contains("  mode ask: reads run"), "{}", desk.shown());
    desk.keys("x");
    assert!(!desk.shown().contains("reads run"), "{}", desk.shown());
}
