use std::path::Path;

use rusqlite::Connection;
use zk_memory::{MemoryError, MemoryStore, RecallQuery};
use zk_permission::Mode;
use zk_testkit::Script;

use crate::rig::{db, fact, rig};

fn with_fact() -> (tempfile::TempDir, MemoryStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(db(dir.path()));
    store.keep(&fact("Tests run with make", Path::new("/p"))).unwrap();
    (dir, store)
}

fn recall(dir: &Path) -> Result<Option<usize>, MemoryError> {
    let found = MemoryStore::new(db(dir)).recall(&RecallQuery::new("tests", "/p"))?;
    Ok(found.map(|found| found.facts.len()))
}

#[test]
fn a_damaged_file_is_told_and_kept() {
    for damage in [b"not a database at all, but a text".as_slice(), &[0; 8192], b"SQLite format 3\0garbage"] {
        let (dir, store) = with_fact();
        drop(store);
        std::fs::write(db(dir.path()), damage).unwrap();
        let error = recall(dir.path());
        assert!(matches!(error, Err(MemoryError::Damaged { .. }) | Ok(None)), "{error:?}");
        let kept = MemoryStore::new(db(dir.path())).keep(&fact("more", Path::new("/p")));
        assert!(matches!(kept, Err(MemoryError::Damaged { .. })), "{kept:?}");
        assert_eq!(std::fs::read(db(dir.path())).unwrap(), damage);
    }
}

#[test]
fn damaged_pages_are_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(db(dir.path()));
    for number in 0..500 {
        store.keep(&fact(&format!("Tests of part {number} run with make"), Path::new("/p"))).unwrap();
    }
    drop(store);
    let mut bytes = std::fs::read(db(dir.path())).unwrap();
    bytes[4096..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7));
    std::fs::write(db(dir.path()), &bytes).unwrap();
    let error = recall(dir.path());
    assert!(matches!(error, Err(MemoryError::Damaged { .. })), "{error:?}");
    assert_eq!(std::fs::read(db(dir.path())).unwrap(), bytes);
}

#[test]
fn a_file_of_an_older_format_is_upgraded_and_keeps_its_facts_and_vectors() {
    let of_2 = "DROP TABLE vectors; CREATE TABLE vectors(
            fact INTEGER PRIMARY KEY REFERENCES facts(id) ON DELETE CASCADE, model TEXT NOT NULL, vector BLOB NOT NULL
        ) STRICT; INSERT INTO vectors SELECT id, 'm', x'0000803f' FROM facts; PRAGMA user_version = 2";
    for (downgrade, vectors) in
        [("DROP INDEX facts_by_file; DROP TABLE vectors; PRAGMA user_version = 1", 0), (of_2, 1)]
    {
        let (dir, store) = with_fact();
        drop(store);
        Connection::open(db(dir.path())).unwrap().execute_batch(downgrade).unwrap();
        assert_eq!(recall(dir.path()).unwrap(), Some(1));
        let conn = Connection::open(db(dir.path())).unwrap();
        let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 3);
        // Vectors of two models stand beside each other.
        conn.execute_batch("INSERT INTO vectors SELECT id, 'other', x'0000803f' FROM facts").unwrap();
        let count: i64 = conn.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
        assert_eq!(count, vectors + 1);
    }
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (dir, store) = with_fact();
    drop(store);
    Connection::open(db(dir.path())).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let before = std::fs::read(db(dir.path())).unwrap();
    let error = recall(dir.path()).unwrap_err();
    assert!(error.to_string().contains("format 99, this zk reads 3"), "{error}");
    assert_eq!(std::fs::read(db(dir.path())).unwrap(), before);
}

#[test]
fn a_file_that_cannot_grow_keeps_what_it_has() {
    let (dir, store) = with_fact();
    drop(store);
    // SQLite answers as on a full disk.
    let pages: i64 = Connection::open(db(dir.path()))
        .unwrap()
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    let full = Connection::open(db(dir.path())).unwrap();
    full.pragma_update(None, "max_page_count", pages).unwrap();
    let big = "x".repeat(100_000);
    let error =
        full.execute("INSERT INTO recalls(project, time_ms, words) VALUES('', 0, ?1)", [big]).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
    drop(full);
    assert_eq!(recall(dir.path()).unwrap(), Some(1));
}

#[test]
fn links_in_the_place_of_the_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("precious");
    std::fs::write(&target, "mine").unwrap();
    std::fs::create_dir_all(db(dir.path()).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, db(dir.path())).unwrap();
    let error = MemoryStore::new(db(dir.path())).keep(&fact("x", Path::new("/p"))).unwrap_err();
    assert!(error.to_string().contains("it is a link"), "{error}");
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
}

#[tokio::test]
async fn a_run_goes_on_without_a_damaged_memory_and_the_person_is_told_once() {
    let rig = rig(Mode::Ask, Script::new().turn(|turn| turn.text("Hi.")).turn(|turn| turn.text("Hi again.")));
    std::fs::create_dir_all(db(rig.dir.path()).parent().unwrap()).unwrap();
    std::fs::write(db(rig.dir.path()), "no database").unwrap();
    let notices = crate::turns::notices(&rig);
    rig.run("Hello tests").await;
    rig.run("Hello tests again").await;
    let told = notices.lock().unwrap().clone();
    assert_eq!(told.iter().filter(|line| line.contains("is damaged")).count(), 1, "{told:?}");
    assert_eq!(rig.provider.requests().len(), 2);
}
