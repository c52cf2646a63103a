//! Shells whose hooks were replaced or that gave way to other shells: the marks come back, or a notice says that they do
//! not; and nothing of the hooks is seen by traps and traces of the person.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

use std::io::Write;

use crate::driver::{Driver, Home, PROMPT};
use crate::trigger::{COMPOSER, acts_at_an_empty_line};

/// Home with more lines at the end of a start file.
fn home(file: &str, lines: &str) -> Home {
    let home = Home::new();
    let mut file = std::fs::OpenOptions::new().append(true).open(home.path().join(file)).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    home
}

/// Calls the agent by the chord, and leaves it again.
fn call_by_chord(terminal: &mut Driver) -> String {
    terminal.keys("\u{1d}");
    let before = terminal.expect(COMPOSER);
    terminal.keys("\u{4}");
    // The composer is gone with its report of the focus.
    terminal.expect("\u{1b}[?1004l");
    terminal.keys("\rprintf 'mark-%s\\n' 42\r");
    terminal.expect("mark-42\r\n");
    before
}

#[test]
fn hooks_that_start_files_replace_are_put_back_and_those_of_the_person_run_once() {
    for lines in [
        "PROMPT_COMMAND=('echo hook-runs')\n",
        "PROMPT_COMMAND='echo hook-runs'\n",
        "PROMPT_COMMAND=()\nPS2='more> '\n",
    ] {
        let home = home(".bashrc", lines);
        let Some(mut terminal) = Driver::shell(&home, "bash", true) else { return };
        terminal.expect(PROMPT);
        terminal.keys(". ~/.bashrc\r");
        terminal.expect(PROMPT);
        terminal.keys("echo one\r");
        terminal.expect("one\r\n");
        terminal.expect(PROMPT);
        terminal.keys("echo two\r");
        terminal.expect("two\r\n");
        let came = terminal.expect(PROMPT);
        let expected = usize::from(lines.contains("hook-runs"));
        assert_eq!(came.matches("hook-runs").count(), expected, "{lines}: {came}");
        acts_at_an_empty_line(&mut terminal);
        terminal.leave();
    }
}

#[test]
fn the_chord_at_a_prompt_whose_hooks_are_gone_puts_them_back() {
    let home = home(".bashrc", "PROMPT_COMMAND=(true)\n");
    let Some(mut terminal) = Driver::shell(&home, "bash", true) else { return };
    terminal.expect(PROMPT);
    terminal.keys(". ~/.bashrc\r");
    terminal.expect(PROMPT);
    terminal.keys("\u{1d}");
    let before = terminal.expect(COMPOSER);
    assert!(!before.contains("no marks"), "{before}");
    terminal.keys("\u{4}");
    terminal.expect(PROMPT);
    acts_at_an_empty_line(&mut terminal);
    terminal.leave();
}

#[test]
fn hooks_of_zsh_put_each_other_back() {
    let home = home(".zshrc", "precmd_functions=()\n");
    let Some(mut terminal) = Driver::shell(&home, "zsh", true) else { return };
    terminal.expect(PROMPT);
    for lost in ["true", "precmd_functions=()", "preexec_functions=(); precmd_functions=()"] {
        terminal.keys(&format!("{lost}; echo gone-$((1 + 1))\r"));
        terminal.expect("gone-2\r\n");
        terminal.expect(PROMPT);
        terminal.keys("echo next-$((1 + 1))\r");
        terminal.expect("next-2\r\n");
        terminal.expect(PROMPT);
        acts_at_an_empty_line(&mut terminal);
    }
    terminal.leave();
}

#[test]
fn the_chord_works_in_a_shell_without_marks_and_says_so() {
    for (shell, other) in [
        ("bash", "exec bash"),
        ("bash", "exec zsh"),
        ("zsh", "exec fish"),
        ("fish", "exec bash"),
        ("bash", "bash"),
        ("zsh", "bash"),
    ] {
        let home = Home::new();
        let (name, program) = (other.rsplit(' ').next().unwrap_or(other), other);
        if crate::driver::installed(name).is_none() {
            continue;
        }
        let Some(mut terminal) = Driver::shell(&home, shell, true) else { continue };
        terminal.expect(PROMPT);
        terminal.keys(&format!("{program}\r"));
        terminal.expect("\n");
        terminal.expect(PROMPT);
        if name == "zsh" {
            // zsh reads keys once it takes pastes, which it says behind its prompt.
            terminal.expect("\u{1b}[?2004h");
        }
        let before = call_by_chord(&mut terminal);
        assert!(before.contains("sends no marks any more"), "{shell}, {other}: {before}");
    }
}

#[test]
fn the_chord_is_a_key_of_programs_although_nothing_ends_them() {
    let home = Home::new();
    let Some(mut terminal) = Driver::shell(&home, "bash", true) else { return };
    terminal.expect(PROMPT);
    terminal.keys("stty -icanon -echo; echo be''gun; head -c1 | od -An -tx1; stty sane\r");
    terminal.expect("begun\r\n");
    terminal.keys("\u{1d}");
    let came = terminal.expect("1d\r\n");
    assert!(!came.contains(COMPOSER), "{came}");
    terminal.expect(PROMPT);
    // A full-screen program of a shell that cannot tell when its commands begin.
    let home = self::home(".bashrc", "readonly PS0=\n");
    let Some(mut terminal) = Driver::shell(&home, "bash", true) else { return };
    terminal.expect(PROMPT);
    terminal.keys("stty -icanon -echo; printf '\\033[?1049hbe%s' gun; head -c1 | od -An -tx1; stty sane; printf '\\033[?1049l'\r");
    terminal.expect("begun");
    terminal.keys("\u{1d}");
    let came = terminal.expect("1d\r\n");
    assert!(!came.contains(COMPOSER), "{came}");
    terminal.expect(PROMPT);
    terminal.leave();
}

#[test]
fn traps_and_traces_of_the_person_see_nothing_of_the_hooks() {
    for (lines, shows) in [
        ("trap 'echo an-error' ERR\nset -E\n", "an-error\r\n"),
        ("trap 'echo \"<$BASH_COMMAND>\"' DEBUG\n", "<false>\r\n"),
        ("set -x\n", "+ false\r\n"),
        ("set -a\n", ""),
    ] {
        let home = home(".bashrc", lines);
        let Some(mut terminal) = Driver::shell(&home, "bash", true) else { return };
        terminal.expect(PROMPT);
        terminal.keys("false\r");
        terminal.expect("false\r\n");
        let came = terminal.expect(PROMPT);
        assert!(shows.is_empty() || came.matches(shows).count() == 1, "{lines}: {came}");
        assert!(!came.contains("__zk"), "{lines}: {came}");
        // A line that goes on, a question of zk to the shell, and the environment of a child.
        acts_at_an_empty_line(&mut terminal);
        terminal.keys("for x in a\rdo env | grep -c '[_]_zk'\rdone; echo ended\r");
        terminal.expect("done; echo ended\r\n");
        let came = terminal.expect("ended\r\n");
        assert!(came.contains("0\r\n") && !came.contains("__zk"), "{lines}: {came}");
    }
    for (lines, shows) in
        [("trap 'echo an-error' ZERR\n", "an-error\r\n"), ("set -x\nset -a\n", "> false\r\n")]
    {
        let home = home(".zshrc", lines);
        let Some(mut terminal) = Driver::shell(&home, "zsh", true) else { return };
        let came = terminal.expect(PROMPT);
        assert!(!came.contains("an-error") && !came.contains("__zk"), "{lines}: {came}");
        terminal.keys("false\r");
        terminal.expect("false");
        let came = terminal.expect(PROMPT);
        assert!(came.matches(shows).count() == 1 && !came.contains("__zk"), "{lines}: {came}");
        terminal.keys("env | grep -c '[_]_zk'\r");
        terminal.expect("\n0\r\n");
    }
}
