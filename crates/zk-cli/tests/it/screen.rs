//! The drawn screen and the terminal it shares with others: shells, other conversations, nobody at all.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::composer::leave;
use crate::terminal::{Terminal, counting};
use crate::zk::{Person, program, server, until};

fn drawn(server: &zk_testkit::FakeServer) -> Person {
    Person::asking(server).with("ZK_SCREEN", "inline")
}

#[test]
fn a_process_in_the_background_writes_nothing_and_takes_the_terminal_back_when_it_is_in_front() {
    for signal in [Signal::STOP, Signal::TSTP] {
        let script = Script::answering(|asked| match asked.number {
            1 => {
                let wait = "touch waits; until [ -e go ]; do sleep 0.02; done; touch done";
                Turn::new().text("Before.").call("shell", json!({"command": wait}))
            }
            _ => Turn::new().text("Afterwards."),
        });
        let server = server(script);
        let person = drawn(&server);
        let zk = program().display();
        let run = format!("sh -c 'echo pid=\\$\\$.; exec {zk} --allow-all go'");
        let stored = "until [ -e answered ]; do sleep 0.05; done";
        let shell = format!(
            "set -m; {run}; echo stop-mark; bg; touch go; {stored}; stty -a; echo front-mark; fg; echo left-mark"
        );
        let Some(mut terminal) = Terminal::run(&person, &format!("bash -c \"{shell}\"")) else { return };
        terminal.expect("pid=");
        let pid = Pid::from_raw(terminal.until(".").parse().unwrap()).unwrap();
        terminal.expect("Before.");
        terminal.expect("touch done");
        until("the command", || person.project().join("waits").exists());
        kill_process(pid, signal).unwrap();
        terminal.expect("stop-mark");
        // The run goes on where nobody sees it: the second answer is asked for, and comes.
        until("the second request", || server.bodies().len() == 2);
        std::thread::sleep(Duration::from_millis(300));
        person.write("answered", "");
        let meanwhile = terminal.until("front-mark");
        // A frame that was begun in front may be written once the process goes on, and no other one.
        let frames = meanwhile.matches("Esc stops").count();
        assert!(!meanwhile.contains("Afterwards") && frames <= 1, "{meanwhile:?}");
        if signal == Signal::TSTP {
            let is_on = |name: &str| meanwhile.split_whitespace().any(|mode| mode == name);
            assert!(["icanon", "echo", "isig"].into_iter().all(is_on), "{meanwhile}");
        }
        terminal.expect("\u{1b}[>1u");
        terminal.expect("Afterwards.");
        terminal.expect("2 turns ·");
        terminal.leave();
        terminal.expect("left-mark");
    }
}

#[test]
fn earlier_texts_of_another_conversation_are_found_while_both_are_open() {
    let server = counting();
    let person = drawn(&server);
    let Some(mut first) = Terminal::open(&person, "'opening'") else { return };
    first.expect("1 turn ·");
    let Some(mut second) = Terminal::open(&person, "'another'") else { return };
    second.expect("1 turn ·");
    second.keys("typed in the second\r");
    second.expect("Answer 3 to: typed in the second");
    first.keys("\u{1b}[A");
    first.expect("typed in the second");
    first.keys("\u{15}\u{12}in the sec");
    first.expect("typed in the second");
    first.expect("typed before · ↑↓ choose");
    first.keys("\u{3}\u{3}");
    first.leave();
    second.expect("1 turn ·");
    second.leave();
    assert_eq!((first.code(), second.code()), (Some(0), Some(0)));
}

#[test]
fn an_image_that_is_pasted_goes_to_a_model_that_sees_it_and_is_a_path_to_one_that_does_not() {
    let server = counting();
    let person = drawn(&server);
    let png: &[u8] = b"\x89PNG\r\n\x1a\nnot much of a picture";
    std::fs::write(person.project().join("shot.png"), png).unwrap();
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("look at \u{1b}[200~shot.png\u{1b}[201~");
    terminal.expect("[image 1: shot.png]");
    terminal.keys("\r");
    terminal.expect("Answer 3 to: look at [image 1: shot.png]");
    terminal.expect("1 turn ·");
    terminal.keys("\u{1b}[200~absent.png\u{1b}[201~");
    terminal.expect("cannot attach ");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
    assert!(server.bodies().last().unwrap().to_string().contains("\"media_type\":\"image/png\""));

    let blind = format!("base_url = \"{}\"\napi_key = \"k\"\nmodel = \"lab-1\"\n", server.openai_url());
    person.settings(&format!("[providers.lab]\n{blind}\n[models.\"lab/lab-1\"]\nvision = false\n"));
    let Some(mut terminal) = Terminal::open(&person, "--provider lab 'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("look at \u{1b}[200~shot.png\u{1b}[201~");
    terminal.expect("lab/lab-1 does not see images: the path stays text");
    terminal.keys("\r");
    terminal.expect("Answer 3 to: look at shot.png");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_slash_alone_is_not_sent_to_the_model() {
    let server = counting();
    let person = Person::asking(&server);
    for screen in ["inline", "plain"] {
        let before = server.bodies().len();
        let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen} 'first'")) else {
            return;
        };
        terminal.expect("1 turn ·");
        if screen == "plain" {
            terminal.expect("› ");
        }
        terminal.keys("/\r");
        if screen == "inline" {
            // The first command of the list, which opens another.
            terminal.expect("[models]");
            terminal.keys("\u{3}");
        } else {
            terminal.expect("a command begins with / and its name; /help lists them");
            terminal.expect("› ");
        }
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
        assert_eq!(server.bodies().len(), before + 1, "{screen}");
    }
}

#[test]
fn resume_without_an_id_lets_the_person_choose_the_session() {
    let server = counting();
    let person = drawn(&server);
    let Some(mut terminal) = Terminal::open(&person, "'the one to go on with'") else { return };
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let Some(mut terminal) = Terminal::open(&person, "--resume") else { return };
    terminal.expect("❯ the one to go on with");
    terminal.keys("\r");
    terminal.expect("continues");
    terminal.keys("more\r");
    terminal.expect("Answer 3 to: more");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let Some(mut terminal) = Terminal::open(&person, "--screen plain --resume") else { return };
    terminal.expect("/resume ID goes on with one");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let ended = person.run(&["-p", "x", "--resume"]);
    assert!(ended.code == 2 && ended.stderr.contains("--resume needs an ID"), "{}", ended.stderr);
}

#[test]
fn the_end_of_a_resumed_session_is_shown_once() {
    let server = counting();
    let person = drawn(&server);
    assert_eq!(person.run(&["-p", "the first prompt"]).code, 0);
    assert_eq!(person.run(&["-p", "the second one", "--continue"]).code, 0);
    let answer = "Answer 3 to: the second one";
    let Some(mut terminal) = Terminal::open(&person, "--continue") else { return };
    let before = terminal.until("continues");
    assert!(before.matches(answer).count() == 1 && !before.contains("the first prompt"), "{before:?}");
    terminal.leave();
    let rest = terminal.rest();
    assert!(!rest.contains("Answer 3"), "{rest:?}");
    // All of the terminal is drawn again and again; what it leaves behind is not.
    let Some(mut terminal) = Terminal::open(&person, "--screen full --continue") else { return };
    // The whole session stands there, its first prompt too.
    terminal.until("the first prompt");
    terminal.until(answer);
    terminal.leave();
    let rest = terminal.rest();
    let left = rest.split_once("\u{1b}[?1049l").map(|(_, left)| left.matches(answer).count());
    assert_eq!(left, Some(1), "{rest:?}");
}

/// Counts how often the threads of a process gave up the processor or lost it.
pub(crate) fn switches(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let count = |line: &str| line.rsplit('\t').next().and_then(|count| count.trim().parse::<u64>().ok());
        status.lines().filter(|line| line.contains("ctxt_switches")).filter_map(count).sum::<u64>()
    };
    tasks.filter_map(Result::ok).map(of).sum()
}

/// Time that a conversation has to be quiet: a few seconds, unless `ZK_IDLE_SECONDS` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn idle_seconds() -> u64 {
    std::env::var("ZK_IDLE_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3)
}

#[test]
fn a_conversation_that_waits_for_a_prompt_neither_wakes_up_nor_writes() {
    if !std::path::Path::new("/proc/self/task").exists() {
        println!("skipped: there is no /proc");
        return;
    }
    let seconds = idle_seconds();
    for (screen, has_job) in [("inline", false), ("full", false), ("plain", false), ("inline", true)] {
        let server = counting();
        let person = Person::asking(&server);
        let zk = program().display();
        let run = format!("sh -c 'echo pid=$$.; exec {zk} --screen {screen} go'");
        let Some(mut terminal) = Terminal::run(&person, &run) else { return };
        terminal.expect("pid=");
        let pid = terminal.until(".").parse().unwrap();
        terminal.expect("1 turn ·");
        if has_job {
            terminal.keys("/jobs start sleep 1000\r");
            terminal.expect("it ends with this conversation");
        }
        terminal.keys("a draft");
        terminal.expect("a draft");
        // Work behind a run ends at some time, and so do threads that nobody needs any more.
        let is_quiet = |time: Duration| {
            let before = (switches(pid), terminal.seen_len());
            std::thread::sleep(time);
            (switches(pid), terminal.seen_len()) == before
        };
        until("two seconds without a wake-up", || is_quiet(Duration::from_secs(2)));
        // A thread that wakes up again and again does so in each of these times; one that ends does it once.
        let is_idle = (0..3).any(|_| is_quiet(Duration::from_secs(seconds)));
        assert!(is_idle, "it wakes up again and again: {screen}, job {has_job}");
        leave(&mut terminal, screen);
        assert_eq!(terminal.code(), Some(0));
    }
}
