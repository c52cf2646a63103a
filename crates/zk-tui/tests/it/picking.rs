//! Choosing one of many: commands, models, sessions, prompts, files, sub-agents, jobs.

use serde_json::json;
use zk_tui::{Action, Asked, Offered, Size};
use zk_view::{JobRow, Patch};

use crate::person::{Desk, desk_of, desk_offering};
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
    // Tab switches to the next kind; its choice goes to the composer.
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
    // Without a text Escape stops the run at once.
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

/// Desk with complete lists: levels, labels, hints and previews.
fn desk_with_facts(size: Size) -> Desk {
    desk_offering(size, |asked| {
        let of = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        match asked {
            Asked::Command => Offered {
                names: of(&["model", "review", "copy"]),
                notes: of(&["choose a model", "look at changes", "the last answer"]),
                hints: of(&["", "[BASE]", ""]),
                ..Offered::default()
            },
            Asked::Argument(line) if line == "model" => Offered {
                names: of(&["lab/large", "lab/plain"]),
                notes: of(&["200k · $3 in $15 out per M", "8k"]),
                levels: [of(&["low", "medium", "high"]), of(&[])].into(),
                level: Some("medium".into()),
                ..Offered::default()
            },
            Asked::Argument(line) if line == "resume" => Offered {
                names: of(&["s_1", "s_2"]),
                labels: of(&["Fix the rounding", "Write the changelog"]),
                notes: of(&["2 h ago · 12 messages", "3 d ago · 4 messages"]),
                ..Offered::default()
            },
            Asked::SessionPreview(id) => {
                Offered { names: of(&[&format!("last words of {id}")]), ..Offered::default() }
            }
            Asked::SessionSearch(words) => match words.as_str() {
                "half even" => Offered { names: of(&["s_2"]), ..Offered::default() },
                _ => Offered::default(),
            },
            Asked::Argument(line) if line == "tree" => Offered {
                names: of(&["e_2", "e_1"]),
                labels: of(&["● › and the tests", "│ › fix the parser"]),
                notes: of(&["prompt", "prompt"]),
                contents: of(&["and the tests", "fix the parser: it loops over an unclosed quote"]),
                ..Offered::default()
            },
            Asked::TreePreview(id) => {
                Offered { names: of(&[&format!("files changed since {id}: a.txt")]), ..Offered::default() }
            }
            Asked::File => Offered { names: of(&["src/", "src/main.rs"]), ..Offered::default() },
            Asked::FilePreview(path) => {
                Offered { names: of(&[&format!("first line of {path}")]), ..Offered::default() }
            }
            Asked::Argument(_) | Asked::Program | Asked::ShellWord => Offered::default(),
        }
    })
}

#[test]
fn a_model_that_no_list_has_is_taken_as_it_is_typed_and_its_level_is_chosen_with_arrows() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.keys("/model\r");
    desk.wait(20);
    assert!(desk.shown().contains("❯ lab/large               ◂ medium ▸  200k"), "{}", desk.shown());
    assert!(desk.shown().contains("←→ thinking"), "{}", desk.shown());
    desk.keys("\x1b[C");
    assert!(desk.shown().contains("◂ high ▸"), "{}", desk.shown());
    desk.keys("\r");
    desk.keys("/model\r");
    desk.keys("elsewhere/new-9");
    assert!(
        desk.shown().contains("❯ elsewhere/new-9") && desk.shown().contains("as typed"),
        "{}",
        desk.shown()
    );
    desk.keys("\r");
    // Without an arrow the level is unchanged; a model without levels has none.
    desk.keys("/model\r");
    desk.keys("plain\x1b[C\r");
    assert_eq!(desk.lines(), ["/model lab/large:high", "/model elsewhere/new-9", "/model lab/plain"]);
}

#[test]
fn a_list_of_models_that_is_empty_says_that_they_are_loaded_and_takes_a_name() {
    let mut desk = desk_offering(Size::new(80, 24), |_| Offered::default());
    desk.keys("/model\r");
    desk.wait(20);
    assert!(desk.shown().contains("loading models…"), "{}", desk.shown());
    desk.keys("opus\r");
    assert_eq!(desk.lines(), ["/model opus"]);
}

#[test]
fn sessions_and_prompts_are_found_by_their_text_and_a_prompt_shows_the_files_that_changed() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.keys("/sessions\r");
    desk.wait(20);
    desk.keys("half even");
    assert!(desk.shown().contains("❯ Write the changelog"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.lines(), ["/resume s_2"]);
    desk.keys("/tree\r");
    desk.wait(20);
    assert!(desk.shown().contains("│ files changed since e_2: a.txt"), "{}", desk.shown());
    desk.keys("unclosed QUOTE");
    let shown = desk.shown();
    assert!(shown.contains("fix the parser") && !shown.contains("and the tests"), "{shown}");
    desk.keys("\r");
    assert_eq!(desk.lines().last().map(String::as_str), Some("/tree e_1"));
}

#[test]
fn a_session_shows_its_age_and_last_words_and_gets_a_title_or_goes_with_a_second_key() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.keys("/sessions\r");
    desk.wait(20);
    let shown = desk.shown();
    assert!(shown.contains("❯ Fix the rounding") && shown.contains("2 h ago · 12 messages"), "{shown}");
    assert!(shown.contains("│ last words of s_1") && shown.contains("Enter resumes"), "{shown}");
    desk.keys("\x1b[B");
    assert!(desk.shown().contains("│ last words of s_2"), "{}", desk.shown());
    desk.keys("\x12");
    desk.keys("\x15Notes\r");
    desk.keys("\x0b");
    assert!(desk.shown().contains("Ctrl-K again removes it"), "{}", desk.shown());
    desk.keys("x");
    desk.keys("\x7f");
    desk.keys("\x1b[B\x0b\x0b");
    desk.keys("\r");
    let asked: Vec<&Action> = desk
        .actions
        .iter()
        .filter(|action| matches!(action, Action::RenameSession { .. } | Action::DeleteSession { .. }))
        .collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0], &Action::RenameSession { id: "s_2".into(), title: "Notes".into() });
    assert!(matches!(asked[1], Action::DeleteSession { .. }));
    assert_eq!(desk.lines().len(), 1, "Enter resumes the one that is marked");
}

#[test]
fn enter_runs_a_command_that_takes_nothing_and_tab_puts_in_any() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.type_in("/");
    let shown = desk.shown();
    assert!(shown.contains("❯ /model") && shown.contains("/review [BASE]  look at changes"), "{shown}");
    assert!(shown.contains("3 commands · Enter runs · Tab completes"), "{shown}");
    desk.type_in("cop");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["/copy"]);
    desk.type_in("/rev");
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "/review ", "it may take more");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["/copy", "/review"]);
    // Only some of its letters: the person sees the command first.
    desk.type_in("/py");
    desk.keys("\r");
    assert_eq!((desk.app.draft().as_str(), desk.lines().len()), ("/copy ", 2));
}

#[test]
fn a_file_is_chosen_by_its_first_lines_and_a_directory_goes_on() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.keys("\x0f");
    desk.keys("\t\t\t\t");
    desk.wait(20);
    assert!(desk.shown().contains("│ first line of src/"), "{}", desk.shown());
    desk.keys("main");
    assert!(desk.shown().contains("│ first line of src/main.rs"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "@src/main.rs ");
}

#[test]
fn a_model_is_chosen_during_a_run_beside_it() {
    let mut desk = desk_with_facts(Size::new(80, 24));
    desk.app = desk.app.with_commands_beside_runs(|line| line.starts_with("/model "));
    desk.run();
    desk.keys("/model\r");
    desk.keys("plain\r");
    assert!(desk.actions.contains(&Action::Beside("/model lab/plain".into())), "{:?}", desk.actions);
}

#[test]
fn a_question_mark_alone_shows_seven_rows_of_keys_and_two_show_all() {
    for size in [Size::new(80, 24), Size::new(60, 12)] {
        let mut desk = desk_of(size);
        desk.keys("?");
        let rows = desk.emulator.all_rows();
        let first = rows.iter().position(|row| row.trim_start().starts_with("/  ")).unwrap();
        let last = rows.iter().position(|row| row.contains("all keys")).unwrap();
        assert_eq!(last - first, 6, "{rows:#?}");
        desk.keys("?");
        assert!(!desk.shown().contains("all keys") && desk.shown().contains("Ctrl-C"), "{}", desk.shown());
    }
}

#[test]
fn the_present_list_and_the_way_out_are_named_in_any_width() {
    for (width, keys) in [(40, "\x1b[Z"), (60, "\x1b[Z"), (100, "\x1b[Z"), (40, ""), (40, "\t\t\t")] {
        let mut desk = desk_of(Size::new(width, 16));
        desk.keys("\x0f");
        keys.split_inclusive(['Z', '\t']).for_each(|key| desk.keys(key));
        let shown = desk.shown();
        let title = shown.lines().find(|row| row.contains('[')).unwrap_or_default();
        assert!(title.contains(']'), "{width}: {shown}");
        assert!(!shown.contains("Esc c…") && !shown.contains("Esc clo…"), "{width}: {shown}");
    }
}
