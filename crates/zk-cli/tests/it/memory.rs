//! The whole process stays small, whatever a model sends or asks for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use zk_core::model::{Block, Message, ModelRef, ToolCall, TurnUsage, Usage};
use zk_core::service::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CustomEntry, Durability, Entry, EntryKind, NewSession,
    RunStatus, SessionStore, WINDOW_OWNER,
};
use zk_session::SqliteStore;
use zk_testkit::{Script, Step, Turn};

use crate::zk::{LONG, Person, program, server};

/// Limit of the whole process's memory, in bytes.
const PROCESS: u64 = 128 << 20;

/// Share of the limit for the released program itself, in bytes. An unoptimised program is several times as large, so
/// pages of its file are not counted.
const PROGRAM: u64 = 16 << 20;

/// Bytes that each endless stream sends before the test gives up.
const ENDLESS: usize = 64 << 20;

/// Pieces of text that are together so long that nobody may keep them.
fn endless() -> Vec<String> {
    let piece = "words without end ".repeat(4096);
    std::iter::repeat_n(piece.clone(), ENDLESS / piece.len()).collect()
}

/// The most memory that a process had so far without the pages of its files, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?))
}

/// Runs the program on what a script says, and gives the most memory it had, and what it said.
fn run(person: &Person) -> (u64, String) {
    let (most, _, said) = run_with(person, &["-p", "go", "--allow-all"]);
    (most, said)
}

/// Runs the program, and gives the most memory it had, and the texts of both outputs.
fn run_with(person: &Person, args: &[&str]) -> (u64, String, String) {
    let mut child = person.spawn(program(), args, Stdio::null());
    let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        said
    });
    let hearing = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.read_to_string(&mut said);
        said
    });
    let (begun, mut most) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        most = most.max(peak(child.id()).unwrap_or_default());
        if begun.elapsed() > LONG * 6 {
            child.kill().unwrap();
            panic!("it does not end; {} MB", most >> 20);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (most, reading.join().unwrap(), hearing.join().unwrap())
}

/// Entries of a run with one call, whose result has `bytes` bytes.
fn run_of(number: usize, bytes: usize) -> Vec<EntryKind> {
    let (run, call) = (format!("r_{number}"), format!("call_{number}"));
    let message = |message: Message| EntryKind::Message { message: message.shared(), usage: None };
    let turn = |kind: EntryKind| match kind {
        EntryKind::Message { message, .. } => EntryKind::Message {
            message,
            usage: Some(Box::new(TurnUsage {
                turn_id: format!("t_{number}").as_str().into(),
                model: ModelRef::new("anthropic", "m"),
                usage: Usage { input: 1, output: 1, ..Usage::default() },
                cost: Some(0.5),
            })),
        },
        kind => kind,
    };
    let asked = ToolCall::new(&*call, "shell", json!({"command": format!("echo {number}")}));
    vec![
        EntryKind::RunStart { run_id: run.as_str().into() },
        message(Message::user_text(format!("prompt {number}"))),
        turn(message(Message::assistant(vec![Block::ToolCall(asked)]))),
        message(Message::user(vec![Block::result(&*call, "r".repeat(bytes), false)])),
        turn(message(Message::assistant(vec![Block::text(format!("answer {number}"))]))),
        EntryKind::RunEnd { run_id: run.as_str().into(), status: RunStatus::Completed },
    ]
}

#[tokio::test]
async fn a_long_session_is_shown_and_counted_an_entry_at_a_time() {
    const RUNS: usize = 80;
    const RESULT_BYTES: usize = 1 << 20;
    let person = Person::new();
    let store = SqliteStore::new(person.home().join("sessions"));
    let new = NewSession { id: Some("s_long".into()), cwd: person.project(), parent: None };
    let session = store.create(new).await.unwrap();
    for number in 0..RUNS {
        session.append(run_of(number, RESULT_BYTES), Durability::Process).await.unwrap();
    }
    session.close().await.unwrap();
    let (most, said, errors) = run_with(&person, &["sessions", "show", "s_long"]);
    assert!(said.contains("prompt 0\n") && said.contains(&format!("answer {}", RUNS - 1)), "{errors}");
    let order: Vec<_> = (0..RUNS).map(|number| said.find(&format!("answer {number}\n")).unwrap()).collect();
    assert!(order.is_sorted());
    assert!(most > 0 && most < 48 << 20, "show: {} MB", most >> 20);
    let (most, said, errors) = run_with(&person, &["cost", "--json"]);
    let sums: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said} {errors}"));
    assert_eq!((&sums[0]["answers"], &sums[0]["cost"]), (&json!(2 * RUNS), &json!(RUNS as f64)));
    assert!(most > 0 && most < 48 << 20, "cost: {} MB", most >> 20);
}

/// Returns the number of a session's entries, and a hash of their kinds in order.
async fn digest(store: &SqliteStore, id: &str) -> (usize, u64) {
    let found = Arc::<Mutex<(usize, DefaultHasher)>>::default();
    let seen = found.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        let (count, hash) = &mut *seen.lock().unwrap();
        *count += 1;
        serde_json::to_string(&entry.kind).unwrap().hash(hash);
        ControlFlow::Continue(())
    });
    store.scan(&id.into(), visit).await.unwrap();
    let found = found.lock().unwrap();
    (found.0, found.1.finish())
}

#[tokio::test]
async fn a_long_session_is_copied_and_goes_on_without_being_in_memory() {
    const RUNS: usize = 80;
    const RESULT_BYTES: usize = 1 << 20;
    let server = server(Script::answering(|_| Turn::new().text("Going on.")));
    let person = Person::asking(&server);
    let store = SqliteStore::new(person.home().join("sessions"));
    let new = NewSession { id: Some("s_long".into()), cwd: person.project(), parent: None };
    let session = store.create(new).await.unwrap();
    for number in 0..RUNS {
        session.append(run_of(number, RESULT_BYTES), Durability::Process).await.unwrap();
    }
    let kept = Message { id: Some("m_kept".into()), ..Message::user_text("the last prompt") };
    let summary = json!({"message": Message::user_text("a summary of all before")});
    let compaction = CustomEntry {
        source: WINDOW_OWNER.to_owned(),
        kind: COMPACTION_ENTRY.to_owned(),
        version: COMPACTION_VERSION,
        data: json!({"what": "plan", "number": 1, "strategy": "summary", "trigger": "manual",
                     "cut": {"first": "m_kept", "head": [summary]}})
        .into(),
        audience: Audience::Hidden,
    };
    let end = vec![
        EntryKind::Message { message: kept.shared(), usage: None },
        EntryKind::Message { message: Message::assistant(vec![Block::text("Yes.")]).shared(), usage: None },
        EntryKind::Custom(compaction),
    ];
    session.append(end, Durability::Process).await.unwrap();
    session.close().await.unwrap();
    let (most, said, errors) = run_with(&person, &["sessions", "copy", "s_long"]);
    let copy =
        said.split_whitespace().find(|word| word.starts_with("s_")).unwrap_or_else(|| panic!("{errors}"));
    assert_eq!(digest(&store, copy.trim_end_matches(';')).await, digest(&store, "s_long").await);
    println!("copy: {} MB", most >> 20);
    assert!(most > 0 && most < 48 << 20, "copy: {} MB", most >> 20);
    let (most, said, errors) = run_with(&person, &["context", "s_long"]);
    assert!(said.contains("about "), "{said} {errors}");
    println!("context: {} MB", most >> 20);
    assert!(most > 0 && most < 96 << 20, "context: {} MB", most >> 20);
    let (most, said, errors) = run_with(&person, &["-p", "go on", "--resume", "s_long"]);
    assert!(said.contains("Going on."), "{said} {errors}");
    let sent = server.bodies().pop().unwrap().to_string();
    assert!(sent.contains("a summary of all before") && sent.contains("the last prompt"), "{sent}");
    assert!(!sent.contains("prompt 79"), "it is left out");
    println!("-c: {} MB", most >> 20);
    assert!(most > 0 && most < 96 << 20, "resumed: {} MB", most >> 20);
}

/// Answer of a model.
type Says = fn() -> Turn;

#[test]
fn the_whole_process_stays_below_128_mb_whatever_a_model_sends_or_asks_for() {
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: there is no /proc");
        return;
    }
    let answer = || Turn::new().chunks(endless());
    let thinking = || Turn::new().step(Step::Thinking { chunks: endless(), signature: None });
    let arguments = || {
        let begin = "{\"path\": \"made\", \"content\": \"".to_owned();
        let args = std::iter::once(begin).chain(endless()).chain(["\"}".to_owned()]).collect();
        Turn::new().step(Step::Call { id: None, name: "write_file".to_owned(), args })
    };
    let search = || {
        let args = json!({"pattern": "needle", "path": "big", "mode": "content", "head_limit": 0});
        Turn::new().call("grep", args)
    };
    let reads = || {
        (0..20).fold(Turn::new(), |turn, _| turn.call("read_file", json!({"path": "long", "max_bytes": 0})))
    };
    let cases: [(&str, Says); 5] = [
        ("an answer", answer),
        ("reasoning", thinking),
        ("arguments", arguments),
        ("a search of a gigabyte", search),
        ("twenty reads", reads),
    ];
    for (what, first) in cases {
        let server = server(Script::answering(move |asked| match asked.number {
            1 => first(),
            _ => Turn::new().text("Done."),
        }));
        let person = Person::asking(&server);
        if what.starts_with("a search") {
            let mut big = std::fs::File::create(person.project().join("big")).unwrap();
            big.write_all("a line with a needle in it\n".repeat(400_000).as_bytes()).unwrap();
            big.seek(SeekFrom::Start(1 << 30)).unwrap();
            big.write_all(b"end\n").unwrap();
        }
        if what == "twenty reads" {
            person.write("long", &"a line of a file that is long\n".repeat(1 << 19));
        }
        let (most, said) = run(&person);
        println!("{what}: {} MB {}", most >> 20, said.lines().next().unwrap_or_default());
        assert!(most > 0 && most < PROCESS - PROGRAM, "{what}: {} MB: {said}", most >> 20);
    }
}
