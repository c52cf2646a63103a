//! Conversations on the inline screen.

use std::time::{Duration, Instant};

use serde_json::json;
use zk_testkit::{Script, Turn};

use rustix::process::{Pid, Signal, kill_process};

use crate::screen::switches;
use crate::terminal::{Terminal, counting};
use crate::zk::{LONG, Person, program, server};

#[test]
fn the_inline_screen_streams_keeps_what_is_typed_and_gives_the_terminal_back() {
    let server = server(Script::answering(|asked| {
        Turn::new().text(format!(
            "# Answer\n\nTo: **{}**\n\nEnd-{}.",
            asked.last_user_text(),
            asked.messages.len()
        ))
    }));
    let person = Person::asking(&server);
    let command = format!("{} --screen inline 'first one'; stty -a", program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    terminal.expect("End-1.");
    terminal.expect("1 turn ·");
    terminal.keys("second\nline\r");
    terminal.expect("End-3.");
    terminal.expect("1 turn ·");
    terminal.keys("/help\r");
    terminal.expect("/effort");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    assert!(rest.contains("zk --resume s_") && rest.contains("\u{1b}[?2004l"), "{rest:?}");
    let (_, modes) = rest.split_once("zk --resume").unwrap();
    let is_on = |name: &str| modes.split_whitespace().any(|mode| mode == name);
    assert!(["icanon", "echo", "isig", "icrnl"].into_iter().all(is_on), "{modes}");
    for absolute in ["\u{1b}[2J", "\u{1b}[3J", "\u{1b}[H", "\u{1b}[r"] {
        assert!(!rest.contains(absolute), "{rest:?}");
    }
    assert!(server.bodies().last().unwrap().to_string().contains("second\\nline"));
    assert_eq!(server.violations(), []);
}

#[test]
fn a_question_on_the_inline_screen_is_not_answered_by_typing() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let args = "--screen inline --permission-mode ask 'do it'";
    let Some(mut terminal) = Terminal::open(&person, args) else { return };
    terminal.expect("y  Yes");
    terminal.keys("yes");
    terminal.expect("Alt-Q answers");
    assert!(!person.project().join("made").exists());
    terminal.keys("\u{1b}q");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("Finished.");
    terminal.expect("2 turns ·");
    assert!(person.project().join("made").exists());
    // Text that was typed is still there, and Ctrl-C takes it first.
    terminal.keys("\u{3}");
    terminal.keys("\u{4}");
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn a_wrong_theme_screen_keymap_or_size_is_said_in_a_line_each_and_the_conversation_goes_on() {
    let server = counting();
    let person = Person::asking(&server);
    person.settings("theme = \"x\\u001b[2J\"\nscreen = 7\n");
    std::fs::write(person.home().join("keys.toml"), "pager = [\"no such key\"]\nnothing = 1\n= broken\n")
        .unwrap();
    let command = format!("stty rows 0 cols 0; exec env -u ZK_SCREEN {} 'first one'", program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    terminal.see("Answer 1 to: first one");
    for said in [
        "`theme` cannot be",
        "`screen` cannot be 7",
        "keys.toml",
        "the terminal does not say how large it is: 80 columns and 24 rows are assumed",
    ] {
        terminal.see(said);
    }
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let run = person.run(&["-p", "go"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "Answer 1 to: go\n"));
    assert!(
        run.stderr.contains("`screen` cannot be 7: what it is without this line holds; use `inline`"),
        "{}",
        run.stderr
    );
}

#[test]
fn ctrl_c_stops_a_run_on_the_inline_screen_and_twice_ends_the_conversation() {
    let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'go'") else { return };
    terminal.expect("On and");
    terminal.keys("\u{3}");
    // The end of the run, below the end of the answer.
    terminal.expect("\u{1b}[33mstopped");
    terminal.keys("\u{3}");
    terminal.expect("Ctrl-C again");
    terminal.keys("\u{3}");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_terminal_gets_the_inline_screen_and_a_dumb_one_or_who_asks_for_it_plain_lines() {
    let server = counting();
    for (how, is_inline) in [
        ("env -u ZK_SCREEN", true),
        ("env -u ZK_SCREEN TERM=dumb", false),
        ("env -u ZK_SCREEN ACCESSIBLE=1", false),
        ("env ZK_SCREEN=plain", false),
    ] {
        let person = Person::asking(&server);
        let command = format!("{how} {} 'a question'", program().display());
        let Some(mut terminal) = Terminal::run(&person, &command) else { return };
        let before = terminal.until("Answer 1 to: a question");
        assert_eq!(before.contains("\u{1b}[>1u"), is_inline, "{how}: {before:?}");
        terminal.expect(if is_inline { "1 turn ·" } else { "› " });
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn who_has_the_screen_read_to_them_gets_labelled_lines_and_nothing_is_ever_redrawn() {
    let script = Script::new()
        .turn(|t| t.text("Looking.\n").call("shell", json!({"command": "touch made"})))
        .turn(|t| t.delay(Duration::from_millis(1200)).text("Made."));
    let server = server(script);
    let person = Person::asking(&server);
    let command = format!("env -u ZK_SCREEN ACCESSIBLE=1 {} 'a question'", program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    let mut seen = terminal.until("y  Yes");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    seen += &terminal.until("  allowed once");
    terminal.keys("and more");
    seen += &terminal.until("zk: Made.");
    assert!(seen.contains("you: a question\r\n") && seen.contains("zk: Looking.\r\n"), "{seen:?}");
    assert!(seen.contains("→ Yes · Enter confirms\u{1b}[0m\r\n"), "{seen:?}");
    let mut codes = seen.split('\u{1b}').skip(1);
    let is_colour = |code: &str| {
        let rest = code
            .strip_prefix('[')
            .map(|code| code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        // A paste is told apart from what is typed; that shows nothing.
        rest.is_some_and(|rest| rest.starts_with('m')) || code.starts_with("[?2004")
    };
    assert!(codes.all(is_colour), "{seen:?}");
    assert!(!seen.replace("\r\n", "\n").contains('\r'), "{seen:?}");
    // Text that was typed meanwhile is the beginning of the next prompt.
    terminal.expect("and more");
    terminal.keys("\u{15}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_conversation_goes_from_one_screen_to_another_and_back() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'one'") else { return };
    terminal.expect("Answer 1 to: one");
    terminal.expect("1 turn ·");
    terminal.keys("/screen plain\r");
    terminal.expect("\u{1b}[<u");
    terminal.expect("plain lines from now on");
    terminal.expect("› ");
    terminal.keys("two\r");
    terminal.expect("Answer 3 to: two");
    terminal.expect("› ");
    terminal.keys("/screen inline\r");
    terminal.expect("\u{1b}[>1u");
    terminal.keys("three\r");
    terminal.expect("Answer 5 to: three");
    terminal.expect("1 turn ·");
    terminal.keys("/screen sideways\r");
    terminal.expect("there is no screen `sideways`");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

/// The program on the inline screen below a shell that says afterwards how the terminal is, and its process.
pub(crate) fn drawn(person: &Person, shell: &str) -> Option<(Terminal, Pid)> {
    let zk = program().display();
    let run = format!("sh -c 'echo pid=\\$\\$.; exec {zk} --screen inline go'");
    let command = format!("bash -c \"set -m; {run}; {shell}\"");
    let terminal = Terminal::run(person, &command)?;
    terminal.expect("pid=");
    let pid: i32 = terminal.until(".").parse().unwrap();
    Some((terminal, Pid::from_raw(pid).unwrap()))
}

#[test]
fn each_signal_that_ends_the_program_leaves_the_terminal_as_it_was() {
    for signal in [
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::XFSZ,
        Signal::SYS,
        Signal::TRAP,
        Signal::ABORT,
    ] {
        let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
        let person = Person::asking(&server);
        let Some((terminal, pid)) = drawn(&person, "stty -a") else { return };
        terminal.expect("On and");
        kill_process(pid, signal).unwrap();
        let rest = terminal.rest();
        let (before, after) = rest.split_once("speed").unwrap_or_else(|| panic!("{signal:?}: {rest:?}"));
        for mode in ["\u{1b}[<u", "\u{1b}[?2004l", "\u{1b}[?1004l", "\u{1b}[?25h"] {
            assert!(before.contains(mode), "{signal:?}, {mode:?}: {before:?}");
        }
        let is_on = |name: &str| after.split_whitespace().any(|mode| mode == name);
        assert!(["icanon", "echo", "isig", "icrnl"].into_iter().all(is_on), "{signal:?}: {after}");
    }
}

#[test]
fn what_waits_in_the_queue_when_the_terminal_goes_is_given_back_to_the_next_conversation() {
    let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
    let person = Person::asking(&server);
    let Some((mut terminal, pid)) = drawn(&person, "true") else { return };
    terminal.expect("On and");
    terminal.keys("for later\t");
    terminal.expect("↳ then: ");
    terminal.keys("half a draft");
    terminal.expect("half a draft");
    kill_process(pid, Signal::HUP).unwrap();
    terminal.rest();
    let Some(mut terminal) = Terminal::open(&person, "--screen inline") else { return };
    terminal.expect("for later");
    terminal.expect("half a draft");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn commands_that_leave_a_run_as_it_is_are_done_beside_it() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "seq 1001 1040"})))
        .turn(|t| t.text("On and on").hang());
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --allow-all 'go'") else { return };
    terminal.expect("On and");
    terminal.keys("/help\r");
    terminal.expect("/effort");
    terminal.keys("/show\r");
    terminal.expect("1012");
    terminal.keys("/compact\r");
    terminal.expect("/compact works when the run is over");
    terminal.keys("\u{15}/screen plain\r");
    terminal.expect("plain lines follow at the end of this run");
    terminal.keys("\u{1b}");
    terminal.expect("plain lines from now on");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

/// Answer of a model.
type Says = fn() -> Turn;

#[test]
fn escape_under_a_flood_ends_the_run_and_the_screen_answers() {
    let words = || Turn::new().chunks((0..400_000).map(|n| format!("word {n} "))).hang();
    let command = || Turn::new().call("shell", json!({"command": "yes flood of output"}));
    let floods: [(Says, &str); 2] = [(words, "word 100"), (command, "flood of output")];
    for screen in ["inline", "full"] {
        for (flood, sign) in floods {
            let server = server(Script::answering(move |_| flood()));
            let person = Person::asking(&server);
            let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen} --allow-all 'go'"))
            else {
                return;
            };
            terminal.expect(sign);
            let begun = Instant::now();
            terminal.keys("\u{1b}");
            // The end of the run, below the end of the answer: long before the flood itself ends.
            terminal.until("\u{1b}[33mstopped");
            println!("{screen}, {sign}: ended {} ms after Esc", begun.elapsed().as_millis());
            terminal.keys("typed behind it");
            terminal.expect("typed behind it");
            assert_eq!(server.bodies().len(), 1);
            terminal.keys("\u{3}");
            terminal.leave();
            assert_eq!(terminal.code(), Some(0));
        }
    }
}

#[test]
fn a_line_without_an_end_is_shown_in_parts() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline") else { return };
    terminal.expect("? keys");
    terminal.keys("!head -c 20000 /dev/zero | tr '\\0' x; sleep 1000\r");
    terminal.expect(&"x".repeat(1000));
    terminal.keys("\u{1b}");
    terminal.expect("exit code 130");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn in_the_background_it_wakes_up_once_a_second_and_in_front_again_it_hears_keys() {
    let server = counting();
    let person = Person::asking(&server);
    let Some((mut terminal, pid)) = drawn(&person, "bg; echo in-the-back; sleep 8; fg") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("\u{1a}");
    terminal.expect("in-the-back");
    // Readable, but for somebody else.
    terminal.keys("x\n");
    std::thread::sleep(Duration::from_millis(1500));
    let pid = pid.as_raw_nonzero().get();
    let before = switches(pid);
    std::thread::sleep(Duration::from_secs(4));
    let woken = switches(pid) - before;
    // A wake-up may be some switches; a second timer, or one of several times a second, is many more.
    assert!(woken <= 14, "{woken} switches in 4 seconds");
    terminal.expect("\u{1b}[>1u");
    terminal.keys("typed in front");
    terminal.expect("typed in front");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

/// Size of a line without an end, in megabytes: small, unless `ZK_LINE_MB` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn line_mb() -> u64 {
    std::env::var("ZK_LINE_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(8)
}

/// Returns the peak memory of a process, in megabytes.
fn peak_mb(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn a_line_of_any_length_and_bytes_that_are_no_text_are_shown_in_bounded_memory() {
    for screen in ["inline", "full"] {
        let server = counting();
        let person = Person::asking(&server).with("ZK_SCREEN", screen);
        let run = format!("sh -c 'echo pid=$$.; exec {} go'", program().display());
        let Some(mut terminal) = Terminal::run(&person, &run) else { return };
        terminal.expect("pid=");
        let pid = Pid::from_raw(terminal.until(".").parse().unwrap()).unwrap();
        terminal.expect("1 turn ·");
        let before = peak_mb(pid);
        let bytes = line_mb() * 1024 * 1024;
        terminal.keys(&format!(
            "!head -c {bytes} /dev/zero | tr '\\0' x; printf 'a\\377\\303b\\n'; echo be''hind\r"
        ));
        // Output is as long as the line: only its end is kept.
        let (mut seen, begun) = (String::new(), Instant::now());
        while !seen.contains("a\u{fffd}\u{fffd}b") || !seen.contains("behind") {
            assert!(begun.elapsed() < LONG * (1 + u32::try_from(line_mb()).unwrap() / 4), "{seen}");
            std::thread::sleep(Duration::from_millis(20));
            seen += &terminal.take();
            let from = seen.len().saturating_sub(4096);
            seen.drain(..(from..=seen.len()).find(|at| seen.is_char_boundary(*at)).unwrap());
        }
        let grown = peak_mb(pid) - before;
        println!("{screen}: {before} MB before, {grown} MB more");
        assert!(grown < 250, "{screen}: {grown} MB");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn a_stop_by_key_or_from_outside_gives_the_terminal_back_and_keeps_the_draft() {
    for by_key in [true, false] {
        let server = counting();
        let person = Person::asking(&server);
        let Some((mut terminal, pid)) = drawn(&person, "stty -a; fg") else { return };
        terminal.expect("1 turn ·");
        terminal.keys("kept draft");
        terminal.expect("kept draft");
        if by_key {
            terminal.keys("\u{1a}");
        } else {
            kill_process(pid, Signal::TSTP).unwrap();
        }
        let before = terminal.until("speed");
        assert!(before.contains("\u{1b}[<u") && before.contains("\u{1b}[?2004l"), "{before:?}");
        let modes = terminal.until("\u{1b}[>1u");
        assert!(modes.split_whitespace().any(|mode| mode == "icanon"), "{modes}");
        terminal.expect("kept draft");
        terminal.keys("\u{3}");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn the_pager_and_the_full_screen_give_the_terminal_back_and_print_what_closed() {
    let server = counting();
    let person = Person::asking(&server);
    let command = format!("{} --screen full 'one'; stty -a", program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    terminal.expect("\u{1b}[?1049h");
    terminal.expect("Answer 1 to: one");
    terminal.expect("1 turn ·");
    terminal.keys("/screen inline\r");
    terminal.expect("\u{1b}[?1049l");
    // Printed once more, to stay.
    terminal.expect("Answer 1 to: one");
    terminal.keys("\u{14}");
    terminal.expect("\u{1b}[?1049h");
    terminal.expect("q returns");
    terminal.keys("q");
    terminal.expect("\u{1b}[?1049l");
    terminal.keys("/screen full\r");
    terminal.expect("\u{1b}[?1049h");
    terminal.keys("two\r");
    terminal.expect("Answer 3 to: two");
    terminal.expect("1 turn ·");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    let (_, after) = rest.split_once("\u{1b}[?1049l").unwrap_or_else(|| panic!("{rest:?}"));
    assert!(after.contains("Answer 3 to: two") && after.contains("zk --resume"), "{after:?}");
    assert!(!after.contains("Answer 1 to: one"), "{after:?}");
    assert!(after.split_whitespace().any(|mode| mode == "icanon"), "{after}");
}

#[test]
fn a_signal_on_the_full_screen_leaves_the_alternate_screen() {
    let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
    let person = Person::asking(&server).with("ZK_SCREEN", "full");
    let zk = program().display();
    let run = format!("sh -c 'echo pid=\\$\\$.; exec {zk} go'");
    let Some(terminal) = Terminal::run(&person, &format!("bash -c \"set -m; {run}; stty -a\"")) else {
        return;
    };
    terminal.expect("pid=");
    let pid: i32 = terminal.until(".").parse().unwrap();
    terminal.expect("\u{1b}[?1049h");
    terminal.expect("On and");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let rest = terminal.rest();
    let (before, after) = rest.split_once("speed").unwrap_or_else(|| panic!("{rest:?}"));
    assert_eq!(before.matches("\u{1b}[?1049l").count(), 1, "{before:?}");
    assert!(after.split_whitespace().any(|mode| mode == "icanon"), "{after}");
}
