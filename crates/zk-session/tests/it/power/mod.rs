//! Sessions on disks that fail at any call, and on machines that stop at any call. The calls are those of a real process,
//! which `strace` records, or makes fail.

mod disk;
mod trace;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Durability, Entry, NewSession, OpenSession, SessionStore, StoreError, present_branch,
};
use zk_session::SqliteStore;

use self::disk::{Disk, Survival};
use self::trace::{CALLS, Call};
use crate::tree_kill::{all, next_append};

/// Variable that gives a started test program its role: the root of the store.
const PART: &str = "ZK_SESSION_POWER_PART";
/// Number of operations of the script.
const OPERATIONS: usize = 200;
/// Operations after which the session is closed and opened again.
const REOPEN_INTERVAL: usize = 40;
/// Crashes and faults that are tried without `ZK_DISK_FAULTS`, which gives the number of calls between two.
const CALLS_BETWEEN: usize = 149;
/// Longest data of one call, in bytes.
const MAX_CALL_BYTES: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "a longer proof is asked for from outside")]
fn calls_between() -> usize {
    std::env::var("ZK_DISK_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CALLS_BETWEEN)
}

fn id() -> SessionId {
    "s_power".into()
}

/// The script: it goes on after every failure, and says after each operation how many entries are stored.
#[test]
fn part_script() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(root) = std::env::var(PART) else { return };
    let root = PathBuf::from(root);
    let mut random = fastrand::Rng::with_seed(5);
    // The test harness has printed the name of the test on the current line.
    say("");
    Runtime::new().unwrap().block_on(async {
        let store = SqliteStore::new(root.clone());
        let mut session: Option<Arc<dyn OpenSession>> = None;
        let mut log: Vec<EntryId> = Vec::new();
        for n in 0..OPERATIONS {
            if n % REOPEN_INTERVAL == REOPEN_INTERVAL - 1
                && let Some(open) = session.take()
            {
                let _ = open.close().await;
            }
            if session.is_none() {
                let new = NewSession { id: Some(id()), cwd: root.clone(), parent: None };
                session = match store.open(&id()).await {
                    Err(StoreError::NotFound { .. }) => store.create(new).await.ok(),
                    opened => opened.ok(),
                };
                if let Some(open) = &session
                    && let Some(found) = try_all(&**open).await
                {
                    log = found;
                }
            }
            let Some(open) = session.as_ref() else { continue };
            let durability = if random.u8(..3) > 0 { Durability::Disk } else { Durability::Process };
            let kinds = next_append(&mut random, &log);
            match open.append(kinds, durability).await {
                Ok(ids) => {
                    log.extend(ids);
                    say(&format!("stored {} {} {durability:?}", log.len(), log[log.len() - 1]));
                }
                Err(error) => {
                    say(&format!("failed {error}"));
                    let _ = open.close().await;
                    session = None;
                }
            }
        }
        if let Some(open) = session {
            let _ = open.close().await;
        }
    });
}

async fn try_all(session: &dyn OpenSession) -> Option<Vec<EntryId>> {
    let found = Arc::<Mutex<Vec<EntryId>>>::default();
    let seen = found.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        seen.lock().unwrap().push(entry.id);
        ControlFlow::Continue(())
    });
    session.scan_tree(visit).await.ok()?;
    Some(std::mem::take(&mut *found.lock().unwrap()))
}

/// Says one line in one call.
fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Runs the script below `strace`; its lines, or `None` without `strace`.
fn run(root: &Path, options: &[&str]) -> Option<Vec<String>> {
    #[expect(clippy::disallowed_methods, reason = "the process on a bad disk is this test program")]
    let mut command = Command::new("strace");
    let done = command
        .args(["-f", "--seccomp-bpf", "-qq"])
        .args(options)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "power::part_script", "--nocapture", "--test-threads=1"])
        .env(PART, root)
        .stdin(Stdio::null())
        .output();
    let done = match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: strace is not installed");
            return None;
        }
        done => done.unwrap(),
    };
    assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    let is_own = |line: &&str| line.starts_with("stored ") || line.starts_with("failed ");
    Some(lines.lines().filter(is_own).map(str::to_owned).collect())
}

/// Number of entries after each acknowledged append, the last entry, and whether it was to be on the disk.
fn acknowledged(line: &str) -> Option<(usize, EntryId, bool)> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["stored", count, id, durability] => Some((count.parse().unwrap(), id.into(), durability == "Disk")),
        _ => None,
    }
}

/// Checks that the first `promised` entries are there, in their order, and that the session goes on. Returns the number of
/// entries.
async fn check(root: &Path, log: &[EntryId], promised: usize, name: &str) -> usize {
    let store = SqliteStore::new(root.to_owned());
    let session = match store.open(&id()).await {
        Ok(session) => session,
        Err(StoreError::NotFound { .. } | StoreError::Damaged { .. }) if promised == 0 => return 0,
        Err(error) => panic!("{name}: {promised} entries are lost: {error}"),
    };
    let found = all(&*session).await;
    let ids: Vec<EntryId> = found.iter().map(|entry| entry.id.clone()).collect();
    assert!(ids.len() >= promised, "{name}: {} of {promised} entries are there", ids.len());
    assert_eq!(ids, log[..ids.len()], "{name}");
    assert_eq!(session.entries().await.unwrap(), present_branch(found), "{name}");
    let more = next_append(&mut fastrand::Rng::with_seed(1), &ids);
    session.append(more, Durability::Disk).await.unwrap();
    session.close().await.unwrap();
    let verified = store.verify(&id()).await.unwrap();
    assert!(verified.is_whole(), "{name}: {verified:?}");
    ids.len()
}

/// A machine that stops at any call of the script loses nothing that was synced, and keeps whole appends in their order.
#[tokio::test]
async fn a_power_cut_at_any_call_loses_nothing_that_was_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (root, output) = (dir.path().canonicalize().unwrap().join("s"), dir.path().join("trace"));
    let bytes = MAX_CALL_BYTES.to_string();
    let trace = format!("trace={CALLS}");
    let options = ["-y", "-xx", "-s", &bytes, "-e", &trace, "-o", &*output.to_string_lossy()];
    let Some(lines) = run(&root, &options) else { return };
    let failed: Vec<&String> = lines.iter().filter(|line| line.starts_with("failed ")).collect();
    assert_eq!((failed, lines.len()), (Vec::new(), OPERATIONS));
    let calls = trace::parse(&std::fs::read_to_string(&output).unwrap());
    let store = SqliteStore::new(root.clone());
    let session = store.open(&id()).await.unwrap();
    let log: Vec<EntryId> = all(&*session).await.into_iter().map(|entry| entry.id).collect();
    drop(session);
    let mut ends: Vec<usize> = lines.iter().filter_map(|line| Some(acknowledged(line)?.0)).collect();
    ends.insert(0, 0);
    let (mut disk, mut promised, mut cuts, mut lost) = (Disk::new(&root), 0, 0, 0);
    let mut written = 0;
    for (n, call) in calls.iter().enumerate() {
        disk.apply(call);
        if let Call::Says(text) = call
            && let Some((count, _, is_on_disk)) = acknowledged(text.trim())
        {
            written = count;
            if is_on_disk {
                promised = count;
            }
        }
        if n % calls_between() > 0 {
            continue;
        }
        let random = (0..4).map(|seed| Survival::Random((n as u64) << 8 | seed));
        for survival in [Survival::Nothing, Survival::Everything].into_iter().chain(random) {
            let place = tempfile::tempdir_in(dir.path()).unwrap();
            disk.restart(survival, place.path());
            let found = check(place.path(), &log, promised, &format!("call {n}, {survival:?}")).await;
            assert!(ends.contains(&found), "call {n}, {survival:?}: an append is not whole");
            cuts += 1;
            lost += usize::from(found < written);
        }
    }
    println!("{} calls, {cuts} power cuts, of which {lost} lost what was not synced", calls.len());
    assert!(promised > OPERATIONS / 2);
}

/// A call that fails, or all calls from one on, lose nothing that was acknowledged.
#[tokio::test]
async fn a_fault_at_any_call_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = 0;
    let mut failures = 0;
    for (call, error, after) in [
        ("pwrite64", "ENOSPC", ""),
        ("pwrite64", "ENOSPC", "+"),
        ("pwrite64", "EIO", ""),
        ("fdatasync", "EIO", ""),
        ("fdatasync", "EIO", "+"),
        ("ftruncate", "EIO", ""),
        ("pread64", "EIO", ""),
        ("fsync", "EIO", ""),
        ("unlink", "EIO", ""),
        ("mkdir", "ENOSPC", ""),
    ] {
        // The first calls read the program itself.
        let begin = if call == "pread64" { 8 } else { 1 };
        for at in (begin..).step_by(calls_between()) {
            let root = dir.path().join(format!("s{runs}"));
            let inject = format!("inject={call}:error={error}:when={at}{after}");
            let trace = format!("trace={call}");
            let output = dir.path().join("trace");
            let Some(lines) = run(&root, &["-e", &trace, "-e", &inject, "-o", &*output.to_string_lossy()])
            else {
                return;
            };
            runs += 1;
            let was_hit = std::fs::read_to_string(&output).unwrap().contains("(INJECTED)");
            failures += lines.iter().filter(|line| line.starts_with("failed ")).count();
            check_acknowledged(&root, &lines, &inject).await;
            let _ = std::fs::remove_dir_all(&root);
            if !was_hit {
                break;
            }
        }
    }
    println!("{runs} runs, {failures} appends failed");
    assert!(failures > 0);
}

/// Checks that every acknowledged entry is there, at its place.
async fn check_acknowledged(root: &Path, lines: &[String], name: &str) {
    let store = SqliteStore::new(root.to_owned());
    let acknowledged: Vec<_> = lines.iter().filter_map(|line| acknowledged(line)).collect();
    let session = match store.open(&id()).await {
        Ok(session) => session,
        Err(StoreError::NotFound { .. } | StoreError::Damaged { .. }) if acknowledged.is_empty() => return,
        Err(error) => panic!("{name}: {} appends are lost: {error}", acknowledged.len()),
    };
    let ids: Vec<EntryId> = all(&*session).await.into_iter().map(|entry| entry.id).collect();
    let mut rest = ids.iter();
    for (count, last, _) in &acknowledged {
        assert!(rest.any(|id| id == last), "{name}: entry {count} is lost or at another place");
    }
    session.append(next_append(&mut fastrand::Rng::with_seed(1), &ids), Durability::Disk).await.unwrap();
    session.close().await.unwrap();
    let verified = store.verify(&id()).await.unwrap();
    assert!(verified.is_whole(), "{name}: {verified:?}");
}
