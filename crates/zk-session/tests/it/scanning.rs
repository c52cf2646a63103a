use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use zk_core::service::{Entry, SessionFilter, SessionStore, StoreError};
use zk_session::SqliteStore;

use crate::support::{Add, every, file, files, stored, unit, whole_units};

#[tokio::test]
async fn a_session_is_written_and_its_log_emptied_while_its_entries_are_visited() {
    const UNITS: usize = 99;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let id = stored(&store, dir.path(), UNITS).await;
    let (writing, written, db) = (SqliteStore::new(root), id.clone(), file(dir.path(), ".db"));
    let visited: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let seen = visited.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        let mut seen = seen.lock().unwrap();
        seen.push(entry);
        if seen.len() == 2 {
            Runtime::new().unwrap().block_on(async {
                let session = writing.open(&written).await.unwrap();
                session.add(unit(UNITS)).await.unwrap();
                let conn = Connection::open(&db).unwrap();
                let is_read: bool =
                    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
                assert!(!is_read, "the log must be kept for a reader");
                session.close().await.unwrap();
            });
        }
        ControlFlow::Continue(())
    });
    let scan = store.scan(&id, visit).await.unwrap();
    assert_eq!(scan.notices, Vec::<String>::new());
    assert_eq!(whole_units(&visited.lock().unwrap()), UNITS, "what was there when it began");
    assert_eq!(whole_units(&store.read(&id).await.unwrap().entries), UNITS + 1);
}

#[tokio::test]
async fn a_session_that_is_not_whole_is_neither_listed_nor_opened_until_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let incomplete = store.incomplete();
    let id = stored(&incomplete, dir.path(), 4).await;
    assert!(store.list(&every()).await.unwrap().is_empty());
    assert!(matches!(store.open(&id).await, Err(StoreError::NotFound { .. })));
    store.take_complete(&id).await.unwrap();
    assert_eq!(whole_units(&store.read(&id).await.unwrap().entries), 4);
    let here = SessionFilter { cwd: Some(dir.path().to_owned()), ..every() };
    assert_eq!(store.list(&here).await.unwrap().len(), 1);
    assert!(incomplete.list(&every()).await.unwrap().is_empty());
    assert!(files(&dir.path().join("s/.incomplete")).is_empty());
}
