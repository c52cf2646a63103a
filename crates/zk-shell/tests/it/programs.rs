//! Programs through zk and without: one screen at each step, one exit code, and one run of bytes where time has no part.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

use std::path::Path;

use crate::driver::{Driver, Home, PROMPT, installed, script};

/// Program that is driven by hand: name, program that must be installed, command, steps of keys and of a text that the
/// screen shows then. The last step ends it.
type Driven = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// End of a command in all tables: the exit code is on the screen.
const END: &str = "code=";

const DRIVEN: [Driven; 28] = [
    ("vim", "vim", "vim -u NONE -N text", &[("", "line 1"), ("Gostrange\u{1b}", "strange"), (":wq\r", END)]),
    (
        "vim, suspended",
        "vim",
        "vim -u NONE -N text",
        &[("", "line 1"), ("\u{1a}", "Stopped"), ("fg\r", "line 1"), (":q!\r", END)],
    ),
    (
        "vim, resized",
        "vim",
        "vim -u NONE -N text",
        &[("", "line 1"), (":set nu\r", "  3 line 3"), (":cq 5\r", "code=5")],
    ),
    ("nano", "nano", "nano -I text", &[("", "GNU nano"), ("new ", "new line 1"), ("\u{18}n", END)]),
    (
        "emacs",
        "emacs",
        "emacs -nw -Q text",
        &[("", "line 1"), ("word ", "word line 1"), ("\u{18}\u{3}", "Save file"), ("!", END)],
    ),
    ("micro", "micro", "micro text", &[("", "line 1"), ("ab", "abline 1"), ("\u{11}", "Save"), ("n", END)]),
    ("joe", "joe", "joe text", &[("", "line 1"), ("ab", "abline 1"), ("\u{3}", "Lose"), ("y", END)]),
    ("ed", "ed", "ed text", &[("", "471"), ("1,2p\r", "line 2"), ("q\r", END)]),
    ("less", "less", "less text", &[("", "line 1"), ("G", "line 60"), ("?line 31\r", "line 31"), ("q", END)]),
    ("more", "more", "more text", &[("", "--More--"), (" ", "line 40"), ("q", END)]),
    ("most", "most", "most text", &[("", "line 1"), ("q", END)]),
    ("fzf", "fzf", "fzf --no-info --sync <text", &[("", "line 1"), ("60", "> line 60"), ("\r", END)]),
    (
        "tmux",
        "tmux",
        "tmux -L zkt -f /dev/null new 'cat; exit 3'",
        &[("", "[0]"), ("inner\r", "inner\ninner"), ("\u{4}", END)],
    ),
    (
        "tmux, detached",
        "tmux",
        "tmux -L zkd -f /dev/null new cat",
        &[("", "[0]"), ("\u{2}d", "detached"), ("tmux -L zkd kill-server\r", END)],
    ),
    (
        "screen",
        "screen",
        "screen -q -c /dev/null sh -c 'echo inside; cat'",
        &[("", "inside"), ("abc\r", "abc\nabc"), ("\u{4}", END)],
    ),
    ("python", "python3", "python3 -q", &[("", ">>>"), ("6*7\r", "42"), ("exit(4)\r", "code=4")]),
    ("node", "node", "node", &[("", "> "), ("6*7\r", "42"), (".exit\r", END)]),
    ("lua", "lua5.4", "lua5.4", &[("", "> "), ("print(6*7)\r", "42"), ("os.exit(5)\r", "code=5")]),
    ("sqlite", "sqlite3", "sqlite3", &[("", "sqlite>"), ("select 6*7;\r", "42"), (".exit 6\r", "code=6")]),
    ("bc", "bc", "bc -q", &[("6*7\r", "42"), ("quit\r", END)]),
    ("gdb", "gdb", "gdb -q -nx", &[("", "(gdb)"), ("p 6*7\r", "42"), ("q\r", END)]),
    ("bash", "bash", "bash --norc", &[("", "bash-"), ("echo $((6*7))\r", "42"), ("exit 7\r", "code=7")]),
    ("zsh", "zsh", "zsh -f", &[("", "% "), ("print $((6*7))\r", "42"), ("exit 7\r", "code=7")]),
    ("fish", "fish", "fish --no-config", &[("", ">"), ("math 6 x 7\r", "42"), ("exit 7\r", "code=7")]),
    ("a password", "bash", "read -s -p 'Password: ' word", &[("", "Password:"), ("hidden\r", END)]),
    (
        "cat, suspended",
        "cat",
        "cat",
        &[("abc\r", "abc\nabc"), ("\u{1a}", "Stopped"), ("fg\r", "cat\n"), ("\u{4}", END)],
    ),
    ("an interrupt", "sleep", "sleep 600", &[("\u{3}", "code=130")]),
    ("a quit", "sleep", "trap '' INT; cat; trap - INT", &[("\u{3}x\r", "x\nx"), ("\u{4}", END)]),
];

/// Commands whose bytes depend on nothing but the terminal.
const EXACT: [&str; 12] = [
    "stty -a",
    "cat text",
    "printf '\\001\\002\\033[31mred\\033[m\\033]0;title\\007\\033]133;A\\007\\033]633;C\\007\\n'",
    "printf '\\033]7177;n0nce;R;1\\007\\033]7177;hint;C;x\\007.\\n'",
    "printf '\\033[?1049hfull\\033[?1049l\\n'",
    "tput cols; tput lines; tput colors",
    "ls --color=always -l text",
    "seq 1 3000",
    "python3 -c 'import os; os.write(1, bytes(range(32, 256)))'; echo",
    "umask; ulimit -n; tty | tr -d 0-9",
    "ps -o stat= -p $$; jobs; (exit 9)",
    "kill -TERM $(sh -c 'echo $PPID'); echo alive",
];

fn home() -> Home {
    let home = Home::new();
    let text: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    std::fs::write(home.path().join("text"), text).unwrap();
    let bashrc = home.path().join(".bashrc");
    let old = std::fs::read_to_string(&bashrc).unwrap();
    std::fs::write(bashrc, old + "PROMPT_COMMAND='echo code=$?'\nunset ZK_SHELL\ncd ~\n").unwrap();
    home
}

/// Drives one program; returns the screen after each step, and waits for the screens of another run.
fn drive(home: &Home, driven: &Driven, screens: Option<&[String]>) -> Vec<String> {
    let (name, _, command, steps) = driven;
    let mut terminal = Driver::shell(home, "bash", screens.is_some()).unwrap();
    terminal.expect(PROMPT);
    // Only what the program itself writes is compared.
    terminal.keys(&format!("clear; {command}\r"));
    let mut seen = Vec::new();
    for (at, (keys, shows)) in steps.iter().enumerate() {
        if at == 0 && !keys.is_empty() {
            terminal.expect("\u{1b}[2J");
        }
        terminal.keys(keys);
        let place = home.path().display().to_string();
        let placed = |screen: &str| screen.replace(&place, "HOME");
        match screens.and_then(|screens| screens.get(at)) {
            Some(screen) => {
                terminal.wait_screen(&format!("{name}, step {at}:\n{screen}"), |now| placed(now) == *screen)
            }
            None => seen.push(placed(&terminal.settled(shows))),
        }
        if name.contains("resized") && at == 0 {
            terminal.resize(60, 20);
        }
    }
    terminal.keys("exit 0\r");
    assert_eq!(terminal.code(), 0, "{name}");
    seen
}

#[test]
fn programs_have_one_screen_and_one_exit_code_with_zk_and_without() {
    let mut count = 0;
    for driven in &DRIVEN {
        if installed(driven.1).is_none() {
            continue;
        }
        let screens = drive(&home(), driven, None);
        drive(&home(), driven, Some(&screens));
        count += 1;
    }
    println!("{count} programs were compared");
    assert!(count >= 5, "nearly nothing is installed");
}

#[test]
fn bytes_of_commands_are_those_without_zk() {
    let run = |with_zk: bool| {
        let home = home();
        let mut terminal = Driver::shell(&home, "bash", with_zk).unwrap();
        terminal.expect(PROMPT);
        let mut outputs = Vec::new();
        for command in EXACT {
            terminal.keys(&format!("{command}\r"));
            terminal.expect("\r\n");
            outputs.push(terminal.expect(PROMPT));
        }
        // The shell was ended by a signal in the last command, or by this.
        terminal.keys("exit 11\r");
        (outputs, terminal.code())
    };
    let (bare, zk) = (run(false), run(true));
    for ((command, bare), zk) in EXACT.iter().zip(&bare.0).zip(&zk.0) {
        assert_eq!(zk, bare, "{command}");
    }
    assert_eq!(zk.1, bare.1);
    assert_eq!(zk.1, 11);
}

/// Port of nothing: the connection is a pipe to a server that runs as this user.
#[test]
fn ssh_to_a_server_on_this_machine_is_as_without_zk() {
    let (Some(server), Some(_)) = (installed("sshd"), installed("ssh")) else { return };
    let run = |with_zk: bool| {
        let home = home();
        let path = |name: &str| home.path().join(name).display().to_string();
        for key in ["host", "person"] {
            let made = zk_exec_command("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
            assert!(made, "no key");
        }
        std::fs::copy(path("person.pub"), path("allowed")).unwrap();
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n",
            path("host"),
            path("allowed")
        );
        std::fs::write(path("sshd_config"), config).unwrap();
        let proxy = path("proxy");
        // The server needs a directory that a package makes at its first start.
        let text = format!(
            "#!/bin/sh\nmkdir -p /run/sshd 2>/dev/null\nexec {} -i -f {} 2>/dev/null\n",
            server.display(),
            path("sshd_config")
        );
        script(Path::new(&proxy), &text);
        let ssh = format!(
            "ssh -tt -q -F /dev/null -i {} -o ProxyCommand={proxy} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null x@localhost",
            path("person")
        ).replace("x@", &format!("{}@", whoami()));
        let mut terminal = Driver::shell(&home, "bash", with_zk).unwrap();
        terminal.expect(PROMPT);
        terminal
            .keys(&format!("{ssh} 'stty size; echo remote-$((40+2)); read word; echo got-$word; exit 5'\r"));
        let came = terminal.expect("remote-42");
        assert!(came.contains("24 80"), "{came}");
        terminal.keys("tea\r");
        terminal.expect("got-tea");
        terminal.expect("code=5");
        terminal.expect(PROMPT);
        terminal.leave();
    };
    run(false);
    run(true);
}

fn whoami() -> String {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let user = users.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string())).unwrap();
    user.split(':').next().unwrap().to_owned()
}

/// Runs a program to its end, on a terminal of its own; true if it succeeded.
fn zk_exec_command(program: &str, args: &[&str]) -> bool {
    let program = installed(program).unwrap();
    let command = zk_exec::PersonCommand::new(program, "/");
    let command = args.iter().fold(command, |command, arg| command.arg(*arg));
    Driver::start(&Home::new(), command).code() == 0
}
