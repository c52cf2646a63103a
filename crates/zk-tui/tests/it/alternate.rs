//! The conversation on the alternate screen.

use serde_json::json;
use zk_tui::{Size, Style};
use zk_view::{Patch, View};

use crate::person::{Desk, card, desk_of};
use crate::replay::block;

fn answer(desk: &mut Desk, id: &str, text: &str) {
    let content = json!({"type": "answer", "text": text});
    desk.patch(Patch::Open { block: block(id, true, None, &content) });
}

fn prompt(desk: &mut Desk, id: &str, text: &str) {
    let content = json!({"type": "user", "text": text, "attachments": 0});
    desk.patch(Patch::Open { block: block(id, true, None, &content) });
}

/// Conversation of `count` prompts and answers.
fn conversation(count: usize) -> Desk {
    let mut desk = desk_of(Size::new(60, 12));
    for n in 0..count {
        prompt(&mut desk, &format!("u{n}"), &format!("prompt {n}"));
        answer(&mut desk, &format!("a{n}"), &format!("answer {n}\n\n- item {n}"));
    }
    desk
}

#[test]
fn the_pager_shows_all_of_the_conversation_and_leaves_the_screen_as_it_was() {
    let mut desk = conversation(20);
    let before = desk.shown();
    desk.type_in("draft");
    let before_paging = desk.shown();
    desk.keys("\x14");
    assert!(desk.app.is_alternate());
    assert!(desk.shown().contains("item 19") && desk.shown().contains("q returns"), "{}", desk.shown());
    assert!(!desk.shown().contains("draft"));
    desk.keys("g");
    assert!(desk.shown().starts_with("› prompt 0\n\n  answer 0"), "{}", desk.shown());
    desk.keys("]");
    assert!(desk.shown().starts_with("› prompt 1"), "{}", desk.shown());
    desk.keys("[");
    desk.keys("j");
    assert!(desk.shown().starts_with("\n  answer 0"), "{}", desk.shown());
    desk.keys("q");
    assert!(!desk.app.is_alternate());
    assert_eq!(desk.shown(), before_paging);
    let above = |shown: &str| shown.split_once("─").map(|(above, _)| above.to_owned());
    assert_eq!(above(&before_paging), above(&before));
    assert_eq!(desk.app.draft(), "draft");
}

#[test]
fn a_search_goes_up_from_hit_to_hit_and_says_when_there_is_none() {
    let mut desk = conversation(20);
    desk.keys("\x14");
    desk.keys("/");
    desk.type_in("ITEM 1");
    desk.keys("\r");
    assert!(desk.shown().starts_with("  • item 19"), "{}", desk.shown());
    desk.keys("n");
    assert!(desk.shown().starts_with("  • item 18"), "{}", desk.shown());
    desk.keys("N");
    assert!(desk.shown().starts_with("  • item 19"), "{}", desk.shown());
    desk.keys("/");
    desk.type_in("nowhere");
    desk.keys("\r");
    assert!(desk.shown().contains("`nowhere` is not above"), "{}", desk.shown());
}

#[test]
fn what_closes_while_the_pager_is_open_is_printed_once_when_it_is_left() {
    let mut desk = conversation(3);
    desk.keys("\x14");
    answer(&mut desk, "late", "a late answer");
    desk.app.print(Style::PLAIN, "a line of the program");
    desk.wait(20);
    desk.keys("q");
    let shown = desk.shown();
    for text in ["answer 0", "answer 2", "a late answer", "a line of the program"] {
        assert_eq!(shown.matches(text).count(), 1, "{text}: {shown}");
    }
    assert!(shown.find("item 2") < shown.find("a late answer"), "{shown}");
}

#[test]
fn the_full_screen_scrolls_by_itself_keeps_what_is_typed_and_prints_all_at_its_end() {
    let mut desk = desk_of(Size::new(60, 12));
    desk.app.set_full(true);
    desk.wait(20);
    for n in 0..20 {
        answer(&mut desk, &format!("a{n}"), &format!("answer {n}"));
    }
    desk.type_in("draft");
    assert!(
        desk.shown().contains("answer 19\n\n─") && desk.shown().contains("─\n› draft\n─"),
        "{}",
        desk.shown()
    );
    desk.keys("\x1b[5~");
    assert!(!desk.shown().contains("answer 19") && desk.shown().contains("more below"), "{}", desk.shown());
    desk.keys("\x1b[6~");
    desk.keys("\x1b[6~");
    assert!(desk.shown().contains("answer 19"), "{}", desk.shown());
    let left = desk.app.leave();
    desk.emulator.send(&left);
    let shown = desk.shown();
    for n in 0..20 {
        assert_eq!(shown.lines().filter(|line| *line == format!("  answer {n}")).count(), 1, "{shown}");
    }
}

#[test]
fn another_session_stands_on_the_full_screen_as_if_it_had_been_the_first() {
    let content = |kind: &str, text: String| json!({"type": kind, "text": text, "attachments": 0});
    let session = |name: &str, count: usize| -> Vec<_> {
        let texts =
            (0..count).map(|n| content(if n % 2 == 0 { "user" } else { "answer" }, format!("{name} {n}")));
        texts.enumerate().map(|(n, content)| block(&format!("b{n}"), true, None, &content)).collect()
    };
    let reset =
        |switches, blocks| Patch::Reset { view: Box::new(View { switches, blocks, ..View::default() }) };
    let full = || {
        let mut desk = desk_of(Size::new(60, 200));
        desk.app.set_full(true);
        desk.wait(20);
        desk
    };
    let mut expected = full();
    expected.patch(reset(1, session("one", 6)));
    let expected = expected.shown();
    assert!(expected.starts_with("› one 0\n\n  one 1\n\n› one 2"), "{expected}");

    // The last exchange is shown while a session is opened.
    let mut announced = full();
    announced.app.announce(&session("one", 6)[4..]);
    announced.wait(20);
    assert!(announced.shown().starts_with("› one 4"), "{}", announced.shown());
    let mut switched = full();
    switched.patch(reset(1, session("another", 8)));
    switched.keys("\x1b[5~");
    for (mut desk, switches) in [(announced, 1), (switched, 2)] {
        desk.patch(reset(switches, session("one", 6)));
        assert_eq!(desk.shown(), expected);
    }
}

pub(crate) fn decode_base64(text: &str) -> Vec<u8> {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0usize, 0);
    for c in text.trim_end_matches('=').chars() {
        (bits, count) = (bits << 6 | letters.find(c).unwrap(), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn rows_that_are_selected_in_the_pager_are_copied() {
    let mut desk = conversation(20);
    desk.keys("\x14");
    desk.keys("v");
    // Beyond the visible part.
    for _ in 0..14 {
        desk.keys("k");
    }
    assert!(desk.shown().starts_with("  answer 17"), "{}", desk.shown());
    desk.press("y");
    let frame = desk.app.frame(desk.now + std::time::Duration::from_millis(50));
    let (_, copied) = frame.split_once("\u{1b}]52;c;").unwrap();
    let copied = copied.split(['\u{7}', '\u{1b}']).next().unwrap();
    let copied = decode_base64(copied);
    let expected = "  answer 17\n\n  • item 17\n\n› prompt 18\n\n  answer 18\n\n  • item 18\n\n› prompt 19\n\n  answer 19\n\n  • item 19";
    assert_eq!(String::from_utf8(copied).unwrap(), expected);
}

#[test]
fn the_newest_of_very_many_printed_lines_are_there_in_full_screen() {
    let mut desk = conversation(1);
    for n in 0..2500 {
        desk.app.print(Style::PLAIN, &format!("printed {n}."));
    }
    desk.app.set_full(true);
    desk.wait(20);
    assert!(desk.shown().contains("printed 2499."), "{}", desk.shown());
    desk.keys("\x14");
    desk.keys("g");
    assert!(desk.shown().starts_with("› prompt 0"), "{}", desk.shown());
    desk.keys("/");
    desk.type_in("printed 510.");
    desk.keys("\r");
    desk.keys("N");
    assert!(desk.shown().contains("printed 510."), "{}", desk.shown());
}

#[test]
fn keys_for_the_pager_never_answer_a_question() {
    let mut desk = conversation(2);
    desk.keys("\x14");
    desk.patch(Patch::Ask { card: Box::new(card(json!({"command": "touch x"}))) });
    desk.wait(2000);
    desk.type_in("yyy");
    assert!(desk.shown().contains("a question waits"), "{}", desk.shown());
    desk.keys("q");
    desk.keys("y");
    desk.wait(3000);
    assert_eq!(desk.answers(), Vec::<String>::new());
    assert_eq!(desk.app.draft(), "y");
}

#[test]
fn an_answer_that_grows_looks_the_same_as_one_that_is_complete() {
    let text = "# Head\n\nWords that are more than one row of this narrow screen.\n\n- a\n- b\n\n```rust\nfn x() {}\n```\n\nEnd.";
    let mut whole = desk_of(Size::new(40, 30));
    whole.app.set_full(true);
    answer(&mut whole, "a", text);
    let mut pieces = desk_of(Size::new(40, 30));
    pieces.app.set_full(true);
    pieces.patch(Patch::Open { block: block("a", false, None, &json!({"type": "answer", "text": ""})) });
    for piece in text.as_bytes().chunks(3) {
        let delta = std::str::from_utf8(piece).unwrap();
        pieces.patch(serde_json::from_value(json!({"patch": "grow", "id": "a", "delta": delta})).unwrap());
    }
    assert_eq!(pieces.shown(), whole.shown());
    pieces.patch(Patch::Close { block: block("a", true, None, &json!({"type": "answer", "text": text})) });
    assert_eq!(pieces.shown(), whole.shown());
}

#[test]
fn any_size_shows_something_and_a_resize_shows_all_of_it_anew() {
    for (width, height) in [(1, 1), (2, 2), (1, 30), (200, 3)] {
        let mut desk = conversation(3);
        desk.keys("\x14");
        let size = Size::new(width, height);
        desk.emulator.resize(size);
        let sent = desk.app.resize(size, desk.now);
        desk.emulator.send(&sent);
        desk.wait(50);
        let size = Size::new(60, 12);
        desk.emulator.resize(size);
        let sent = desk.app.resize(size, desk.now);
        desk.emulator.send(&sent);
        desk.wait(50);
        assert!(desk.shown().contains("item 2"), "{width}×{height}: {}", desk.shown());
    }
}
