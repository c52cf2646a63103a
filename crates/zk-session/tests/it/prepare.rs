use zk_core::service::SessionStore;
use zk_session::SqliteStore;

use crate::support::{Add, at, every, file, files, unit, whole_units};

#[tokio::test]
async fn what_was_prepared_is_gone_again_if_no_entry_comes() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("sessions"));
    for closes in [true, false] {
        let session = store.create(at(dir.path())).await.unwrap();
        session.prepare();
        assert!(session.entries().await.unwrap().is_empty());
        assert!(file(dir.path(), ".db").exists());
        assert!(store.list(&every()).await.unwrap().is_empty(), "it is no session yet");
        if closes {
            session.close().await.unwrap();
        }
        drop(session);
        assert_eq!(files(dir.path()), Vec::<std::path::PathBuf>::new());
    }
}

#[tokio::test]
async fn a_session_is_stored_as_ever_after_it_was_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("sessions"));
    let session = store.create(at(dir.path())).await.unwrap();
    session.prepare();
    session.prepare();
    session.add(unit(0)).await.unwrap();
    session.prepare();
    session.add(unit(1)).await.unwrap();
    session.close().await.unwrap();
    let entries = store.open(session.id()).await.unwrap().entries().await.unwrap();
    assert_eq!(whole_units(&entries), 2);
}

#[tokio::test]
async fn what_cannot_be_prepared_is_told_when_there_is_something_to_store() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("sessions");
    std::fs::write(&root, "a file where the folder should be").unwrap();
    let session = SqliteStore::new(root.clone()).create(at(dir.path())).await.unwrap();
    session.prepare();
    assert!(session.add(unit(0)).await.is_err());
    std::fs::remove_file(&root).unwrap();
    session.add(unit(0)).await.unwrap();
    session.close().await.unwrap();
}
