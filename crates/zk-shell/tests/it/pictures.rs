//! Programs through zk beside the bare shell: one screen after each step, and one exit code.
//!
//! Both terminals get the same keys, and a step ends once both screens show the text of the step and are equal. So
//! nothing depends on the time that a program takes. A few programs run unless `ZK_SHELL_PROGRAMS=all`.
#![expect(clippy::disallowed_methods, reason = "the number of programs is set from outside")]
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

use std::time::{Duration, Instant};

use crate::driver::{Driver, Home, LONG, PROMPT, installed};
use crate::programs::home;

/// Text behind every program: the shell prints the exit code before its prompt.
const END: &str = "code=";

/// Keys and a text that the screen shows once the program has taken them. The text is not on the screen before.
type Step = (&'static str, &'static str);

/// Program that a person drives.
struct Driven {
    name: &'static str,
    /// Program that must be installed.
    needs: &'static str,
    command: &'static str,
    steps: &'static [Step],
}

const fn driven(
    name: &'static str,
    needs: &'static str,
    command: &'static str,
    steps: &'static [Step],
) -> Driven {
    Driven { name, needs, command, steps }
}

/// Programs of every run.
const USUAL: [Driven; 6] = [
    driven(
        "less",
        "less",
        "less text",
        &[("", "line 1\n"), ("G", "line 60"), ("?line 21\r", "line 21"), ("q", END)],
    ),
    driven("python", "python3", "python3 -q", &[("", ">>>"), ("6*7\r", "42"), ("exit(4)\r", "code=4")]),
    driven("a password", "bash", "read -s -p 'Password: ' word", &[("", "Password:"), ("hidden\r", END)]),
    driven(
        "cat, suspended",
        "cat",
        "cat",
        &[
            ("abc\r", "abc\nabc"),
            ("\u{1a}", "Stopped"),
            ("fg\r", "fg\ncat"),
            ("def\r", "def\ndef"),
            ("\u{4}", END),
        ],
    ),
    driven(
        "an interrupt",
        "sleep",
        "sh -c 'echo begun; exec sleep 600'",
        &[("", "begun"), ("\u{3}", "code=130")],
    ),
    driven("vim", "vim", QUIET_VIM, &[("", "line 23"), ("Gostrange\u{1b}", "strange"), (":wq\r", END)]),
];

/// Vim that asks the terminal nothing and says nothing about the file: an answer that comes late clears its last row.
const QUIET_VIM: &str = "vim -u NONE -N --cmd 'set shortmess+=F t_RV= t_u7=' text";

/// Programs of a whole run.
const MORE: [Driven; 24] = [
    driven(
        "vim, suspended",
        "vim",
        QUIET_VIM,
        &[("", "line 23"), ("\u{1a}", "Stopped"), ("fg\r", "line 23"), (":q!\r", END)],
    ),
    driven(
        "vim, resized",
        "vim",
        "vim -u NONE -N -c 'set ruler' text",
        // The ruler is below the smaller screen until the program draws it again.
        &[("", "Top"), (RESIZE, "Top"), (":set nu\r", "  3 line 3"), (":cq 5\r", "code=5")],
    ),
    driven("nano", "nano", "nano -I text", &[("", "GNU nano"), ("new ", "new line 1"), ("\u{18}n", END)]),
    driven(
        "emacs",
        "emacs",
        "emacs -nw -Q text",
        &[("", "line 1"), ("word ", "word line 1"), ("\u{18}\u{3}", "Save file"), ("!", END)],
    ),
    driven(
        "micro",
        "micro",
        "micro text",
        &[("", "line 1"), ("ab", "abline 1"), ("\u{11}", "Save"), ("n", END)],
    ),
    driven("joe", "joe", "joe text", &[("", "line 1"), ("ab", "abline 1"), ("\u{3}", "Lose"), ("y", END)]),
    driven("ed", "ed", "ed -p 'ed> ' text", &[("", "471\ned>"), ("1,2p\r", "line 2\ned>"), ("q\r", END)]),
    driven("more", "more", "more text", &[("", "--More--"), (" ", "line 40"), ("q", END)]),
    driven("most", "most", "most text", &[("", "line 1"), ("q", END)]),
    driven("man", "man", "MANPAGER=less man -l page.1", &[("", "PAGE"), ("q", END)]),
    driven(
        "fzf",
        "fzf",
        "fzf --no-info --sync <text",
        &[("", "> line 1 "), ("60", "> 60"), ("\r", "line 60\ncode=0")],
    ),
    driven(
        "tmux",
        "tmux",
        "tmux -L zkt$ZKT -f quiet.tmux new -n win 'cat; exit 3'",
        &[("", "[0]"), ("inner\r", "inner\ninner"), ("\u{4}", "[exited]\ncode=")],
    ),
    driven(
        "tmux, detached",
        "tmux",
        "tmux -L zkd$ZKT -f quiet.tmux new -n win cat",
        &[("", "[0]"), ("\u{2}d", "detached"), ("clear; tmux -L zkd$ZKT kill-server\r", END)],
    ),
    driven(
        "screen",
        "screen",
        "screen -q -c /dev/null sh -c 'echo inside; cat'",
        &[("", "inside"), ("abc\r", "abc\nabc"), ("\u{4}", END)],
    ),
    driven("node", "node", "node", &[("", "\n>"), ("6*7\r", "42\n>"), (".exit\r", END)]),
    driven("lua", "lua5.4", "lua5.4", &[("", "\n>"), ("print(6*7)\r", "42\n>"), ("os.exit(5)\r", "code=5")]),
    driven("perl", "perl", "perl -de 1", &[("", "DB<1>"), ("p 6*7\r", "42\n"), ("q\r", END)]),
    driven(
        "sqlite",
        "sqlite3",
        "sqlite3",
        &[("", "sqlite>"), ("select 6*7;\r", "42\nsqlite>"), (".exit 6\r", "code=6")],
    ),
    driven("gdb", "gdb", "gdb -q -nx", &[("", "(gdb)"), ("p 6*7\r", "42\n(gdb)"), ("q\r", END)]),
    driven("psql", "psql", "psql -h /nowhere", &[("", "code=2")]),
    driven(
        "bash",
        "bash",
        "bash --norc",
        &[("", "bash-"), ("echo $((6*7))\r", "\n42\n"), ("exit 7\r", "code=7")],
    ),
    driven(
        "zsh",
        "zsh",
        "PS1='z%% ' zsh -f",
        &[("", "z%"), ("print $((6*7))\r", "\n42\nz%"), ("exit 7\r", "code=7")],
    ),
    driven(
        "fish",
        "fish",
        "fish --no-config",
        &[("", "~"), ("math 6 x 7\r", "\n42\n"), ("exit 7\r", "code=7")],
    ),
    driven(
        "an interrupt that is not heeded",
        "cat",
        "trap '' INT; cat; trap - INT",
        &[("one\r", "one\none"), ("\u{3}x\r", "x\nx"), ("\u{4}", END)],
    ),
];

/// Step that makes the terminal smaller.
const RESIZE: &str = "RESIZE";

/// One shell with what it needs.
struct Side {
    home: Home,
    terminal: Driver,
}

impl Side {
    fn start(with_zk: bool) -> Self {
        let home = home();
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write(
            "quiet.tmux",
            "set -g status-right ''\nset -g status-left '[0]'\nset -g escape-time 0\nset -g automatic-rename off\n",
        );
        write("page.1", ".TH PAGE 1 2020-01-01 none none\n.SH NAME\npage \\- a page\n");
        let mut terminal = Driver::shell(&home, "bash", with_zk).unwrap();
        terminal.expect(PROMPT);
        // A server of each side, whose names have one length.
        let name = if with_zk { "z" } else { "b" };
        terminal.keys(&format!("ZKT={name}{:07}\r", std::process::id()));
        terminal.expect(PROMPT);
        Self { home, terminal }
    }

    /// Screen, without what is only of this side.
    fn screen(&self) -> String {
        self.terminal.screen().replace(&self.home.path().display().to_string(), "HOME")
    }
}

/// Waits until both screens show this text and are equal; otherwise returns both.
fn wait_equal(name: &str, at: usize, shows: &str, sides: &[Side; 2]) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let [bare, zk] = [sides[0].screen(), sides[1].screen()];
        if bare == zk && bare.contains(shows) {
            return Ok(());
        }
        if begun.elapsed() > LONG {
            return Err(format!(
                "{name}, step {at}: the screens do not both show `{shows}`; without zk\n{bare}\n\nwith zk\n{zk}\n"
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn compare(driven: &Driven) -> Result<(), String> {
    let mut sides = [Side::start(false), Side::start(true)];
    for side in &mut sides {
        // Only what the program itself writes is compared.
        side.terminal.keys(&format!("clear; {}\r", driven.command));
        side.terminal.expect("\u{1b}[2J");
    }
    for (at, (keys, shows)) in driven.steps.iter().enumerate() {
        for side in &mut sides {
            match *keys {
                RESIZE => side.terminal.resize(60, 20),
                keys => side.terminal.keys(keys),
            }
        }
        wait_equal(driven.name, at, shows, &sides)?;
    }
    for side in &mut sides {
        side.terminal.keys("exit 9\r");
        assert_eq!(side.terminal.code(), 9, "{}", driven.name);
    }
    Ok(())
}

#[test]
fn screens_of_programs_are_those_without_zk() {
    let is_whole = std::env::var("ZK_SHELL_PROGRAMS").is_ok_and(|which| which == "all");
    let more = if is_whole { &MORE[..] } else { &[] };
    let here: Vec<&Driven> =
        USUAL.iter().chain(more).filter(|driven| installed(driven.needs).is_some()).collect();
    let mut unequal = String::new();
    for driven in &here {
        println!("comparing {}", driven.name);
        unequal.extend(compare(driven).err());
    }
    println!("{} programs were compared", here.len());
    assert!(unequal.is_empty(), "{unequal}");
    assert!(here.len() >= 3, "nearly nothing is installed");
}
