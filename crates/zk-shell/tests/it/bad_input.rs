//! Shells and homes that fail: one line says what happened, and a plain shell remains.

use zk_exec::PersonCommand;

use crate::driver::{Driver, Home, PROMPT, contains, installed, program, script};

fn shell(home: &Home, shell: &str) -> Driver {
    Driver::start(home, PersonCommand::new(program(), home.path()).arg(shell))
}

#[test]
fn a_shell_that_ends_in_its_start_files_is_replaced_by_one_without_them() {
    for (name, file, ending) in [
        ("bash", ".bashrc", "exit 3"),
        ("zsh", ".zshrc", "exit 3"),
        ("fish", ".config/fish/config.fish", "exec sh -c 'exit 3'"),
    ] {
        if installed(name).is_none() {
            continue;
        }
        let home = Home::new();
        std::fs::write(home.path().join(file), format!("{ending}\n")).unwrap();
        let mut terminal = shell(&home, name);
        let before = terminal.expect("without start files runs now");
        assert!(before.contains("ended with code 3 before its first prompt"), "{before}");
        terminal.keys("echo works-$0; exit 6\r");
        terminal.expect("works-");
        assert_eq!(terminal.code(), 6, "{name}");
        let left = std::fs::read_dir(home.path().join(".zk/shell")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{name}: no directory remains");
    }
}

#[test]
fn a_program_that_is_no_shell_is_replaced_by_one() {
    let home = Home::new();
    let broken = home.path().join("broken");
    script(&broken, "#!/bin/sh\nkill -9 $$\n");
    let mut terminal = shell(&home, &broken.display().to_string());
    let before = terminal.expect("/bin/sh without start files runs now");
    assert!(before.contains("ended with code 137"), "{before}");
    terminal.keys("exit 4\r");
    assert_eq!(terminal.code(), 4);
    // `$SHELL` that does not exist.
    let command = PersonCommand::new(program(), home.path()).env("SHELL", "/no/such/shell");
    let mut terminal = Driver::start(&home, command);
    terminal.expect("cannot start /no/such/shell, which $SHELL names");
    terminal.keys("exit 5\r");
    assert_eq!(terminal.code(), 5);
}

#[test]
fn a_start_file_without_end_is_named_and_the_chord_starts_a_shell_without_it() {
    let home = Home::new();
    std::fs::write(
        home.path().join(".bashrc"),
        "trap '' INT TERM HUP\nwhile :; do read -t 1 </dev/null; sleep 0.1; done\n",
    )
    .unwrap();
    let mut terminal = shell(&home, "bash");
    terminal.expect("has shown no prompt for 10 s");
    terminal.keys("\u{1d}");
    terminal.expect("again ends it");
    terminal.keys("\u{1d}");
    terminal.expect("was ended before its first prompt");
    terminal.keys("echo works; exit 6\r");
    terminal.expect("works\r\n");
    assert_eq!(terminal.code(), 6);
}

#[test]
fn a_healthy_shell_that_sends_no_marks_is_neither_reported_nor_ended() {
    let home = Home::new();
    // The start files end before those of zk, in a shell that has none.
    std::fs::write(home.path().join(".bashrc"), "exec bash --rcfile ~/own\n").unwrap();
    std::fs::write(home.path().join("own"), format!("PS1='{PROMPT}'\n")).unwrap();
    let mut terminal = shell(&home, "bash");
    terminal.expect(PROMPT);
    // Longer than a shell is waited for.
    std::thread::sleep(std::time::Duration::from_secs(11));
    terminal.keys("\u{1d}");
    let before = terminal.expect("Ask anything");
    assert!(!before.contains("no prompt"), "{before}");
    terminal.keys("\u{4}");
    terminal.expect("\u{1b}[?1004l");
    terminal.keys("\recho works-$((40 + 2)); exit 6\r");
    terminal.expect("works-42\r\n");
    assert_eq!(terminal.code(), 6);
}

#[test]
fn a_state_directory_that_cannot_be_written_leaves_a_shell_without_marks() {
    let home = Home::new();
    // A file is where the directory would be, as on a disk that takes nothing new.
    std::fs::write(home.path().join(".zk"), "").unwrap();
    let mut terminal = shell(&home, "bash");
    terminal.expect("the shell runs without marks");
    terminal.expect(PROMPT);
    terminal.keys("echo works; exit 6\r");
    terminal.expect("works\r\n");
    assert_eq!(terminal.code(), 6);
}

/// Homes on which nothing can be written, by commands that run as root of a namespace of their own.
#[test]
fn a_full_disk_and_a_read_only_home_leave_a_shell_without_marks() {
    let Some(unshare) = installed("unshare") else { return };
    for (name, mounts) in [
        (
            "a full disk",
            "mount -t tmpfs -o size=16k,mode=700 none .zk && { cat /dev/zero >.zk/rest 2>/dev/null; true; }",
        ),
        ("a read-only home", "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\""),
    ] {
        let home = Home::new();
        std::fs::create_dir(home.path().join(".zk")).unwrap();
        let script = format!("{mounts} || exit 99; exec {} bash", program().display());
        let command = PersonCommand::new(&unshare, home.path()).arg("-rm").arg("sh").arg("-c").arg(script);
        let mut terminal = Driver::start(&home, command);
        terminal.wait(name, |bytes| {
            contains(bytes, b"without marks") || contains(bytes, b"Operation not permitted")
        });
        if contains(&terminal.bytes(), b"Operation not permitted") {
            println!("skipped: namespaces are not allowed here");
            return;
        }
        terminal.expect("the shell runs without marks");
        terminal.expect(PROMPT);
        terminal.keys("echo works; exit 6\r");
        terminal.expect("works\r\n");
        assert_eq!(terminal.code(), 6, "{name}");
    }
}

#[test]
fn a_terminal_that_disappears_ends_zk_and_leaves_no_directory() {
    let home = Home::new();
    let mut terminal = shell(&home, "bash");
    terminal.expect(PROMPT);
    let state = home.path().join(".zk/shell");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert_eq!(terminal.code(), 129);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}
