//! Conversations on a terminal that others wrote.

use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use zk_tui::Size;

use crate::emulator::Foreign;
use crate::histories::{Host, converse_on};
use crate::terminal::Terminal;
use crate::zk::Person;

/// The real program on a terminal that answers what it is asked, and breaks its lines anew.
struct Foreigner {
    person: Rc<Person>,
    terminal: Terminal,
    emulator: Foreign,
    /// The device of the terminal.
    device: String,
}

impl Foreigner {
    fn open(person: Rc<Person>, command: &str) -> Option<Self> {
        let terminal = Terminal::run(
            &person,
            &format!("export ALACRITTY_WINDOW_ID=1; stty rows 24 cols 80; echo at=$(tty).; {command}"),
        )?;
        terminal.expect("at=");
        let device = terminal.until(".");
        Some(Self { person, terminal, emulator: Foreign::new(Size::new(80, 24)), device })
    }

    /// Shows what was written, and answers it.
    fn pump(&mut self) {
        self.emulator.send(&self.terminal.take());
        let replies = self.emulator.take_replies();
        if !replies.is_empty() {
            self.terminal.keys(&replies);
        }
    }
}

impl Host for Foreigner {
    fn keys(&mut self, keys: &[&str]) {
        for key in keys {
            let bytes = match *key {
                "Enter" => "\r",
                "C-d" => "\u{4}",
                "C-t" => "\u{14}",
                "C-u" => "\u{15}",
                "C-z" => "\u{1a}",
                text => text,
            };
            self.terminal.keys(bytes);
            // No paste: each of them is read by itself.
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn history(&mut self) -> String {
        self.pump();
        self.emulator.text()
    }

    fn resize(&mut self, width: usize, height: usize) {
        self.pump();
        self.emulator.resize(Size::new(width, height));
        let (rows, columns) = (height.to_string(), width.to_string());
        let args = ["-F", &self.device, "rows", &rows, "cols", &columns];
        let child = self.person.spawn("/bin/stty".as_ref(), &args, Stdio::null());
        assert!(child.wait_with_output().unwrap().status.success());
    }
}

#[test]
fn each_closed_row_is_in_the_history_of_a_terminal_that_others_wrote_once_and_in_order() {
    converse_on(Foreigner::open);
}
