use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Arc;

use rusqlite::Connection;
use zk_core::kernel::Source;
use zk_core::model::SessionId;
use zk_core::service::{
    Audience, CustomEntry, EntryKind, NewEntry, NewSession, RunStatus, SessionFilter, SessionStore,
    StoreError, Unreadable,
};
use zk_session::{MemoryStore, SqliteStore, discard_unanswered, latest, read_matching};

use crate::support::{Add, Ticking, at, every, file, files, says, stored, unit, whole_units};

async fn list(store: &SqliteStore) -> Vec<zk_core::service::SessionInfo> {
    store.list(&every()).await.unwrap()
}

#[tokio::test]
async fn creating_touches_no_disk() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("not/yet");
    let store = SqliteStore::new(root.clone());
    assert!(list(&store).await.is_empty());
    let session = store.create(at(dir.path())).await.unwrap();
    session.close().await.unwrap();
    assert!(!dir.path().join("not").exists());
}

#[tokio::test]
async fn files_and_folders_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b");
    let store = SqliteStore::new(root.clone());
    let session = store.create(at(dir.path())).await.unwrap();
    session.add(unit(0)).await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let open = files(&root);
    assert_eq!(open.len(), 4, "{open:?}");
    for path in &open {
        assert_eq!(mode(path), 0o600, "{path:?}");
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
    assert_eq!(mode(&root), 0o700);
    assert_eq!(mode(root.parent().unwrap()), 0o700);
    drop(session);
    assert_eq!(files(&root).len(), 1, "only the database stays: {:?}", files(&root));
}

#[tokio::test]
async fn a_title_that_a_person_gave_stays_while_the_session_is_open_and_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let id = session.id().clone();
    assert!(matches!(store.rename(&id, "x").await, Err(StoreError::NotFound { .. })), "it has no file yet");
    session.add(vec![says("the first prompt")]).await.unwrap();
    store.rename(&id, "a better\n\u{1b}title").await.unwrap();
    session.add(vec![says("more")]).await.unwrap();
    assert_eq!(list(&store).await[0].title, "a better title");
    session.close().await.unwrap();
    drop(session);
    let again = store.open(&id).await.unwrap();
    assert_eq!((again.notices(), again.entries().await.unwrap().len()), (Vec::new(), 2));
    again.add(vec![says("and more")]).await.unwrap();
    again.close().await.unwrap();
    drop(again);
    assert_eq!(list(&store).await[0].title, "a better title");
    store.rename(&id, "").await.unwrap();
    assert_eq!(list(&store).await[0].title, "the first prompt");
    assert_eq!(store.open(&id).await.unwrap().entries().await.unwrap().len(), 3);
    assert_eq!(files(&dir.path().join("s")).len(), 1, "{:?}", files(&dir.path().join("s")));
}

#[tokio::test]
async fn the_branch_of_the_last_run_is_listed_and_a_session_without_one_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let memory = MemoryStore::new();
    for store in [&store as &dyn SessionStore, &memory] {
        let branches = async || {
            let mut listed = store.list(&every()).await.unwrap();
            listed.pop().map(|info| info.branch)
        };
        let session = store.create(at(dir.path())).await.unwrap();
        session.note_branch("main".to_owned());
        assert_eq!(branches().await, None, "nothing is stored for a branch alone");
        session.add(vec![says("one")]).await.unwrap();
        assert_eq!(branches().await, Some(Some("main".to_owned())));
        session.add(vec![says("two")]).await.unwrap();
        let id = session.id().clone();
        session.close().await.unwrap();
        let again = store.open(&id).await.unwrap();
        again.add(vec![says("three")]).await.unwrap();
        assert_eq!(branches().await, Some(Some("main".to_owned())), "it is not forgotten");
        again.note_branch("mend/discounts".to_owned());
        again.add(vec![says("four")]).await.unwrap();
        again.close().await.unwrap();
        assert_eq!(branches().await, Some(Some("mend/discounts".to_owned())));
        store.delete(&id).await.unwrap();
        let without = store.create(at(dir.path())).await.unwrap();
        without.add(vec![says("one")]).await.unwrap();
        assert_eq!(branches().await, Some(None));
    }
}

#[tokio::test]
async fn a_listing_reads_no_entries() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    stored(&store, dir.path(), 200).await;
    // All that is left of the file is its schema and the table a listing needs.
    let db = file(dir.path(), ".db");
    let len = fs::metadata(&db).unwrap().len();
    let handle = fs::OpenOptions::new().write(true).open(&db).unwrap();
    handle.write_all_at(&vec![0xff; usize::try_from(len - 3 * 4096).unwrap()], 3 * 4096).unwrap();
    let info = list(&store).await.remove(0);
    assert_eq!((info.messages, info.title.as_str(), info.unreadable), (333, "prompt 0", None));
}

#[tokio::test]
async fn fifty_thousand_entries_open_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    for _ in 0..50 {
        session.add((0..1000).map(|n| says(&format!("number {n}"))).collect()).await.unwrap();
    }
    drop(session);
    let info = list(&store).await.remove(0);
    assert_eq!(info.messages, 50_000);
    let session = store.open(&info.id).await.unwrap();
    assert_eq!(session.entries().await.unwrap().len(), 50_000);
}

#[tokio::test]
async fn damaged_and_foreign_files_are_listed_as_such_and_hide_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let good = stored(&store, dir.path(), 3).await;
    let folder = file(dir.path(), ".db").parent().unwrap().to_path_buf();
    fs::write(folder.join("noise.db"), b"this is no database at all, and long enough to look at").unwrap();
    fs::write(folder.join("empty.db"), b"").unwrap();
    fs::write(folder.join("notes.txt"), b"hello").unwrap();
    let emptied = folder.join("emptied.db");
    fs::copy(folder.join(format!("{good}.db")), &emptied).unwrap();
    Connection::open(&emptied).unwrap().execute_batch("DELETE FROM meta").unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", folder.join("away.db")).unwrap();
    fs::write(dir.path().join("s/stray"), b"a file where folders are").unwrap();
    let all = list(&store).await;
    let about = |id: &str| all.iter().find(|info| info.id.as_str() == id);
    assert_eq!(all.len(), 4, "{all:?}");
    let why = |id: &str| about(id).unwrap().unreadable.clone();
    let is_damaged =
        |id: &str, word: &str| matches!(why(id), Some(Unreadable::Damaged(why)) if why.contains(word));
    assert!(is_damaged("noise", "not a database"));
    assert!(is_damaged("emptied", "how many entries"));
    assert!(matches!(why("away"), Some(Unreadable::OutOfReach(_))), "{all:?}");
    assert_eq!(why(good.as_str()), None);
    assert_eq!(latest(&store, dir.path()).await.unwrap().unwrap().id, good, "the damaged one is newer");
}

#[tokio::test]
async fn an_id_never_leads_out_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 1).await;
    let db = file(dir.path(), ".db");
    fs::copy(&db, dir.path().join("outside.db")).unwrap();
    for bad in ["../outside", "../../outside", "x/../../outside", "", ".", &format!("{id}.db")] {
        let bad = SessionId::from(bad);
        assert!(matches!(store.open(&bad).await.err(), Some(StoreError::NotFound { .. })), "{bad}");
        assert!(matches!(store.delete(&bad).await, Err(StoreError::NotFound { .. })), "{bad}");
        let session = store.create(NewSession { id: Some(bad.clone()), ..at(dir.path()) }).await.unwrap();
        let error = session.add(vec![says("x")]).await.unwrap_err().to_string();
        assert!(error.contains("cannot be the id"), "{error}");
    }
    assert!(dir.path().join("outside.db").exists());
}

#[tokio::test]
async fn a_directory_is_the_same_under_each_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, &link, 2).await;
    assert_eq!(latest(&store, &real).await.unwrap().unwrap().id, id);
    assert_eq!(latest(&store, &real.join("../link")).await.unwrap().unwrap().id, id);
    let session = store.open(&id).await.unwrap();
    assert_eq!(session.cwd().unwrap(), real.canonicalize().unwrap());
}

#[tokio::test]
async fn deleting_leaves_nothing_of_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let (one, other) = (stored(&store, dir.path(), 3).await, stored(&store, dir.path(), 1).await);
    let folder = file(dir.path(), &format!("{other}.db")).parent().unwrap().to_path_buf();
    for suffix in ["db.quarantine", "damaged-1", "damaged-2", "damaged-2-wal", "recovery", "image"] {
        fs::write(folder.join(format!("{one}.{suffix}")), "x").unwrap();
    }
    store.delete(&one).await.unwrap();
    assert_eq!(files(dir.path()), [folder.join(format!("{other}.db"))]);
    assert_eq!(whole_units(&store.open(&other).await.unwrap().entries().await.unwrap()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_never_keeps_a_session_from_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    let busy = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                assert!(list(&store).await.remove(0).unreadable.is_none());
            }
        }
    });
    for n in 2..40 {
        let session = store.open(&id).await.unwrap();
        session.add(unit(n)).await.unwrap();
        session.close().await.unwrap();
    }
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled(), "the listing failed");
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 40);
}

#[tokio::test]
async fn a_session_can_be_read_while_it_is_written_and_without_changing_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    let db = file(dir.path(), ".db");
    let before = fs::read(&db).unwrap();
    let closed = store.read(&id).await.unwrap();
    assert_eq!((whole_units(&closed.entries), closed.info.lock, closed.notices), (2, None, Vec::new()));
    assert_eq!(fs::read(&db).unwrap(), before);
    let session = store.open(&id).await.unwrap();
    session.add(unit(2)).await.unwrap();
    let beside = store.read(&id).await.unwrap();
    assert_eq!(whole_units(&beside.entries), 3);
    assert_eq!(beside.info.lock.map(|lock| lock.pid), Some(std::process::id()));
    session.add(unit(3)).await.unwrap();
    assert_eq!(whole_units(&store.read(&id).await.unwrap().entries), 4);
    let begin = id.as_str().get(..id.as_str().len() - 1).unwrap();
    assert_eq!(read_matching(&store, begin).await.unwrap().info.id, id);
    assert!(matches!(store.read(&"s_none".into()).await.err(), Some(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn the_end_of_a_session_is_read_without_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 3).await;
    let all = store.read(&id).await.unwrap().entries;
    for (most, left) in [(0, 0), (2, 2), (usize::MAX, all.len())] {
        assert_eq!(store.last_entries(&id, most).await.unwrap(), all[all.len() - left..]);
    }
    let session = store.open(&id).await.unwrap();
    session.add(unit(3)).await.unwrap();
    let last = session.entries().await.unwrap().pop();
    assert_eq!(store.last_entries(&id, 1).await.unwrap().pop(), last, "also beside a writer");
    drop(session);
    let db = Connection::open(file(dir.path(), ".db")).unwrap();
    db.execute("UPDATE entries SET kind = '{}' WHERE seq = 2", []).unwrap();
    let left = store.last_entries(&id, usize::MAX).await.unwrap();
    assert_eq!(left.len(), all.len() - 2 + unit(3).len(), "up to what cannot be read");
    assert!(matches!(store.last_entries(&"s_none".into(), 1).await.err(), Some(StoreError::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_beside_a_writer_never_takes_it_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    session.add(unit(0)).await.unwrap();
    let writing = tokio::spawn({
        let session = session.clone();
        async move {
            for n in 1..300 {
                session.add(unit(n)).await.unwrap();
            }
        }
    });
    let mut reads = 0;
    while !writing.is_finished() || reads == 0 {
        let snapshot = store.read(session.id()).await.unwrap();
        assert!(snapshot.notices.is_empty(), "{:?}", snapshot.notices);
        whole_units(&snapshot.entries);
        reads += 1;
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_session_without_an_answer_is_listed_only_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let run = |id: &str| EntryKind::RunStart { run_id: id.into() };
    let asked = store.create(at(dir.path())).await.unwrap();
    asked.add(vec![run("r_1"), says("no answer yet")]).await.unwrap();
    let answered = stored(&store, dir.path(), 2).await;
    let ids =
        |all: Vec<zk_core::service::SessionInfo>| all.into_iter().map(|info| info.id).collect::<Vec<_>>();
    assert_eq!(ids(store.list(&SessionFilter::default()).await.unwrap()), std::slice::from_ref(&answered));
    assert_eq!(ids(list(&store).await).len(), 2);
    assert_eq!(latest(&store, dir.path()).await.unwrap().unwrap().id, answered);
    let info = |id: &SessionId| {
        let (store, id) = (store.clone(), id.clone());
        async move { store.read(&id).await.unwrap().info }
    };
    assert!(!info(asked.id()).await.interrupted, "somebody has it open");
    let id = asked.id().clone();
    drop(asked);
    let left = info(&id).await;
    assert!(left.interrupted && !left.answered, "its run was cut off");
    let session = store.open(&id).await.unwrap();
    session.add(unit(1)).await.unwrap();
    drop(session);
    assert!(info(&id).await.answered);
}

#[tokio::test]
async fn the_newest_session_is_continued_although_its_prompt_was_never_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s")).with_clock(Arc::new(Ticking::default()));
    let older = stored(&store, dir.path(), 2).await;
    let asked = store.create(at(dir.path())).await.unwrap();
    asked.add(vec![EntryKind::RunStart { run_id: "r_1".into() }, says("no answer yet")]).await.unwrap();
    assert_eq!(latest(&store, dir.path()).await.unwrap().unwrap().id, older, "its process is at work");
    let id = asked.id().clone();
    drop(asked);
    assert_eq!(latest(&store, dir.path()).await.unwrap().unwrap().id, id);
    store.delete(&older).await.unwrap();
    assert_eq!(latest(&store, dir.path()).await.unwrap().unwrap().id, id, "also where it is the only one");
}

#[tokio::test]
async fn only_a_session_of_nothing_but_prompts_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let custom = EntryKind::Custom(NewEntry::hidden("note", 1, "kept".into()).by(&Source::new("notes")));
    let end = EntryKind::RunEnd { run_id: "r".into(), status: RunStatus::Error };
    for (more, goes) in [(vec![end], true), (vec![custom], false), (unit(1), false)] {
        let session = store.create(at(dir.path())).await.unwrap();
        session.add([vec![says("hello")], more].concat()).await.unwrap();
        let id = session.id().clone();
        assert!(matches!(discard_unanswered(&store, &id).await, Ok(false) | Err(StoreError::InUse { .. })));
        session.close().await.unwrap();
        drop(session);
        assert_eq!(discard_unanswered(&store, &id).await.unwrap(), goes);
        assert_eq!(store.read(&id).await.is_err(), goes);
        assert!(!discard_unanswered(&store, &"s_none".into()).await.unwrap());
    }
}

#[tokio::test]
async fn an_entry_of_a_plugin_without_kind_and_audience_is_still_read() {
    let old = serde_json::json!({"entry": "custom", "source": "todo", "data": {"open": 3}});
    let EntryKind::Custom(CustomEntry { source, kind, version, audience, .. }) =
        serde_json::from_value(old).unwrap()
    else {
        panic!("another entry")
    };
    assert_eq!((source.as_str(), kind.as_str(), version, audience), ("todo", "", 0, Audience::Hidden));
}

#[tokio::test]
async fn a_file_of_the_first_format_is_read_and_goes_on_in_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 3).await;
    let db = file(dir.path(), ".db");
    let first = "PRAGMA user_version=1; DELETE FROM meta WHERE key IN ('answered', 'running')";
    Connection::open(&db).unwrap().execute_batch(first).unwrap();
    let version = || -> u32 {
        let conn = Connection::open(&db).unwrap();
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    assert!(store.list(&SessionFilter::default()).await.unwrap()[0].answered);
    let session = store.open(&id).await.unwrap();
    assert_eq!(version(), 1, "opening changes nothing");
    session.add(unit(3)).await.unwrap();
    drop(session);
    assert_eq!(version(), 3);
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 4);
}

/// A process that was killed in a transaction with a rollback journal, which is how a file is made.
#[tokio::test]
async fn a_session_that_was_killed_with_a_rollback_journal_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 9).await;
    let path = file(dir.path(), ".db");
    let journal = path.with_extension("db-journal");
    let conn = Connection::open(&path).unwrap();
    let change = "PRAGMA journal_mode=DELETE; PRAGMA cache_size=1; BEGIN IMMEDIATE;
                  UPDATE entries SET kind = kind || kind; DELETE FROM meta;";
    conn.execute_batch(change).unwrap();
    let halfway = [&path, &journal].map(|path| fs::read(path).unwrap());
    drop(conn);
    fs::write(&path, &halfway[0]).unwrap();
    fs::write(&journal, &halfway[1]).unwrap();
    let listed = store.list(&every()).await.unwrap().remove(0);
    assert_eq!((listed.id, listed.title.as_str(), listed.unreadable), (id.clone(), "prompt 0", None));
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 9);
}
