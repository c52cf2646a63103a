use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use zk_testkit::{Asked, Script, Turn};

use crate::zk::{Person, program, server, until};

/// Number of killed sessions, more in a campaign by a variable.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn sessions() -> u64 {
    std::env::var("ZK_KILLED_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Outcomes of the calls of all killed sessions.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    ended: usize,
    unknown: usize,
    unknown_that_took_effect: usize,
    not_run: usize,
    read_only: usize,
    without_a_session: usize,
}

/// Script of three turns with several commands each, which leave their marks in files.
fn batches(next: Arc<AtomicUsize>) -> Script {
    let respond = move |asked: &Asked| {
        let batches = asked.messages.iter().filter(|message| message.results().next().is_some()).count();
        if batches % 4 == 3 {
            return Turn::new().text("that is all");
        }
        let mut turn = Turn::new().text("a batch");
        for n in 0..4 {
            let id = next.fetch_add(1, Ordering::SeqCst);
            turn = if n == 1 {
                turn.call("read_file", json!({"path": "notes.txt", "offset": 1 + id % 3}))
            } else {
                let wait = id % 4;
                let command = format!("echo x >> marks/{id}; sleep 0.0{wait}; echo done-{id}");
                turn.call("shell", json!({"command": command}))
            };
        }
        turn
    };
    Script::answering(respond)
}

/// The number of the command in a call, if it has one.
fn id_of(call: &Value) -> Option<usize> {
    let command = call["input"]["command"].as_str()?;
    command.split("marks/").nth(1)?.split(';').next()?.parse().ok()
}

fn marks(project: &Path, id: usize) -> usize {
    fs::read_to_string(project.join(format!("marks/{id}"))).map_or(0, |text| text.lines().count())
}

fn blocks<'a>(body: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let messages = body["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    blocks.filter(move |block| block["type"] == kind)
}

/// The text of each result in a request, by the id of its call.
fn results(body: &Value) -> BTreeMap<String, String> {
    let text = |block: &Value| match &block["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    blocks(body, "tool_result")
        .map(|block| (block["tool_use_id"].as_str().unwrap().to_owned(), text(block)))
        .collect()
}

/// Starts the program, lets it work for a random while and kills it. Returns the calls whose end it announced,
/// and what it said on standard error.
fn killed(
    person: &Person,
    args: &[&str],
    random: &mut fastrand::Rng,
    asked: impl Fn() -> usize,
) -> (Vec<String>, String) {
    let before = asked();
    let args: Vec<&str> =
        args.iter().copied().chain(["--allow-all", "--output-format", "stream-json"]).collect();
    let mut child = person.spawn(program(), &args, Stdio::null());
    let (out, err) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
    if random.u32(..10) > 0 {
        until("a request", || asked() > before || child.try_wait().unwrap().is_some());
    }
    std::thread::sleep(Duration::from_millis(random.u64(..260)));
    let _ = child.kill();
    child.wait().unwrap();
    let announced = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        let after = event["type"] == "tool:after";
        after.then(|| event["call"]["call_id"].as_str().map(str::to_owned)).flatten()
    };
    (out.join().unwrap().lines().filter_map(announced).collect(), err.join().unwrap())
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Promise: nothing acknowledged is lost, no side effect is forgotten or repeated, and what is not known is said.
#[test]
fn a_session_killed_within_a_batch_knows_what_it_did() {
    let mut tally = Tally::default();
    for seed in 0..sessions() {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = server(batches(Arc::default()));
        let person = Person::asking(&server);
        person.write("notes.txt", "one\ntwo\nthree\nfour\n").write("marks/none", "");
        let asked = || server.bodies().len();
        let (mut announced, mut told) = killed(&person, &["-p", "go"], &mut random, asked);
        tally.kills += 1;
        let listed = person.run(&["sessions"]).stdout;
        let Some(id) = listed.split_whitespace().next().filter(|id| id.starts_with("s_")) else {
            // The process died before its prompt was stored, so before any request.
            assert!(server.bodies().is_empty(), "seed {seed}: the prompt is gone: {listed}");
            tally.without_a_session += 1;
            continue;
        };
        while random.u32(..3) == 0 {
            let (more, said) = killed(&person, &["-p", "on", "--resume", id], &mut random, asked);
            announced.extend(more);
            told.push_str(&said);
            tally.kills += 1;
        }
        let ended = person.run(&["-p", "on", "--resume", id, "--allow-all"]);
        assert_eq!(ended.code, 0, "seed {seed}: {}", ended.stderr);
        told.push_str(&ended.stderr);
        assert_eq!(server.violations(), [], "seed {seed}");

        let bodies = server.bodies();
        let last = bodies.last().unwrap();
        let results = results(last);
        let mut seen = Vec::new();
        let mut unknown_now = 0;
        for call in blocks(last, "tool_use") {
            let call_id = call["id"].as_str().unwrap();
            let result = &results[call_id];
            let is_unknown = result.starts_with("Outcome unknown");
            let is_not_run = result.starts_with("Interrupted: the program ended");
            let Some(id) = id_of(call) else {
                assert!(!is_unknown, "seed {seed}: reading has no outcome that could be unknown");
                tally.read_only += 1;
                continue;
            };
            seen.push(id);
            assert!(
                !announced.iter().any(|known| known == call_id) || !(is_unknown || is_not_run),
                "seed {seed}: the announced end of {call_id} is lost: {result}"
            );
            let marks = marks(&person.project(), id);
            if is_unknown {
                assert!(marks <= 1, "seed {seed}: {id} ran {marks} times");
                tally.unknown += 1;
                tally.unknown_that_took_effect += marks;
                unknown_now += 1;
            } else if is_not_run {
                assert_eq!(marks, 0, "seed {seed}: {id} took effect and counts as not run");
                tally.not_run += 1;
            } else {
                assert_eq!(marks, 1, "seed {seed}: {id} ran {marks} times: {result}");
                assert!(result.contains(&format!("done-{id}")), "seed {seed}: {result}");
                tally.ended += 1;
            }
        }
        // One that was killed between saying and storing it says it again.
        let said = told.matches(": outcome unknown:").count();
        assert!(said >= unknown_now, "seed {seed}: {unknown_now} unknown, {said} said: {told}");
        for mark in fs::read_dir(person.project().join("marks")).unwrap().flatten() {
            if let Ok(id) = mark.file_name().to_string_lossy().parse::<usize>() {
                assert!(seen.contains(&id), "seed {seed}: the effect of {id} is forgotten");
            }
        }
        let shown = person.run(&["sessions", "show", id]).stdout;
        assert_eq!(
            shown.matches("was cut off: its effects are unknown").count(),
            unknown_now,
            "seed {seed}: {shown}"
        );
    }
    println!("{tally:?}");
    assert!(tally.ended > 0, "{tally:?}");
}

/// Starts a run, and kills zk once a command of it made the file `begun`.
fn run_until_killed(person: &Person) {
    let mut child = person.spawn(program(), &["-p", "go", "--allow-all"], Stdio::null());
    until("the command", || person.project().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The case that the killed sessions above meet by chance: the command runs when zk is killed.
#[test]
fn a_command_that_runs_when_zk_is_killed_is_unknown_once_and_never_repeated() {
    let script = Script::answering(|asked: &Asked| {
        match asked.messages.iter().any(|message| message.results().next().is_some()) {
            true => Turn::new().text("that is all"),
            false => Turn::new()
                .call("shell", json!({"command": "echo x >> begun; sleep 600"}))
                .call("shell", json!({"command": "echo x >> never"})),
        }
    });
    let server = server(script);
    let person = Person::asking(&server);
    run_until_killed(&person);
    let ended = person.run(&["-p", "on", "--continue", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(server.violations(), []);
    let results = results(server.bodies().last().unwrap());
    let count = |begin: &str| results.values().filter(|result| result.starts_with(begin)).count();
    assert_eq!((count("Outcome unknown"), count("Interrupted: the program ended")), (1, 1), "{results:?}");
    assert_eq!(ended.stderr.matches(": outcome unknown:").count(), 1, "{}", ended.stderr);
    assert_eq!(fs::read_to_string(person.project().join("begun")).unwrap(), "x\n");
    assert!(!person.project().join("never").exists());
}

/// A sub-agent is at work when zk is killed: the model hears what it had said, and that it is cut off.
#[test]
fn what_a_sub_agent_said_before_zk_was_killed_is_told_with_the_unknown_outcome_of_its_call() {
    let script = Script::answering(|asked: &Asked| match (&*asked.last_user_text(), asked.results().len()) {
        ("go", 0) => Turn::new()
            .call("spawn", json!({"task": "look at it"}))
            .call("spawn", json!({"task": "look elsewhere"})),
        ("look at it", 0) => {
            Turn::new().text("The lock is missing.").call("shell", json!({"command": "true"}))
        }
        ("look at it", _) => Turn::new().call("shell", json!({"command": "echo x >> begun; sleep 600"})),
        ("look elsewhere", _) => Turn::new().call("shell", json!({"command": "sleep 600"})),
        (_, _) => Turn::new().text("that is all"),
    });
    let server = server(script);
    let person = Person::asking(&server);
    run_until_killed(&person);
    for prompt in ["on", "and on"] {
        let ended = person.run(&["-p", prompt, "--continue", "--allow-all"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let results = results(server.bodies().last().unwrap());
        let told: Vec<&String> = results.values().filter(|told| told.contains("Outcome unknown")).collect();
        assert_eq!(told.len(), 2, "{results:?}");
        let told: Vec<_> = told.iter().filter(|told| told.contains("cut off")).collect();
        assert_eq!(told.len(), 1, "{results:?}");
        assert!(told[0].ends_with("which is no result:\nThe lock is missing."), "{told:?}");
    }
    assert_eq!(server.violations(), []);
}

/// Whether a file below `dir` contains the text.
fn has_text(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => has_text(&path, text),
        path => fs::read(path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes())),
    })
}

/// Two sub-agents with one task say a part of their answers and are silent then: the model hears the part of each.
#[test]
fn an_answer_that_was_arriving_at_a_sub_agent_when_zk_was_killed_is_told() {
    let count = AtomicUsize::new(0);
    let script =
        Script::answering(move |asked: &Asked| match (&*asked.last_user_text(), asked.results().len()) {
            ("go", 0) => {
                Turn::new().call("spawn", json!({"task": "look"})).call("spawn", json!({"task": "look"}))
            }
            ("look", 0) => {
                let number = count.fetch_add(1, Ordering::SeqCst);
                Turn::new().text(format!("The lock number{number} is missing, and the rest")).hang()
            }
            (_, _) => Turn::new().text("that is all"),
        });
    let server = server(script);
    let person = Person::asking(&server);
    let mut child = person.spawn(program(), &["-p", "go", "--allow-all"], Stdio::null());
    let parts = ["lock number0 is missing, and the", "lock number1 is missing, and the"];
    until("both texts in the session", || parts.iter().all(|part| has_text(&person.home(), part)));
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = person.run(&["-p", "on", "--continue", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let results = results(server.bodies().last().unwrap());
    for part in parts {
        let end = format!("which is no result:\nThe {part}");
        assert_eq!(results.values().filter(|told| told.ends_with(&end)).count(), 1, "{results:?}");
    }
    assert_eq!(server.violations(), []);
}
