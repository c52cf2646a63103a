//! Processes that are killed while they append, move the leaf, label, summarise and fork.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::runtime::Runtime;
use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, NewSession, OpenSession, SessionStore, StoreError, present_branch,
};
use zk_session::{SessionPlace, SqliteStore};

use crate::support::{entry, every, says};

/// Variable that gives a started test program its role: seed, session and root of the store.
const PART: &str = "ZK_SESSION_TREE_PART";

/// Number of kills that each session survives.
const LIVES: u64 = 10;
/// Maximum number of entries in one append of the process.
const MAX_APPEND: usize = 2;

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

async fn all(session: &dyn OpenSession) -> Vec<Entry> {
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
fn next_append(random: &mut fastrand::Rng, log: &[EntryId]) -> Vec<EntryKind> {
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

/// Process that changes a session as fast as possible, and prints the number of its entries and the leaf after each change,
/// and the id and number of entries of each fork.
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
        loop {
            if !log.is_empty() && random.u32(..40) == 0 {
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
    println!("{} kills, {in_all} acknowledged changes, {forks} forks", kills());
    assert!(in_all as u64 > kills(), "the processes wrote something: {in_all}");
}
