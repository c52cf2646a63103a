//! A person who looks at what a terminal shows after each key.

use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{Winsize, tcsetwinsize};
use zk_tui::Size;

use crate::emulator::Foreign;
use crate::terminal::Terminal;
use crate::zk::{LONG, Person};

/// A choice is cut where a row of these ends in a mark.
const FRAMES: [char; 5] = ['├', '┣', '└', '┗', '┃'];

/// Time after which a drawn question accepts keys.
const SETTLED: Duration = Duration::from_millis(620);

pub(crate) struct Desk {
    terminal: Terminal,
    emulator: Foreign,
    device: File,
    pub(crate) size: Size,
    /// Description of the current step, for failures.
    pub(crate) doing: String,
    /// Number of the current step.
    pub(crate) number: usize,
    /// Lines of the model that were seen, by what they say.
    seen: HashMap<&'static str, usize>,
}

impl Desk {
    /// Runs a shell command on a terminal; `None` without `script`.
    pub(crate) fn open(person: &Person, command: &str) -> Option<Self> {
        let size = Size::new(80, 24);
        let command = format!("stty rows 24 cols 80; echo at=$(tty).; {command}; true");
        let terminal = Terminal::run(person, &command)?;
        terminal.expect("at=");
        let path = terminal.until(".");
        let device = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap().into();
        Some(Self {
            terminal,
            emulator: Foreign::new(size),
            device,
            size,
            doing: String::new(),
            number: 0,
            seen: HashMap::new(),
        })
    }

    /// The rows of the screen.
    pub(crate) fn screen(&mut self) -> String {
        let written = self.terminal.take();
        self.emulator.send(&written);
        let replies = self.emulator.take_replies();
        if !replies.is_empty() {
            self.terminal.keys(&replies);
        }
        self.emulator.text_from(0)
    }

    /// All rows, those above the screen included.
    pub(crate) fn all(&self) -> String {
        self.emulator.text()
    }

    pub(crate) fn wait(&mut self, what: &str, mut holds: impl FnMut(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            let (size, doing) = (self.size, &self.doing);
            assert!(begun.elapsed() < LONG, "{size:?}, {doing}: {what} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for a text on the screen, wherever lines are broken.
    pub(crate) fn see(&mut self, text: &str) {
        self.wait(text, |screen| screen.contains(text) || unbroken(screen).contains(text));
    }

    /// Waits for a text on the screen or above it.
    pub(crate) fn see_above(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.emulator.text().contains(text) {
            let screen = self.screen();
            assert!(
                begun.elapsed() < LONG,
                "{:?}, {}: {text} does not come:\n{screen}",
                self.size,
                self.doing
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until nothing runs, is open or is typed.
    pub(crate) fn rest(&mut self) {
        self.wait("the empty prompt", |screen| {
            let status = screen.lines().last().unwrap_or_default();
            screen.contains("› Ask anything") && !status.contains("Esc stops")
        });
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.terminal.keys(keys);
    }

    /// Presses a key that has to show something.
    pub(crate) fn press(&mut self, key: &str) {
        // Nothing that is still being drawn counts as shown by the key.
        let mut before = self.screen();
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(25) {
            std::thread::sleep(Duration::from_millis(2));
            let now = self.screen();
            if now != before {
                (before, quiet) = (now, Instant::now());
            }
        }
        self.keys(key);
        self.wait(&format!("an effect of {key:?}"), |screen| screen != before);
    }

    /// Types a line and sends it.
    pub(crate) fn line(&mut self, text: &str, shows: &str) {
        self.keys(text);
        self.see(text);
        // An Enter that comes with the text would be a part of it.
        self.press("\r");
        while self.screen().contains("the command before is at work") {
            // Two that are read at once would break the line.
            std::thread::sleep(Duration::from_millis(100));
            self.keys("\r");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.see(shows);
    }

    /// Clears the draft.
    pub(crate) fn clear(&mut self) {
        self.keys("\u{15}");
        self.rest();
    }

    /// Waits for a question whose choices are all on the screen, none of them cut, and gives the screen.
    pub(crate) fn question(&mut self, title: &str, choices: &[&str]) -> String {
        let screen = self.wait(title, |screen| {
            let text = unbroken(screen);
            text.contains(title) && choices.iter().all(|choice| text.contains(choice))
        });
        let cut = screen.lines().find(|row| row.starts_with(FRAMES) && row.trim_end().ends_with('…'));
        assert_eq!(cut, None, "{:?}, {}:\n{screen}", self.size, self.doing);
        std::thread::sleep(SETTLED);
        screen
    }

    /// Answers a question with a key, once it hears answers, and waits for a new line with a text.
    pub(crate) fn answer(&mut self, key: &str, shows: &'static str) {
        let before = self.count(shows);
        self.answer_until(key, |desk, _| desk.count(shows) > before);
        self.seen.insert(shows, self.count(shows));
    }

    fn count(&self, text: &str) -> usize {
        self.emulator.text().matches(text).count()
    }

    /// Begins a step of the person's work.
    pub(crate) fn begin(&mut self, number: usize, doing: String) {
        (self.number, self.doing) = (number, doing);
        self.seen = ["Told: yes.", "Told: no."].map(|text| (text, self.count(text))).into();
    }

    /// Waits for a line that was not on the screen when the step began.
    pub(crate) fn see_new(&mut self, text: &'static str) {
        let before = self.seen.get(text).copied().unwrap_or(0);
        let begun = Instant::now();
        while self.count(text) <= before {
            let screen = self.screen();
            let (size, doing) = (self.size, &self.doing);
            assert!(begun.elapsed() < LONG, "{size:?}, {doing}: {text} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(2));
        }
        self.seen.insert(text, self.count(text));
    }

    /// Answers a question with a key, once it hears answers, and waits for what the screen shows then.
    pub(crate) fn answer_until(&mut self, key: &str, holds: impl Fn(&Self, &str) -> bool) {
        let begun = Instant::now();
        loop {
            self.keys(key);
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_secs(5) {
                let screen = self.screen();
                if holds(self, &unbroken(&screen)) {
                    return;
                }
                if screen.contains("Alt-Q answers") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let (size, doing, screen) = (self.size, self.doing.clone(), self.screen());
            assert!(begun.elapsed() < LONG, "{size:?}, {doing}: {key} does not answer:\n{screen}");
            // The key was a part of the draft.
            self.keys("\u{15}");
            std::thread::sleep(SETTLED);
        }
    }

    /// Waits until a drawn question accepts keys.
    pub(crate) fn settle(&self) {
        std::thread::sleep(SETTLED);
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.screen();
        self.size = size;
        self.emulator.resize(size);
        let (ws_row, ws_col) = (u16::try_from(size.height).unwrap(), u16::try_from(size.width).unwrap());
        tcsetwinsize(&self.device, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }
}

/// Joins a screen to one line, without the marks of wrapped rows.
fn unbroken(screen: &str) -> String {
    let rows = screen.lines().map(|row| row.trim_start_matches(['│', '┃', '↪', ' ']).trim_end());
    rows.collect::<Vec<_>>().join(" ")
}
