//! Opening a log of a million entries, and appends with full sync against bare syncs of the same bytes:
//! `cargo bench -p zk-harness-session --bench large_log`. `ZK_TREE_ENTRIES` sets the number of entries.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use zk_core::model::{Block, Message, ToolCall};
use zk_core::service::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CustomEntry, Durability, EntryKind, NewSession,
    OpenSession, SessionStore, WINDOW_OWNER,
};
use zk_session::SqliteStore;

const ENTRIES: usize = 1_000_000;
/// Bytes of text of one entry; a row has about 1,050.
const TEXT_BYTES: usize = 900;
/// Entries after the last compaction.
const TAIL_ENTRIES: usize = 400;
const OPENINGS: usize = 15;
const APPENDS: usize = 300;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--open") {
        return open_once(Path::new(&args[at + 1]), &args[at + 2]);
    }
    let entries = std::env::var("ZK_TREE_ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(ENTRIES);
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime();
    measure_openings(&runtime, dir.path(), entries);
    measure_appends(&runtime, dir.path());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn said(id: &str, text: &str) -> EntryKind {
    let message = Message { id: Some(id.into()), ..Message::user_text(text) };
    EntryKind::Message { message: message.shared(), usage: None }
}

fn compaction(first: &str) -> EntryKind {
    let cut = json!({"first": first, "head": [{"message": Message::user_text("all before")}]});
    EntryKind::Custom(CustomEntry {
        source: WINDOW_OWNER.to_owned(),
        kind: COMPACTION_ENTRY.to_owned(),
        version: COMPACTION_VERSION,
        data: json!({"what": "plan", "number": 1, "strategy": "a", "trigger": "hard", "cut": cut}).into(),
        audience: Audience::Hidden,
    })
}

fn fill(runtime: &Runtime, session: &dyn OpenSession, from: usize, count: usize) {
    let (mut at, end) = (from, from + count);
    while at < end {
        let next = end.min(at + 1_000);
        let kinds = (at..next).map(|n| said(&format!("m{n}"), &"x".repeat(TEXT_BYTES))).collect();
        runtime.block_on(session.append(kinds, Durability::Process)).unwrap();
        at = next;
    }
}

/// A first half, a branch that is left again, and a compaction at the end of the other one.
fn measure_openings(runtime: &Runtime, dir: &Path, entries: usize) {
    let root = dir.join("sessions");
    let store = SqliteStore::new(root.clone());
    let new = NewSession { id: None, cwd: "/".into(), parent: None };
    let session = runtime.block_on(store.create(new)).unwrap();
    fill(runtime, &*session, 0, entries / 2);
    let fork = runtime.block_on(session.append(vec![said("fork", "go")], Durability::Disk));
    let to = fork.unwrap().pop();
    fill(runtime, &*session, entries / 2, entries / 4);
    let back = vec![EntryKind::Leaf { to, left: None }, said("back", "another way")];
    runtime.block_on(session.append(back, Durability::Disk)).unwrap();
    fill(runtime, &*session, entries * 3 / 4, entries / 4);
    let cut = vec![said("cut", "goes on"), compaction("cut")];
    runtime.block_on(session.append(cut, Durability::Disk)).unwrap();
    fill(runtime, &*session, entries, TAIL_ENTRIES);
    runtime.block_on(session.close()).unwrap();
    let id = session.id().clone();
    drop(session);
    let file = find_database(&root);
    let bytes = fs::metadata(&file).unwrap().len();
    println!("log: {entries} entries, {} MB", bytes / 1_000_000);
    for is_cold in [false, true] {
        let mut walls = Vec::new();
        let mut peaks = Vec::new();
        let mut ran = Vec::new();
        for _ in 0..OPENINGS {
            if is_cold {
                let file = File::open(&file).unwrap();
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let out = Command::new(std::env::current_exe().unwrap())
                .args(["--open".as_ref(), root.as_os_str(), id.as_str().as_ref()])
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let text = String::from_utf8(out.stdout).unwrap();
            let mut words = text.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            walls.push(words.next().unwrap());
            peaks.push(words.next().unwrap());
            ran.push(words.next().unwrap());
        }
        walls.sort_unstable();
        println!(
            "opened {}: {:.1} ms at best, {:.1} ms in the middle, {:.1} ms of processor time; {} KiB more at the peak",
            if is_cold { "from the disk" } else { "from the cache" },
            walls[0] as f64 / 1e3,
            walls[OPENINGS / 2] as f64 / 1e3,
            *ran.iter().min().unwrap() as f64 / 1e3,
            peaks.iter().max().unwrap()
        );
    }
}

fn find_database(root: &Path) -> PathBuf {
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut files =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|end| end == "db")).unwrap()
}

/// Nanoseconds that the threads of this process have run.
fn processor_ns() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("schedstat"));
    tasks.filter_map(|path| fs::read_to_string(path).ok()?.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// Opens a session as a conversation does, and prints microseconds, KiB of memory and microseconds of processor time.
fn open_once(root: &Path, id: &str) {
    let runtime = runtime();
    let (before, ran) = (peak_kib(), processor_ns());
    let began = Instant::now();
    let store = SqliteStore::new(root.to_path_buf());
    let session = runtime.block_on(store.open(&id.into())).unwrap();
    let live = runtime.block_on(session.live()).unwrap();
    let took = began.elapsed();
    assert!(live.tail().len() > TAIL_ENTRIES && live.earlier > 0);
    let ran = (processor_ns() - ran) / 1_000;
    println!("{} {} {ran}", took.as_micros(), peak_kib() - before);
}

/// Peak memory of this process in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Appends a small call with full sync, in turn with a bare write and `fdatasync` of as many bytes as the append wrote.
fn measure_appends(runtime: &Runtime, dir: &Path) {
    let root = dir.join("appends");
    let store = SqliteStore::new(root.clone());
    let new = NewSession { id: None, cwd: "/".into(), parent: None };
    let session = runtime.block_on(store.create(new)).unwrap();
    let call = ToolCall::new("c", "shell", json!({"command": "true"}));
    let pair = || {
        let answer = Message::assistant(vec![Block::ToolCall(call.clone())]);
        let results = Message::user(vec![Block::result("c", "x".repeat(200), false)]);
        [answer, results]
            .map(|message| EntryKind::Message { message: message.shared(), usage: None })
            .to_vec()
    };
    runtime.block_on(session.append(pair(), Durability::Disk)).unwrap();
    let log = find_database(&root).with_extension("db-wal");
    let mut bare = OpenOptions::new().create(true).append(true).open(dir.join("bare")).unwrap();
    let (mut appends, mut syncs, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..APPENDS {
        let before = fs::metadata(&log).unwrap().len();
        let began = Instant::now();
        runtime.block_on(session.append(pair(), Durability::Disk)).unwrap();
        appends.push(began.elapsed());
        let written = fs::metadata(&log).unwrap().len().saturating_sub(before);
        // A log that begins anew does not grow.
        let written = if written == 0 { bytes } else { written };
        bytes = written;
        let began = Instant::now();
        bare.write_all(&vec![1; usize::try_from(written).unwrap()]).unwrap();
        bare.sync_data().unwrap();
        syncs.push(began.elapsed());
    }
    let middle = |all: &mut Vec<Duration>| {
        all.sort_unstable();
        all[all.len() / 2].as_secs_f64() * 1e6
    };
    let (append, sync) = (middle(&mut appends), middle(&mut syncs));
    println!(
        "append to the disk: {append:.0} µs, bare fdatasync of {bytes} bytes: {sync:.0} µs, {:.2} times",
        append / sync
    );
}
