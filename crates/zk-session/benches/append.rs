//! Cost of storing: a new session with its first entries, and one more turn in an open session.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]

use std::sync::Arc;

use divan::Bencher;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use zk_core::model::{Block, Message, ToolCall};
use zk_core::service::{Durability, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore};
use zk_session::SqliteStore;

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn fresh(runtime: &Runtime, store: &SqliteStore) -> Arc<dyn OpenSession> {
    runtime.block_on(store.create(NewSession { id: None, cwd: "/".into(), parent: None })).unwrap()
}

fn prompt() -> Vec<EntryKind> {
    let message = Message::user_text("fix the failing test").shared();
    vec![EntryKind::RunStart { run_id: "r".into() }, EntryKind::Message { message, usage: None }]
}

fn pair(bytes: usize) -> Vec<EntryKind> {
    let call = ToolCall::new("c", "shell", json!({"command": "true"}));
    let all = [
        Message::assistant(vec![Block::ToolCall(call)]),
        Message::user(vec![Block::result("c", "x".repeat(bytes), false)]),
    ];
    all.into_iter().map(|message| EntryKind::Message { message: message.shared(), usage: None }).collect()
}

#[divan::bench]
fn create_alone(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = SqliteStore::new(dir.path().into());
    bencher.bench_local(|| fresh(&runtime, &store));
}

#[divan::bench]
fn create_and_first_append(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = SqliteStore::new(dir.path().into());
    bencher.bench_local(|| {
        let session = fresh(&runtime, &store);
        runtime.block_on(session.append(prompt(), Durability::Process)).unwrap();
        session
    });
}

#[divan::bench(args = [200, 2_000, 20_000])]
fn append_a_turn(bencher: Bencher<'_, '_>, bytes: usize) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let session = fresh(&runtime, &SqliteStore::new(dir.path().into()));
    bencher.with_inputs(|| pair(bytes)).bench_local_values(|pair| {
        runtime.block_on(session.append(pair, Durability::Process)).unwrap();
    });
}

/// Cost of a call with effects, whose begin is synced to disk. Compare with a
/// bare `fdatasync` of the same disk.
#[divan::bench]
fn append_to_the_disk(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let session = fresh(&runtime, &SqliteStore::new(dir.path().into()));
    runtime.block_on(session.append(prompt(), Durability::Disk)).unwrap();
    bencher.with_inputs(|| pair(200)).bench_local_values(|pair| {
        runtime.block_on(session.append(pair, Durability::Disk)).unwrap();
    });
}

/// Durable cost of a turn with three calls, of which one only reads: what the recorder appends for it.
#[divan::bench]
fn turn_with_three_calls(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let session = fresh(&runtime, &SqliteStore::new(dir.path().into()));
    runtime.block_on(session.append(prompt(), Durability::Disk)).unwrap();
    let begin = || EntryKind::CallBegin {
        turn_id: "t".into(),
        call_id: "c".into(),
        name: "shell".into(),
        args: json!({"command": "cargo test"}),
        summary: None,
    };
    let end = || EntryKind::CallEnd {
        turn_id: "t".into(),
        call_id: "c".into(),
        summary: None,
        result: Box::new(zk_core::model::ToolResult {
            call_id: "c".into(),
            content: "x".repeat(2_000).into(),
            is_error: false,
        }),
        display: None,
        details: None,
        elapsed_ms: 5,
    };
    bencher.bench_local(|| {
        runtime.block_on(async {
            // The provisional answer has the size of the one in the pair.
            session.append(pair(200), Durability::Process).await.unwrap();
            for _ in 0..2 {
                session.append(vec![begin()], Durability::Disk).await.unwrap();
                session.append(vec![end()], Durability::Process).await.unwrap();
            }
            session.append(pair(6_000), Durability::Disk).await.unwrap();
        });
    });
}

#[divan::bench]
fn bare_fdatasync(bencher: Bencher<'_, '_>) {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(dir.path().join("file")).unwrap();
    bencher.bench_local(|| {
        file.write_all(&[1; 4096]).unwrap();
        file.sync_data().unwrap();
    });
}

#[divan::bench]
fn first_append_end_and_close(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = SqliteStore::new(dir.path().into());
    bencher.bench_local(|| {
        let session = fresh(&runtime, &store);
        runtime.block_on(session.append(prompt(), Durability::Process)).unwrap();
        runtime.block_on(session.close()).unwrap();
    });
}

#[divan::bench(args = [100, 5_000])]
fn open_and_read(bencher: Bencher<'_, '_>, turns: usize) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = SqliteStore::new(dir.path().into());
    let session = fresh(&runtime, &store);
    for _ in 0..turns {
        runtime.block_on(session.append(pair(500), Durability::Process)).unwrap();
    }
    let id = session.id().clone();
    drop(session);
    bencher.bench_local(|| {
        let session = runtime.block_on(store.open(&id)).unwrap();
        runtime.block_on(session.entries()).unwrap().len()
    });
}

#[divan::bench]
fn latest_of_200(bencher: Bencher<'_, '_>) {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = SqliteStore::new(dir.path().into());
    for _ in 0..200 {
        let session = fresh(&runtime, &store);
        runtime.block_on(session.append(prompt(), Durability::Process)).unwrap();
    }
    let filter = SessionFilter { cwd: Some("/".into()), limit: Some(1), unanswered: true };
    bencher.bench_local(|| runtime.block_on(store.list(&filter)).unwrap().len());
}
