//! Keys that come together, around other programs, and late.

use std::time::Duration;

use serde_json::json;
use zk_tui::{Abilities, Action, App, Direction, Key, Keymap, NoticeForm, Offered, Size, Style};
use zk_view::{Patch, View};

use crate::person::{Desk, card, desk_of};
use crate::replay::block;

fn desk() -> Desk {
    desk_of(Size::new(60, 16))
}

#[test]
fn what_is_given_back_while_an_editor_has_the_text_stands_before_what_it_gives() {
    for (before, edited, expected) in [
        ("a draft", "edited", "given back\nedited"),
        ("", "edited", "given back\nedited"),
        ("a draft", "", "given back"),
    ] {
        let mut desk = desk();
        desk.keys(before);
        desk.keys("\x07");
        assert_eq!(desk.actions, [Action::Edit(before.to_owned())]);
        desk.app.give_back("given back");
        desk.app.end_edit(before, edited);
        assert_eq!(desk.app.draft(), expected);
    }
    let mut desk = desk();
    desk.keys("a draft");
    desk.app.end_edit("a draft", "edited");
    assert_eq!(desk.app.draft(), "edited");
}

/// Another process has the terminal for a while.
fn suspend(desk: &mut Desk) {
    let bytes = desk.app.leave();
    desk.emulator.send(&bytes);
    desk.now += Duration::from_secs(5);
    desk.app.enter(desk.now);
    desk.wait(20);
}

#[test]
fn an_answer_that_is_being_typed_outlives_a_stop() {
    let mut desk = desk();
    desk.ask_line(&[]);
    desk.wait(600);
    desk.type_in("half");
    suspend(&mut desk);
    assert!(desk.shown().contains("> half"), "{}", desk.shown());
    desk.type_in(" and half");
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Text { text: \"half and half\" }"]);

    let mut desk = self::desk();
    desk.ask(json!({"command": "touch x"}));
    desk.wait(600);
    desk.keys("w");
    desk.keys("\r");
    desk.type_in("use");
    suspend(&mut desk);
    desk.type_in(" cp");
    desk.keys("\r");
    assert_eq!(desk.answers(), ["No { message: Some(\"use cp\") }"]);
}

#[test]
fn a_choice_that_is_stopped_before_it_is_confirmed_is_none_afterwards() {
    let mut desk = desk();
    desk.ask(json!({"command": "touch x"}));
    desk.wait(600);
    desk.keys("y");
    suspend(&mut desk);
    desk.wait(2000);
    assert_eq!(desk.answers().len(), 0);
}

#[test]
fn a_mistyped_number_keeps_the_question_and_only_n_refuses_it() {
    for (answer, expected) in [("2", "Choice { index: 1 }"), ("n", "No { message: None }")] {
        let mut desk = desk();
        desk.ask_line(&["keep", "delete"]);
        desk.wait(600);
        for wrong in ["7", "0", "x", "nn"] {
            desk.type_in(wrong);
            desk.keys("\r");
            assert_eq!(desk.answers().len(), 0, "{wrong}");
            assert!(desk.shown().contains("Type a number from 1 to 2, or n"), "{}", desk.shown());
        }
        desk.keys("\r");
        assert_eq!(desk.answers().len(), 0, "an empty line is no answer");
        desk.type_in(answer);
        desk.keys("\r");
        assert_eq!(desk.answers(), [expected]);
    }
}

#[test]
fn keys_that_are_read_at_once_act_in_their_order() {
    let keys = |text: &str| -> Vec<Key> {
        let key = |c| match c {
            '\u{1b}' => Key::Escape,
            '\u{3}' => Key::Ctrl('c'),
            '\r' => Key::Enter,
            c => Key::Char(c),
        };
        text.chars().map(key).collect()
    };
    let of = |vim| {
        let app = App::new(
            View::default(),
            Size::new(60, 16),
            Abilities::PLAIN,
            Vec::new(),
            Box::new(|_| Offered::default()),
        );
        app.with_keys(Keymap::default().vim(vim))
    };
    for (typed, draft) in
        [("hello\u{1b}dd", ""), ("one two\u{1b}bDithree", "one three"), ("ab\u{1b}xA!", "a!")]
    {
        let mut app = of(true);
        assert_eq!(app.keys(&keys(typed), Duration::ZERO), [], "{typed:?}");
        assert_eq!(app.draft(), draft, "{typed:?}");
    }
    // Text before Ctrl-C is cleared, text after it stays.
    let mut app = of(false);
    assert_eq!(app.keys(&keys("old\u{3}new"), Duration::ZERO), []);
    assert_eq!(app.draft(), "new");
    // Enter comes before the stop.
    let mut desk = desk();
    desk.run();
    desk.actions.clear();
    let acted = desk.app.keys(&keys("left\r\u{1b}"), desk.now);
    assert!(matches!(acted.as_slice(), [Action::Remember(_), Action::Intent(_), Action::Stop]), "{acted:?}");
}

#[test]
fn a_key_that_runs_a_command_leaves_the_composer_as_it_is() {
    let (keymap, said) = Keymap::new(&[("/greet".to_owned(), vec!["alt-v".to_owned()])]);
    assert_eq!(said, Vec::<String>::new());
    let app = App::new(
        View::default(),
        Size::new(60, 16),
        Abilities::PLAIN,
        vec!["before".to_owned()],
        Box::new(|_| Offered::default()),
    );
    let mut app = app.with_keys(keymap.vim(true));
    let now = Duration::ZERO;
    let press = |app: &mut App, keys: &[Key]| {
        keys.iter().flat_map(|key| app.keys(std::slice::from_ref(key), now)).count()
    };
    let up = Key::Move { to: Direction::Up, word: false };
    let down = Key::Move { to: Direction::Down, word: false };
    press(&mut app, &[Key::Char('o'), Key::Char('n'), Key::Char('e'), up]);
    assert_eq!(app.draft(), "before");
    let ran = app.keys(&[Key::Alt('v')], now);
    assert!(ran.contains(&Action::Line("/greet".to_owned())), "{ran:?}");
    // The line of the key comes between them.
    press(&mut app, &[down.clone(), down]);
    assert_eq!(app.draft(), "one", "the draft under the recalled text is not forgotten");
    // In vi's normal mode keys stay commands.
    press(&mut app, &[Key::Escape, Key::Char('d'), Key::Alt('v'), Key::Char('d')]);
    assert_eq!(app.draft(), "");
}

#[test]
fn one_letter_of_several_keys_that_come_together_answers_no_question() {
    for keys in ["y\u{1b}[A", "\u{1b}[Ay", "y\u{15}y", "\u{14}qy"] {
        let mut desk = desk();
        desk.ask(json!({"command": "touch x"}));
        desk.wait(600);
        desk.keys(keys);
        desk.wait(2000);
        assert_eq!(desk.answers().len(), 0, "{keys:?}");
    }
}

#[test]
fn page_keys_that_come_together_each_turn_a_question_on() {
    let command: String = (0..100).map(|n| format!("echo {n}\n")).collect();
    let [at_once, one_by_one] =
        [&["\x1b[6~\x1b[6~\x1b[6~\x1b[5~"][..], &["\x1b[6~", "\x1b[6~"]].map(|presses| {
            let mut desk = desk();
            desk.ask(json!({"command": command}));
            desk.wait(1000);
            for keys in presses {
                desk.keys(keys);
                desk.wait(400);
            }
            assert!(desk.shown().contains("├ y  Yes"), "{}", desk.shown());
            desk.shown()
        });
    assert!(!one_by_one.contains("echo 0\n"), "{one_by_one}");
    assert_eq!(at_once, one_by_one);
}

#[test]
fn a_held_space_turns_a_question_to_its_end_and_says_so_there_without_a_draft() {
    let command = (0..30).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\n");
    // Slower than the question hears answers, as fast as a held key repeats, and several at a time.
    for (keys, pause) in [(" ", 700), (" ", 30), ("  ", 30)] {
        let mut desk = desk();
        desk.ask(json!({"command": command}));
        desk.wait(1000);
        desk.keys(" ");
        for _ in 0..12 {
            desk.wait(pause);
            desk.keys(keys);
        }
        let shown = desk.shown();
        assert!(shown.contains("echo 29") && shown.contains("no more rows below"), "{keys:?}: {shown}");
        assert_eq!(desk.app.draft(), "", "{shown}");
        desk.keys("\x1b[5~");
        assert!(!desk.shown().contains("no more rows below"), "{}", desk.shown());
        // Text after it is a draft.
        desk.keys("so");
        desk.keys(" ");
        assert_eq!(desk.app.draft(), "so ");
    }
    let mut desk = desk();
    desk.ask(json!({"command": "ls"}));
    desk.wait(1000);
    desk.keys("\x1b[6~");
    assert!(desk.shown().contains("the whole question is shown"), "{}", desk.shown());
}

#[test]
fn keys_behind_the_one_that_opens_the_pager_are_for_the_pager() {
    let mut desk = desk();
    for n in 0..30 {
        desk.app.print(Style::PLAIN, &format!("row {n}."));
    }
    desk.run();
    desk.keys("\x14g");
    assert!(desk.shown().starts_with("row 0."), "{}", desk.shown());
    desk.keys("q");
    desk.keys("\x14\x1b");
    assert!(!desk.stops() && !desk.app.is_alternate());
    desk.keys("\x14q");
    assert_eq!(desk.app.draft(), "");
}

#[test]
fn an_enter_that_comes_alone_between_two_reads_of_a_paste_sends_nothing() {
    let mut desk = desk();
    for bytes in ["first line", "\r", "second", "\r", "\r", "third"] {
        desk.press(bytes);
        desk.now += Duration::from_millis(2);
    }
    desk.wait(20);
    assert_eq!(desk.lines(), Vec::<String>::new());
    assert_eq!(desk.app.draft(), "first line\nsecond\n\nthird");
    // The last one is an Enter after all.
    desk.press("x");
    desk.press("\r");
    desk.wait(20);
    assert_eq!(desk.lines(), ["first line\nsecond\n\nthirdx"]);
}

#[test]
fn a_copy_from_the_pager_joins_rows_that_the_screen_broke_and_says_so_only_if_it_is_made() {
    let mut desk = desk();
    let line = format!("{} {} end", "x".repeat(59), "y".repeat(70));
    desk.app.print(Style::PLAIN, &line);
    desk.app.print(Style::PLAIN, "next");
    desk.keys("\x14");
    desk.keys("v");
    (0..3).for_each(|_| desk.keys("k"));
    desk.press("y");
    let frame = desk.app.frame(desk.now + Duration::from_millis(50));
    let (_, copied) = frame.split_once("\u{1b}]52;c;").unwrap();
    let copied = crate::alternate::decode_base64(copied.split(['\u{7}', '\u{1b}']).next().unwrap());
    assert_eq!(String::from_utf8(copied).unwrap(), format!("{line}\nnext"));
    assert!(frame.contains("the lines are copied"), "{frame:?}");

    let mut desk = self::desk();
    let text = "long answer ".repeat(10_000);
    desk.patch(Patch::Open { block: block("a", true, None, &json!({"type": "answer", "text": text})) });
    desk.keys("\x14");
    desk.keys("y");
    let shown = desk.shown();
    assert!(shown.contains("too long for the clipboard") && !shown.contains("copied"), "{shown}");
}

#[test]
fn the_wheel_of_a_mouse_is_not_arrow_keys_on_the_full_screen() {
    let mut app = App::new(
        View::default(),
        Size::new(60, 16),
        Abilities::PLAIN,
        Vec::new(),
        Box::new(|_| Offered::default()),
    );
    app.set_full(true);
    let entered = app.frame(Duration::ZERO);
    let (_, behind) = entered.split_once("\u{1b}[?1049h").unwrap();
    assert!(behind.contains("\u{1b}[?1007s\u{1b}[?1007l"), "{behind:?}");
    let left = app.leave();
    let (before, _) = left.split_once("\u{1b}[?1049l").unwrap();
    assert!(before.contains("\u{1b}[?1007h\u{1b}[?1007r"), "{before:?}");
}

/// Output within some seconds after a question, with keys at given times.
fn sent_after_a_question(name: &str, keys: &[(u64, Key)], seconds: u64) -> String {
    let abilities = Abilities { notices: NoticeForm::Osc9, ..Abilities::PLAIN };
    let mut app =
        App::new(View::default(), Size::new(60, 16), abilities, Vec::new(), Box::new(|_| Offered::default()));
    let at = Duration::from_millis;
    if !name.is_empty() {
        assert_eq!(app.keys(&[Key::Version(name.to_owned()), Key::Answered], at(0)), []);
    }
    app.patches(&[Patch::Ask { card: Box::new(card(json!({"command": "touch x"}))) }], at(20));
    let mut sent = String::new();
    for now in 1..seconds * 10 {
        for (_, key) in keys.iter().filter(|(then, _)| then * 10 == now) {
            let _ = app.keys(std::slice::from_ref(key), at(now * 100));
        }
        if app.next_tick().is_some_and(|tick| tick <= at(now * 100)) {
            let _ = app.tick(at(now * 100));
            sent += &app.frame(at(now * 100));
        }
    }
    sent
}

#[test]
fn where_nobody_knows_whether_the_person_looks_they_are_told_once_they_press_no_key() {
    let notice = "\u{1b}]9;Run this command?\u{1b}\\";
    for (keys, seconds, expected) in [
        (vec![], 9, 0),
        (vec![], 60, 1),
        (vec![(5, Key::Char('x'))], 60, 0),
        (vec![(5, Key::Focus(true))], 60, 0),
        (vec![(5, Key::Focus(false))], 7, 1),
    ] {
        let sent = sent_after_a_question("", &keys, seconds);
        assert_eq!(sent.matches(notice).count(), expected, "{keys:?}, {seconds} s");
    }
}

#[test]
fn what_a_terminal_says_of_itself_chooses_how_it_is_told() {
    for (name, expected) in [
        ("kitty(0.35.2)", "\u{1b}]99;;Run this command?\u{1b}\\"),
        ("VTE(7600)", "\u{1b}]777;notify;zk;Run this command?\u{1b}\\"),
        ("XTerm(379)", "\u{7}"),
        ("another 1", "\u{1b}]9;Run this command?\u{1b}\\"),
        ("tmux 3.4", "\u{1b}Ptmux;\u{1b}\u{1b}]9;Run this command?\u{1b}\u{1b}\\\u{1b}\\\u{7}"),
    ] {
        let sent = sent_after_a_question(name, &[], 20);
        assert!(sent.contains(expected), "{name}: {sent:?}");
    }
}

#[test]
fn a_terminal_that_says_it_reflows_is_asked_for_its_size_after_a_resize() {
    for (name, asks) in [("WezTerm 20240203", true), ("XTerm(379)", false), ("another 1", false)] {
        let mut desk = desk();
        let _ = desk.app.keys(&[Key::Version(name.to_owned())], desk.now);
        let bytes = desk.app.resize(Size::new(40, 16), desk.now);
        assert_eq!(bytes.contains("\u{1b}[18t"), asks, "{name}");
    }
}

#[test]
fn ctrl_d_while_a_command_is_at_work_ends_the_conversation_after_it_and_during_a_run_says_how() {
    let mut desk = desk();
    desk.app.set_busy(true);
    desk.keys("\x04");
    assert_eq!(desk.actions, [Action::Quit]);
    assert!(desk.shown().contains("the conversation ends once this is done"), "{}", desk.shown());
    let mut desk = self::desk();
    desk.run();
    desk.keys("\x04");
    assert_eq!(desk.actions, []);
    assert!(desk.shown().contains("then Ctrl-D ends"), "{}", desk.shown());
}

#[test]
fn names_that_are_found_after_tab_are_listed_then_unless_a_key_came_before() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    for comes_before in [false, true] {
        let is_known = Arc::new(AtomicBool::new(false));
        let known = is_known.clone();
        let complete = move |_: &zk_tui::Asked| {
            let names: &[&str] = if known.load(Ordering::SeqCst) { &["cargo", "cat"] } else { &[] };
            Offered { names: names.iter().map(ToString::to_string).collect(), ..Offered::default() }
        };
        let size = Size::new(60, 16);
        let mut desk = desk();
        desk.app = App::new(View::default(), size, Abilities::PLAIN, Vec::new(), Box::new(complete));
        desk.type_in("!ca");
        desk.keys("\t");
        if comes_before {
            desk.keys("r");
        }
        is_known.store(true, Ordering::SeqCst);
        desk.app.names_changed();
        desk.wait(50);
        assert_eq!(desk.shown().contains("❯ "), !comes_before, "{}", desk.shown());
    }
}

#[test]
fn names_that_were_listed_before_a_search_complete_nothing_of_what_it_finds() {
    let names = |_: &zk_tui::Asked| Offered {
        names: ["mode", "model"].map(str::to_owned).into(),
        ..Offered::default()
    };
    let history = vec!["an older prompt".to_owned()];
    let mut desk = desk();
    desk.app = App::new(View::default(), Size::new(60, 16), Abilities::PLAIN, history, Box::new(names));
    desk.type_in("/mo");
    assert!(desk.shown().contains("❯ /mode"), "{}", desk.shown());
    desk.keys("\x12");
    desk.type_in("older");
    assert!(!desk.shown().contains("❯ /mode"), "{}", desk.shown());
    desk.keys("\t");
    assert_eq!(desk.app.draft(), "an older prompt");
}

#[test]
fn names_that_are_found_during_a_search_are_not_listed_in_it() {
    let names = |_: &zk_tui::Asked| Offered {
        names: ["mode", "model"].map(str::to_owned).into(),
        ..Offered::default()
    };
    let mut desk = desk();
    desk.app = App::new(View::default(), Size::new(60, 16), Abilities::PLAIN, Vec::new(), Box::new(names));
    desk.type_in("/mo");
    desk.keys("\x12");
    desk.app.names_changed();
    desk.wait(50);
    assert!(desk.shown().contains("⌕") && !desk.shown().contains("❯ /mode"), "{}", desk.shown());
}

#[test]
fn a_key_that_finds_nothing_to_do_says_so() {
    for (key, said) in [
        ("\t", "Tab completes what is typed"),
        ("\r", "nothing is typed"),
        ("\x7f", "nothing is typed"),
        ("\x1b[D", "nothing is typed"),
        ("\x0b", "nothing is typed"),
        ("\x1b[B", "nothing was typed after this"),
        ("\x1b[1;3A", "no text waits"),
        ("\x19", "nothing was cut"),
        ("\x1by", "nothing was cut"),
        ("\x1f", "there is nothing to undo"),
        ("\x1bq", "no question waits"),
        ("\x0c", "Ctrl-L has no meaning here"),
        ("\x02", "no command runs"),
        ("\x1b", "nothing runs that Esc could stop"),
    ] {
        let mut desk = desk_of(Size::new(80, 16));
        desk.keys(key);
        assert!(desk.shown().contains(said), "{key:?}: {}", desk.shown());
        desk.keys("x");
        assert!(!desk.shown().contains(said), "{key:?}: {}", desk.shown());
    }
    // The caret says it where it stands at an end of a text.
    let mut desk = desk_of(Size::new(80, 16));
    desk.keys("word");
    let before = desk.shown();
    desk.keys("\x1b[C");
    assert_eq!(desk.shown(), before);
}
