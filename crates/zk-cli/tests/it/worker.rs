//! Runs that outlive their worker: `zk worker` and `zk fleet`, with real processes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on fails the test"
)]

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use zk_testkit::{Asked, FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Ended, Person, program, server, until};

/// Worker process; a test that fails leaves none behind.
pub(crate) struct Worker(pub(crate) Child);

impl Worker {
    pub(crate) fn start(person: &Person, args: &[&str]) -> Self {
        let args: Vec<&str> = ["worker"].iter().chain(args).copied().collect();
        Self(person.spawn(program(), &args, Stdio::null()))
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert_cmd::Command::new("kill").args([&format!("-{name}"), &pid]).assert().success();
    }

    pub(crate) fn ended(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs, as `zk fleet ls --json` lists them.
fn runs(person: &Person) -> Vec<Value> {
    let listed = person.run(&["fleet", "ls", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    serde_json::from_str(&listed.stdout).unwrap()
}

pub(crate) fn run(person: &Person) -> Value {
    runs(person).pop().unwrap()
}

pub(crate) fn phase(person: &Person) -> String {
    run(person)["phase"].as_str().unwrap().to_owned()
}

pub(crate) fn submit(person: &Person, args: &[&str]) -> String {
    let args: Vec<&str> = ["fleet", "submit"].iter().chain(args).copied().collect();
    let submitted = person.run(&args);
    assert_eq!(submitted.code, 0, "{}", submitted.stderr);
    submitted.stdout.split_whitespace().next().unwrap().to_owned()
}

fn lines(person: &Person, file: &str) -> usize {
    std::fs::read_to_string(person.project().join(file)).map_or(0, |text| text.lines().count())
}

/// Two turns: one with three commands, each of which leaves a mark, then an answer.
fn marking(asks: Arc<AtomicUsize>, second: &'static str) -> Script {
    Script::answering(move |asked: &Asked| {
        asks.fetch_add(1, Ordering::SeqCst);
        if asked.messages.iter().any(|message| message.results().next().is_some()) {
            return Turn::new().text("all three are marked");
        }
        let shell = |turn: Turn, command: &str| turn.call("shell", json!({ "command": command }));
        let turn = shell(Turn::new().text("marking"), "echo x >> one");
        shell(shell(turn, second), "echo x >> three")
    })
}

pub(crate) fn sent(server: &FakeServer) -> String {
    server
        .requests()
        .last()
        .map(|asked| String::from_utf8_lossy(&asked.body).into_owned())
        .unwrap_or_default()
}

/// A worker is killed in the middle of a turn; another one goes on, and repeats nothing.
#[test]
fn a_killed_worker_repeats_nothing() {
    let asks = Arc::new(AtomicUsize::new(0));
    let server = server(marking(asks.clone(), "echo x >> two; sleep 60"));
    let person = Person::asking(&server).with("ZK_PERMISSION_MODE", "all");
    submit(&person, &["Mark them."]);
    let mut first = Worker::start(&person, &["--name", "first", "--permission-mode", "all"]);
    until("the second command", || lines(&person, "two") == 1);
    let stored = run(&person)["token"].as_u64();
    first.0.kill().unwrap();
    let killed = Instant::now();
    let second = Worker::start(&person, &["--name", "second", "--permission-mode", "all"]);
    until("the end of the run", || phase(&person) == "done");
    println!("taken over {} ms behind the kill", killed.elapsed().as_millis());
    assert_eq!((lines(&person, "one"), lines(&person, "two"), lines(&person, "three")), (1, 1, 1));
    assert_eq!(asks.load(Ordering::SeqCst), 2, "a stored answer is not asked again");
    let told = sent(&server);
    assert!(told.contains("unknown"), "the model is told of the call whose outcome is unknown: {told}");
    let ended = run(&person);
    assert!(ended["token"].as_u64() > stored && ended["worker"] == "second", "{ended}");
    second.signal("TERM");
    assert_eq!(second.ended(), Some(143));
}

/// A run parks at a question, its worker ends, a person approves, and a worker that starts later finishes.
#[test]
fn a_parked_run_is_approved_later() {
    let asks = Arc::new(AtomicUsize::new(0));
    let server = server(Script::answering({
        let asks = asks.clone();
        move |asked: &Asked| {
            asks.fetch_add(1, Ordering::SeqCst);
            if asked.messages.iter().any(|message| message.results().next().is_some()) {
                return Turn::new().text("it is marked");
            }
            Turn::new().text("marking").call("shell", json!({"command": "echo x >> one"}))
        }
    }));
    let person = Person::asking(&server);
    let id = submit(&person, &["Mark it."]);
    let worker = |args: &[&str]| {
        let args: Vec<&str> = ["worker", "--once"].iter().chain(args).copied().collect();
        let ended = person.run(&args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended
    };
    let told = worker(&["--permission-mode", "ask"]).stderr;
    assert!(told.contains("`shell` waits for an answer: ") && !told.contains("--allow-all"), "{told}");
    let parked = run(&person);
    assert_eq!(parked["phase"], "parked", "{parked}");
    assert!(serde_json::to_string(&parked).unwrap().len() <= 4096);
    let times = ["submitted_ms", "changed_ms"].map(|time| parked[time].as_u64().unwrap());
    assert!(0 < times[0] && times[0] <= times[1], "{parked}");
    assert_eq!(lines(&person, "one"), 0, "nothing runs before the answer");
    // Without the answer there is nothing to do.
    worker(&["--permission-mode", "ask"]);
    assert_eq!(asks.load(Ordering::SeqCst), 1);

    let watched = person.run(&["fleet", "watch", &id]);
    assert_eq!(watched.code, 5, "{}", watched.stderr);
    assert!(watched.stdout.contains("echo x >> one"), "{}", watched.stdout);
    let shown = person.run(&["fleet", "approve", &id, "--show"]);
    let digest = shown.stdout.lines().find_map(|line| line.strip_prefix("digest ")).unwrap().to_owned();
    let refused = |ended: Ended, words: &str| {
        assert_ne!(ended.code, 0, "{}", ended.stdout);
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    };
    refused(person.run(&["fleet", "approve", &id]), "--show");
    refused(person.run(&["fleet", "approve", &id, "--digest", "0"]), "another call");
    let approved = person.run(&["fleet", "approve", &id, "--digest", &digest]);
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    refused(person.run(&["fleet", "approve", &id, "--digest", &digest]), "waits for no answer");

    worker(&["--permission-mode", "ask"]);
    assert_eq!(phase(&person), "done", "{}", run(&person));
    assert_eq!(lines(&person, "one"), 1);
    assert_eq!(asks.load(Ordering::SeqCst), 2, "a stored answer is not asked again");
    let watched = person.run(&["fleet", "watch", &id]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    assert!(watched.stdout.contains("it is marked"), "{}", watched.stdout);
    refused(person.run(&["fleet", "steer", &id, "go on"]), "is over");
    let aborted = person.run(&["fleet", "abort", &id]);
    assert!(aborted.stdout.contains("over already"), "{}", aborted.stdout);
}

/// A name that is used again has the legs of the worker that died, without a wait for their leases.
#[test]
fn a_worker_without_a_name_has_the_first_that_is_free() {
    let server = server(marking(Arc::default(), "echo x >> two; sleep 60"));
    let person = Person::asking(&server);
    submit(&person, &["Mark them."]);
    let mut first = Worker::start(&person, &["--permission-mode", "all"]);
    until("the second command", || lines(&person, "two") == 1);
    assert_eq!(run(&person)["worker"], "worker-1");
    let beside = person.run(&["worker", "--once"]);
    assert!(beside.stderr.contains("zk: worker-2 ends"), "{}", beside.stderr);
    assert_eq!(phase(&person), "running");
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let again = person.run(&["worker", "--once", "--permission-mode", "all"]);
    assert!(again.stderr.contains("zk: worker-1 ends"), "{}", again.stderr);
    assert_eq!(phase(&person), "done", "{}", run(&person));
}

/// SIGTERM hands the legs over; what a person says meanwhile is in the next request.
#[test]
fn a_stopped_worker_hands_its_runs_over() {
    let asks = Arc::new(AtomicUsize::new(0));
    let server = server(marking(asks, "echo x >> two; sleep 60"));
    let person = Person::asking(&server);
    let id = submit(&person, &["Mark them."]);
    let first = Worker::start(&person, &["--permission-mode", "all"]);
    until("the second command", || lines(&person, "two") == 1);
    first.signal("TERM");
    let stopping = Instant::now();
    assert_eq!(first.ended(), Some(143));
    println!("handed over within {} ms", stopping.elapsed().as_millis());
    assert_eq!(phase(&person), "queued", "{}", run(&person));
    let steered = person.run(&["fleet", "steer", &id, "And say plum."]);
    assert_eq!(steered.code, 0, "{}", steered.stderr);
    let ended = person.run(&["worker", "--once", "--permission-mode", "all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(phase(&person), "done", "{}", run(&person));
    // A message of a person comes before the calls that have not begun.
    assert_eq!((lines(&person, "one"), lines(&person, "two"), lines(&person, "three")), (1, 1, 0));
    assert!(sent(&server).contains("And say plum."), "{}", sent(&server));
}

/// Bad input has clear errors, and loses no run.
#[test]
fn what_a_worker_lacks_is_said() {
    let server = server(Script::new().turn(|turn| turn.text("never asked")));
    let person = Person::asking(&server);
    let fails = |args: &[&str], words: &str| {
        let ended = person.run(args);
        assert_ne!(ended.code, 0, "{args:?}: {}", ended.stdout);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    };
    fails(&["fleet", "watch", "r_none"], "zk fleet ls");
    fails(&["fleet", "submit", " "], "empty");
    fails(&["fleet", "submit", "x", "--queue", "/tmp"], "is no name");
    fails(&["fleet", "submit", "x", "--preset", "nowhere"], "no preset `nowhere`");
    fails(&["fleet", "schedule", "nightly", "x", "--every", "soon"], "15m");
    fails(&["fleet", "schedule", "nightly", "--remove"], "no schedule `nightly`");
    fails(&["fleet", "drain", "nobody"], "no worker `nobody`");
    fails(&["worker", "--workspace", "here"], "NAME=DIR");
    fails(&["handoff"], "--session");
    submit(&person, &["x", "--workspace", "elsewhere", "--run", "r_mine"]);
    submit(&person, &["x", "--workspace", "elsewhere", "--run", "r_mine"]);
    assert_eq!(runs(&person).len(), 1, "a run is submitted once under its id");
    let ended = person.run(&["worker", "--once"]);
    assert!(ended.stderr.contains("--workspace elsewhere=DIR"), "{}", ended.stderr);
    let listed = person.run(&["fleet", "ls"]);
    assert!(listed.stdout.contains("no workspace `elsewhere`"), "{}", listed.stdout);
    let worker = Worker::start(&person, &["--name", "one"]);
    let socket = person.home().join("state/engine/workers/one.sock");
    let socket = if socket.exists() { socket } else { person.home().join("engine/workers/one.sock") };
    until("the worker", || socket.exists());
    fails(&["worker", "--name", "one"], "a worker named `one` serves already");
    assert!(person.run(&["fleet", "drain"]).stdout.contains("one ends"));
    assert_eq!(worker.ended(), Some(0));
}

/// Schedules, hand-offs and aborts.
#[test]
fn runs_are_scheduled_handed_off_and_aborted() {
    let server = server(Script::answering(|_: &Asked| Turn::new().text("done it")));
    let person = Person::asking(&server);
    let said = person.run(&["-p", "Begin."]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let nothing = person.run(&["handoff"]);
    assert!(nothing.stderr.contains("nothing left to do"), "{}", nothing.stderr);
    let handed = person.run(&["handoff", "Go on."]);
    assert_eq!(handed.code, 0, "{}", handed.stderr);
    let planned = person.run(&["fleet", "schedule", "often", "Look again.", "--every", "1s"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    until("a run of the schedule", || {
        let ended = person.run(&["worker", "--once"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        runs(&person).len() >= 2
    });
    let removed = person.run(&["fleet", "schedule", "often", "--remove"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let finished = runs(&person);
    assert!(finished.len() >= 2 && finished.iter().all(|run| run["phase"] == "done"), "{finished:?}");
    let id = submit(&person, &["Never."]);
    let aborted = person.run(&["fleet", "abort", &id]);
    assert!(aborted.stdout.contains("is cancelled"), "{}", aborted.stdout);
    assert_eq!(phase(&person), "cancelled");
}

/// A run delegates to a run of its own, and what a person sees of both.
#[test]
fn a_run_starts_a_run_of_its_own_and_is_told_its_result() {
    let server = server(Script::answering(|asked: &Asked| {
        let text = format!("{:?}", asked.messages);
        match (text.contains("Do all."), text.contains("as a run of its own"), text.contains("left is done"))
        {
            (true, false, _) => Turn::new().call("spawn", json!({"task": "Do left.", "background": true})),
            (true, true, false) => Turn::new().text("I wait."),
            (true, true, true) => Turn::new().text("all is done"),
            (false, ..) => Turn::new().text("left is done"),
        }
    }));
    let person = Person::asking(&server);
    let id = submit(&person, &["Do all."]);
    let top = person.run(&["fleet", "top"]);
    assert!(top.stdout.contains("1 queued") && top.stdout.contains(&id), "{}{}", top.stdout, top.stderr);
    let waiting = person.run(&["doctor", "--fleet"]);
    assert!(waiting.stdout.contains("local engine on SQLite"), "{}{}", waiting.stdout, waiting.stderr);
    assert!(waiting.stdout.contains("start `zk worker`"), "{}", waiting.stdout);
    let served = person.run(&["worker", "--once"]);
    assert_eq!(served.code, 0, "{}", served.stderr);
    let all = runs(&person);
    assert_eq!(all.len(), 2, "{all:?}\n{}", served.stderr);
    assert!(all.iter().all(|run| run["phase"] == "done"), "{all:?}\n{}", served.stderr);
    assert_eq!(all[1]["job"]["parent"]["run"], id.as_str(), "{all:?}");
    let watched = person.run(&["fleet", "watch", &id]);
    assert!(watched.stdout.contains("all is done"), "{}", watched.stdout);
    let healthy = person.run(&["doctor", "--fleet"]);
    assert_eq!(healthy.code, 0, "{}", healthy.stdout);
    assert!(healthy.stdout.contains("nothing waits"), "{}", healthy.stdout);
}

/// A budget that is used up parks a run; a failed one is tried again; a run is continued where it worked.
#[test]
fn a_run_waits_for_a_budget_and_is_tried_again() {
    let server = server(Script::answering(|_: &Asked| Turn::new().text("done it")));
    let person = Person::asking(&server);
    let fails = |args: &[&str], words: &str| {
        let ended = person.run(args);
        assert_ne!(ended.code, 0, "{args:?}: {}", ended.stdout);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    };
    let id = submit(&person, &["Do it.", "--budget-tokens", "10"]);
    assert_eq!(person.run(&["worker", "--once"]).code, 0);
    assert_eq!(phase(&person), "parked", "{}", run(&person));
    let listed = person.run(&["fleet", "ls"]);
    assert!(listed.stdout.contains(&format!("zk fleet raise {id}")), "{}", listed.stdout);
    fails(&["fleet", "raise", &id], "--budget-usd");
    fails(&["fleet", "retry", &id], "only a run that failed");
    let raised = person.run(&["fleet", "raise", &id, "--budget-tokens", "1000000"]);
    assert_eq!(raised.code, 0, "{}", raised.stderr);
    assert_eq!(person.run(&["worker", "--once"]).code, 0);
    assert_eq!(phase(&person), "done", "{}", run(&person));

    let elsewhere = person.home().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    fails(&["--cwd", elsewhere.to_str().unwrap(), "attach", &id], "go there");
    let aborted = submit(&person, &["Never."]);
    assert_eq!(person.run(&["fleet", "abort", &aborted]).code, 0);
    let again = person.run(&["fleet", "retry", &aborted]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(person.run(&["worker", "--once"]).code, 0);
    assert_eq!(phase(&person), "done", "{}", run(&person));
    fails(&["fleet", "schedule", "odd", "x", "--cron", "61 * * * *"], "no cron line");
    let planned = person.run(&["fleet", "schedule", "early", "x", "--cron", "30 3 * * 1-5 Europe/Berlin"]);
    assert!(planned.stdout.contains("30 3 * * 1-5 Europe/Berlin"), "{}{}", planned.stdout, planned.stderr);
}

/// A person at a terminal sees the answer on its way, and ends the run.
#[test]
fn a_run_is_watched_while_it_answers() {
    let server = server(Script::answering(|_: &Asked| Turn::new().text("It is plum, I think").hang()));
    let person = Person::asking(&server).with("TERM", "xterm");
    let id = submit(&person, &["Do it."]);
    let _worker = Worker::start(&person, &[]);
    let watching = format!("exec {} fleet watch {id}", program().display());
    let Some(terminal) = Terminal::run(&person, &watching) else { return };
    terminal.expect("(answer: … It is plum, I)");
    let aborted = person.run(&["fleet", "abort", &id]);
    assert_eq!(aborted.code, 0, "{}", aborted.stderr);
    terminal.expect(&format!("({id} is cancelled"));
}
