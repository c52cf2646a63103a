//! Choosing one of many: commands, models, sessions, prompts, files, sub-agents, jobs.

use serde_json::json;
use zk_tui::{Action, Size};
use zk_view::{JobRow, Patch};

use crate::person::{Desk, desk_of};
use crate::replay::block;

fn desk() -> Desk {
    desk_of(Size::new(100, 24))
}

fn jobs(desk: &mut Desk) {
    let jobs: Vec<JobRow> = serde_json::from_value(json!([
        {"id": "job-1", "command": "npm run dev", "state": {"state": "running"}},
        {"id": "job-2", "command": "make", "state": {"state": "ended", "how": "exit code 2", "failed": true}},
    ]))
    .unwrap();
    desk.patch(Patch::Jobs { jobs });
}

#[test]
fn one_picker_finds_models_commands_and_files_by_a_few_letters() {
    let mut desk = desk();
    desk.keys("/model\r");
    desk.wait(20);
    assert!(desk.shown().contains("[models]") && desk.shown().contains("claude-opus-5"), "{}", desk.shown());
    desk.keys("gpt");
    assert!(desk.shown().contains("❯ gpt-6") && !desk.shown().contains("claude-opus"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.lines(), ["/model gpt-6"]);
    // Tab goes on to the next kind; what is chosen there is for the composer.
    desk.keys("look at ");
    desk.keys("\x0f");
    desk.keys("\t\t\t\t");
    assert!(desk.shown().contains("[files]"), "{}", desk.shown());
    desk.keys("docmain\r");
    assert_eq!(desk.app.draft(), "look at @docs/main.md ");
    desk.keys("\x0f");
    desk.keys("hel\x1b");
    assert_eq!(desk.app.draft(), "look at @docs/main.md ", "what is looked for is no draft");
}

#[test]
fn a_job_is_shown_or_ended_from_the_picker_also_during_a_run() {
    let mut desk = desk();
    jobs(&mut desk);
    desk.run();
    desk.keys("/jobs\r");
    desk.wait(20);
    assert!(desk.shown().contains("failed: exit code 2 · make"), "{}", desk.shown());
    desk.keys("npm\r");
    desk.keys("/jobs\r");
    desk.wait(20);
    desk.keys("npm\x0b");
    let job = |kill| Action::Job { id: "job-1".into(), kill };
    assert_eq!(desk.jobs(), [job(false), job(true)]);
}

#[test]
fn enter_opens_the_conversation_of_a_sub_agent_and_q_comes_back() {
    let mut desk = desk();
    let text = |text: &str| json!({"type": "answer", "text": text});
    desk.patch(Patch::Open { block: block("b0", true, None, &text("The answer of the agent itself.")) });
    desk.patch(Patch::Open { block: block("f/b0", true, Some("finder"), &text("What the finder said.")) });
    assert!(!desk.shown().contains("What the finder said."));
    desk.keys("/agents\r");
    desk.wait(20);
    assert!(desk.shown().contains("❯ finder"), "{}", desk.shown());
    desk.keys("\r");
    let shown = desk.emulator.screen();
    assert!(shown.contains("What the finder said.") && !shown.contains("agent itself"), "{shown}");
    desk.keys("q");
    let shown = desk.shown();
    assert!(shown.contains("agent itself") && !shown.contains("finder said"), "{shown}");
    assert_eq!(desk.app.draft(), "");
}

#[test]
fn a_question_takes_the_place_of_the_picker_and_hears_nothing_that_was_typed_for_it() {
    let mut desk = desk();
    desk.keys("\x0f");
    desk.ask(json!({"command": "touch x"}));
    desk.keys("y");
    desk.keys("\x0f");
    desk.wait(2000);
    assert_eq!(desk.answers(), Vec::<String>::new());
    assert!(desk.shown().contains("touch x"), "{}", desk.shown());
}

#[test]
fn a_question_mark_alone_lists_the_keys_as_they_are() {
    use zk_tui::Keymap;
    let mut desk = desk();
    let (keymap, said) = Keymap::new(&[("pager".into(), vec!["alt-p".into()])]);
    assert_eq!(said, Vec::<String>::new());
    desk.app = desk.app.with_keys(keymap);
    desk.keys("?");
    assert!(desk.shown().contains("Alt-P") && desk.shown().contains("with search"), "{}", desk.shown());
    desk.keys("x");
    assert!(!desk.shown().contains("with search"), "{}", desk.shown());
    assert_eq!(desk.app.draft(), "?x");
    desk.keys("\x14");
    assert!(!desk.app.is_alternate(), "it has no longer this key");
    desk.keys("\x1bp");
    assert!(desk.app.is_alternate());
}

#[test]
fn a_question_mark_lists_the_keys_of_vi_of_the_pager_and_of_the_picker_until_the_next_key() {
    use zk_tui::Keymap;
    let mut desk = desk();
    desk.app = desk.app.with_keys(Keymap::default().vim(true));
    desk.type_in("a word");
    desk.keys("\x1b");
    for (opens, sign, closes) in [
        ("", "cut, change, copy", "h"),
        ("\x14", "to the prompt above or below", "q"),
        ("\x0f", "find what has them", "\x1b"),
    ] {
        desk.keys(opens);
        assert!(!desk.emulator.screen().contains(sign), "{}", desk.emulator.screen());
        desk.keys("?");
        assert!(desk.emulator.screen().contains(sign), "{}", desk.emulator.screen());
        desk.keys(closes);
        assert!(!desk.emulator.screen().contains(sign), "{}", desk.emulator.screen());
    }
    assert_eq!(desk.app.draft(), "a word");
}

#[test]
fn the_keys_of_vi_edit_and_enter_still_sends() {
    use zk_tui::Keymap;
    let mut desk = desk();
    desk.app = desk.app.with_keys(Keymap::default().vim(true));
    desk.type_in("one two");
    desk.keys("\x1b");
    assert!(desk.shown().contains("◆ one two"), "{}", desk.shown());
    desk.keys("bdwix");
    assert_eq!(desk.app.draft(), "one x");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["one x"]);
    // Without a text Escape stops what runs at once.
    desk.run();
    desk.keys("\x1b");
    assert!(desk.stops());
}

#[test]
fn the_path_of_an_image_that_is_pasted_is_for_the_host_and_its_mark_goes_as_a_whole() {
    let mut desk = desk();
    desk.keys("see \x1b[200~/tmp/a shot.png\x1b[201~");
    assert_eq!(desk.app.draft(), "see /tmp/a shot.png", "more than a path is text");
    desk.keys("\x15\x1b[200~'/tmp/a shot.png'\x1b[201~");
    assert_eq!(desk.attached(), ["/tmp/a shot.png"]);
    desk.app.attach("[image 1: a shot.png]");
    desk.type_in("what is it?");
    assert_eq!(desk.app.draft(), "[image 1: a shot.png] what is it?");
    desk.keys(&"\x7f".repeat(12));
    assert_eq!(desk.app.draft(), "[image 1: a shot.png]");
    desk.keys("\x7f");
    assert_eq!(desk.app.draft(), "");
}
