//! Generated conversations: what the history of a terminal holds in the end.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::zk::{LONG, Person, program, server};

/// Number of conversations of a test: a few, unless `ZK_TMUX_SESSIONS` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn sessions() -> u64 {
    std::env::var("ZK_TMUX_SESSIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// A terminal of 80 columns that a shell runs on.
pub(crate) trait Host {
    /// Presses keys, by the names that tmux has for them, or types a text.
    fn keys(&mut self, keys: &[&str]);

    /// Returns the scrollback and the screen, with wrapped lines joined.
    fn history(&mut self) -> String;

    fn resize(&mut self, width: usize, height: usize);

    /// Fails if a mode of the terminal is other than at first, where that can be known.
    fn check_modes(&mut self) {}

    fn see(&mut self, text: &str) {
        self.wait(text, |history| history.contains(text));
    }

    /// Waits until nothing runs.
    fn wait_idle(&mut self) {
        // A row of the status that stands further up was left there at a resize.
        let runs = |history: &str| history.lines().rev().take(3).any(|row| row.contains("Esc stops"));
        self.wait("the end of the run", |history| !runs(history));
    }

    fn wait(&mut self, what: &str, done: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !done(&self.history()) {
            assert!(begun.elapsed() < LONG, "`{what}` does not come: {}", self.history());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An answer of paragraphs, each with a mark, the last one with the mark of its end.
fn answer(asked: usize, paragraphs: usize) -> Turn {
    let text =
        |n: usize| format!("#{asked}.{n}# some words of an answer that is wrapped where it is narrow\n\n");
    let turn = Turn::new();
    // The answer waits in its middle, so that something happens to the terminal meanwhile.
    let half = paragraphs / 2;
    let turn = turn.chunks((0..half).map(text)).delay(Duration::from_millis(400));
    turn.chunks((half..paragraphs).map(text)).text(format!("end-{asked}."))
}

/// Fails unless each closed row of some conversations is in the history of a terminal once and in order. `open` runs a
/// command on one, if there is any.
pub(crate) fn converse_on<H: Host>(open: impl Fn(&Rc<Person>, &str) -> Option<H>) {
    for seed in 0..sessions() {
        let mut random = fastrand::Rng::with_seed(seed);
        let sizes: Vec<usize> = (0..3).map(|_| random.usize(4..30)).collect();
        let of_turns = sizes.clone();
        // In one of the turns something is asked first.
        let questioned = random.usize(1..=sizes.len());
        let server = server(Script::answering(move |asked| {
            if asked.number == questioned {
                return Turn::new().call("shell", json!({"command": "touch made"}));
            }
            let turn = if asked.number > questioned { asked.number - 1 } else { asked.number };
            answer(turn, of_turns.get(turn - 1).copied().unwrap_or(4))
        }));
        let person = Rc::new(Person::asking(&server).with("ZK_SCREEN", "inline").with("SHELL", "/bin/sh"));
        let zk = program().display();
        let command = format!(
            "bash -c 'set -m; echo stood-before; {zk} --permission-mode ask; while [ -n \"$(jobs -s)\" ]; do fg; done; sleep 60'"
        );
        let Some(mut host) = open(&person, &command) else { return };
        host.see("? keys");
        for turn in 1..=sizes.len() {
            host.keys(&[&format!("prompt-{turn}!"), "Enter"]);
            if turn == questioned {
                host.see("y  Yes");
                match random.u8(0..4) {
                    0 => host.resize(random.usize(40..100), random.usize(12..40)),
                    1 => {
                        host.keys(&["C-t"]);
                        host.see("q returns");
                        host.keys(&["q"]);
                    }
                    2 => host.keys(&["typed", "C-u"]),
                    _ => host.keys(&["C-z"]),
                }
                host.see("y  Yes");
                assert!(!person.project().join("made").exists(), "nobody answered");
                // Until it hears answers.
                std::thread::sleep(Duration::from_millis(1500));
                host.keys(&["y"]);
            }
            host.see(&format!("#{turn}.0#"));
            match random.u8(0..5) {
                0 => host.resize(random.usize(40..100), random.usize(8..40)),
                // The shell has it go on at once.
                1 => host.keys(&["C-z"]),
                2 => {
                    host.keys(&["C-t"]);
                    host.see("q returns");
                    host.keys(&["g", "q"]);
                }
                3 => host.keys(&["typed", "C-u"]),
                _ => {
                    host.resize(30, 10);
                    host.resize(90, 30);
                }
            }
            host.see(&format!("end-{turn}."));
            host.wait_idle();
        }
        host.resize(80, 24);
        host.keys(&["C-d"]);
        host.see("zk --resume");
        host.check_modes();
        let history = host.history();
        let marks = sizes.iter().zip(1..).flat_map(|(paragraphs, turn)| {
            let prompt = std::iter::once(format!("› prompt-{turn}!"));
            let answered = (turn == questioned).then(|| "allowed once".to_owned());
            prompt
                .chain(answered)
                .chain((0..*paragraphs).map(move |n| format!("#{turn}.{n}#")))
                .chain([format!("end-{turn}.")])
        });
        let mut rest = history.as_str();
        for mark in std::iter::once("stood-before".to_owned()).chain(marks) {
            assert_eq!(history.matches(&mark).count(), 1, "{mark}, seed {seed}:\n{history}");
            let (_, after) = rest
                .split_once(&mark)
                .unwrap_or_else(|| panic!("{mark} is out of order, seed {seed}:\n{history}"));
            rest = after;
        }
    }
}
