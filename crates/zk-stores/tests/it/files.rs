use std::sync::Arc;
use std::time::Duration;

use zk_core::model::{Message, SessionId};
use zk_core::service::{
    Durability, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError, Unreadable,
};
use zk_exec::LocalStateFiles;
use zk_stores::{DirMap, FileMapStore, KeyValue, MemoryMap};
use zk_testkit::{StoreOptions, check_store};

pub(crate) fn says(text: &str) -> Vec<EntryKind> {
    vec![EntryKind::Message { message: Message::user_text(text).shared(), usage: None }]
}

pub(crate) fn at(id: &str) -> NewSession {
    NewSession { id: Some(id.into()), cwd: "/project".into(), parent: None }
}

async fn add(session: &dyn OpenSession, text: &str) -> Result<(), StoreError> {
    session.append(says(text), Durability::Process).await.map(drop)
}

fn dir_map(root: &std::path::Path) -> Arc<dyn KeyValue> {
    Arc::new(DirMap::new(root.to_path_buf(), Arc::new(LocalStateFiles::default())))
}

#[tokio::test]
async fn a_directory_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let make = |place: u32| {
        let store = FileMapStore::new(dir_map(&dir.path().join(place.to_string())));
        async move { Arc::new(store) as Arc<dyn SessionStore> }
    };
    let options = StoreOptions { restores_ids: false, ..StoreOptions::default() };
    let conformance = check_store(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn a_map_with_leases_conforms() {
    let maps: Vec<MemoryMap> = (0..100).map(|_| MemoryMap::default()).collect();
    let make = |place: u32| {
        let store = FileMapStore::new(Arc::new(maps[place as usize].clone()));
        async move { Arc::new(store) as Arc<dyn SessionStore> }
    };
    let options = StoreOptions { restores_ids: false, ..StoreOptions::default() };
    let conformance = check_store(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn many_appends_are_merged_into_few_keys() {
    let map = MemoryMap::default();
    let store = FileMapStore::new(Arc::new(map.clone()));
    let session = store.create(at("s_1")).await.unwrap();
    for n in 0..1_000 {
        add(&*session, &format!("{n}")).await.unwrap();
    }
    session.close().await.unwrap();
    let keys = map.list("s_1/turns").await.unwrap();
    assert!(keys.len() < 128, "{} keys", keys.len());
    let read = store.read(&"s_1".into()).await.unwrap();
    assert!(read.notices.is_empty() && read.entries.len() == 1_000);
    let texts = read.entries.iter().map(|entry| entry.kind.message().unwrap().text());
    assert!(texts.eq((0..1_000).map(|n| n.to_string())));
}

#[tokio::test]
async fn an_incomplete_append_is_reported_and_kept() {
    let map = MemoryMap::default();
    let store = FileMapStore::new(Arc::new(map.clone()));
    let session = store.create(at("s_1")).await.unwrap();
    for text in ["one", "two", "three"] {
        add(&*session, text).await.unwrap();
    }
    session.close().await.unwrap();
    let key = map.list("s_1/turns").await.unwrap().into_iter().max().unwrap();
    let torn = map.get(&key).await.unwrap().map(|bytes| bytes[..bytes.len() / 2].to_vec()).unwrap();
    map.save(&key, torn.clone()).await.unwrap();

    let session = store.open(&"s_1".into()).await.unwrap();
    assert_eq!(session.notices().len(), 1);
    assert!(session.notices()[0].contains(&key), "{:?}", session.notices());
    assert_eq!(session.entries().await.unwrap().len(), 2);
    add(&*session, "four").await.unwrap();
    session.close().await.unwrap();
    assert_eq!(map.get(&key).await.unwrap(), Some(torn), "the incomplete append is kept");
    let read = store.read(&"s_1".into()).await.unwrap();
    let texts: Vec<String> = read.entries.iter().map(|entry| entry.kind.message().unwrap().text()).collect();
    assert_eq!(texts, ["one", "two", "four"]);
    let listed = store.list(&SessionFilter { unanswered: true, ..SessionFilter::default() }).await.unwrap();
    assert_eq!((listed.len(), listed[0].messages), (1, 3));
}

#[tokio::test]
async fn files_that_vanished_are_told_and_nothing_takes_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileMapStore::new(dir_map(dir.path()));
    for id in ["s_all", "s_last"] {
        let session = store.create(at(id)).await.unwrap();
        for text in ["one", "two", "three"] {
            add(&*session, text).await.unwrap();
        }
        session.close().await.unwrap();
    }
    for (id, appends) in [("s_all", 1..=3), ("s_last", 2..=3)] {
        for n in appends {
            std::fs::remove_file(dir.path().join(format!("{id}/turns-{n:010}-{n:010}.jsonl"))).unwrap();
        }
    }
    let error = store.open(&"s_all".into()).await.err().unwrap();
    assert!(
        matches!(&error, StoreError::Damaged { why, .. } if why.contains("its appends are gone")),
        "{error}"
    );
    assert!(store.create(at("s_all")).await.is_err(), "its id is taken");
    let listed = store.list(&SessionFilter { unanswered: true, ..SessionFilter::default() }).await.unwrap();
    let unreadable: Vec<_> =
        listed.iter().filter(|info| info.unreadable.is_some()).map(|info| info.id.as_str()).collect();
    assert_eq!((listed.len(), unreadable), (2, vec!["s_all"]));
    let last = store.open(&"s_last".into()).await.unwrap();
    let told = last.notices().join("\n");
    assert!(told.contains("the last 2 appends are gone: `s_last/meta.json` knows of append 3"), "{told}");
    add(&*last, "four").await.unwrap();
    last.close().await.unwrap();
    assert_eq!(store.read(&"s_last".into()).await.unwrap().entries.len(), 2);
    store.delete(&"s_all".into()).await.unwrap();
    store.create(at("s_all")).await.unwrap();
}

#[tokio::test]
async fn damage_and_newer_formats_are_told_apart_and_nothing_is_overwritten() {
    let map = MemoryMap::default();
    let store = FileMapStore::new(Arc::new(map.clone()));
    for id in ["s_damaged", "s_newer"] {
        let session = store.create(at(id)).await.unwrap();
        add(&*session, "one").await.unwrap();
        session.close().await.unwrap();
    }
    let damaged = map.list("s_damaged/turns").await.unwrap().remove(0);
    map.save(&damaged, b"garbage".to_vec()).await.unwrap();
    let newer = map.list("s_newer/turns").await.unwrap().remove(0);
    map.save(&newer, b"{\"segment\":9}\n".to_vec()).await.unwrap();
    let error = |id: &str| {
        let (store, id) = (store.clone(), SessionId::from(id));
        async move { store.open(&id).await.err().unwrap() }
    };
    assert!(matches!(error("s_damaged").await, StoreError::Damaged { .. }));
    assert!(matches!(error("s_newer").await, StoreError::TooNew { found: 9, known: 1, .. }));
    assert_eq!(map.get(&damaged).await.unwrap().as_deref(), Some(&b"garbage"[..]));
    for info in store.list(&SessionFilter::default()).await.unwrap() {
        match info.id.as_str() {
            // Listed from what was stored beside the entries, as long as the appends are those.
            "s_damaged" => assert_eq!(info.messages, 1),
            "s_newer" => assert!(!matches!(info.unreadable, Some(Unreadable::Damaged(_)))),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_writer_whose_lease_was_taken_writes_nothing() {
    let map = MemoryMap::default();
    // A lease of no time ends at once; renewals come later.
    let first = FileMapStore::with_lease(Arc::new(map.clone()), Duration::from_millis(1));
    let stale = first.create(at("s_1")).await.unwrap();
    add(&*stale, "one").await.unwrap();
    let second = FileMapStore::new(Arc::new(map.clone()));
    let taken = loop {
        match second.open(&"s_1".into()).await {
            Ok(session) => break session,
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    add(&*taken, "two").await.unwrap();
    let error = add(&*stale, "late").await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    add(&*taken, "three").await.unwrap();
    assert_eq!(taken.entries().await.unwrap().len(), 3);
    assert!(matches!(add(&*stale, "late").await, Err(StoreError::Fenced { .. })));
    stale.close().await.unwrap();
    // The former writer gives nothing back that it no longer has.
    assert!(matches!(second.open(&"s_1".into()).await, Err(StoreError::InUse { .. })));
}

#[tokio::test]
async fn a_delete_that_was_cut_off_leaves_no_session() {
    let map = MemoryMap::default();
    let store = FileMapStore::new(Arc::new(map.clone()));
    let session = store.create(at("s_1")).await.unwrap();
    add(&*session, "one").await.unwrap();
    session.close().await.unwrap();
    map.save("s_1/gone.json", b"{}".to_vec()).await.unwrap();
    assert!(matches!(store.open(&"s_1".into()).await, Err(StoreError::NotFound { .. })));
    assert!(
        store.list(&SessionFilter { unanswered: true, ..SessionFilter::default() }).await.unwrap().is_empty()
    );
    let again = store.create(at("s_1")).await.unwrap();
    add(&*again, "new").await.unwrap();
    assert_eq!(store.read(&"s_1".into()).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn files_of_a_directory_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("sessions");
    let store = FileMapStore::new(dir_map(&root));
    let session = store.create(at("s_1")).await.unwrap();
    add(&*session, "one").await.unwrap();
    session.close().await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&root), mode(&root.join("s_1"))), (0o700, 0o700));
    let mut files = 0;
    for entry in root.join("s_1").read_dir().unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
        files += 1;
    }
    assert!(files >= 3);
    store.delete(&"s_1".into()).await.unwrap();
    assert!(!root.join("s_1").exists());
    let escape = dir_map(&root).save("../x/y", Vec::new()).await.unwrap_err();
    assert!(escape.to_string().contains("no name of a session's file"), "{escape}");
}

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("sessions");
    std::fs::write(&root, "of the person").unwrap();
    let store = FileMapStore::new(dir_map(&root));
    let error = store.list(&SessionFilter::default()).await.unwrap_err().to_string();
    assert!(error.contains("it is a file") && error.contains("sessions"), "{error}");
    assert!(store.open(&"s_1".into()).await.is_err());
    let session = store.create(at("s_1")).await;
    assert!(session.is_err() || add(&*session.unwrap(), "one").await.is_err());
    assert_eq!(std::fs::read_to_string(&root).unwrap(), "of the person");
}
