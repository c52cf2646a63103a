//! Tasks for the agent, each from the empty prompt and back to it.

use zk_tui::Size;

use super::model::{BETTER, CART, CHANGES, LONG_LINES};
use super::{Moment, SIZES};
use crate::desk::Desk;

/// Tasks for the agent.
pub(super) const TASKS: [Moment; 19] = [
    ("a refused edit", |desk, person| {
        person.write("cart.py", CART);
        edit(desk);
        desk.answer("n", "Told: no.");
        desk.rest();
        assert_eq!(std::fs::read_to_string(person.project().join("cart.py")).unwrap(), CART);
    }),
    ("an edit", |desk, person| {
        person.write("cart.py", CART);
        edit(desk);
        desk.answer("y", "Told: yes.");
        desk.rest();
        assert_eq!(std::fs::read_to_string(person.project().join("cart.py")).unwrap(), BETTER);
    }),
    ("a command", |desk, _| {
        desk.line("check it", "Run this command?");
        desk.question("Run this command?", &["Yes", "No", "why it asks"]);
        desk.press("?");
        desk.press("\u{1b}[B");
        desk.answer("y", "Told: yes.");
        desk.rest();
    }),
    ("words, and the background", |desk, person| {
        desk.line("wait for it", "Run this command?");
        desk.question("Run this command?", &["Yes", "No", "why it asks"]);
        desk.answer_until("y", |_, _| person.project().join("waits").exists());
        desk.line("hello meanwhile", "at the next step: hello meanwhile");
        desk.press("\u{2}");
        desk.see("(steer) hello meanwhile");
        desk.see_new("Told: yes.");
        desk.rest();
        std::fs::remove_file(person.project().join("waits")).unwrap();
    }),
    ("a choice", |desk, _| {
        desk.line("choose one", "Which rounding?");
        desk.question("Which rounding?", &["Half up", "Bankers"]);
        desk.answer("2", "Told: yes.");
        desk.rest();
    }),
    ("a stopped run, and what waited for it", |desk, _| {
        desk.line("slow work", "Begun slowly");
        desk.line("hello afterwards", "at the next step: hello afterwards");
        desk.keys("later");
        desk.see("› later");
        desk.press("\t");
        desk.see("then: later");
        desk.press("\u{1b}[1;3A");
        desk.see("› later");
        desk.press("\u{15}");
        desk.press("\u{1b}");
        desk.see("stopped");
        desk.see("held: ");
        desk.press("\r");
        desk.see("Answer to: hello afterwards.");
        desk.rest();
    }),
    ("a list of steps", |desk, _| {
        desk.line("list the steps", "mend it");
        desk.see_new("Told: yes.");
        desk.rest();
    }),
    ("a refusal in words", |desk, person| {
        person.write("cart.py", CART);
        edit(desk);
        desk.answer_until("w", |_, screen| screen.contains("Words for the model"));
        desk.keys("use the function sum");
        desk.see("use the function sum");
        desk.press("\r");
        desk.see_new("Told: no.");
        desk.rest();
    }),
    ("a long file", |desk, person| {
        desk.line("long notes", "Create long.md");
        desk.question("Create long.md", &["Yes", "No"]);
        let mut seen = desk.screen();
        let mut turned = false;
        while desk.screen().contains("below: space") {
            desk.press(" ");
            seen += &desk.screen();
            turned = true;
        }
        let hidden = (0..LONG_LINES).find(|line| !seen.contains(&format!("line {line} of the notes")));
        assert_eq!(hidden, None, "{:?}: {seen}", desk.size);
        if turned {
            desk.press(" ");
            desk.see("no more rows below");
            desk.press("\u{1b}[5~");
        }
        desk.settle();
        desk.answer("n", "Told: no.");
        desk.rest();
        assert!(!person.project().join("long.md").exists());
    }),
    ("a plan", |desk, _| {
        desk.line("plan it", "Go on with this plan?");
        desk.question("Go on with this plan?", &["Go on", "No"]);
        desk.press("\u{1b}[B");
        desk.settle();
        desk.press("\r");
        desk.see_new("Told: yes.");
        desk.rest();
        desk.line("/permissions ask", "ask");
        desk.rest();
    }),
    ("words for a choice", |desk, _| {
        desk.line("choose one", "Which rounding?");
        desk.question("Which rounding?", &["Half up", "Bankers"]);
        desk.press("d");
        desk.keys("own, always");
        desk.see("> down, always");
        desk.press("\r");
        desk.see_new("Told: yes.");
        desk.rest();
    }),
    ("a sub-agent", |desk, _| {
        desk.line("delegate it", "Count the functions");
        desk.see_new("Told: yes.");
        desk.rest();
        desk.press("\u{f}");
        desk.see("[commands]");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("another session, and back", |desk, _| {
        desk.line("/new", "a new conversation begins");
        desk.rest();
        desk.line("hi from another session", "Answer to: hi from another session.");
        desk.rest();
        desk.line("/resume", "[sessions]");
        desk.keys("hello there");
        desk.see("❯ hello there");
        desk.press("\r");
        desk.see("continues");
        desk.rest();
        desk.line("/permissions ask", "ask");
        desk.rest();
    }),
    ("a side question", |desk, _| {
        desk.line("/btw aside from it", "aside");
        desk.see_above("Answer to: ");
        desk.rest();
    }),
    ("another model during a run", |desk, _| {
        desk.line("slow work", "Begun slowly");
        desk.line("/model anthropic/claude-opus-5", "claude-opus-5");
        desk.press("\u{1b}");
        desk.see("stopped");
        desk.rest();
    }),
    ("a grant for the session", |desk, _| {
        let prompt = format!("grant {} it", desk.number);
        desk.line(&prompt, "Run this command?");
        desk.question("Run this command?", &["Yes", "No", "why it asks"]);
        desk.answer("s", "Told: yes.");
        desk.rest();
        desk.line(&prompt, "");
        desk.see_new("Told: yes.");
        desk.rest();
    }),
    ("a question beside a draft", |desk, _| {
        desk.line("check it later", "Run this command?");
        desk.keys("and then");
        desk.see("and then");
        desk.see("Alt-Q answers");
        desk.press("\u{1b}q");
        desk.settle();
        desk.answer("n", "Told: no.");
        desk.see("› and then");
        desk.clear();
    }),
    ("a question in every size", |desk, person| {
        person.write("cart.py", CART);
        let size = desk.size;
        edit(desk);
        for (width, height) in SIZES.into_iter().chain([(size.width, size.height)]) {
            desk.resize(Size::new(width, height));
            desk.question("Edit cart.py?", &["Yes", "No", "why it asks"]);
        }
        desk.answer("n", "Told: no.");
        desk.rest();
    }),
    ("a stop at a question", |desk, _| {
        desk.line("check it", "Run this command?");
        desk.question("Run this command?", &["Yes", "No", "why it asks"]);
        desk.press("\u{1b}");
        desk.see("stopped");
        desk.rest();
    }),
];

/// Asks for an edit, and looks at all that it changes.
fn edit(desk: &mut Desk) {
    desk.line("edit the cart", "Edit cart.py?");
    let mut seen = desk.question("Edit cart.py?", &["Yes", "No", "why it asks"]);
    if desk.size.height < 24 {
        while desk.screen().contains("more rows below") {
            desk.press("\u{1b}[6~");
            seen += &desk.screen();
        }
    }
    let hidden: Vec<&str> = CHANGES.into_iter().filter(|change| !seen.contains(change)).collect();
    assert!(hidden.is_empty(), "{:?}: {hidden:?} is hidden:\n{seen}", desk.size);
}
