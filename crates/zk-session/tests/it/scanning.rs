use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use zk_core::service::{Entry, SessionStore};
use zk_session::SqliteStore;

use crate::support::{Add, file, stored, unit, whole_units};

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
