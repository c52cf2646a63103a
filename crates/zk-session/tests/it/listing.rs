use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use zk_core::model::SessionId;
use zk_core::service::{NewSession, SessionFilter, SessionStore, StoreError};
use zk_session::{SqliteStore, latest};

use crate::support::{at, file, files, says, stored, unit, whole_units};

async fn list(store: &SqliteStore) -> Vec<zk_core::service::SessionInfo> {
    store.list(&SessionFilter::default()).await.unwrap()
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
    session.append(unit(0)).await.unwrap();
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
    assert_eq!((info.messages, info.title.as_str(), info.damaged), (333, "prompt 0", None));
}

#[tokio::test]
async fn fifty_thousand_entries_open_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    for _ in 0..50 {
        session.append((0..1000).map(|n| says(&format!("number {n}"))).collect()).await.unwrap();
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
    fs::write(dir.path().join("s/stray"), b"a file where folders are").unwrap();
    let all = list(&store).await;
    let about = |id: &str| all.iter().find(|info| info.id.as_str() == id);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(about("noise").unwrap().damaged.as_ref().unwrap().contains("not a database"));
    assert!(about(good.as_str()).unwrap().damaged.is_none());
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
        let error = session.append(vec![says("x")]).await.unwrap_err().to_string();
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
    let id = stored(&store, &link, 1).await;
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
    for suffix in ["db.quarantine", "damaged-1", "damaged-2", "damaged-2-wal", "salvage"] {
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
                assert!(list(&store).await.remove(0).damaged.is_none());
            }
        }
    });
    for n in 2..40 {
        let session = store.open(&id).await.unwrap();
        session.append(unit(n)).await.unwrap();
        session.close().await.unwrap();
    }
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled(), "the listing failed");
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 40);
}
