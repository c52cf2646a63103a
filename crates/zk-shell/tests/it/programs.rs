//! Commands through zk and without: one exit code, and one run of bytes.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

use std::path::Path;

use crate::driver::{Driver, Home, PROMPT, installed, script};

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

/// Home with a text, and a shell whose prompt comes after the exit code.
pub(crate) fn home() -> Home {
    let home = Home::new();
    let text: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    std::fs::write(home.path().join("text"), text).unwrap();
    let bashrc = home.path().join(".bashrc");
    let old = std::fs::read_to_string(&bashrc).unwrap();
    std::fs::write(bashrc, old + "PROMPT_COMMAND='echo code=$?'\nunset ZK_SHELL\ncd ~\n").unwrap();
    home
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
