//! Processes that are killed while they append, move the leaf, label, summarise, fork, import and raise a file's format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use tokio::runtime::Runtime;
use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, NewSession, OpenSession, SessionStore, StoreError, present_branch,
};
use zk_session::{SessionPlace, SqliteStore};

use crate::support::{at, entry, every, file, says};

/// Variable that gives a started test program its role: seed, session and root of the store.
const PART: &str = "ZK_SESSION_TREE_PART";

/// Number of kills that each session survives.
const LIVES: u64 = 10;
/// Maximum number of entries in one append of the process.
const MAX_APPEND: usize = 2;
/// Number of entries of a session of an older zk, before its first new one.
const OLD_ENTRIES: usize = 3;

#[expect(clippy::disallowed_methods, reason = "a longer proof is asked for from outside")]
fn kills() -> u64 {
    std::env::var("ZK_TREE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

fn place(root: &Path) -> SessionPlace {
    SessionPlace { root: Some(root.to_path_buf()), cwd: root.to_path_buf(), ..SessionPlace::default() }
}

fn start(root: &Path, id: &SessionId, seed: u64) -> Child {
    #[expect(clippy::disallowed_methods, reason = "the process to be killed is this test program")]
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "tree_kill::part_mover", "--nocapture"])
        .env(PART, format!("{seed}={id}={}", root.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub(crate) async fn all(session: &dyn OpenSession) -> Vec<Entry> {
    let all = Arc::<Mutex<Vec<Entry>>>::default();
    let seen = all.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        seen.lock().unwrap().push(entry);
        ControlFlow::Continue(())
    });
    assert_eq!(session.scan_tree(visit).await.unwrap(), Vec::<String>::new());
    std::mem::take(&mut *all.lock().unwrap())
}

/// One random append.
pub(crate) fn next_append(random: &mut fastrand::Rng, log: &[EntryId]) -> Vec<EntryKind> {
    let any = |random: &mut fastrand::Rng| log[random.usize(..log.len())].clone();
    if log.is_empty() {
        return vec![says("begin")];
    }
    let text = "x".repeat(random.usize(1..3_000));
    match random.u32(..10) {
        0..5 => vec![says(&text)],
        5 => vec![EntryKind::Label { target: any(random), label: Some(text.chars().take(9).collect()) }],
        6 => vec![EntryKind::Leaf { to: None, left: log.last().cloned() }, says(&text)],
        7 => vec![EntryKind::Leaf { to: Some(any(random)), left: log.last().cloned() }],
        _ => vec![
            EntryKind::Leaf { to: Some(any(random)), left: log.last().cloned() },
            entry(Message::injected(text, "branch")),
        ],
    }
}

/// Imports a session of as many entries as its id says.
async fn import(store: &SqliteStore, root: &Path, id: &str, random: &mut fastrand::Rng) -> SessionId {
    let count = entries_of(id).unwrap();
    let entries = (0..count).map(|n| Entry {
        id: EntryId::from(format!("e{n}")),
        parent: n.checked_sub(1).map(|before| EntryId::from(format!("e{before}"))),
        time_ms: 1_000 + n as u64,
        kind: says(&"i".repeat(random.usize(1..5_000))),
    });
    let new = NewSession { id: Some(id.into()), ..at(root) };
    store.restore(new, entries.collect()).await.unwrap()
}

/// Number of entries of an imported session, which its id ends with.
fn entries_of(id: &str) -> Option<usize> {
    id.strip_prefix("i_")?.rsplit_once('_')?.1.parse().ok()
}

/// Stores a session of [`OLD_ENTRIES`] entries in the format of an older zk.
async fn store_old(store: &SqliteStore, root: &Path, id: &str) {
    let session = store.create(NewSession { id: Some(id.into()), ..at(root) }).await.unwrap();
    let entries = (0..OLD_ENTRIES).map(|n| says(&format!("old {n}"))).collect();
    session.append(entries, Durability::Disk).await.unwrap();
    session.close().await.unwrap();
    let old = "ALTER TABLE entries DROP COLUMN hash; DELETE FROM meta WHERE key = 'chain_from'; PRAGMA user_version=2;";
    Connection::open(file(root, &format!("{id}.db"))).unwrap().execute_batch(old).unwrap();
}

/// Process that changes a session as fast as possible, and prints the number of its entries and the leaf after each change,
/// and the id of each fork, of each import, of each session of an older zk and of each of these that it raised.
#[test]
fn part_mover() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(part) = std::env::var(PART) else { return };
    let [seed, id, root] = part.splitn(3, '=').collect::<Vec<_>>().try_into().unwrap();
    let (id, root) = (SessionId::from(id), PathBuf::from(root));
    let mut random = fastrand::Rng::with_seed(seed.parse().unwrap());
    let mut out = std::io::stdout();
    Runtime::new().unwrap().block_on(async {
        let store = SqliteStore::new(root.clone());
        let session = match store.open(&id).await {
            Err(StoreError::NotFound { .. }) => {
                let new = NewSession { id: Some(id.clone()), cwd: root.clone(), parent: None };
                store.create(new).await.unwrap()
            }
            opened => opened.unwrap(),
        };
        let mut log: Vec<EntryId> = all(&*session).await.into_iter().map(|entry| entry.id).collect();
        for step in 0.. {
            if random.u32(..12) == 0 {
                let count = random.usize(1..60);
                let id = import(&store, &root, &format!("i_{seed}_{step}_{count}"), &mut random).await;
                writeln!(out, "import {id}").unwrap();
            } else if random.u32(..12) == 0 {
                let id = format!("m_{seed}_{step}");
                store_old(&store, &root, &id).await;
                writeln!(out, "old {id}").unwrap();
                out.flush().unwrap();
                let old = store.open(&id.as_str().into()).await.unwrap();
                old.append(vec![says("new")], Durability::Disk).await.unwrap();
                writeln!(out, "raised {id}").unwrap();
            } else if !log.is_empty() && random.u32(..20) == 0 {
                let last = log[random.usize(..log.len())].clone();
                let copy = place(&root).copy(&id, root.clone(), Some(&last)).await.unwrap().id;
                writeln!(out, "fork {copy}").unwrap();
            } else {
                let durability = if random.bool() { Durability::Disk } else { Durability::Process };
                log.extend(session.append(next_append(&mut random, &log), durability).await.unwrap());
                writeln!(out, "tree {} {}", log.len(), log[log.len() - 1]).unwrap();
            }
            out.flush().unwrap();
        }
    });
}

/// Nothing that was acknowledged is lost, and the leaf is the last acknowledged one or the one of the append in flight.
#[tokio::test]
async fn a_killed_process_leaves_the_tree_that_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let mut random = fastrand::Rng::with_seed(11);
    let (mut acknowledged, mut in_all, mut forks) = (Vec::<(usize, String)>::new(), 0, 0);
    let (mut imports, mut raised) = (BTreeSet::new(), BTreeMap::new());
    for round in 0..kills() {
        let id = SessionId::from(format!("s_{}", round / LIVES));
        if round % LIVES == 0 {
            acknowledged.clear();
        }
        let mut child = start(&root, &id, round);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (heard, hears) = mpsc::channel();
        let listener = std::thread::spawn(move || lines.for_each(|line| heard.send(line).unwrap()));
        let mut lines: Vec<String> = Vec::new();
        if random.u32(..10) > 1 {
            let is_own = |line: &String| line.starts_with("tree ") || line.starts_with("fork ");
            while let Ok(line) = hears.recv_timeout(Duration::from_secs(20)) {
                lines.push(line);
                if lines.last().is_some_and(is_own) {
                    break;
                }
            }
        }
        std::thread::sleep(Duration::from_micros(random.u64(..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        listener.join().unwrap();
        lines.extend(hears.try_iter());
        for line in &lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["tree", count, leaf] => acknowledged.push((count.parse().unwrap(), leaf.to_owned())),
                ["fork", copy] => {
                    forks += 1;
                    let copy = store.open(&copy.into()).await.unwrap();
                    assert_eq!(copy.notices(), Vec::<String>::new());
                }
                ["import", id] => drop(imports.insert(id.to_owned())),
                ["old", id] => drop(raised.insert(id.to_owned(), false)),
                ["raised", id] => drop(raised.insert(id.to_owned(), true)),
                _ => {}
            }
        }
        in_all += lines.len();
        let session = match store.open(&id).await {
            Err(StoreError::NotFound { .. }) if acknowledged.is_empty() => continue,
            opened => opened.unwrap(),
        };
        let log = all(&*session).await;
        let promised = acknowledged.last().map_or(0, |(count, _)| *count);
        assert!((promised..=promised + MAX_APPEND).contains(&log.len()), "round {round}: {promised}");
        for (count, leaf) in &acknowledged {
            assert_eq!(log[count - 1].id.as_str(), leaf, "round {round}");
        }
        assert_eq!(session.entries().await.unwrap(), present_branch(log.clone()), "round {round}");
        // The append in flight was stored or not, and is acknowledged by being read.
        if let Some(last) = log.last() {
            acknowledged.push((log.len(), last.id.to_string()));
        }
        session.close().await.unwrap();
    }
    let listed = store.list(&every()).await.unwrap();
    assert!(listed.iter().all(|info| info.unreadable.is_none() && info.lock.is_none()), "{listed:?}");
    assert!(listed.iter().any(|info| info.branches > 1));
    let ids: BTreeSet<&str> = listed.iter().map(|info| info.id.as_str()).collect();
    assert!(imports.iter().all(|id| ids.contains(id.as_str())), "an acknowledged import is lost");
    check_imports(&store, &ids).await;
    check_raised(&store, &raised).await;
    println!(
        "{} kills, {in_all} acknowledged changes, {forks} forks, {} imports, {} files of an older zk",
        kills(),
        imports.len(),
        raised.len()
    );
    assert!(in_all as u64 > kills(), "the processes wrote something: {in_all}");
}

/// Checks that each import is whole, also those that were never acknowledged.
async fn check_imports(store: &SqliteStore, ids: &BTreeSet<&str>) {
    for id in ids {
        let Some(count) = entries_of(id) else { continue };
        let session = store.open(&(*id).into()).await.unwrap();
        assert_eq!((session.notices(), all(&*session).await.len()), (Vec::new(), count), "{id}");
    }
}

/// Checks that files of an older zk have all entries, and the new one too if it was acknowledged.
async fn check_raised(store: &SqliteStore, raised: &BTreeMap<String, bool>) {
    for (id, is_raised) in raised {
        let session = store.open(&id.as_str().into()).await.unwrap();
        assert_eq!(session.notices(), Vec::<String>::new(), "{id}");
        let count = all(&*session).await.len();
        assert!((OLD_ENTRIES + usize::from(*is_raised)..=OLD_ENTRIES + 1).contains(&count), "{id}: {count}");
        session.append(vec![says("goes on")], Durability::Disk).await.unwrap();
        session.close().await.unwrap();
        let found = store.verify(&id.as_str().into()).await.unwrap();
        assert!(found.is_whole() && found.chain_from == Some(OLD_ENTRIES as u64 + 1), "{id}: {found:?}");
    }
}
