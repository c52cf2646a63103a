//! Turns of the model.

use serde_json::json;
use zk_testkit::{Asked, Turn};

pub(super) const CART: &str =
    "def total(items):\n    sum = 0\n    for item in items:\n        sum += item\n    return sum\n";

pub(super) const BETTER: &str =
    "def total(items):\n    all = 0\n    for item in items:\n        all += item.price\n    return all\n";

/// Lines that the question about an edit has to show.
pub(super) const CHANGES: [&str; 6] =
    ["sum = 0", "sum += item", "return sum", "all = 0", "all += item.price", "return all"];

/// Lines of the long file.
pub(super) const LONG_LINES: usize = 40;

/// Turns of the model, by the word that a prompt begins with.
pub(super) fn respond(asked: &Asked) -> Turn {
    let turn = Turn::new();
    let prompt = asked.last_user_text();
    // Behind what a command of the person's own told.
    let prompt = prompt.rsplit(')').next().unwrap_or_default().trim();
    // Behind a prompt that was stopped before its answer began.
    let prompt = prompt.lines().last().unwrap_or_default();
    // A task behind the result of a call that was stopped; words that steer are behind a result as well.
    let is_last = asked.messages.last().is_some_and(|last| last.text().contains(prompt.trim()));
    let is_task = is_last && !prompt.contains("meanwhile");
    if asked.results().last().is_some_and(|result| result.tool == "read_file") {
        return turn.call("edit", json!({ "path": "cart.py", "old_string": CART, "new_string": BETTER }));
    }
    if let Some(result) = asked.results().last().filter(|_| !is_task) {
        return turn.text(if result.is_error { "Told: no." } else { "Told: yes." });
    }
    match prompt.split_whitespace().next().unwrap_or_default() {
        // The file is not as it was read last.
        "edit" => turn.call("read_file", json!({ "path": "cart.py" })),
        "create" => turn.call("write_file", json!({ "path": "new.md", "content": "# Notes\n\n- one\n" })),
        "check" => turn.call("shell", json!({ "command": "touch checked && ls" })),
        "wait" => turn.call("shell", json!({ "command": "touch waits; sleep 300", "timeout_ms": 600_000 })),
        "choose" => turn.call(
            "ask_user",
            json!({
                "question": "Which rounding?", "options": ["Half up", "Bankers"],
                "descriptions": ["as a till", "to even"],
            }),
        ),
        "list" => turn.call(
            "todo_write",
            json!({ "todos": [
                { "content": "find it", "status": "completed" },
                { "content": "mend it", "status": "in_progress" },
            ] }),
        ),
        "long" => {
            let lines: String = (0..LONG_LINES).map(|line| format!("- line {line} of the notes\n")).collect();
            turn.call("write_file", json!({ "path": "long.md", "content": lines }))
        }
        "plan" => {
            let plan = "# Mend the cart\n\n1. **Read** `cart.py`\n2. Mend the sum\n";
            turn.call("present_plan", json!({ "plan": plan }))
        }
        "delegate" => turn.call("spawn", json!({ "task": "Count the functions" })),
        "grant" => {
            let number = prompt.split_whitespace().nth(1).unwrap_or_default();
            turn.call("shell", json!({ "command": format!("touch granted-{number}") }))
        }
        "slow" => turn.text("Begun slowly").hang(),
        _ => turn.text(format!("Answer to: {prompt}.")),
    }
}
