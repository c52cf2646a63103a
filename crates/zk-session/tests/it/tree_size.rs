//! Cost of opening a large session with branches.

use std::time::Instant;

use zk_core::model::{EntryId, Message};
use zk_core::service::{Durability, EntryKind, OpenSession, SessionStore};
use zk_session::SqliteStore;

use crate::live::{compaction, said};
use crate::support::at;

#[expect(clippy::disallowed_methods, reason = "a larger log is asked for from outside")]
fn entries() -> usize {
    std::env::var("ZK_TREE_ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Peak memory of this process in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn fill(session: &dyn OpenSession, from: usize, count: usize) -> Vec<EntryId> {
    let mut ids = Vec::new();
    for begin in (from..from + count).step_by(1_000) {
        let kinds = (begin..(from + count).min(begin + 1_000))
            .map(|n| said(&format!("m{n}"), Message::user_text("x".repeat(900))))
            .collect();
        ids.extend(session.append(kinds, Durability::Process).await.unwrap());
    }
    ids
}

/// A large log with a compaction and branches is opened from its compaction: few entries are in memory, whatever the log has.
/// With `ZK_TREE_ENTRIES` set, the figures of a log of that size are printed.
#[tokio::test]
async fn a_large_log_with_branches_opens_from_its_last_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s")).read_back(64 << 10);
    let session = store.create(at(dir.path())).await.unwrap();
    let all = entries();
    let (first, second) = (all / 2, all / 2);
    fill(&*session, 0, first).await;
    let compacted = vec![said("cut", Message::user_text("goes on")), compaction(1, "cut", &[])];
    let ids = session.append(compacted, Durability::Disk).await.unwrap();
    // A long branch that is left again, and another one.
    fill(&*session, first, second).await;
    let begun = Instant::now();
    let back = vec![
        EntryKind::Leaf { to: ids.last().cloned(), left: None },
        said("back", Message::user_text("another way")),
    ];
    session.append(back, Durability::Disk).await.unwrap();
    let moved = begun.elapsed();
    session.close().await.unwrap();
    let id = session.id().clone();
    drop(session);
    let before = peak_kib();
    let begun = Instant::now();
    let session = store.open(&id).await.unwrap();
    let live = session.live().await.unwrap();
    let took = begun.elapsed();
    // Only the branch since its last compaction is read.
    println!(
        "{all} entries: moved in {moved:?}, opened in {took:?}, peak {before} KiB before, {} after",
        peak_kib()
    );
    assert_eq!(session.notices(), Vec::<String>::new());
    // The bytes before the cut that are read nevertheless are fewer than a hundred entries.
    assert!(live.tail().len() < 120 && live.entries.len() < 130, "{}", live.entries.len());
    assert_eq!(live.earlier, u64::try_from(first - (live.tail().len() - 4)).unwrap());
}
