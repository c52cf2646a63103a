//! Rows of what goes on: reads that share one, reasoning and its time, sub-agents, jobs, and Enters that come with a paste.

use std::time::Duration;

use serde_json::{Value, json};
use zk_tui::{Action, Size};
use zk_view::{AgentRow, JobRow, Patch, Status};

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
    assert!(desk.shown().contains("● 3 reads: read a.rs, read b.rs, read c.rs"), "{}", desk.shown());
    call(&mut desk, "b3", "$ ls", "execute", "running");
    call(&mut desk, "b3", "$ ls", "execute", "done");
    answer(&mut desk, "b4", "Between.");
    call(&mut desk, "b5", "read d.rs", "read", "done");
    call(&mut desk, "b6", "read e.rs", "read", "failed");
    answer(&mut desk, "b7", "The end.");
    let shown = desk.shown();
    assert_eq!(shown.matches("read a.rs").count(), 1, "{shown}");
    // One alone, and one that failed, say what they came to.
    for row in ["● read d.rs\n  ✓ ok", "● read e.rs\n  ✗ ok", "● $ ls\n  ✓ ok"] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    let leaving = desk.app.leave();
    desk.emulator.send(&leaving);
    assert_eq!(desk.shown().matches("3 reads").count(), 1, "{}", desk.shown());
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
    assert!(shown.contains("● 2 reads: read a.rs, grep x"), "{shown}");
    assert!(shown.contains("● $ make\n  ✓ ok\n  ↳ the model sees 1.0 KB of 9.0 KB"), "{shown}");
}

#[test]
fn reads_are_not_lost_when_the_screen_is_left_before_anything_follows() {
    let mut desk = desk_of(Size::new(80, 20));
    call(&mut desk, "b0", "read a.rs", "read", "done");
    call(&mut desk, "b1", "read b.rs", "read", "done");
    let leaving = desk.app.leave();
    desk.emulator.send(&leaving);
    assert_eq!(desk.shown().matches("● 2 reads: read a.rs, read b.rs").count(), 1, "{}", desk.shown());
}

#[test]
fn reasoning_folds_to_a_row_with_its_time() {
    let mut desk = desk_of(Size::new(60, 16));
    let thinking = |closed| block("b0", closed, None, &json!({"type": "thinking", "text": "one two three"}));
    desk.patch(Patch::Open { block: thinking(false) });
    desk.patch(status(&json!({"doing": "thinking"}), 0));
    desk.patch(status(&json!({"doing": "thinking"}), 12_000));
    desk.patch(status(&json!({"doing": "answering"}), 0));
    desk.patch(Patch::Close { block: thinking(true) });
    answer(&mut desk, "b1", "So.");
    assert!(desk.shown().contains("∴ thought for 12 s, 3 words"), "{}", desk.shown());
}

#[test]
fn sub_agents_and_jobs_have_rows_with_what_is_known_of_them() {
    let mut desk = desk_of(Size::new(90, 20));
    let gauge = json!({"tokens": 30, "usable": 100, "percent": 30, "colour": "green", "compactions": 0});
    let agents: Vec<AgentRow> = serde_json::from_value(json!([
        {"name": "finder", "depth": 1, "task": "find it", "state": "running", "gauge": gauge, "cost": 0.5},
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
    desk.patch(status(&json!({"doing": "running", "calls": ["read a"], "over": 1, "of": 3}), 5000));
    let shown = desk.shown();
    for row in
        ["⋯ finder · context 30 % · $0.5000 · find it", "⚙ job-1 · npm run dev", "5 s · 1 of 3 done · read a"]
    {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    assert!(!shown.contains("was quick") && !shown.contains("job-2"), "{shown}");
}

#[test]
fn a_paste_that_the_terminal_does_not_mark_breaks_lines_and_is_not_sent() {
    let mut desk = desk_of(Size::new(60, 16));
    desk.keys("first\rsecond\r");
    assert_eq!(desk.lines(), ["first\nsecond"]);
    // Its end is read a moment later.
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
fn nothing_is_awake_while_nothing_changes() {
    let mut desk = desk_of(Size::new(60, 16));
    desk.keys("draft");
    desk.wait(100);
    assert_eq!(desk.app.next_tick(), None);
    let later = desk.now + Duration::from_secs(60);
    assert_eq!((desk.app.tick(later), desk.app.frame(later)), (Vec::<Action>::new(), String::new()));
}
