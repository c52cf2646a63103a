//! Output for a person about a request that waits to be sent again.

use std::time::Duration;

use zk_testkit::{FakeServer, Fault, RetryAfter, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Sequence that erases a temporary line.
const ERASED: &str = "\r\u{1b}[K";
const HINT: &str = " stops";

/// Starts a server whose first response asks to wait for `seconds`.
fn busy(seconds: u64) -> FakeServer {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer {}.", asked.messages.len()))));
    server.fault_on(1, Fault::RateLimited(RetryAfter::Seconds(seconds)));
    server
}

fn sees_it_run_down(terminal: &Terminal) {
    for left in ["trying again in 2 s", "trying again in 1 s"] {
        terminal.expect(HINT);
        terminal.expect(left);
        terminal.expect("attempt 1 of 10: rate limited: ");
        terminal.expect(ERASED);
    }
    terminal.expect("Answer 1.");
}

#[test]
fn a_wait_runs_down_on_the_terminal_of_a_conversation_and_goes_away() {
    let server = busy(2);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    sees_it_run_down(&terminal);
    terminal.expect("› ");
    terminal.keys("/quit\r");
    assert!(!terminal.rest().contains(HINT));
}

#[test]
fn a_wait_runs_down_beside_the_answer_of_one_run() {
    let server = busy(2);
    let person = Person::asking(&server);
    let Some(terminal) = Terminal::open(&person, "-p go") else { return };
    sees_it_run_down(&terminal);
    assert_eq!(terminal.rest(), "\r\n");
}

#[test]
fn ctrl_c_during_a_wait_stops_the_run_and_the_conversation_goes_on() {
    let server = busy(50);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("trying again in 50 s");
    terminal.keys("\u{3}");
    terminal.expect(ERASED);
    terminal.expect("stopped");
    terminal.expect("› ");
    // The endpoint still wants no request: the next one says so and can be stopped as well.
    terminal.keys("again\r");
    terminal.expect("trying in ");
    terminal.expect("another request met the rate limit");
    terminal.keys("\u{3}");
    terminal.expect(ERASED);
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    assert!(!terminal.rest().contains(HINT));
}

#[test]
fn ctrl_c_during_the_wait_of_one_run_ends_it_with_130() {
    let server = busy(50);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "-p go") else { return };
    terminal.expect("trying again in 50 s");
    terminal.keys("\u{3}");
    terminal.expect(ERASED);
    terminal.expect("zk: the run was stopped");
    assert_eq!(terminal.code(), Some(130));
}

#[test]
fn a_wait_within_one_run_is_gone_before_its_answer() {
    let script = Script::new()
        .turn(|t| t.text("Let me look.").call("list_files", serde_json::json!({"path": "."})))
        .turn(|t| t.text("Nothing here."));
    let server = server(script);
    server.fault_on(2, Fault::Overloaded(RetryAfter::Seconds(1)));
    let person = Person::asking(&server);
    let Some(terminal) = Terminal::open(&person, "-p go") else { return };
    terminal.expect("trying again in 1 s");
    terminal.expect("attempt 1 of 10: overloaded: ");
    terminal.expect(ERASED);
    assert_eq!(terminal.rest(), "Nothing here.\r\n");
}

#[test]
fn a_terminal_that_cannot_take_lines_back_and_a_pipe_get_one_line() {
    let line = "zk: attempt 1 of 10: rate limited: ";
    let server = busy(1);
    let ended = Person::asking(&server).run(&["-p", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Answer 1.\n"));
    assert_eq!(
        (ended.stderr.lines().count(), ended.stderr.matches(line).count()),
        (1, 1),
        "{}",
        ended.stderr
    );
    let server = busy(1);
    let person = Person::asking(&server).with("TERM", "dumb");
    let Some(terminal) = Terminal::open(&person, "-p go") else { return };
    terminal.expect(line);
    terminal.expect("; trying again in 1 s");
    assert_eq!(terminal.rest(), "\r\nAnswer 1.\r\n");
}

#[test]
fn programs_get_the_event_and_no_line() {
    let server = busy(1);
    let person = Person::asking(&server);
    let Some(terminal) = Terminal::open(&person, "-p go --output-format stream-json >events.jsonl") else {
        return;
    };
    assert_eq!(terminal.rest(), "");
    let events = std::fs::read_to_string(person.project().join("events.jsonl")).unwrap();
    let retry = events.lines().find(|line| line.contains("\"provider:retry\"")).unwrap();
    let retry: serde_json::Value = serde_json::from_str(retry).unwrap();
    assert_eq!(retry["retry"]["attempt"], 1, "{retry}");
}

/// Time for which a model says nothing.
const SILENT: Duration = Duration::from_millis(4500);

/// Checks what a person sees of a silence, in this order, and nothing of it in the end.
fn sees_the_silence(modes: &[&str], answer: fn(Turn) -> Turn, seen: &[&str]) {
    for args in modes.iter().copied() {
        let server = server(Script::new().turn(answer));
        let person = Person::asking(&server);
        let Some(mut terminal) = Terminal::open(&person, args) else { return };
        seen.iter().for_each(|text| terminal.expect(text));
        if args == "'go'" {
            terminal.expect("› ");
            terminal.keys("/quit\r");
        }
        assert!(!terminal.rest().contains("waiting for"), "{args}");
    }
}

#[test]
fn silence_is_counted_on_a_terminal_and_the_count_goes_away() {
    let seen = ["stops · waiting for anthropic/", ", 3 s (limit ", ", 4 s (limit ", ERASED, "Answer."];
    sees_the_silence(&["'go'", "-p go"], |t| t.delay(SILENT).text("Answer."), &seen);
}

// Both clocks, also when the answer has begun.
#[test]
fn silence_within_an_answer_is_counted_below_it_and_the_answer_goes_on_where_it_was() {
    let seen = ["One ", ", 3 s (limit 20 min)", ", 4 s (limit ", ERASED, "two."];
    sees_the_silence(&["'go'"], |t| t.text("One ").delay(SILENT).text("two."), &seen);
}

#[test]
fn signs_of_life_are_told_from_none() {
    let server = server(Script::new().turn(|t| t.text("Answer.")));
    server.fault_on(1, Fault::PingOnly(Duration::from_millis(100)));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "-p go") else { return };
    terminal.expect("Ctrl-C stops · waiting for anthropic/");
    terminal.expect(", 4 s, only keep-alives (limit 60 min)");
    terminal.keys("\u{3}");
    assert_eq!(terminal.code(), Some(130));
}
