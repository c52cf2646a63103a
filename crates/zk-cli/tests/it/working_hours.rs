//! Hours of work at the terminal: each key shows something, no choice is cut, no change is hidden.

use serde_json::json;
use zk_testkit::{Asked, Script, Turn};
use zk_tui::Size;

use crate::desk::Desk;
use crate::zk::{Person, program, server};

const CART: &str =
    "def total(items):\n    sum = 0\n    for item in items:\n        sum += item\n    return sum\n";

const BETTER: &str =
    "def total(items):\n    all = 0\n    for item in items:\n        all += item.price\n    return all\n";

/// Lines that the question about an edit has to show.
const CHANGES: [&str; 6] =
    ["sum = 0", "sum += item", "return sum", "all = 0", "all += item.price", "return all"];

const SIZES: [(usize, usize); 4] = [(80, 24), (60, 12), (100, 30), (160, 50)];

/// Moments of an hour between two sizes of the terminal.
const MOMENTS_OF_A_SIZE: usize = 15;

/// Turns of the model, by the word that a prompt begins with.
fn respond(asked: &Asked) -> Turn {
    let turn = Turn::new();
    let prompt = asked.last_user_text();
    // Behind what a command of the person's own told.
    let prompt = prompt.rsplit(')').next().unwrap_or_default();
    if let Some(result) = asked.results().last() {
        return turn.text(if result.is_error { "Told: no." } else { "Told: yes." });
    }
    match prompt.split_whitespace().next().unwrap_or_default() {
        "edit" => turn.call("edit", json!({ "path": "cart.py", "old_string": CART, "new_string": BETTER })),
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
        "slow" => turn.text("Begun slowly").hang(),
        _ => turn.text(format!("Answer to: {prompt}.")),
    }
}

type Moment = (&'static str, fn(&mut Desk, &Person));

/// Looking around, each time from the empty prompt and back to it.
const LOOKS: [Moment; 23] = [
    ("keys", |desk, _| {
        desk.press("?");
        desk.see("commands");
        desk.clear();
    }),
    ("commands", |desk, _| {
        desk.press("/");
        desk.press("c");
        desk.press("o");
        desk.see("/co");
        desk.clear();
    }),
    ("files", |desk, _| {
        desk.press("@");
        desk.see("cart.py");
        desk.press("\t");
        desk.clear();
    }),
    ("recall", |desk, _| {
        desk.press("\u{1b}[A");
        desk.clear();
    }),
    ("search", |desk, _| {
        desk.press("\u{12}");
        desk.press("h");
        desk.press("e");
        desk.see("hello");
        desk.press("\u{1b}");
        desk.clear();
    }),
    ("pickers", |desk, _| {
        desk.press("\u{f}");
        desk.see("[commands]");
        desk.press("\t");
        desk.see("[models]");
        desk.press("\t");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("pager", |desk, _| {
        desk.press("\u{14}");
        desk.see("q returns");
        desk.press("q");
        desk.rest();
    }),
    ("modes", |desk, _| {
        desk.press("\u{1b}[Z");
        desk.press("\u{1b}[Z");
        desk.line("/permissions ask", "ask");
        desk.rest();
    }),
    ("stash", |desk, _| {
        desk.keys("set aside");
        desk.see("set aside");
        desk.press("\u{13}");
        desk.rest();
        desk.press("\u{13}");
        desk.see("› set aside");
        desk.clear();
    }),
    ("lines", |desk, _| {
        desk.keys("first\\");
        desk.see("first\\");
        desk.press("\r");
        desk.press("x");
        desk.press("\u{15}");
        desk.keys("\u{3}");
        desk.rest();
    }),
    ("paste", |desk, _| {
        desk.press("\u{1b}[200~pasted one\npasted two\npasted three\u{1b}[201~");
        desk.see("pasted three");
        desk.press("\u{1b}");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("long paste", |desk, _| {
        desk.press(&format!("\u{1b}[200~{}end\u{1b}[201~", "a pasted line\n".repeat(40)));
        desk.press("\u{3}");
        desk.rest();
    }),
    ("nothing to stop", |desk, _| desk.press("\u{1b}")),
    ("nothing in the background", |desk, _| desk.press("\u{2}")),
    ("nothing to answer", |desk, _| desk.press("\u{1b}q")),
    ("nothing to take back", |desk, _| desk.press("\u{1b}[1;3A")),
    ("no picture", |desk, _| desk.press("\u{16}")),
    ("nothing to complete", |desk, _| desk.press("\t")),
    ("nothing to send", |desk, _| desk.press("\r")),
    ("nothing to put in", |desk, _| desk.press("\u{1b}y")),
    ("model", |desk, _| {
        desk.line("/model anthropic/claude-opus-5", "claude-opus-5, window");
        desk.rest();
        desk.line("/model", "Esc");
        desk.press("o");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("theme", |desk, _| {
        desk.line("/theme", "[themes]");
        desk.press("\u{1b}[B");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("own command", |desk, _| {
        desk.line("!echo own-$((40+2))", "own-42");
        desk.rest();
    }),
];

/// Commands that tell something, and a part of what they say.
const TOLD: [(&str, &str); 7] = [
    ("/cost", "$"),
    ("/status", "session"),
    ("/context", "tokens"),
    ("/permissions", "ask"),
    ("/help", "/exit"),
    ("/tools", "edit"),
    ("/nonsense", "/help"),
];

/// Tasks for the agent.
const TASKS: [Moment; 7] = [
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
        desk.answer("y", "Esc stops");
        crate::zk::until("the command", || person.project().join("waits").exists());
        desk.line("hello meanwhile", "at the next step: hello meanwhile");
        desk.press("\u{2}");
        desk.see("(steer) hello meanwhile");
        desk.see("Told: yes.");
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
        desk.see("Told: yes.");
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

/// The moments of an hour, in an order of its own.
fn moments(random: &mut fastrand::Rng) -> Vec<Option<Moment>> {
    // The place of a command that tells something.
    let told = (0..TOLD.len()).map(|_| None);
    let mut moments: Vec<Option<Moment>> = LOOKS.into_iter().chain(TASKS).map(Some).chain(told).collect();
    while moments.len() < 60 {
        moments.push(Some(LOOKS[random.usize(..LOOKS.len())]));
    }
    random.shuffle(&mut moments);
    moments
}

/// Works for an hour, and says how many moments it had; nothing where there is no terminal.
fn work(hour: u64) -> Option<usize> {
    let mut random = fastrand::Rng::with_seed(hour);
    let server = server(Script::answering(respond));
    let person = Person::asking(&server).with("ZK_SCREEN", "inline").with("SHELL", "/bin/sh");
    person.write("cart.py", CART).write("README.md", "# Shop\n");
    let zk = program().display();
    let ask = "--permission-mode ask";
    let mut desk = Desk::open(&person, &format!("{zk} {ask}; {zk} --continue {ask}"))?;
    desk.rest();
    desk.line("hello there", "Answer to: hello there.");
    desk.rest();
    let mut told = TOLD.into_iter();
    let moments = moments(&mut random);
    for (number, moment) in moments.iter().enumerate() {
        if number % MOMENTS_OF_A_SIZE == 0 {
            let of_hour = usize::try_from(hour).unwrap() + number / MOMENTS_OF_A_SIZE;
            let (width, height) = SIZES[of_hour % SIZES.len()];
            desk.resize(Size::new(width, height));
            desk.rest();
        }
        // Words about a key before it leave.
        desk.keys("x");
        desk.see("› x");
        desk.press("\u{7f}");
        match moment {
            Some((name, act)) => {
                desk.doing = format!("hour {hour}, moment {number}, {name}");
                act(&mut desk, &person);
            }
            None => {
                let (command, says) = told.next().unwrap();
                desk.doing = format!("hour {hour}, moment {number}, {command}");
                desk.line(command, "");
                desk.see_above(says);
                desk.rest();
            }
        }
    }
    desk.doing = format!("hour {hour}, its end");
    desk.keys("\u{4}");
    desk.see("continues");
    desk.rest();
    desk.line("hello again", "Answer to: hello again.");
    desk.rest();
    desk.keys("\u{4}");
    desk.see("zk --resume");
    assert_eq!(server.violations(), []);
    Some(moments.len())
}

/// Number of hours: none, unless `ZK_WORKING_HOURS` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn hours() -> u64 {
    std::env::var("ZK_WORKING_HOURS").ok().and_then(|hours| hours.parse().ok()).unwrap_or(0)
}

#[test]
fn an_hour_of_work_has_no_key_without_effect_no_cut_choice_and_no_hidden_change() {
    if hours() == 0 {
        println!("skipped: ZK_WORKING_HOURS says how many hours are worked");
        return;
    }
    for hour in 0..hours() {
        let Some(moments) = work(hour) else { return };
        println!("hour {hour}: {moments} moments");
    }
}
