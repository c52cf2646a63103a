//! Hours of work at the terminal: each key shows something, no choice is cut, no change is hidden.

mod looks;
mod model;
mod tasks;

use zk_testkit::Script;
use zk_tui::Size;

use self::looks::LOOKS;
use self::tasks::TASKS;
use crate::desk::Desk;
use crate::zk::{Person, program, server};

const SIZES: [(usize, usize); 4] = [(80, 24), (60, 12), (100, 30), (160, 50)];

/// Moments of an hour.
const MOMENTS: usize = 60;

type Moment = (&'static str, fn(&mut Desk, &Person));

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

/// Subject of each hour, with the tasks that come again and again in it.
const HOURS: [(&str, &[&str]); 10] = [
    ("a failing test", &["an edit", "a refused edit", "a command", "a list of steps"]),
    ("a review", &["a long file", "a refusal in words", "a choice"]),
    ("a refactoring", &["an edit", "a question in every size", "a question beside a draft"]),
    ("a slow build", &["words, and the background", "a stop at a question"]),
    ("a design", &["a plan", "a choice", "words for a choice"]),
    ("a team", &["a sub-agent", "a list of steps", "a side question"]),
    ("several sessions", &["another session, and back", "a command"]),
    ("comparing models", &["another model during a run", "a side question"]),
    ("doubts", &["a stopped run, and what waited for it", "a refused edit", "a refusal in words"]),
    ("trust", &["a grant for the session", "a command", "a stop at a question"]),
];

/// Moment of an hour; `None` stands for one of the commands in [`TOLD`].
type Place = Option<Moment>;

/// The moments of an hour, in an order of its own.
fn moments(hour: usize, random: &mut fastrand::Rng) -> Vec<Place> {
    let (_, own) = HOURS[hour % HOURS.len()];
    let task = |name: &&str| TASKS.into_iter().find(|(known, _)| known == name).unwrap();
    let again = own.iter().map(task).flat_map(|task| [Some(task); 3]);
    let told = (0..TOLD.len()).map(|_| None);
    let mut moments: Vec<Place> = TASKS.into_iter().map(Some).chain(again).chain(told).collect();
    while moments.len() < MOMENTS {
        moments.push(Some(LOOKS[random.usize(..LOOKS.len())]));
    }
    random.shuffle(&mut moments);
    moments
}

/// Works for an hour, or some moments of it, and says how many they were; nothing where there is no terminal.
fn work(hour: usize, (width, height): (usize, usize), most: usize) -> Option<usize> {
    let mut random = fastrand::Rng::with_seed(hour as u64);
    let server = server(Script::answering(model::respond));
    let person = Person::asking(&server).with("ZK_SCREEN", "inline").with("SHELL", "/bin/sh");
    person.write("cart.py", model::CART).write("README.md", "# Shop\n");
    let editor = person.home().join("editor");
    std::fs::write(&editor, "printf ', edited' > \"$1.new\"; cat \"$1.new\" >> \"$1\"\n").unwrap();
    let person = person.with("EDITOR", &format!("sh {}", editor.display()));
    let zk = program().display();
    let ask = "--permission-mode ask";
    let mut desk = Desk::open(&person, &format!("{zk} {ask}; {zk} --continue {ask}"))?;
    desk.rest();
    desk.resize(Size::new(width, height));
    desk.rest();
    desk.line("hello there", "Answer to: hello there.");
    desk.rest();
    let mut told = TOLD.into_iter();
    let mut moments = moments(hour, &mut random);
    moments.truncate(most);
    for (number, moment) in moments.iter().enumerate() {
        // Words about a key before it leave.
        desk.keys("x");
        desk.see("› x");
        desk.press("\u{7f}");
        match moment {
            Some((name, act)) => {
                desk.begin(number, format!("hour {hour}, moment {number}, {name}"));
                act(&mut desk, &person);
            }
            None => {
                let (command, says) = told.next().unwrap();
                desk.begin(number, format!("hour {hour}, moment {number}, {command}"));
                desk.line(command, "");
                desk.see_above(says);
                desk.rest();
            }
        }
    }
    desk.begin(moments.len(), format!("hour {hour}, its end"));
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

/// Hours that are worked whole: their number, or that of one with an `=` before it; none otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn hours() -> std::ops::Range<usize> {
    let wanted = std::env::var("ZK_WORKING_HOURS").unwrap_or_default();
    match wanted.strip_prefix('=').map(str::parse) {
        Some(Ok(one)) => one..one + 1,
        Some(Err(_)) | None => 0..wanted.parse().unwrap_or(0),
    }
}

#[test]
fn an_hour_of_work_has_no_key_without_effect_no_cut_choice_and_no_hidden_change() {
    if hours().is_empty() {
        // Some moments, in the narrowest of the sizes.
        work(0, SIZES[1], 4);
        return;
    }
    let failed = std::thread::scope(|scope| {
        let works = SIZES.map(|size| {
            scope.spawn(move || {
                for hour in hours() {
                    let Some(moments) = work(hour, size, MOMENTS) else { return };
                    println!("{size:?}, hour {hour} ({}): {moments} moments", HOURS[hour % HOURS.len()].0);
                }
            })
        });
        works.into_iter().filter_map(|work| work.join().err()).count()
    });
    assert_eq!(failed, 0, "sizes in which an hour was not worked to its end");
}
