//! Behaviour of every store, tested on each of them.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use zk_core::model::{ModelRef, SessionId};
use zk_core::service::{Entry, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError};
use zk_session::{MemoryStore, SqliteStore, latest, open_matching};

use crate::support::{Add, Ticking, at, chained, every, kinds, says, stored, unit, whole_units};

#[tokio::test]
async fn memory_conforms() {
    let store =
        || -> Arc<dyn SessionStore> { Arc::new(MemoryStore::new().with_clock(Arc::new(Ticking::default()))) };
    conform(store).await;
}

#[tokio::test]
async fn sqlite_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let n = std::cell::Cell::new(0);
    let store = || -> Arc<dyn SessionStore> {
        n.set(n.get() + 1);
        let root = dir.path().join(n.get().to_string());
        // Real dates: a listing relies on the times of files.
        Arc::new(SqliteStore::new(root))
    };
    conform(store).await;
}

async fn conform(store: impl Fn() -> Arc<dyn SessionStore>) {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    what_is_appended_comes_back_in_order(&*store(), here.path()).await;
    a_session_without_entries_does_not_exist(&*store(), here.path()).await;
    a_prepared_session_exists_with_its_first_entries(&*store(), here.path()).await;
    one_writer_at_a_time(&*store(), here.path()).await;
    a_closed_session_takes_nothing_more(&*store(), here.path()).await;
    an_id_is_taken_once(&*store(), here.path()).await;
    listing_is_newest_first_and_by_directory(&*store(), here.path(), there.path()).await;
    a_listing_names_the_parent(&*store(), here.path()).await;
    a_deleted_session_is_gone(&*store(), here.path()).await;
    an_id_may_be_shortened(&*store(), here.path()).await;
    appends_of_many_tasks_are_one_chain(&*store(), here.path()).await;
    a_scan_visits_what_a_read_gives_until_it_is_broken_off(&*store(), here.path()).await;
}

async fn a_scan_visits_what_a_read_gives_until_it_is_broken_off(store: &dyn SessionStore, cwd: &Path) {
    let id = stored(store, cwd, 9).await;
    let expected = store.read(&id).await.unwrap().entries;
    for most in [usize::MAX, 4] {
        let visited: Arc<Mutex<Vec<(Entry, usize)>>> = Arc::default();
        let seen = visited.clone();
        let visit = Box::new(move |entry: Entry, bytes: usize| {
            let mut seen = seen.lock().unwrap();
            seen.push((entry, bytes));
            if seen.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let scan = store.scan(&id, visit).await.unwrap();
        assert_eq!((scan.info.id, scan.notices), (id.clone(), Vec::<String>::new()));
        let visited = visited.lock().unwrap();
        let count = expected.len().min(most);
        assert!(
            visited.iter().map(|(entry, _)| entry).eq(&expected[..count]),
            "{} of {count}",
            visited.len()
        );
        let bytes = |entry: &Entry| serde_json::to_string(&entry.kind).unwrap().len();
        assert!(visited.iter().all(|(entry, size)| *size == bytes(entry)));
    }
    let unknown = store.scan(&"s_nowhere".into(), Box::new(|_, _| ControlFlow::Continue(()))).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
}

use std::path::Path;

async fn what_is_appended_comes_back_in_order(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    assert_eq!(session.cwd().as_deref(), Some(cwd));
    let model = EntryKind::Model { model: ModelRef::new("p", "m") };
    let first = session.add(vec![says("hello"), model.clone()]).await.unwrap();
    assert!(session.add(Vec::new()).await.unwrap().is_empty());
    let second = session.add(unit(1)).await.unwrap();
    let ids = [first, second].concat();
    let written = session.entries().await.unwrap();
    assert_eq!(written.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(), ids);
    assert!(chained(&written));
    let id = session.id().clone();
    drop(session);

    let session = store.open(&id).await.unwrap();
    assert_eq!(session.id(), &id);
    assert!(session.notices().is_empty());
    assert_eq!(session.entries().await.unwrap(), written);
    assert_eq!(session.entries().await.unwrap(), written, "reading is repeatable");
    session.add(vec![says("more")]).await.unwrap();
    let all = session.entries().await.unwrap();
    assert_eq!(all.len(), 5);
    assert!(chained(&all));
}

async fn a_session_without_entries_does_not_exist(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    assert!(session.entries().await.unwrap().is_empty());
    assert!(session.add(Vec::new()).await.unwrap().is_empty());
    assert!(store.list(&every()).await.unwrap().is_empty());
    let opened = store.open(session.id()).await;
    assert!(matches!(opened.err(), Some(StoreError::NotFound { .. })));
    session.close().await.unwrap();
}

async fn a_prepared_session_exists_with_its_first_entries(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    session.prepare();
    assert!(session.entries().await.unwrap().is_empty());
    assert!(store.list(&every()).await.unwrap().is_empty());
    session.add(unit(0)).await.unwrap();
    assert_eq!(store.list(&every()).await.unwrap().len(), 1);
    session.close().await.unwrap();
}

async fn one_writer_at_a_time(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    session.add(unit(0)).await.unwrap();
    let id = session.id().clone();
    let in_use = |error: Option<StoreError>| {
        let Some(StoreError::InUse { id: named, pid }) = error else { panic!("{error:?}") };
        assert_eq!((named, pid), (id.clone(), std::process::id()));
    };
    in_use(store.open(&id).await.err());
    in_use(store.delete(&id).await.err());
    let listed = &store.list(&every()).await.unwrap()[0];
    assert_eq!(listed.lock.as_ref().map(|lock| lock.pid), Some(std::process::id()));
    drop(session);
    let session = store.open(&id).await.unwrap();
    in_use(store.open(&id).await.err());
    session.close().await.unwrap();
    let again = store.open(&id).await.unwrap();
    drop(session);
    in_use(store.open(&id).await.err());
    drop(again);
    assert_eq!(store.list(&every()).await.unwrap()[0].lock, None);
}

async fn a_closed_session_takes_nothing_more(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    session.add(unit(0)).await.unwrap();
    session.close().await.unwrap();
    session.close().await.unwrap();
    assert!(matches!(session.add(unit(1)).await, Err(StoreError::Failed(_))));
    assert!(matches!(session.entries().await, Err(StoreError::Failed(_))));
    assert_eq!(whole_units(&store.open(session.id()).await.unwrap().entries().await.unwrap()), 1);
}

async fn an_id_is_taken_once(store: &dyn SessionStore, cwd: &Path) {
    let named = || NewSession { id: Some("mine".into()), ..at(cwd) };
    let session = store.create(named()).await.unwrap();
    session.add(unit(0)).await.unwrap();
    drop(session);
    let second = store.create(named()).await.unwrap();
    assert!(second.add(vec![says("other")]).await.is_err());
    drop(second);
    assert_eq!(whole_units(&store.open(&"mine".into()).await.unwrap().entries().await.unwrap()), 1);
}

async fn listing_is_newest_first_and_by_directory(store: &dyn SessionStore, here: &Path, there: &Path) {
    let open: Vec<Arc<dyn OpenSession>> = [
        store.create(at(here)).await.unwrap(),
        store.create(at(there)).await.unwrap(),
        store.create(at(here)).await.unwrap(),
    ]
    .into();
    for (n, session) in open.iter().enumerate() {
        session.add(vec![says(&format!("prompt\n{n}"))]).await.unwrap();
        pause().await;
    }
    open[0].add(unit(1)).await.unwrap();
    pause().await;
    let ids: Vec<SessionId> = open.iter().map(|session| session.id().clone()).collect();
    // The order of the last entries counts, not that of creating or closing.
    for session in open.into_iter().rev() {
        session.close().await.unwrap();
    }
    let list = async |cwd: Option<&Path>, limit| {
        let filter = SessionFilter { cwd: cwd.map(Path::to_path_buf), limit, unanswered: true };
        store.list(&filter).await.unwrap()
    };
    let order =
        |list: &[zk_core::service::SessionInfo]| list.iter().map(|info| info.id.clone()).collect::<Vec<_>>();
    assert_eq!(order(&list(None, None).await), [&ids[0], &ids[2], &ids[1]].map(Clone::clone));
    assert_eq!(order(&list(None, Some(2)).await), [&ids[0], &ids[2]].map(Clone::clone));
    assert_eq!(order(&list(Some(here), None).await), [&ids[0], &ids[2]].map(Clone::clone));
    assert_eq!(order(&list(Some(there), Some(5)).await), [ids[1].clone()]);
    assert!(list(None, Some(0)).await.is_empty());
    assert!(list(Some(Path::new("/no/such/directory")), None).await.is_empty());
    let newest = latest(store, here).await.unwrap().unwrap();
    assert_eq!((&newest.id, newest.messages, newest.title.as_str()), (&ids[0], 3, "prompt 0"));
    assert!(newest.created < newest.updated && newest.unreadable.is_none() && newest.lock.is_none());
    assert_eq!(latest(store, Path::new("/no/such/directory")).await.unwrap().map(|info| info.id), None);
}

/// Waits for the clock to advance, so that dates differ.
async fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(3));
}

async fn a_listing_names_the_parent(store: &dyn SessionStore, cwd: &Path) {
    let first = store.create(at(cwd)).await.unwrap();
    first.add(unit(0)).await.unwrap();
    let (cwd, parent) = (cwd.to_path_buf(), Some(first.id().clone()));
    let copy = store.create(NewSession { id: None, cwd, parent: parent.clone() }).await.unwrap();
    copy.add(unit(0)).await.unwrap();
    let info = async |id: &SessionId| store.read(id).await.unwrap().info.parent;
    assert_eq!((info(first.id()).await, info(copy.id()).await), (None, parent.clone()));
    copy.close().await.unwrap();
    let again = store.open(copy.id()).await.unwrap();
    again.add(unit(1)).await.unwrap();
    let listed = store.list(&every()).await.unwrap();
    let parents: Vec<_> =
        listed.into_iter().filter(|one| one.id == *copy.id()).map(|one| one.parent).collect();
    assert_eq!(parents, [parent]);
}

async fn a_deleted_session_is_gone(store: &dyn SessionStore, cwd: &Path) {
    let id = stored(store, cwd, 2).await;
    store.delete(&id).await.unwrap();
    assert!(matches!(store.open(&id).await.err(), Some(StoreError::NotFound { .. })));
    assert!(matches!(store.delete(&id).await, Err(StoreError::NotFound { .. })));
    assert!(store.list(&every()).await.unwrap().is_empty());
}

async fn an_id_may_be_shortened(store: &dyn SessionStore, cwd: &Path) {
    for id in ["s_abcd1", "s_abcd2", "s_xyz"] {
        let session = store.create(NewSession { id: Some(id.into()), ..at(cwd) }).await.unwrap();
        session.add(unit(0)).await.unwrap();
    }
    let found = async |text: &str| open_matching(store, text).await.map(|session| session.id().to_string());
    assert_eq!(found("s_xyz").await.unwrap(), "s_xyz");
    assert_eq!(found("xy").await.unwrap(), "s_xyz");
    assert_eq!(found("abcd2").await.unwrap(), "s_abcd2");
    let several = found("abcd").await.unwrap_err().to_string();
    assert!(several.contains("2 sessions begin with that") && several.contains("s_abcd1"), "{several}");
    let near = found("abcdefgh").await.unwrap_err().to_string();
    assert!(near.contains("did you mean `s_abcd"), "{near}");
    let none = found("").await.unwrap_err().to_string();
    assert!(none.starts_with("unknown session ``"), "{none}");
}

async fn appends_of_many_tasks_are_one_chain(store: &dyn SessionStore, cwd: &Path) {
    let session = store.create(at(cwd)).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move {
                for step in 0..10 {
                    session.add(vec![says(&format!("{n}")), says(&format!("{n}.{step}"))]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let entries = session.entries().await.unwrap();
    assert_eq!(entries.len(), 400);
    assert!(chained(&entries));
    let texts: Vec<String> = kinds(&session)
        .await
        .iter()
        .map(|kind| match kind {
            EntryKind::Message { message, .. } => message.text(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(texts.chunks(2).all(|pair| pair[1].starts_with(&format!("{}.", pair[0]))), "an append was split");
}
