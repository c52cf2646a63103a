//! Drafts: broken, cleared, put aside, offered, searched for.

use std::sync::Arc;

use serde_json::json;
use zk_core::service::{RenderInput, RenderedRow, Renderer, SpanRole};
use zk_tui::{Action, LostDraft, Renderers, Size};
use zk_view::{Intent, Patch};

use crate::person::{Desk, desk_of};
use crate::replay::block;

fn desk() -> Desk {
    desk_of(Size::new(60, 16))
}

fn open(desk: &mut Desk, id: &str, content: &serde_json::Value) {
    desk.patch(Patch::Open { block: block(id, true, None, content) });
}

fn with_prompt() -> Desk {
    let mut desk = desk();
    open(&mut desk, "u", &json!({"type": "user", "text": "first prompt", "attachments": 0}));
    desk
}

#[test]
fn enter_behind_a_backslash_breaks_the_line_and_two_of_them_are_sent() {
    let mut desk = desk();
    desk.type_in("one\\");
    desk.keys("\r");
    desk.type_in("two");
    assert_eq!((desk.app.draft(), desk.lines()), ("one\ntwo".to_owned(), Vec::new()));
    desk.keys("\r");
    desk.type_in("a\\\\");
    desk.keys("\r");
    desk.type_in("!ls \\");
    desk.keys("\r");
    desk.type_in("-la");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["one\ntwo", "a\\\\", "!ls \\\n-la"], "a command keeps it, as a shell does");
}

#[test]
fn escape_twice_clears_a_draft_into_the_history_and_goes_back_to_a_prompt_where_there_is_none() {
    let mut desk = with_prompt();
    desk.type_in("not yet");
    desk.keys("\u{1b}");
    assert!(desk.shown().contains("Esc again clears the text"), "{}", desk.shown());
    assert_eq!(desk.app.draft(), "not yet");
    desk.keys("\u{1b}");
    assert_eq!(desk.app.draft(), "");
    desk.keys("\u{1b}[A");
    assert_eq!(desk.app.draft(), "not yet");
    desk.keys("\u{3}");
    desk.keys("\u{1b}");
    assert!(desk.shown().contains("Esc again goes back to an earlier prompt"), "{}", desk.shown());
    desk.keys("\u{1b}");
    assert!(desk.shown().contains("[prompts]"), "{}", desk.shown());
    assert!(!desk.stops());
}

#[test]
fn one_escape_long_after_another_clears_nothing_and_during_a_run_it_stops() {
    let mut desk = with_prompt();
    desk.type_in("draft");
    desk.keys("\u{1b}");
    desk.wait(2100);
    desk.keys("\u{1b}");
    desk.type_in("s");
    desk.keys("\u{1b}");
    assert_eq!(desk.app.draft(), "drafts");
    desk.run();
    desk.keys("\u{1b}");
    desk.keys("\u{1b}");
    assert!(desk.stops());
    assert_eq!(desk.app.draft(), "drafts");
}

#[test]
fn a_draft_is_put_aside_and_brought_back_with_what_its_marks_stand_for() {
    let mut desk = desk();
    let lines = "line\n".repeat(30);
    desk.keys(&format!("\u{1b}[200~{lines}\u{1b}[201~"));
    desk.keys("\u{13}");
    assert!(desk.shown().contains("the text is put aside"), "{}", desk.shown());
    desk.type_in("quick question");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["quick question"]);
    assert_eq!(desk.app.unsent(), lines, "a crash does not lose it");
    desk.keys("\u{13}");
    assert!(desk.shown().contains("[paste 1: 30 lines]"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.lines(), ["quick question", lines.trim()]);
    desk.keys("\u{13}");
    assert!(desk.shown().contains("no text was put aside"), "{}", desk.shown());
}

#[test]
fn a_draft_of_another_window_is_offered_with_a_word_and_never_mixed_with_what_is_typed() {
    let lost =
        LostDraft { text: "fix the failing test".to_owned(), age: Some(std::time::Duration::from_secs(720)) };
    let offered = || {
        let mut desk = desk();
        desk.app.offer_draft(&lost.text, &lost.note());
        desk.wait(20);
        assert!(
            desk.shown().contains("draft of 12 min ago · Enter sends, Ctrl-C clears"),
            "{}",
            desk.shown()
        );
        desk
    };
    let mut desk = offered();
    desk.keys("\r");
    assert_eq!(desk.lines(), ["fix the failing test"]);
    let mut desk = offered();
    desk.keys("\u{3}");
    assert_eq!(desk.app.draft(), "");
    assert!(!desk.shown().contains("draft of 12 min"), "{}", desk.shown());
    let mut desk = offered();
    desk.type_in("hello");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["hello"]);
    desk.keys("\u{13}");
    assert_eq!(desk.app.draft(), "fix the failing test");
    // A key that moves takes it up.
    let mut desk = offered();
    desk.keys("\u{1b}[H");
    desk.type_in("please ");
    assert_eq!(desk.app.draft(), "please fix the failing test");
}

#[test]
fn a_draft_that_comes_behind_typed_text_waits_aside() {
    let mut desk = desk();
    desk.type_in("typed ahead");
    desk.app.offer_draft("older", "draft of a moment ago");
    desk.wait(20);
    desk.keys("\r");
    assert_eq!(desk.lines(), ["typed ahead"]);
    desk.keys("\u{13}");
    assert_eq!(desk.app.draft(), "older");
}

#[test]
fn a_search_shows_the_texts_that_have_its_words_and_arrows_choose_among_them() {
    let mut desk = desk();
    desk.keys("\u{12}");
    assert!(
        desk.shown().contains("❯ newer prompt") && desk.shown().contains("  older prompt"),
        "{}",
        desk.shown()
    );
    desk.type_in("old");
    assert!(desk.shown().contains("❯ older prompt") && !desk.shown().contains("newer"), "{}", desk.shown());
    desk.keys("\u{7f}\u{7f}\u{7f}");
    desk.keys("\u{1b}[A");
    assert!(
        desk.shown().contains("❯ older prompt") && desk.shown().contains("  newer prompt"),
        "{}",
        desk.shown()
    );
    desk.keys("\r");
    assert_eq!((desk.app.draft(), desk.lines()), ("older prompt".to_owned(), Vec::new()));
    desk.keys("\u{3}");
    desk.keys("\u{12}");
    desk.type_in("nowhere");
    assert!(desk.shown().contains("nothing that was typed has these words"), "{}", desk.shown());
    desk.keys("\u{1b}");
    assert_eq!(desk.app.draft(), "");
}

#[test]
fn enter_on_an_empty_line_sends_what_a_stopped_run_left() {
    let mut desk = desk();
    desk.keys("\r");
    assert_eq!(desk.actions, []);
    let queued = json!([{"id": 7, "text": "also run the linter", "steers": false}, {"id": 8, "text": "and then", "steers": false}]);
    desk.patch(serde_json::from_value(json!({"patch": "queue", "queued": queued})).unwrap());
    let shown = desk.shown();
    assert!(shown.contains("\n  Enter sends them · Alt-↑ edits the last · Ctrl-K drops it\n  held: also run the linter\n  held: and then\n"), "{shown}");
    desk.keys("\r");
    let expected = [Action::Intent(Intent::Unqueue { id: 7 }), Action::Line("also run the linter".into())];
    assert_eq!(desk.actions, expected);
}

#[test]
fn the_key_for_an_image_asks_the_host_for_it() {
    let mut desk = desk();
    desk.keys("\u{16}");
    assert_eq!(desk.actions, [Action::PasteImage]);
}

#[test]
fn the_wheel_moves_the_conversation_on_the_full_screen_and_never_what_is_typed() {
    let mut desk = desk();
    for n in 0..20 {
        open(&mut desk, &format!("a{n}"), &json!({"type": "answer", "text": format!("answer {n}")}));
    }
    desk.type_in("draft");
    desk.app.set_full(true);
    desk.wait(20);
    assert!(desk.shown().contains("answer 19"), "{}", desk.shown());
    (0..4).for_each(|_| desk.keys("\u{1b}[<64;10;5M"));
    assert!(!desk.shown().contains("answer 19") && desk.shown().contains("more below"), "{}", desk.shown());
    assert_eq!(desk.app.draft(), "draft");
    // Clicks, and the form of old terminals, are no text either.
    desk.keys("\u{1b}[<0;10;5M\u{1b}[<0;10;5m\u{1b}[M !!");
    assert_eq!(desk.app.draft(), "draft");
    (0..4).for_each(|_| desk.keys("\u{1b}[<65;10;5M"));
    (0..4).for_each(|_| desk.keys("\u{1b}[Ma!!"));
    assert!(desk.shown().contains("answer 19"), "{}", desk.shown());
}

#[test]
fn the_mouse_is_the_terminals_again_when_the_full_screen_is_left() {
    let mut desk = desk();
    desk.app.set_full(true);
    desk.now += std::time::Duration::from_millis(100);
    let entered = desk.app.frame(desk.now);
    assert!(entered.contains("\u{1b}[?1000h\u{1b}[?1006h"), "{entered:?}");
    let left = desk.app.leave();
    assert!(left.contains("\u{1b}[?1006l\u{1b}[?1000l"), "{left:?}");
}

#[test]
fn a_named_file_and_a_skill_are_one_row_each() {
    let mut desk = desk();
    open(&mut desk, "u", &json!({"type": "user", "text": "explain @cart.py", "attachments": 0}));
    open(
        &mut desk,
        "f",
        &json!({"type": "injected", "by": "@cart.py · 42 lines", "text": "1\tdef total():\n"}),
    );
    let skill = "<skill_content name=\"release\">\nHow to release.\n</skill_content>";
    open(&mut desk, "s", &json!({"type": "injected", "by": "skill:release", "text": skill}));
    let shown = desk.shown();
    assert!(
        shown.contains("› explain @cart.py\n\n  @cart.py · 42 lines\n  skill release · 3 lines"),
        "{shown}"
    );
    assert!(!shown.contains("def total") && !shown.contains("skill_content"), "{shown}");
    desk.keys("\u{14}");
    desk.keys("e");
    assert!(desk.shown().contains("def total"), "{}", desk.shown());
}

/// Renderer that reverses the lines of a text, and fails for an empty one.
struct Backwards;

impl Renderer for Backwards {
    fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>> {
        let line = |line: &str| {
            let text: String = line.chars().rev().collect();
            (!text.is_empty()).then(|| RenderedRow::of(SpanRole::Work, &text))
        };
        input.text.lines().map(line).collect()
    }
}

#[test]
fn a_fence_and_a_block_that_somebody_knows_are_drawn_by_them_and_others_as_always() {
    let mut desk = desk();
    let find = |name: &str| -> Option<Arc<dyn Renderer>> {
        matches!(name, "fence:mirror" | "block:mirror").then(|| Arc::new(Backwards) as Arc<dyn Renderer>)
    };
    desk.app =
        std::mem::replace(&mut desk.app, desk_of(Size::new(60, 16)).app).with_renderers(Renderers::new(find));
    let text = "See:\n\n```mirror\nabc\ndef\n```\n\n```mirror\ngh\n\n```\n\n```text\nijk\n```\nEnd.";
    let opened = block("a", false, None, &json!({"type": "answer", "text": ""}));
    let id = opened.id.clone();
    desk.patch(Patch::Open { block: opened });
    for (at, c) in text.char_indices() {
        desk.patch(Patch::Grow { id: id.clone(), delta: c.to_string().into() });
        if at == 20 {
            assert!(desk.shown().contains("┄ mirror, 1 line so far"), "{}", desk.shown());
        }
    }
    desk.patch(Patch::Close { block: block("a", true, None, &json!({"type": "answer", "text": text})) });
    let shown = desk.shown();
    assert!(shown.contains("  See:\n\ncba\nfed\n\ngh\n\n\nijk\n\n  End."), "{shown}");
    desk.keys("\u{14}");
    assert!(desk.shown().contains("cba\nfed"), "the pager draws it the same: {}", desk.shown());
}
