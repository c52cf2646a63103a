//! Rows of what goes on: reads that share one, reasoning and its time, sub-agents, jobs, and Enters that come with a paste.

use std::time::Duration;

use serde_json::{Value, json};
use zk_tui::{Action, Size};
use zk_view::{AgentRow, JobRow, Patch, Status, View};

use crate::person::{Desk, desk_of};
use crate::replay::block;

fn call(desk: &mut Desk, id: &str, summary: &str, kind: &str, state: &str) {
    let closed = matches!(state, "done" | "failed");
    let body = closed
        .then(|| json!({"form": {"form": "line"}, "lines": ["ok"], "total_lines": 1, "expandable": false}));
    let content = json!({"type": "call", "call_id": id, "step": 0, "tool": "t", "summary": summary, "kind": kind,
        "state": state, "body": body});
    let block = block(id, closed, None, &content);
    desk.patch(if closed { Patch::Close { block } } else { Patch::Open { block } });
}

fn answer(desk: &mut Desk, id: &str, text: &str) {
    desk.patch(Patch::Open { block: block(id, true, None, &json!({"type": "answer", "text": text})) });
}

fn status(activity: &Value, ms: u64) -> Patch {
    let status: Status = serde_json::from_value(json!({
        "activity": activity, "activity_ms": ms, "run_ms": ms, "tokens_read": 0, "tokens_written": 0,
    }))
    .unwrap();
    Patch::Status { status }
}

#[test]
fn reads_that_follow_each_other_share_one_counted_row() {
    let mut desk = desk_of(Size::new(80, 20));
    for (id, name) in [("b0", "a.rs"), ("b1", "b.rs"), ("b2", "c.rs")] {
        call(&mut desk, id, &format!("read {name}"), "read", "running");
        call(&mut desk, id, &format!("read {name}"), "read", "done");
    }
    assert!(desk.shown().contains("  ✓ read a.rs, b.rs, c.rs "), "{}", desk.shown());
    call(&mut desk, "b3", "$ ls", "execute", "running");
    call(&mut desk, "b3", "$ ls", "execute", "done");
    answer(&mut desk, "b4", "Between.");
    call(&mut desk, "b5", "read d.rs", "read", "done");
    call(&mut desk, "b6", "read e.rs", "read", "failed");
    answer(&mut desk, "b7", "The end.");
    let shown = desk.shown();
    assert_eq!(shown.matches("read a.rs").count(), 1, "{shown}");
    // A single one, and a failed one, show their outcome.
    for row in [
        "  ✓ read d.rs                                                                 ok\n",
        "  ✗ read e.rs\n      ok\n",
        "  ✓ $ ls                                                                      ok\n",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    let leaving = desk.app.leave();
    desk.emulator.send(&leaving);
    assert_eq!(desk.shown().matches("3 reads").count(), 1, "{}", desk.shown());
}

#[test]
fn many_reads_share_one_row_that_counts_those_without_room() {
    for width in [60, 80, 160] {
        let mut desk = desk_of(Size::new(width, 30));
        for n in 0..20 {
            call(&mut desk, &format!("b{n}"), &format!("read file-{n}.rs"), "read", "done");
        }
        answer(&mut desk, "c", "The end.");
        let shown = desk.shown();
        let row = shown.lines().find(|row| row.contains("read file-0.rs, file-1.rs")).unwrap_or_default();
        let counted = row.split(" and ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let named = row.matches("file-").count();
        assert_eq!(counted.parse::<usize>().unwrap_or_default() + named, 20, "{shown}");
        assert!(row.ends_with("20 reads"), "{shown}");
        assert_eq!(shown.matches("file-").count(), named, "{shown}");
    }
}

#[test]
fn the_outcome_of_a_call_does_not_repeat_its_summary() {
    let mut desk = desk_of(Size::new(80, 20));
    let content = json!({"type": "call", "call_id": "b0", "step": 0, "tool": "t", "summary": "read a b.rs", "kind": "read",
        "state": "done", "body": {"form": {"form": "line"}, "lines": ["read 9 lines of a b.rs"], "total_lines": 1,
        "expandable": false}});
    desk.patch(Patch::Close { block: block("b0", true, None, &content) });
    answer(&mut desk, "c", "The end.");
    let shown = desk.shown();
    let row = shown.lines().find(|row| row.starts_with("  ✓ read a b.rs  ")).unwrap_or_default();
    assert!(row.ends_with("  9 lines") && !row.contains("of"), "{shown}");
}

#[test]
fn a_long_prompt_is_folded_where_it_was_sent_and_whole_in_the_pager() {
    let mut desk = desk_of(Size::new(80, 40));
    let prompt = |lines: usize| (0..lines).map(|n| format!("pasted {n}.\n")).collect::<String>();
    let content = |text: &str| json!({"type": "user", "text": text, "attachments": 0});
    desk.patch(Patch::Open { block: block("b0", true, None, &content(&prompt(20))) });
    desk.patch(Patch::Open { block: block("b1", true, None, &content(&prompt(240))) });
    let shown = desk.shown();
    assert_eq!(shown.matches("pasted 19.").count(), 1, "{shown}");
    assert!(shown.contains("  pasted 7.\n  … 232 more rows · Ctrl-T\n"), "{shown}");
    for key in ["\x14", "e", "G"] {
        desk.keys(key);
    }
    assert!(desk.emulator.screen().contains("pasted 239."), "{}", desk.emulator.screen());
}

#[test]
fn searches_share_the_row_of_reads_and_remarks_stand_under_their_call() {
    let mut desk = desk_of(Size::new(80, 20));
    call(&mut desk, "b0", "read a.rs", "read", "done");
    call(&mut desk, "b1", "grep x", "search", "done");
    let content = json!({"type": "call", "call_id": "b2", "step": 0, "tool": "t", "summary": "$ make",
        "kind": "execute", "state": "done", "remarks": ["the model sees 1.0 KB of 9.0 KB"],
        "body": {"form": {"form": "line"}, "lines": ["ok"], "total_lines": 1, "expandable": false}});
    desk.patch(Patch::Close { block: block("b2", true, None, &content) });
    let shown = desk.shown();
    assert!(shown.contains("  ✓ read a.rs, grep x "), "{shown}");
    assert!(shown.contains("ok\n    ↳ the model sees 1.0 KB of 9.0 KB"), "{shown}");
}

#[test]
fn what_a_call_came_to_is_drawn_by_what_it_shows_and_never_by_the_name_of_its_tool() {
    let forms = [
        (json!({"form": "line"}), "-one\n"),
        (json!({"form": "lines"}), "2 lines\n"),
        (json!({"form": "command", "exit": {"how": "code", "code": 0}}), "  ✓ works\n      -one\n"),
        (json!({"form": "diff", "path": "a", "added": 1, "removed": 1}), "+1 −1\n"),
        (json!({"form": "table"}), "2 rows\n"),
    ];
    for (form, row) in forms {
        let lines = if form["form"] == "line" { json!(["-one"]) } else { json!(["-one", "+two"]) };
        let drawn = ["read_file", "grep", "edit", "write_file", "shell", "mcp_server_tool"].map(|tool| {
            let mut desk = desk_of(Size::new(80, 20));
            let content = json!({"type": "call", "call_id": "b0", "step": 0, "tool": tool, "summary": "works",
                "state": "done", "body": {"form": form, "lines": lines, "total_lines": 2, "expandable": false}});
            desk.patch(Patch::Close { block: block("b0", true, None, &content) });
            let shown = desk.shown();
            desk.keys("\x14e");
            (shown, desk.shown())
        });
        let (shown, _) = &drawn[0];
        assert!(shown.contains(row), "{form}: {shown}");
        assert!(drawn.iter().all(|other| *other == drawn[0]), "{form}: {drawn:?}");
    }
}

#[test]
fn a_call_that_runs_shows_the_last_five_lines_of_its_output() {
    let mut desk = desk_of(Size::new(60, 16));
    call(&mut desk, "b0", "$ make", "execute", "running");
    for n in 0..9 {
        let grow = json!({"patch": "grow", "id": "b0", "delta": format!("line {n}\n")});
        desk.patch(serde_json::from_value(grow).unwrap());
    }
    let shown = desk.shown();
    assert!(shown.contains("line 4") && shown.contains("line 8") && !shown.contains("line 3"), "{shown}");
    call(&mut desk, "b0", "$ make", "execute", "done");
    assert!(!desk.shown().contains("line 8"), "{}", desk.shown());
}

#[test]
fn a_retry_and_a_silence_say_why_and_how_long_and_enter_hurries() {
    let mut desk = desk_of(Size::new(80, 16));
    let retrying =
        json!({"doing": "retrying", "why": "overloaded", "attempt": 1, "max_attempts": 5, "left_ms": 7000});
    desk.patch(status(&retrying, 1000));
    let row = "↻ overloaded · attempt 2 of 5 in 7 s · Enter now · Esc stops";
    assert!(desk.shown().contains(row), "{}", desk.shown());
    desk.keys("\r");
    assert_eq!(desk.actions.last(), Some(&Action::Hurry));
    let silent = json!({"doing": "silent", "model": "opus", "idle_ms": 12_000, "limit_ms": 300_000, "keep_alives": true});
    desk.patch(status(&silent, 12_000));
    assert!(
        desk.shown().contains("◐ 12 s · waiting for the model, which gives signs of life · Esc stops"),
        "{}",
        desk.shown()
    );
}

#[test]
fn the_ground_that_a_terminal_tells_of_chooses_the_theme() {
    use zk_tui::{Abilities, App, KeyDecoder, Looks, Offered, Style, Theme};
    let frame = |colour: &str, follows_ground: bool| {
        let looks = Looks { theme: Theme::Dark, links: true };
        let abilities = Abilities { looks, follows_ground, ..Abilities::PLAIN };
        let (view, none) = (View::default(), Box::new(|_: &zk_tui::Asked| Offered::default()));
        let mut app = App::new(view, Size::new(40, 8), abilities, Vec::new(), none);
        let keys = KeyDecoder::default().push(format!("\x1b]11;{colour}\x1b\\").as_bytes());
        assert_eq!(app.keys(&keys, Duration::ZERO), []);
        app.print(Style::YELLOW, "a warning");
        app.frame(Duration::from_secs(1))
    };
    assert!(frame("rgb:ffff/ffff/ffff", true).contains("\u{1b}[38;5;130ma warning"));
    assert!(frame("rgb:0000/0000/0000", true).contains("\u{1b}[33ma warning"));
    assert!(
        frame("rgb:ffff/ffff/ffff", false).contains("\u{1b}[33ma warning"),
        "a theme that was asked for stays"
    );
}

#[test]
fn a_frame_is_marked_as_one_only_where_the_terminal_agreed() {
    let mut desk = desk_of(Size::new(60, 16));
    let frame = |desk: &mut Desk, id: &str| {
        let content = json!({"type": "answer", "text": id});
        desk.app.patches(&[Patch::Open { block: block(id, true, None, &content) }], desk.now);
        desk.now += Duration::from_millis(50);
        desk.app.frame(desk.now)
    };
    assert!(!frame(&mut desk, "one").contains("2026"));
    desk.press("\x1b[?2026;0$y");
    assert!(!frame(&mut desk, "two").contains("2026"), "it does not know the mode");
    desk.press("\x1b[?2026;2$y");
    // Removing rows after a resize is part of the frame.
    assert_eq!(desk.app.resize(Size::new(40, 10), desk.now), "");
    let sent = frame(&mut desk, "three");
    assert!(sent.starts_with("\u{1b}[?2026h") && sent.ends_with("\u{1b}[?2026l"), "{sent:?}");
    assert_eq!(sent.matches("2026").count(), 2, "{sent:?}");
}

#[test]
fn the_parts_of_a_large_question_are_turned_forth_and_back() {
    let mut desk = desk_of(Size::new(60, 14));
    let command: Vec<String> = (0..40).map(|n| format!("echo part-{n}.")).collect();
    desk.ask(json!({"command": command.join("\n")}));
    assert!(desk.shown().contains("part-0.") && !desk.shown().contains("part-39."), "{}", desk.shown());
    desk.keys("\x1b[6~");
    assert!(!desk.shown().contains("part-0."), "{}", desk.shown());
    desk.keys("\x1b[5~");
    assert!(desk.shown().contains("part-0."), "{}", desk.shown());
}

#[test]
fn reads_are_not_lost_when_the_screen_is_left_before_anything_follows() {
    let mut desk = desk_of(Size::new(80, 20));
    call(&mut desk, "b0", "read a.rs", "read", "done");
    call(&mut desk, "b1", "read b.rs", "read", "done");
    let leaving = desk.app.leave();
    desk.emulator.send(&leaving);
    assert_eq!(desk.shown().matches("  ✓ read a.rs, b.rs ").count(), 1, "{}", desk.shown());
}

#[test]
fn reasoning_folds_to_a_row_with_its_time() {
    let mut desk = desk_of(Size::new(60, 16));
    let thinking = |closed| {
        block("b0", closed, None, &json!({"type": "thinking", "text": "one two three", "thought_ms": 12_345}))
    };
    desk.patch(Patch::Open { block: thinking(false) });
    desk.patch(Patch::Close { block: thinking(true) });
    answer(&mut desk, "b1", "So.");
    assert!(desk.shown().contains("Thought for 12 s"), "{}", desk.shown());
}

#[test]
fn the_last_exchange_of_a_session_is_drawn_as_it_was_when_it_took_place() {
    let size = Size::new(60, 20);
    let (mut live, mut view) = (desk_of(size), View::default());
    let text = "# Title\n\nSome **bold** words.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let read = |n: usize| {
        json!({"type": "call", "call_id": format!("c{n}"), "step": 0, "tool": "read", "summary": format!("read {n}"),
            "kind": "read", "state": "done",
            "body": {"form": {"form": "line"}, "lines": ["ok"], "total_lines": 1, "expandable": false}})
    };
    let contents = [
        json!({"type": "user", "text": "an earlier prompt", "attachments": 0}),
        json!({"type": "user", "text": "what is it?", "attachments": 0}),
        read(0),
        read(1),
        json!({"type": "answer", "text": text}),
    ];
    for (n, content) in contents.iter().enumerate() {
        let patch = Patch::Open { block: block(&format!("b{n}"), true, None, content) };
        view.apply(&patch);
        live.patch(patch);
    }
    let from_prompt = |desk: &mut Desk| {
        let leaving = desk.app.leave();
        desk.emulator.send(&leaving);
        desk.shown().split_once("› what").map(|(_, rest)| rest.to_owned()).unwrap()
    };
    let mut resumed = desk_of(size);
    view.switches = 1;
    resumed.patch(Patch::Reset { view: Box::new(view) });
    let (live, shown) = (from_prompt(&mut live), from_prompt(&mut resumed));
    assert_eq!(shown, live);
    assert!(
        live.contains("2 reads\n") && live.contains("Some bold words.") && !live.contains("|---|"),
        "{live}"
    );
    assert!(!resumed.shown().contains("an earlier prompt"));
}

#[test]
fn a_long_last_exchange_is_shown_in_part_and_says_how_to_see_all() {
    let (mut desk, mut view) = (desk_of(Size::new(60, 20)), View { switches: 1, ..View::default() });
    let text: String = (0..200).map(|n| format!("- item {n}\n")).collect();
    for (n, content) in [
        json!({"type": "user", "text": "list them", "attachments": 0}),
        json!({"type": "answer", "text": text}),
    ]
    .iter()
    .enumerate()
    {
        view.apply(&Patch::Open { block: block(&format!("b{n}"), true, None, content) });
    }
    desk.patch(Patch::Reset { view: Box::new(view) });
    let shown = desk.shown();
    assert!(shown.contains("› list them\n  … 142 rows · Ctrl-T shows them\n  • item 141\n"), "{shown}");
}

#[test]
fn what_was_shown_while_a_session_was_opened_is_not_shown_again() {
    let contents = [
        json!({"type": "user", "text": "an earlier prompt", "attachments": 0}),
        json!({"type": "user", "text": "the last prompt", "attachments": 0}),
        json!({"type": "answer", "text": "the last answer"}),
    ];
    let blocks = |from: usize, texts: &[Value]| -> Vec<_> {
        texts.iter().zip(from..).map(|(content, n)| block(&format!("b{n}"), true, None, content)).collect()
    };
    for (stored, times) in [(&contents[..], 1), (&contents[..2], 2)] {
        let mut desk = desk_of(Size::new(60, 20));
        // Blocks are counted from the first of the session, or from the first one read.
        desk.app.announce(&blocks(0, &contents[1..]));
        desk.wait(20);
        let shown = desk.shown();
        assert!(shown.contains("› the last prompt\n\n  the last answer"), "{shown}");
        desk.patch(Patch::Reset {
            view: Box::new(View { switches: 1, blocks: blocks(0, stored), ..View::default() }),
        });
        let shown = desk.shown();
        assert_eq!(shown.matches("› the last prompt").count(), times, "{shown}");
        assert_eq!(shown.matches("the last answer").count(), 1, "{shown}");
        assert!(!shown.contains("an earlier prompt"), "{shown}");
    }
}

#[test]
fn full_screen_shows_reads_in_one_row_and_the_time_of_reasoning() {
    let mut desk = desk_of(Size::new(60, 16));
    desk.app.set_full(true);
    let thinking = |closed| {
        block("b9", closed, None, &json!({"type": "thinking", "text": "one two three", "thought_ms": 12_345}))
    };
    desk.patch(Patch::Open { block: thinking(false) });
    desk.patch(Patch::Close { block: thinking(true) });
    call(&mut desk, "b0", "read a.rs", "read", "done");
    call(&mut desk, "b1", "read b.rs", "read", "running");
    call(&mut desk, "b1", "read b.rs", "read", "done");
    let shown = desk.emulator.screen();
    assert!(shown.contains("Thought for 12 s\n  ✓ read a.rs, b.rs "), "{shown}");
    answer(&mut desk, "b2", "So.");
    call(&mut desk, "b3", "read c.rs", "read", "done");
    let shown = desk.emulator.screen();
    assert!(shown.contains("2 reads\n\n  So.\n\n  ✓ read c.rs"), "{shown}");
}

#[test]
fn sub_agents_and_jobs_have_rows_with_what_is_known_of_them() {
    let mut desk = desk_of(Size::new(90, 20));
    let gauge = json!({"tokens": 30, "usable": 100, "percent": 30, "colour": "green", "compactions": 0});
    let agents: Vec<AgentRow> = serde_json::from_value(json!([
        {"name": "finder", "depth": 1, "task": "find it", "state": "running", "gauge": gauge, "cost": 0.5,
            "elapsed_ms": 12_000, "tokens": 11_400, "calls": 2},
        {"name": "other", "depth": 1, "task": "was quick", "state": "done"},
    ]))
    .unwrap();
    desk.patch(Patch::Agents { agents });
    let jobs: Vec<JobRow> = serde_json::from_value(json!([
        {"id": "job-1", "command": "npm run dev", "state": {"state": "running"}},
        {"id": "job-2", "command": "make", "state": {"state": "ended", "how": "exit code 0", "failed": false}},
    ]))
    .unwrap();
    desk.patch(Patch::Jobs { jobs });
    let running = json!({"doing": "running", "calls": ["read a"], "over": 2, "of": 3, "failed": 1});
    desk.patch(status(&running, 5000));
    let shown = desk.shown();
    for row in [
        "  ◐ find it · sub-agent · 12 s · 11.4k tokens · context 30 % · $0.50",
        "⚙ job-1 · npm run dev",
        "◐ 5 s · 2 of 3 done, 1 failed · Esc stops",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    assert!(!shown.contains("was quick") && !shown.contains("job-2"), "{shown}");
}

#[test]
fn a_sub_agent_shows_the_call_that_it_is_in_beside_its_time() {
    let mut desk = desk_of(Size::new(90, 20));
    let agents: Vec<AgentRow> = serde_json::from_value(json!([
        {"name": "finder", "depth": 1, "task": "find it", "state": "running", "elapsed_ms": 12_000},
    ]))
    .unwrap();
    desk.patch(Patch::Agents { agents });
    let content = |state: &str, summary: &str| {
        json!({"type": "call", "call_id": "c", "step": 0, "tool": "t", "summary": summary, "kind": "execute",
            "state": state})
    };
    desk.patch(Patch::Open { block: block("b0", false, Some("other"), &content("running", "$ make")) });
    desk.patch(status(&json!({"doing": "running", "calls": ["spawn"], "over": 0, "of": 1}), 5000));
    let bare = "  ◐ find it · sub-agent · 12 s ";
    assert!(desk.shown().contains(bare), "that of another agent is not its own: {}", desk.shown());
    desk.patch(Patch::Open {
        block: block("b1", false, Some("finder"), &content("running", "$ cargo test")),
    });
    let row = "  ◐ find it · sub-agent · 12 s · $ cargo test";
    assert!(
        desk.shown().contains(&format!("{row}{}Ctrl-O opens", " ".repeat(90 - 45 - 12))),
        "{}",
        desk.shown()
    );
}

#[test]
fn a_paste_that_the_terminal_does_not_mark_breaks_lines_and_is_not_sent() {
    let mut desk = desk_of(Size::new(60, 16));
    desk.keys("first\rsecond\r");
    assert_eq!(desk.lines(), ["first\nsecond"]);
    // The end of the paste is read a moment later.
    let mut desk = desk_of(Size::new(60, 16));
    for part in ["one\r", "two\r", "three"] {
        desk.press(part);
        desk.wait(5);
    }
    desk.wait(50);
    assert_eq!(desk.lines(), Vec::<String>::new());
    assert_eq!(desk.app.draft(), "one\ntwo\nthree");
    desk.keys("\r");
    assert_eq!(desk.lines(), ["one\ntwo\nthree"]);
}

#[test]
fn a_command_that_failed_says_its_exit_code_and_ends_with_its_last_lines() {
    let ended = |state: &str, exit: &Value, lines: usize| {
        let lines: Vec<String> = (1..=lines).map(|line| format!("line {line}")).collect();
        let content = json!({"type": "call", "call_id": "c", "step": 0, "tool": "shell", "summary": "$ make", "state": state,
            "body": {"form": {"form": "command", "exit": exit}, "lines": lines, "total_lines": lines.len(), "expandable": true}});
        let mut desk = desk_of(Size::new(60, 40));
        desk.patch(Patch::Close { block: block("c", true, None, &content) });
        desk.shown()
    };
    let failed = ended("failed", &json!({"how": "code", "code": 3}), 20);
    assert!(failed.contains("exit 3\n      line 6\n"), "{failed}");
    assert!(failed.contains("      line 20                          5 lines more · Ctrl-T"), "{failed}");
    assert!(!failed.contains("line 5\n"), "{failed}");
    let silent = ended("failed", &json!({"how": "code", "code": 127}), 0);
    assert!(silent.contains("exit 127 · no output\n"), "{silent}");
    let fine = ended("done", &json!({"how": "code", "code": 0}), 2);
    assert!(fine.contains("  ✓ $ make\n      line 1\n      line 2\n") && !fine.contains("exit"), "{fine}");
}

#[test]
fn nothing_is_awake_while_nothing_changes() {
    let mut desk = desk_of(Size::new(60, 16));
    desk.keys("draft");
    desk.wait(100);
    assert_eq!(desk.app.next_tick(), None);
    let later = desk.now + Duration::from_secs(60);
    assert_eq!((desk.app.tick(later), desk.app.frame(later)), (Vec::<Action>::new(), String::new()));
}

#[test]
fn a_long_command_and_its_lines_are_whole_and_never_broken_by_zk() {
    let long = format!("cargo test {}", "--package one-of-many ".repeat(20).trim());
    let call = |argument: &str, cut: &str| {
        let content = json!({
            "type": "call", "call_id": "c", "step": 0, "tool": "shell", "summary": format!("$ {cut}…"),
            "argument": argument, "state": "done",
            "body": {"form": {"form": "command", "exit": {"how": "code", "code": 0}}, "lines": [], "total_lines": 0, "expandable": false},
        });
        block("c", true, None, &content)
    };
    let mut desk = desk_of(Size::new(40, 30));
    desk.patch(Patch::Open { block: call(&long, long.get(..100).unwrap()) });
    let ink = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    assert!(ink(&desk.shown()).contains(&ink(&format!("✓ $ {long}"))), "{}", desk.shown());
    desk.patch(Patch::Open {
        block: {
            let mut two = call("for x in 1 2\ndo echo $x; done", "for x in 1 2").as_ref().clone();
            two.id = serde_json::from_value(json!("d")).unwrap();
            two.into()
        },
    });
    assert!(desk.shown().contains("✓ $ for x in 1 2 …"), "{}", desk.shown());
    desk.keys("\x14");
    desk.keys("e");
    assert!(desk.shown().contains("    │ for x in 1 2\n    │ do echo $x; done\n"), "{}", desk.shown());
}
