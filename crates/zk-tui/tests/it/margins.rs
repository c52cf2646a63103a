//! Margin of what the agent does and says, on screens where rows are too long.

use serde_json::{Value, json};
use zk_core::service::{Question, TrustRequest};
use zk_tui::{Offered, Size, Style};
use zk_view::{Card, Patch};

use crate::person::{Desk, card, desk_of, desk_offering};
use crate::replay::block;

fn close(desk: &mut Desk, id: &str, content: &Value) {
    desk.patch(Patch::Close { block: block(id, true, None, content) });
}

/// The rows from the one with `first` on, and after it as many as are not empty.
fn rows_from(desk: &mut Desk, first: &str) -> Vec<String> {
    let shown = desk.shown();
    let from = shown.lines().skip_while(|row| !row.contains(first));
    from.take_while(|row| !row.is_empty()).map(|row| row.trim_end().to_owned()).collect()
}

#[test]
fn output_of_a_call_is_wrapped_at_words_and_every_row_keeps_the_margin() {
    let mut desk = desk_of(Size::new(40, 30));
    let lines = [
        "error: this line has more words than fit into a row",
        "/a/path/without/any/blank/that/is/longer/than/a/row/of/the/screen",
    ];
    let body = json!({"form": {"form": "command", "exit": {"how": "code", "code": 1}}, "lines": lines,
        "total_lines": 2, "expandable": false});
    let call = json!({"type": "call", "call_id": "c", "step": 0, "tool": "shell", "summary": "$ make",
        "state": "failed", "body": body});
    close(&mut desk, "c", &call);
    let rows = rows_from(&mut desk, "error:");
    assert_eq!(
        rows,
        [
            "      error: this line has more words",
            "      than fit into a row",
            "      /a/path/without/any/blank/that/is/",
            "      longer/than/a/row/of/the/screen",
        ]
    );
}

#[test]
fn running_output_and_remarks_keep_the_margin_and_an_address_stays_whole() {
    let mut desk = desk_of(Size::new(40, 30));
    let address = "https://example.org/a/path/that/is/longer/than/a/row";
    let call = json!({"type": "call", "call_id": "c", "step": 0, "tool": "shell", "summary": "$ make",
        "state": "running", "progress": "one word and another and one more after it",
        "remarks": ["a hook says something that is longer than a row"]});
    desk.patch(Patch::Open { block: block("c", false, None, &call) });
    assert_eq!(
        rows_from(&mut desk, "one word"),
        ["      one word and another and one more", "      after it"]
    );
    let body = json!({"form": {"form": "command", "exit": {"how": "code", "code": 0}},
        "lines": [format!("see {address}")], "total_lines": 1, "expandable": false});
    let mut done = call;
    done["state"] = json!("done");
    done["body"] = body;
    close(&mut desk, "c", &done);
    let shown = desk.shown().replace('\n', "");
    assert!(shown.contains(address), "{shown}");
    assert_eq!(
        rows_from(&mut desk, "↳ a hook"),
        ["    ↳ a hook says something that is", "      longer than a row"]
    );
}

#[test]
fn rows_that_zk_says_itself_stand_at_the_agents_margin_and_printed_output_does_not() {
    let mut desk = desk_of(Size::new(40, 30));
    desk.app.print(Style::YELLOW, "a warning that has more words than fit into a row");
    desk.app.print(Style::PLAIN, "output of a command");
    desk.app.print_words(Style::PLAIN, "mode ask: reads run, everything else asks");
    close(
        &mut desk,
        "n",
        &json!({"type": "note", "level": "info", "text": "a notice that has more words than a row"}),
    );
    desk.wait(20);
    let rows = rows_from(&mut desk, "a warning");
    assert_eq!(
        rows,
        [
            "  a warning that has more words than fit",
            "  into a row",
            "output of a command",
            "  mode ask: reads run, everything else",
            "    asks",
            "  a notice that has more words than a",
            "  row",
        ]
    );
}

#[test]
fn the_end_of_a_job_is_a_notice_and_no_row_of_the_person() {
    let mut desk = desk_of(Size::new(40, 30));
    let text = "job-1 (`cargo test`) ended with exit code 0 after 3 s";
    close(&mut desk, "j", &json!({"type": "injected", "by": "jobs", "text": text}));
    let rows = rows_from(&mut desk, "job-1");
    assert_eq!(rows, ["  ◦ jobs: job-1 (`cargo test`) ended", "    with exit code 0 after 3 s"]);
    assert!(!desk.shown().contains("› ("), "{}", desk.shown());
    let steered = json!({"type": "injected", "by": "steer", "text": "the linter, too"});
    close(&mut desk, "s", &steered);
    assert!(desk.shown().contains("› (steer) the linter, too"), "{}", desk.shown());
}

#[test]
fn a_command_stands_as_it_was_typed_and_its_prompt_is_folded() {
    let mut desk = desk_of(Size::new(60, 30));
    let prompt = json!({"type": "user", "text": "Look at the changes.\nSay what is wrong.", "attachments": 0,
        "command": "/review src"});
    close(&mut desk, "u", &prompt);
    let rows = rows_from(&mut desk, "› /review");
    assert_eq!(rows, ["› /review src", "  its prompt: 2 lines · Ctrl-T"]);
    desk.keys("\u{14}");
    desk.keys("e");
    assert!(desk.shown().contains("Say what is wrong."), "the pager has it: {}", desk.shown());
}

fn asking() -> Desk {
    let mut desk = desk_of(Size::new(60, 30));
    desk.run();
    desk.ask(json!({"command": "touch x"}));
    desk
}

#[test]
fn enter_at_an_open_question_keeps_the_draft_and_says_so() {
    for pause in [100, 900] {
        let mut desk = asking();
        desk.wait(pause);
        // The first letter comes while the question is deaf, or is no choice.
        desk.type_in("two words");
        desk.keys("\r");
        assert_eq!((desk.actions.len(), desk.app.draft().as_str()), (0, "two words"), "{:?}", desk.actions);
        assert!(desk.shown().contains("draft kept · question waits"), "{}", desk.shown());
        // A repeated Enter is one Enter.
        desk.keys("\r");
        assert_eq!(desk.actions.len(), 0, "{:?}", desk.actions);
        desk.wait(400);
        desk.keys("\r");
        assert_eq!(desk.app.draft(), "", "a second Enter sends it");
        assert_eq!(desk.answers().len(), 0, "and answers nothing");
        assert!(!desk.actions.is_empty());
    }
}

#[test]
fn a_kept_draft_is_sent_by_one_enter_once_the_question_is_answered() {
    let mut desk = asking();
    desk.type_in("two words");
    desk.keys("\r");
    desk.patch(Patch::Answered { id: card(json!({"command": "touch x"})).id });
    assert!(!desk.shown().contains("draft kept"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.app.draft(), "");
}

#[test]
fn a_refusal_is_told_by_the_row_of_its_call_alone() {
    for (keys, agent) in [("n", None), ("n", Some("main.1"))] {
        let mut desk = desk_of(Size::new(60, 30));
        desk.run();
        let mut asked = serde_json::to_value(card(json!({"command": "touch x"}))).unwrap();
        asked["agent"] = json!(agent.map(|name| json!({"name": name, "depth": 1})));
        let asked: Card = serde_json::from_value(asked).unwrap();
        desk.patch(Patch::Ask { card: Box::new(asked) });
        desk.wait(700);
        desk.keys(keys);
        desk.keys("\r");
        assert_eq!(desk.answers().len(), 1);
        desk.wait(100);
        let shown = desk.shown();
        // The call of a sub-agent has no row here.
        assert_eq!(shown.lines().any(|row| row.starts_with("  not allowed")), agent.is_some(), "{shown}");
    }
}

#[test]
fn a_trust_question_has_its_choices_in_words_and_enter_takes_a_marked_one_only() {
    let trust = || {
        let request = TrustRequest {
            text: "this project wants to start an MCP server: ev. Allow it?".to_owned(),
            items: vec!["ev = node server.js".to_owned()],
            details: vec!["hash = 26eb".to_owned()],
        };
        Card { question: Question::Trust(Box::new(request)), ..card(json!({})) }
    };
    let mut desk = desk_of(Size::new(60, 30));
    desk.patch(Patch::Ask { card: Box::new(trust()) });
    desk.wait(700);
    let shown = desk.shown();
    let choices = "├ y  Yes, trust it exactly as it is\n│ n  No, go on without it\n└ ↑↓ and Enter, or a letter · ? exactly what";
    assert!(shown.contains(choices), "{shown}");
    desk.keys("\r");
    assert_eq!(desk.answers().len(), 0, "nothing is marked");
    desk.wait(700);
    desk.keys("\u{1b}[B");
    desk.wait(400);
    assert!(desk.shown().contains("├›y  Yes, trust it"), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.answers(), ["Once"]);
    let mut low = desk_of(Size::new(60, 7));
    low.patch(Patch::Ask { card: Box::new(trust()) });
    assert!(low.shown().contains("[y]es · [n]o"), "{}", low.shown());
}

#[test]
fn a_narrow_list_of_models_has_whole_prices_or_none() {
    for (width, expected) in
        [(90, "in use · hard work · $3 in $15 out per M · 200k"), (60, "in use · hard work")]
    {
        let offer = |_: &_| Offered {
            names: ["anthropic/claude-sonnet-5-5".to_owned()].into(),
            notes: ["in use · hard work · $3 in $15 out per M · 200k".to_owned()].into(),
            ..Offered::default()
        };
        let mut desk = desk_offering(Size::new(width, 24), offer);
        desk.type_in("/model");
        desk.keys("\r");
        desk.wait(20);
        let shown = desk.shown();
        let row = shown.lines().find(|row| row.contains("claude-sonnet")).unwrap_or_default();
        assert!(row.trim_end().ends_with(expected), "{width}: {shown}");
    }
}
