//! Generated conversations in tmux: what its history holds in the end.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use zk_testkit::{Script, Turn};

use crate::zk::{LONG, Person, program, server};

/// How many conversations a test has: a few, unless `ZK_TMUX_SESSIONS` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn sessions() -> u64 {
    std::env::var("ZK_TMUX_SESSIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

struct Tmux<'a> {
    person: &'a Person,
    socket: String,
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

impl<'a> Tmux<'a> {
    /// A shell of 80 columns that runs a command; nothing where there is no tmux.
    fn open(person: &'a Person, command: &str) -> Option<Self> {
        if !Path::new("/usr/bin/tmux").exists() {
            println!("skipped: there is no /usr/bin/tmux");
            return None;
        }
        let socket = person.home().join("tmux").display().to_string();
        let tmux = Self { person, socket };
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command]);
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["-S", &self.socket].into_iter().chain(args.iter().copied()).collect();
        let child = self.person.spawn(Path::new("/usr/bin/tmux"), &args, Stdio::null());
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// All that scrolled away and is on the screen, lines joined that tmux broke.
    fn history(&self) -> String {
        self.run(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    fn see(&self, text: &str) {
        self.wait(text, |history| history.contains(text));
    }

    /// Waits until nothing runs.
    fn wait_idle(&self) {
        self.wait("the end of the run", |history| !history.contains("Esc stops"));
    }

    fn wait(&self, what: &str, done: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !done(&self.history()) {
            assert!(begun.elapsed() < LONG, "`{what}` does not come: {}", self.history());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resize(&self, width: usize, height: usize) {
        self.run(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }
}

/// An answer of paragraphs, each with a mark, the last one with the mark of its end.
fn answer(asked: usize, paragraphs: usize) -> Turn {
    let text =
        |n: usize| format!("#{asked}.{n}# some words of an answer that is wrapped where it is narrow\n\n");
    let turn = Turn::new();
    // It waits in its middle, so that something happens to the terminal meanwhile.
    let half = paragraphs / 2;
    let turn = turn.chunks((0..half).map(text)).delay(Duration::from_millis(400));
    turn.chunks((half..paragraphs).map(text)).text(format!("end-{asked}."))
}

#[test]
fn each_closed_row_is_in_the_history_of_tmux_once_and_in_order() {
    for seed in 0..sessions() {
        let mut random = fastrand::Rng::with_seed(seed);
        let sizes: Vec<usize> = (0..3).map(|_| random.usize(4..30)).collect();
        let of_turns = sizes.clone();
        let server = server(Script::answering(move |asked| {
            answer(asked.number, of_turns.get(asked.number - 1).copied().unwrap_or(4))
        }));
        let person = Person::asking(&server).with("ZK_SCREEN", "inline").with("SHELL", "/bin/sh");
        let zk = program().display();
        let command = format!(
            "bash -c 'set -m; echo stood-before; {zk}; while [ -n \"$(jobs -s)\" ]; do fg; done; sleep 60'"
        );
        let Some(tmux) = Tmux::open(&person, &command) else { return };
        tmux.see("Ctrl-D ends");
        for turn in 1..=sizes.len() {
            tmux.keys(&[&format!("prompt-{turn}!"), "Enter"]);
            tmux.see(&format!("#{turn}.0#"));
            match random.u8(0..5) {
                0 => tmux.resize(random.usize(40..100), random.usize(8..40)),
                // The shell has it go on at once.
                1 => tmux.keys(&["C-z"]),
                2 => {
                    tmux.keys(&["C-t"]);
                    tmux.see("q returns");
                    tmux.keys(&["g", "q"]);
                }
                3 => tmux.keys(&["typed", "C-u"]),
                _ => {
                    tmux.resize(30, 10);
                    tmux.resize(90, 30);
                }
            }
            tmux.see(&format!("end-{turn}."));
            tmux.wait_idle();
        }
        tmux.resize(80, 24);
        tmux.keys(&["C-d"]);
        tmux.see("zk --resume");
        let history = tmux.history();
        let marks = sizes.iter().zip(1..).flat_map(|(paragraphs, turn)| {
            let prompt = std::iter::once(format!("› prompt-{turn}!"));
            prompt
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
