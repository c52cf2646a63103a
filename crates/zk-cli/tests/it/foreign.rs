//! Conversations on a terminal that others wrote.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, major, minor, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};
use zk_tui::Size;

use crate::emulator::Foreign;
use crate::histories::{Host, converse_on};
use crate::terminal::Terminal;
use crate::zk::{LONG, Person};

/// String that a terminal ignores; it marks the end of everything written before.
const MARK: &str = "\u{1b}_all of it\u{1b}\\";

/// The program on an emulated terminal that answers queries and rewraps its lines.
struct Foreigner {
    terminal: Terminal,
    emulator: Foreign,
    /// The device of the terminal.
    device: String,
}

/// Process on a terminal: its id, and whether it is stopped.
type Found = (Pid, bool);

impl Foreigner {
    fn open(person: &Rc<Person>, command: &str) -> Option<Self> {
        // The shell around it stays, so that it is not the one that `script` watches.
        let command =
            format!("export ALACRITTY_WINDOW_ID=1; stty rows 24 cols 80; echo at=$(tty).; {command}; true");
        let terminal = Terminal::run(person, &command)?;
        terminal.expect("at=");
        let device = terminal.until(".");
        terminal.expect("\r\n");
        Some(Self { terminal, emulator: Foreign::new(Size::new(80, 24)), device })
    }

    /// Passes the written bytes to the terminal, and answers queries.
    fn pump(&mut self) {
        let written = self.terminal.take();
        self.show(&written);
    }

    fn show(&mut self, written: &str) {
        self.emulator.send(written);
        let replies = self.emulator.take_replies();
        if !replies.is_empty() {
            self.terminal.keys(&replies);
        }
    }

    /// Passes all bytes that stopped processes wrote to the device to the terminal.
    fn pump_all(&mut self, mut device: &File) {
        device.write_all(MARK.as_bytes()).unwrap();
        let (mut written, begun) = (String::new(), Instant::now());
        let (before, after) = loop {
            written += &self.terminal.take();
            if let Some(parts) = written.split_once(MARK) {
                break parts;
            }
            assert!(begun.elapsed() < LONG, "the mark does not come: {written:?}");
            std::thread::sleep(Duration::from_millis(1));
        };
        // A process may have been stopped in the middle of a sequence: the mark is taken out of it.
        self.show(&format!("{before}{after}"));
    }

    /// The processes on the terminal but for the first one, oldest first.
    fn processes(&self) -> Vec<Found> {
        let device = std::fs::metadata(&self.device).unwrap().rdev();
        let (major, minor) = (major(device), minor(device));
        let number = i64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12));
        let mut found: Vec<Found> = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
                let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
                let (_, rest) = stat.rsplit_once(')')?;
                let fields: Vec<&str> = rest.split_whitespace().collect();
                let is_first = fields.get(3)?.parse() == Ok(pid);
                let is_here = fields.get(4)?.parse() == Ok(number);
                let is_gone = matches!(fields[0], "Z" | "X");
                (is_here && !is_first && !is_gone).then(|| (Pid::from_raw(pid).unwrap(), fields[0] == "T"))
            })
            .collect();
        found.sort_unstable_by_key(|(pid, _)| pid.as_raw_nonzero());
        found
    }

    /// Stops the program and the shell that waits for it, so that nothing is written until they go on.
    fn stop(&self) -> Vec<Pid> {
        let begun = Instant::now();
        loop {
            let found = self.processes();
            if found.iter().all(|(_, is_stopped)| *is_stopped) {
                return found.into_iter().map(|(pid, _)| pid).collect();
            }
            assert!(begun.elapsed() < LONG, "they do not stop: {found:?}");
            // The shell first, and for good: it does not see how the program stops.
            if let Some((pid, _)) = found.iter().find(|(_, is_stopped)| !is_stopped) {
                let _ = kill_process(*pid, Signal::STOP);
                std::thread::sleep(Duration::from_millis(1));
            }
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
            self.pump();
        }
    }

    fn history(&mut self) -> String {
        self.pump();
        self.emulator.text()
    }

    /// The terminal and what it says of its size change between two writes of the program.
    fn resize(&mut self, width: usize, height: usize) {
        let stopped = self.stop();
        let device: File = open(&self.device, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap().into();
        self.pump_all(&device);
        self.emulator.resize(Size::new(width, height));
        let (ws_row, ws_col) = (u16::try_from(height).unwrap(), u16::try_from(width).unwrap());
        tcsetwinsize(&device, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        for pid in stopped.iter().rev() {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }

    fn check_modes(&mut self) {
        // They are put back behind the last words.
        let begun = Instant::now();
        while !self.emulator.is_untouched() && begun.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
            self.pump();
        }
        self.emulator.check_untouched();
    }
}

#[test]
fn each_closed_row_is_in_the_history_of_a_terminal_that_others_wrote_once_and_in_order() {
    converse_on(Foreigner::open);
}
