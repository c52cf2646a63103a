//! Conversations in tmux.

use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;

use crate::histories::{Host, converse_on};
use crate::zk::Person;

struct Tmux {
    person: Rc<Person>,
    socket: String,
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

impl Tmux {
    /// A shell of 80 columns that runs a command; nothing where there is no tmux.
    fn open(person: &Rc<Person>, command: &str) -> Option<Self> {
        if !Path::new("/usr/bin/tmux").exists() {
            println!("skipped: there is no /usr/bin/tmux");
            return None;
        }
        let socket = person.home().join("tmux").display().to_string();
        let tmux = Self { person: person.clone(), socket };
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command]);
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["-S", &self.socket].into_iter().chain(args.iter().copied()).collect();
        let child = self.person.spawn(Path::new("/usr/bin/tmux"), &args, Stdio::null());
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    }
}

impl Host for Tmux {
    fn keys(&mut self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    fn history(&mut self) -> String {
        self.run(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    fn resize(&mut self, width: usize, height: usize) {
        self.run(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }
}

#[test]
fn each_closed_row_is_in_the_history_of_tmux_once_and_in_order() {
    converse_on(Tmux::open);
}
