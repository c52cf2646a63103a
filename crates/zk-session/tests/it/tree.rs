//! Branches of a session: the leaf moves, labels, and each store's present branch.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rusqlite::Connection;
use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, OpenSession, SessionStore, StoreError, count_branches, entry_labels,
    present_branch,
};
use zk_session::{MemoryStore, SessionPlace, SqliteStore, load_history};

use crate::live::{compaction, run, said};
use crate::support::{Add, at, chained, every, file, says};

fn leaf(to: Option<&EntryId>) -> EntryKind {
    EntryKind::Leaf { to: to.cloned(), left: None }
}

async fn tree(store: &dyn SessionStore, id: &SessionId) -> Vec<Entry> {
    let all = Arc::<Mutex<Vec<Entry>>>::default();
    let seen = all.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        seen.lock().unwrap().push(entry);
        ControlFlow::Continue(())
    });
    store.scan_tree(id, visit).await.unwrap();
    std::mem::take(&mut *all.lock().unwrap())
}

fn stores(dir: &Path) -> [Arc<dyn SessionStore>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(SqliteStore::new(dir.join("s")).read_back(0))]
}

#[tokio::test]
async fn the_present_branch_is_read_and_the_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        let session = store.create(at(dir.path())).await.unwrap();
        let first = session.add(vec![says("one"), says("two"), says("three")]).await.unwrap();
        let back = vec![leaf(Some(&first[0])), says("another two")];
        let second = session.append(back, Durability::Disk).await.unwrap();
        session.add(vec![says("another three")]).await.unwrap();
        let texts = |entries: &[Entry]| {
            load_history(entries).messages.iter().map(|message| message.text()).collect::<Vec<_>>()
        };
        let entries = session.entries().await.unwrap();
        assert_eq!(texts(&entries), ["one", "another two", "another three"]);
        assert!(chained(&entries), "{entries:?}");
        assert_eq!(entries[1].id, second[0]);
        assert_eq!(tree(&*store, session.id()).await.len(), 6);
        let listed = store.list(&every()).await.unwrap();
        assert_eq!((listed[0].branches, listed[0].messages), (2, 5));
        // The other branch, and the time before the first entry.
        session.add(vec![leaf(Some(&first[2])), says("four")]).await.unwrap();
        assert_eq!(texts(&session.entries().await.unwrap()), ["one", "two", "three", "four"]);
        session.add(vec![leaf(None), says("anew")]).await.unwrap();
        session.close().await.unwrap();
        let read = store.read(session.id()).await.unwrap();
        assert_eq!((texts(&read.entries), read.info.branches), (vec!["anew".to_owned()], 3));
    }
}

#[tokio::test]
async fn a_leaf_of_an_unknown_entry_or_in_the_middle_adds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        let session = store.create(at(dir.path())).await.unwrap();
        let unknown = EntryId::from("e_none");
        let early = session.add(vec![leaf(Some(&unknown)), says("no")]).await;
        assert!(matches!(early, Err(StoreError::NoEntry { .. })), "{early:?}");
        let ids = session.add(vec![says("one")]).await.unwrap();
        let failed = session.add(vec![leaf(Some(&unknown)), says("no")]).await;
        assert!(matches!(failed, Err(StoreError::NoEntry { entry, .. }) if entry == unknown));
        assert!(session.add(vec![says("no"), leaf(Some(&ids[0]))]).await.is_err());
        assert_eq!(session.entries().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_label_counts_as_soon_as_it_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let ids = session.add(vec![says("one")]).await.unwrap();
    let label = EntryKind::Label { target: ids[0].clone(), label: Some("start".into()) };
    session.add(vec![label]).await.unwrap();
    assert_eq!(entry_labels(&tree(&store, session.id()).await)[&ids[0]], "start");
}

/// Changes a stored row without its checksum.
fn damage(dir: &Path, change: &str, id: &EntryId) {
    let conn = Connection::open(file(dir, ".db")).unwrap();
    assert_eq!(
        conn.execute(&format!("UPDATE entries SET {change} WHERE id = ?1"), [id.as_str()]).unwrap(),
        1
    );
}

#[tokio::test]
async fn damage_of_another_branch_leaves_this_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let first = session.add(vec![says("one"), says("two"), says("three")]).await.unwrap();
    session.add(vec![leaf(Some(&first[0])), says("another two")]).await.unwrap();
    session.close().await.unwrap();
    damage(dir.path(), "kind = 'x'", &first[1]);
    let session = store.open(session.id()).await.unwrap();
    assert_eq!(session.notices(), Vec::<String>::new());
    assert_eq!(session.entries().await.unwrap().len(), 3);
    session.add(vec![says("goes on")]).await.unwrap();
    session.close().await.unwrap();
    // The damaged row is named when its branch is the present one.
    let session = store.open(session.id()).await.unwrap();
    session.add(vec![leaf(Some(&first[2]))]).await.unwrap();
    session.close().await.unwrap();
    let session = store.open(session.id()).await.unwrap();
    assert_eq!(session.notices().len(), 1, "{:?}", session.notices());
    let ids: Vec<_> = session.entries().await.unwrap().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids[..2], [first[0].clone(), first[2].clone()]);
}

#[tokio::test]
async fn a_branch_from_a_damaged_entry_begins_at_the_nearest_ancestor() {
    let changes = ["kind = 'x'", "id = 'e_other'", "id = 'e_other', kind = 'x', parent = 'e_other'"];
    for (change, has_index) in changes.into_iter().flat_map(|change| [(change, true), (change, false)]) {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s"));
        let session = store.create(at(dir.path())).await.unwrap();
        let first = session.add(vec![says("one"), says("two"), says("three")]).await.unwrap();
        session.add(vec![leaf(Some(&first[1])), says("another three")]).await.unwrap();
        session.close().await.unwrap();
        damage(dir.path(), change, &first[1]);
        if !has_index {
            let conn = Connection::open(file(dir.path(), ".db")).unwrap();
            conn.execute("DELETE FROM meta WHERE key = 'index'", []).unwrap();
        }
        let session = store.open(session.id()).await.unwrap();
        let notices = session.notices();
        assert!(!notices.is_empty(), "{change}");
        let loaded = load_history(&session.entries().await.unwrap());
        let texts: Vec<_> = loaded.messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["one", "another three"], "{change}: {notices:?}");
        session.add(vec![says("goes on")]).await.unwrap();
        session.close().await.unwrap();
        let reopened = store.open(session.id()).await.unwrap();
        assert_eq!(load_history(&reopened.entries().await.unwrap()).messages.len(), 3);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(usize),
    /// Move to an entry, counted from the first, or before it.
    Move(Option<prop::sample::Index>, bool),
    Label(prop::sample::Index, bool),
    Compact,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..4usize).prop_map(Op::Append),
        3 => (prop::option::weighted(0.9, any::<prop::sample::Index>()), any::<bool>())
            .prop_map(|(to, says)| Op::Move(to, says)),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, on)| Op::Label(at, on)),
        1 => Just(Op::Compact),
        2 => Just(Op::Reopen),
    ]
}

/// Expected log of a session, as entry ids.
#[derive(Default)]
struct Model {
    log: Vec<EntryId>,
    parents: HashMap<EntryId, Option<EntryId>>,
    labels: HashMap<EntryId, String>,
    messages: usize,
}

impl Model {
    fn add(&mut self, ids: Vec<EntryId>, moved: Option<Option<EntryId>>) {
        let mut moved = moved;
        for id in ids {
            let parent = moved.take().unwrap_or_else(|| self.log.last().cloned());
            self.parents.insert(id.clone(), parent);
            self.log.push(id);
        }
    }

    fn branch(&self) -> Vec<EntryId> {
        let mut branch = Vec::new();
        let mut next = self.log.last().cloned();
        while let Some(id) = next {
            next = self.parents[&id].clone();
            branch.push(id);
        }
        branch.reverse();
        branch
    }

    fn message(&mut self) -> EntryKind {
        self.messages += 1;
        said(&format!("m{}", self.messages), Message::user_text(format!("text {}", self.messages)))
    }
}

async fn check_against(model: &Model, store: &dyn SessionStore, session: &dyn OpenSession) {
    let ids = |entries: &[Entry]| entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
    let entries = session.entries().await.unwrap();
    assert_eq!(ids(&entries), model.branch());
    assert!(chained(&entries));
    let live = session.live().await.unwrap();
    assert!(model.branch().ends_with(&ids(live.tail())), "{live:?}");
    if model.log.is_empty() {
        return;
    }
    assert_eq!(store.read_live(session.id()).await.unwrap(), live);
    let read = store.read(session.id()).await.unwrap();
    assert_eq!(read.entries, entries);
    let all = tree(store, session.id()).await;
    assert_eq!(ids(&all), model.log);
    assert_eq!(present_branch(all.clone()), entries);
    assert_eq!(read.info.branches, count_branches(&all));
    assert_eq!(entry_labels(&all).into_iter().collect::<HashMap<_, _>>(), model.labels);
    let last = store.last_entries(session.id(), 3).await.unwrap();
    assert_eq!(last, entries[entries.len().saturating_sub(3)..]);
}

async fn follow(ops: &[Op], store: &dyn SessionStore, cwd: &Path) {
    let mut model = Model::default();
    let mut session = store.create(at(cwd)).await.unwrap();
    let id = session.id().clone();
    for op in ops {
        let (kinds, moved) = match op {
            Op::Append(count) => ((0..*count).map(|_| model.message()).collect(), None),
            Op::Move(to, says) => {
                let to = to.filter(|_| !model.log.is_empty()).map(|to| to.get(&model.log).clone());
                let mut kinds = vec![leaf(to.as_ref())];
                kinds.extend(says.then(|| model.message()));
                (kinds, Some(to))
            }
            Op::Label(at, on) if !model.log.is_empty() => {
                let (target, label) = (at.get(&model.log).clone(), on.then(|| "label".to_owned()));
                match &label {
                    Some(label) => _ = model.labels.insert(target.clone(), label.clone()),
                    None => _ = model.labels.remove(&target),
                }
                (vec![EntryKind::Label { target, label }], None)
            }
            Op::Compact => {
                let message = model.message();
                let kinds = vec![message, compaction(1, &format!("m{}", model.messages), &[])];
                (kinds, None)
            }
            Op::Label(..) | Op::Reopen => {
                if !model.log.is_empty() {
                    session.close().await.unwrap();
                    session = store.open(&id).await.unwrap();
                    assert_eq!(session.notices(), Vec::<String>::new());
                }
                (Vec::new(), None)
            }
        };
        let ids = session.add(kinds).await.unwrap();
        model.add(ids, moved);
        check_against(&model, store, &*session).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any sequence of appends, moves and labels leaves the branch that a model has, at every step and reopening.
    #[test]
    fn any_moves_leave_the_branch_of_a_model(ops in prop::collection::vec(op(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            for store in stores(dir.path()) {
                follow(&ops, &*store, dir.path()).await;
            }
        });
    }
}

/// A move finds the index of its branch at the last compaction, and gets the same one as by reading every row.
#[tokio::test]
async fn a_branch_with_compactions_is_the_same_as_read_from_its_beginning() {
    for seed in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s")).read_back(0);
        let session = store.create(at(dir.path())).await.unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut log = session.append(run(0), Durability::Process).await.unwrap();
        let mut last = 0;
        for n in 1..40 {
            let mut kinds = match random.u8(..4) {
                0 => vec![EntryKind::Leaf { to: Some(log[random.usize(..log.len())].clone()), left: None }],
                1 => vec![compaction(n, &format!("p_{last}"), &[])],
                _ => Vec::new(),
            };
            if kinds.is_empty() || random.bool() {
                last = n as usize;
                kinds.extend(run(last));
            }
            log.extend(session.append(kinds, Durability::Process).await.unwrap());
        }
        let to = log[random.usize(..log.len())].clone();
        session.append(vec![EntryKind::Leaf { to: Some(to), left: None }], Durability::Disk).await.unwrap();
        let moved = session.live().await.unwrap();
        session.close().await.unwrap();
        let id = session.id().clone();
        let conn = Connection::open(file(dir.path(), ".db")).unwrap();
        assert!(conn.execute("DELETE FROM meta WHERE key GLOB 'index*'", []).unwrap() > 1);
        drop(conn);
        let read = store.open(&id).await.unwrap().live().await.unwrap();
        assert_eq!(moved, read, "seed {seed}");
    }
}

#[tokio::test]
async fn a_copy_up_to_the_last_answer_has_the_end_of_its_run_and_the_labels() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let log: Vec<EntryId> = [session.add(run(1)).await.unwrap(), session.add(run(2)).await.unwrap()].concat();
    let label =
        |at: usize, label: &str| EntryKind::Label { target: log[at].clone(), label: Some(label.to_owned()) };
    session.add(vec![label(1, "first"), label(2, "answer"), label(6, "later")]).await.unwrap();
    session.close().await.unwrap();
    let place = SessionPlace {
        root: Some(dir.path().join("s")),
        cwd: dir.path().to_owned(),
        ..SessionPlace::default()
    };
    let copy = place.copy(session.id(), dir.path().to_owned(), Some(&log[2])).await.unwrap();
    let entries = store.open(&copy.id).await.unwrap().entries().await.unwrap();
    let ends = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::RunEnd { .. })).count();
    assert_eq!(ends, 1, "{entries:#?}");
    let labels = entry_labels(&entries);
    assert_eq!(labels.get(&entries[1].id).map(String::as_str), Some("first"));
    assert_eq!(labels.get(&entries[2].id).map(String::as_str), Some("answer"));
    assert_eq!(labels.len(), 2);
    let listed = store.list(&every()).await.unwrap();
    assert!(listed.iter().all(|info| !info.interrupted), "{listed:?}");
}
