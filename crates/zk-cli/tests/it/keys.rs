//! Keys that are pressed while something else goes on.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::{FakeServer, Fault, RetryAfter, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

const ESCAPE: &str = "\u{1b}";

/// Starts a server that pauses after the first word of its answer.
fn slow() -> FakeServer {
    server(Script::answering(|asked| {
        let answer = format!("Answer-{}", asked.messages.len());
        match asked.messages.len() {
            1 => Turn::new().text("Begun …\n").delay(Duration::from_millis(1500)).text(answer),
            _ => Turn::new().text(answer),
        }
    }))
}

/// Starts a server that accepts every request and never answers.
fn mute() -> (Person, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (Person::new().with("ANTHROPIC_BASE_URL", &url).with("ANTHROPIC_API_KEY", "test-key"), listener)
}

fn stops_and_goes_on(mut terminal: Terminal) {
    terminal.keys(ESCAPE);
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("/help\r");
    terminal.expect("Esc stops the run");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn escape_stops_a_request_that_nobody_answers() {
    let (person, listener) = mute();
    let Some(terminal) = Terminal::open(&person, "'go'") else { return };
    let (mut request, _) = listener.accept().unwrap();
    assert!(request.read(&mut [0; 16]).unwrap() > 0);
    stops_and_goes_on(terminal);
    // The read was dropped, not asked to stop.
    request.set_read_timeout(Some(crate::zk::LONG)).unwrap();
    let mut rest = Vec::new();
    assert!(request.read_to_end(&mut rest).is_ok());
}

#[test]
fn escape_that_comes_too_late_takes_nothing_of_what_is_typed_next() {
    let (person, listener) = mute();
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let _request = listener.accept().unwrap();
    terminal.keys(ESCAPE);
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys(ESCAPE);
    // Longer than the bytes of one key are apart.
    std::thread::sleep(Duration::from_millis(400));
    terminal.keys("/help\r");
    terminal.expect("Esc stops the run");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn tab_during_a_run_keeps_a_text_for_the_next_prompt_in_plain_lines_too() {
    let server = slow();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Begun");
    terminal.keys("the next one\t");
    terminal.expect("Answer-1");
    terminal.expect("› the next one");
    terminal.expect("Answer-3");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn escape_stops_a_tool() {
    let server = server(Script::new().turn(|t| t.call("shell", json!({"command": "sleep 600"}))));
    let person = Person::asking(&server);
    let Some(terminal) = Terminal::open(&person, "--allow-all 'go'") else { return };
    terminal.expect("sleep 600");
    stops_and_goes_on(terminal);
}

#[test]
fn escape_stops_a_command_of_ones_own_and_the_wait_for_another_attempt() {
    let server = busy();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("trying again in 50 s");
    terminal.keys(ESCAPE);
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("!echo begun; sleep 600\r");
    terminal.expect("begun\r\n");
    terminal.keys(ESCAPE);
    terminal.expect("exit code 130");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn escape_at_a_question_stops_the_run_and_the_call_is_not_made() {
    let server = server(Script::new().turn(|t| t.call("shell", json!({"command": "touch made"}))));
    let person = Person::asking(&server);
    let Some(terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Esc stops the run");
    stops_and_goes_on(terminal);
    assert!(!person.project().join("made").exists());
}

#[test]
fn a_call_whose_question_is_stopped_says_that_the_person_stopped() {
    for (screen, says) in [("inline", "not run: you stopped"), ("plain", "was not run: you stopped")] {
        let server = server(Script::new().turn(|t| t.call("shell", json!({"command": "touch made"}))));
        let person = Person::asking(&server);
        let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen} 'go'")) else { return };
        terminal.expect("Esc stops the run");
        terminal.keys(ESCAPE);
        terminal.expect(says);
        assert!(!terminal.has("nobody answered"));
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn arrows_and_other_sequences_stop_nothing_and_answer_nothing() {
    let script = Script::new()
        .turn(|t| {
            t.text("Begun …\n")
                .delay(Duration::from_millis(800))
                .call("shell", json!({"command": "touch made"}))
        })
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Begun …");
    terminal.keys("\u{1b}[A\u{1b}[1;5C\u{1b}OP\u{1b}[200~\u{1b}[201~");
    terminal.answer("\u{1b}[B");
    std::thread::sleep(Duration::from_millis(300));
    terminal.keys("y");
    terminal.expect("Finished.");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(person.project().join("made").exists());
}

#[test]
fn what_is_typed_during_a_run_is_shown_and_is_the_beginning_of_the_next_prompt() {
    let server = slow();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("Begun …");
    terminal.keys("half a qeu\u{7f}\u{7f}uestoin\u{17}");
    terminal.keys("sentence");
    terminal.expect("› half a sentence");
    terminal.expect("Answer-1");
    terminal.expect("\u{1b}[?2004h");
    terminal.expect("› half a sentence");
    terminal.keys(", whole\r");
    terminal.expect("Answer-3");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(server.bodies()[1].to_string().contains("half a sentence, whole"));
}

#[test]
fn texts_that_are_entered_during_a_run_are_the_next_prompts_and_a_pasted_one_stays_whole() {
    let server = slow();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("Begun …");
    terminal.keys("second\r");
    terminal.expect("second ⏎");
    terminal.keys("one\rtwo\r");
    terminal.expect("one two ⏎");
    terminal.keys("rest");
    terminal.expect("Answer-1");
    terminal.expect("› second\r\n");
    terminal.expect("Answer-3");
    terminal.expect("Answer-5");
    terminal.expect("\u{1b}[?2004h");
    terminal.expect("› rest");
    terminal.keys("\u{15}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(server.bodies().last().unwrap().to_string().contains("one\\ntwo"));
    let history = std::fs::read_to_string(person.home().join("history")).unwrap();
    assert!(history.contains("second"), "{history}");
}

// Queued messages survive, and wait for a second look.
#[test]
fn what_was_queued_comes_back_to_the_prompt_of_a_run_that_was_stopped() {
    for stop in [ESCAPE, "\u{3}"] {
        let server = server(Script::answering(|asked| match asked.messages.len() {
            1 => Turn::new().text("On and on …\n").hang(),
            _ => Turn::new().text("Answer."),
        }));
        let person = Person::asking(&server);
        let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
        terminal.expect("On and on …");
        terminal.keys("queued\r");
        terminal.expect("queued ⏎");
        terminal.keys("begun");
        terminal.expect("begun");
        terminal.keys(stop);
        terminal.expect("stopped");
        terminal.expect("› queued");
        terminal.expect("begun");
        assert_eq!(server.bodies().len(), 1);
        terminal.keys("\r");
        terminal.expect("Answer.");
        terminal.expect("› ");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
        assert!(server.bodies()[1].to_string().contains("queued\\nbegun"));
    }
}

/// Starts a server whose first response asks to wait for 50 seconds.
fn busy() -> FakeServer {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}", asked.messages.len()))));
    server.fault_on(1, Fault::RateLimited(RetryAfter::Seconds(50)));
    server
}

#[test]
fn enter_ends_the_wait_for_another_attempt() {
    let server = busy();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Esc stops · trying again in 50 s · Enter tries now");
    terminal.keys("\r");
    terminal.expect("trying now");
    terminal.expect("Answer-1");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.bodies().len(), 2);
}

#[test]
fn enter_after_a_text_queues_it_and_the_wait_goes_on() {
    let server = busy();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("trying again in 50 s");
    terminal.keys("then this\r");
    terminal.expect("› then this ⏎");
    terminal.expect("trying again in 49 s");
    terminal.keys("\r");
    terminal.expect("Answer-1");
    terminal.expect("› then this\r\n");
    terminal.expect("Answer-3");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it_and_is_not_lost() {
    let script = Script::answering(|asked| match asked.messages.len() {
        1 => Turn::new()
            .text("Begun …\n")
            .delay(Duration::from_millis(800))
            .call("shell", json!({"command": "touch made"})),
        _ => Turn::new().text("Answer."),
    });
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Begun …");
    terminal.keys("yay");
    terminal.expect("yay");
    terminal.expect("y  Yes");
    // Keys are for the draft until the person turns to the question.
    terminal.keys("\u{1b}q");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("n");
    terminal.expect("Answer.");
    terminal.expect("\u{1b}[?2004h");
    terminal.expect("› yay");
    terminal.keys("\u{15}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!person.project().join("made").exists());
}

/// Words of `stty -a` for a terminal that nobody changed.
const USUAL: [&str; 2] = [" icanon", " echo "];

#[test]
fn a_run_that_is_suspended_gives_the_terminal_back_and_goes_on_with_its_keys() {
    let server = slow();
    let person = Person::asking(&server);
    let command = format!("bash -c \"set -m; {} 'first'; stty -a; fg\"", crate::zk::program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    terminal.expect("Begun …");
    terminal.keys("kept\u{1a}");
    USUAL.iter().for_each(|word| terminal.see(word));
    terminal.expect("Answer-1");
    terminal.expect("\u{1b}[?2004h");
    terminal.expect("› kept");
    terminal.keys("\u{15}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn what_ends_the_program_from_outside_leaves_the_terminal_as_it_was() {
    for by_key in [true, false] {
        let (person, listener) = mute();
        let zk = crate::zk::program().display();
        let run = format!("sh -c 'echo pid=\\$\\$.; exec {zk} go'");
        // A process that a shell started in the background ignores SIGQUIT, and so would the program.
        let command = format!("env --default-signal=QUIT bash -c \"set -m; {run}; stty -a\"");
        let Some(mut terminal) = Terminal::run(&person, &command) else { return };
        let (mut request, _) = listener.accept().unwrap();
        assert!(request.read(&mut [0; 16]).unwrap() > 0);
        if by_key {
            terminal.keys("\u{1c}");
        } else {
            terminal.expect("pid=");
            let pid: i32 = terminal.until(".").parse().unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        }
        USUAL.iter().for_each(|word| terminal.see(word));
    }
}
