use std::sync::mpsc;
use std::time::Duration;

use zk_core::model::SessionId;
use zk_core::service::{SessionStore, StoreError};
use zk_session::SqliteStore;

use crate::processes::{appender, lines};
use crate::support::{every, whole_units};

const ROUNDS: u64 = 100;
/// Number of kills that each session survives.
const LIVES: u64 = 5;

/// Nothing that was acknowledged is lost, and no call is ever without its result.
#[tokio::test]
async fn a_killed_process_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let mut random = fastrand::Rng::with_seed(7);
    let (mut stored, mut in_all) = (0, 0);
    for round in 0..ROUNDS {
        let id = SessionId::from(format!("s_{}", round / LIVES));
        if round % LIVES == 0 {
            stored = 0;
        }
        let mut child = appender(&root, &id, None);
        let said = lines(&mut child);
        let (acks, heard) = mpsc::channel();
        let listener = std::thread::spawn(move || said.for_each(|line| acks.send(line).unwrap()));
        // Some die while the file is made, some in the middle of the first entries, some later.
        let early = random.u32(..10) < 3;
        let mut acknowledged = Vec::new();
        if !early {
            acknowledged.extend(heard.recv_timeout(Duration::from_secs(20)));
        }
        std::thread::sleep(Duration::from_micros(random.u64(..if early { 9_000 } else { 15_000 })));
        child.kill().unwrap();
        child.wait().unwrap();
        listener.join().unwrap();
        acknowledged.extend(heard.try_iter());

        let promised = match acknowledged.last() {
            Some(line) => line.strip_prefix("unit ").unwrap().parse::<usize>().unwrap() + 1,
            None => stored,
        };
        stored = match store.open(&id).await {
            Ok(session) => {
                let entries = session.entries().await.unwrap();
                let empty = entries.is_empty();
                assert_eq!(session.notices().len(), usize::from(empty), "{:?}", session.notices());
                whole_units(&entries)
            }
            Err(StoreError::NotFound { .. }) => 0,
            Err(error) => panic!("round {round}: {error}"),
        };
        assert!(
            (promised..=promised + 1).contains(&stored),
            "round {round}: {promised} units were acknowledged, {stored} are there"
        );
        let listed = store.list(&every()).await.unwrap();
        assert!(listed.iter().all(|info| info.unreadable.is_none() && info.lock.is_none()), "{listed:?}");
        assert_eq!(
            listed.iter().any(|info| info.id == id),
            stored > 0,
            "one that holds nothing is not listed"
        );
        in_all += acknowledged.len();
    }
    assert!(in_all as u64 > ROUNDS, "the processes wrote something: {in_all}");
}
