//! Conversations on a real terminal, which `script` provides.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::zk::{LONG, Person, program, server};

pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Drop for Terminal {
    /// A test that fails leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Runs the program on a terminal; `None` without `script`.
    pub(crate) fn open(person: &Person, args: &str) -> Option<Self> {
        Self::run(person, &format!("exec {} {args}", program().display()))
    }

    /// Runs a shell command on a terminal; `None` without `script`.
    pub(crate) fn run(person: &Person, command: &str) -> Option<Self> {
        let script = Path::new("/usr/bin/script");
        if !script.exists() {
            println!("skipped: there is no {}", script.display());
            return None;
        }
        let command = format!("stty rows 40 cols 120; {command}");
        let mut child = person.spawn(script, &["-qfec", &command, "/dev/null"], Stdio::piped());
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut output, shared) = (child.stdout.take().unwrap(), seen.clone());
        let reading = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A character may come in two reads.
            let mut pending = Vec::new();
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                pending.extend_from_slice(&buffer[..read]);
                let whole = match std::str::from_utf8(&pending) {
                    Err(error) if error.error_len().is_none() => error.valid_up_to(),
                    Ok(_) | Err(_) => pending.len(),
                };
                let rest = pending.split_off(whole);
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&pending));
                pending = rest;
            }
        });
        let keys = child.stdin.take().unwrap();
        Some(Self { child, keys, seen, reading: Some(reading) })
    }

    pub(crate) fn see(&self, text: &str) {
        let begun = Instant::now();
        while !self.seen.lock().unwrap().contains(text) {
            assert!(begun.elapsed() < LONG, "`{text}` does not come: {:?}", self.seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether `text` was written and not expected yet.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.seen.lock().unwrap().contains(text)
    }

    /// Waits for `text` and forgets everything up to it.
    pub(crate) fn expect(&self, text: &str) {
        self.see(text);
        let mut seen = self.seen.lock().unwrap();
        let (_, rest) = seen.split_once(text).unwrap();
        *seen = rest.to_owned();
    }

    /// Waits until one of the texts came.
    pub(crate) fn see_any(&self, texts: &[&str]) {
        let begun = Instant::now();
        while !texts.iter().any(|text| self.seen.lock().unwrap().contains(text)) {
            assert!(begun.elapsed() < LONG, "none of {texts:?} comes: {:?}", self.seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits as [`Terminal::expect`] does; returns the output before `text`.
    pub(crate) fn until(&self, text: &str) -> String {
        self.see(text);
        let mut seen = self.seen.lock().unwrap();
        let (before, rest) = seen.split_once(text).unwrap();
        let before = before.to_owned();
        *seen = rest.to_owned();
        before
    }

    /// Returns and forgets the output that was not expected yet.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Bytes that were written and not expected yet.
    pub(crate) fn seen_len(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Waits for a question and presses a key once it hears answers.
    pub(crate) fn answer(&mut self, key: &str) {
        self.expect("y  Yes");
        std::thread::sleep(Duration::from_millis(1000));
        self.keys(key);
    }

    /// Presses a key that answers the question on the screen until `text` comes, and gives what came before that. A key that
    /// comes before the question hears answers is typed as a draft, which is emptied.
    pub(crate) fn answer_until(&mut self, key: &str, text: &str) -> String {
        let begun = Instant::now();
        loop {
            for (keys, limit) in [("\u{15}", Duration::from_secs(1)), (key, Duration::from_secs(10))] {
                self.keys(keys);
                let pressed = Instant::now();
                while pressed.elapsed() < limit {
                    if self.seen.lock().unwrap().contains(text) {
                        return self.until(text);
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            assert!(begun.elapsed() < LONG, "`{text}` does not come: {:?}", self.seen.lock().unwrap());
        }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Ends the conversation by Ctrl-D. Where a run was still ending, Ctrl-C empties the draft and Ctrl-D is pressed again.
    pub(crate) fn leave(&mut self) {
        let begun = Instant::now();
        let mut keys = "\u{4}";
        while self.child.try_wait().unwrap().is_none() {
            // A program that ends meanwhile reads no more.
            let _ = self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush());
            keys = "\u{3}\u{4}";
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_secs(2) && self.child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(begun.elapsed() < LONG, "it does not end: {:?}", self.seen.lock().unwrap());
        }
    }

    /// Presses keys until `text` comes: those that come before the end of a command do nothing.
    pub(crate) fn press_until(&mut self, keys: &str, text: &str) {
        let begun = Instant::now();
        loop {
            self.keys(keys);
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_secs(5) {
                if self.seen.lock().unwrap().contains(text) {
                    return self.expect(text);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(begun.elapsed() < LONG, "`{text}` does not come: {:?}", self.seen.lock().unwrap());
        }
    }

    /// Begins a new conversation at the prompt, and gives the id of the one before.
    pub(crate) fn begin_new(&mut self) -> String {
        self.keys("/new\r");
        self.expect("to go on with the one before: /resume ");
        let before = self.until("\r\n");
        self.expect("a new conversation begins");
        self.expect("› ");
        before
    }

    /// Waits for the end of the program, and gives what was not expected of its output.
    pub(crate) fn rest(mut self) -> String {
        self.ended();
        self.reading.take().unwrap().join().unwrap();
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    pub(crate) fn code(mut self) -> Option<i32> {
        self.ended().code()
    }

    /// Waits for the end of the program, for at most [`LONG`].
    fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LONG, "it does not end: {:?}", self.seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server that counts the messages it is sent, and repeats the last one of the person.
pub(crate) fn counting() -> FakeServer {
    server(Script::answering(|asked| {
        Turn::new().text(format!("Answer {} to: {}", asked.messages.len(), asked.last_user_text()))
    }))
}

#[test]
fn a_conversation_answers_lists_its_commands_and_quits() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first question'") else { return };
    terminal.expect("Answer 1 to: first question");
    terminal.expect("› ");
    terminal.keys("second question\r");
    terminal.expect("Answer 3 to: second question");
    terminal.expect("› ");
    terminal.keys("/help\r");
    terminal.expect("/effort");
    terminal.expect("› ");
    terminal.keys("/modle\r");
    terminal.expect("did you mean `model` or `models`?");
    terminal.expect("› ");
    terminal.keys("/model anthropic/claude-opus-5\r");
    terminal.expect("anthropic/claude-opus-5, window");
    terminal.expect("› ");
    terminal.keys("/model claude-opus-55\r");
    terminal.expect("zk does not know this model; did you mean `claude-opus-5-5`");
    terminal.expect("› ");
    terminal.keys("!echo from-my-shell\r");
    terminal.expect("from-my-shell\r\n");
    terminal.expect("› ");
    terminal.keys("third\r");
    terminal.expect("third");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.expect("zk --resume s_");
    assert_eq!(terminal.code(), Some(0));
    assert!(
        server.bodies().last().unwrap().to_string().contains("from-my-shell"),
        "the model sees the output"
    );
    assert_eq!(server.violations(), []);
    assert!(std::fs::read_to_string(person.home().join("history")).unwrap().contains("second question"));
}

#[test]
fn a_conversation_goes_on_with_another_provider() {
    let answering = |who: &'static str| {
        Script::answering(move |asked| Turn::new().text(format!("{who} {}", asked.messages.len())))
    };
    let (first, second) = (server(answering("first")), server(answering("second")));
    let person = Person::asking(&first);
    person.settings(&format!(
        "[providers.backup]\nbase_url = \"{}\"\napi_key = \"k\"\nmodel = \"lab-1\"\n",
        second.openai_url()
    ));
    let Some(mut terminal) = Terminal::open(&person, "--provider anthropic 'one'") else { return };
    terminal.expect("first 1");
    terminal.expect("› ");
    terminal.keys("/provider bakcup\r");
    terminal.expect("did you mean `backup`?");
    terminal.expect("› ");
    terminal.keys("/thinking high\r");
    terminal.expect("high");
    terminal.expect("› ");
    terminal.keys("/provider backup\r");
    terminal.expect("backup/lab-1");
    terminal.expect("thinking stays high; reasoning so far is not sent to backup");
    terminal.expect("› ");
    terminal.keys("two\r");
    terminal.expect("second 3");
    terminal.expect("› ");
    terminal.keys("/provider anthropic claude-opus-5\r");
    terminal.expect("anthropic/claude-opus-5");
    terminal.expect("› ");
    terminal.keys("three\r");
    terminal.expect("first 5");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!((first.violations(), second.violations()), (Vec::new(), Vec::new()));
}

#[test]
fn thinking_is_off_at_a_model_without_it_and_without_it_the_output_limit_is_as_before() {
    let server = counting();
    let person = Person::asking(&server);
    person.settings("[models.\"anthropic/claude-haiku-4-5\"]\nthinking = \"none\"\n");
    let Some(mut terminal) = Terminal::open(&person, "--model claude-sonnet-4-5 'one'") else { return };
    terminal.expect("Answer 1 to: one");
    terminal.expect("› ");
    for (typed, said) in [
        ("/thinking high", "high"),
        ("two", "Answer 3 to: two"),
        ("/thinking off", "off"),
        ("three", "Answer 5 to: three"),
        ("/thinking high", "high"),
        ("/model claude-haiku-4-5", "thinking is off now (it was high)"),
        ("four", "Answer 7 to: four"),
    ] {
        terminal.keys(&format!("{typed}\r"));
        terminal.expect(said);
        terminal.expect("› ");
    }
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let bodies = server.bodies();
    let thinks: Vec<bool> = bodies.iter().map(|body| body["thinking"]["type"] == "enabled").collect();
    assert_eq!(thinks, [false, true, false, false]);
    assert_eq!(bodies[0]["max_tokens"], bodies[2]["max_tokens"]);
    assert_eq!(server.violations(), []);
}

#[test]
fn the_models_of_every_provider_of_the_conversation_are_listed() {
    let server = FakeServer::builder(Script::new()).models(["claude-a", "claude-b"]).start().unwrap();
    let person = Person::asking(&server);
    let other = format!("base_url = \"{}\"\napi_key = \"k\"\nmodel = \"lab-1\"\n", server.openai_url());
    person.settings(&format!("[providers.lab]\n{other}"));
    let Some(mut terminal) = Terminal::open(&person, "--provider anthropic --model claude-a") else { return };
    terminal.expect("› ");
    terminal.keys("/models\r");
    terminal.expect("● anthropic/claude-a");
    terminal.expect("  anthropic/claude-b");
    terminal.expect("› ");
    terminal.keys("/provider lab\r");
    terminal.expect("lab/lab-1");
    terminal.expect("› ");
    terminal.keys("/models B\r");
    terminal.expect("  anthropic/claude-b");
    terminal.expect("  lab/claude-a");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_call_that_changes_something_is_asked_about() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch first"})))
        .turn(|t| t.call("shell", json!({"command": "touch second"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'do it'") else { return };
    terminal.answer("n");
    terminal.expect("was refused: you said no");
    terminal.answer("y");
    terminal.expect("  allowed once");
    terminal.expect("Finished.");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!person.project().join("first").exists());
    assert!(person.project().join("second").exists());
}

#[test]
fn ctrl_c_stops_the_run_and_twice_at_the_prompt_ends_the_conversation() {
    let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("On and");
    terminal.keys("\u{3}");
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("\u{3}");
    terminal.expect("Ctrl-C again");
    terminal.expect("› ");
    terminal.keys("\u{3}");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_question_that_is_interrupted_leaves_the_terminal_as_it_was() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t| t.text("Second answer."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'do it'") else { return };
    terminal.expect("Esc stops the run");
    terminal.keys("\u{3}");
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("go on\r");
    terminal.expect("Second answer.");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!person.project().join("made").exists());
    assert_eq!(server.violations(), []);
}

#[test]
fn what_a_model_says_does_not_control_the_terminal() {
    let script =
        Script::new().turn(|t| t.chunks(["Nice\u{1b}]0;ow", "ned\u{7} and \u{1b}[2Jclean", "\u{202e}."]));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("Nice and clean.");
    terminal.expect("› ");
    terminal.leave();
    let seen = terminal.seen.clone();
    assert_eq!(terminal.code(), Some(0));
    let seen = seen.lock().unwrap();
    assert!(!seen.contains("\u{1b}]0;") && !seen.contains("\u{1b}[2J"), "{seen:?}");
}

#[test]
fn a_key_is_typed_without_being_shown() {
    let person = Person::new();
    let Some(mut terminal) = Terminal::open(&person, "auth login anthropic") else { return };
    terminal.see("it is not shown");
    terminal.keys("canary-tyop\u{7f}\u{7f}ped\r");
    terminal.see("anthropic: a key, in ");
    let seen = terminal.seen.clone();
    assert_eq!(terminal.code(), Some(0));
    assert!(!seen.lock().unwrap().contains("canary"), "{:?}", seen.lock().unwrap());
    let stored = std::fs::read_to_string(person.home().join("auth/credentials.json")).unwrap();
    assert!(stored.contains("\"canary-typed\""), "{stored}");
}

#[test]
fn giving_up_a_key_leaves_a_working_terminal() {
    let person = Person::new();
    let Some(mut terminal) = Terminal::open(&person, "auth login anthropic; stty -a") else { return };
    terminal.see("it is not shown");
    terminal.keys("canary\u{3}");
    terminal.see("nothing was stored");
    assert!(!person.home().join("auth").exists());
}

#[test]
fn lines_that_come_at_once_without_being_a_paste_are_all_read() {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}", asked.messages.len()))));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("Ctrl-D ends");
    terminal.expect("› ");
    terminal.keys("first line\rsecond line\rthird line\r");
    terminal.expect("Answer-1");
    terminal.expect("Answer-3");
    terminal.expect("Answer-5");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let last = server.bodies().last().unwrap().to_string();
    assert!(["first line", "second line", "third line"].iter().all(|line| last.contains(line)), "{last}");
}

#[test]
fn a_character_that_is_split_between_reads_of_ones_own_command_is_whole() {
    let person = Person::asking(&server(Script::new()));
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("!printf 'a\\303'; sleep 0.3; printf '\\251z\\n'\r");
    terminal.expect("aéz");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_command_shows_its_last_lines_and_a_failed_one_its_exit_code() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "seq 1 100000"})))
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t| t.call("shell", json!({"command": "echo running; echo broken-$((40+2)); exit 3"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--allow-all 'do it'") else { return };
    terminal.expect("✓ 100000 lines");
    terminal.expect("… 99995 more lines above · /show");
    terminal.expect("    99999");
    terminal.expect("    100000");
    terminal.expect("✓ no output");
    terminal.expect("✗ exit 3 · 2 lines");
    terminal.expect("    broken-42");
    terminal.expect("Finished.");
    terminal.expect("› ");
    terminal.keys("/show 2\r");
    terminal.expect("\n99998\r\n99999\r\n100000\r\n");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_running_command_is_counted_in_a_line_that_begins_with_how_to_stop() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "sleep 2.5"})))
        .turn(|t| t.delay(Duration::from_millis(1500)).text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--allow-all 'do it'") else { return };
    terminal.expect("Esc stops · waiting for anthropic/");
    for line in ["Esc stops · 0 s", "Esc stops · 1 s", "Esc stops · 2 s"] {
        terminal.expect(line);
        terminal.expect("· $ sleep 2.5");
    }
    terminal.expect("Esc stops · waiting for");
    terminal.expect(", 1 s");
    terminal.expect("Finished.");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}
