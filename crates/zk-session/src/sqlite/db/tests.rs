use rusqlite::OpenFlags;

use super::*;

#[test]
fn without_shared_memory_the_journal_falls_back() {
    let dir = tempfile::tempdir().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let path = dir.path().join("x.db");
    // This variant of SQLite's file layer locks with lock files and has no shared memory.
    let conn = Connection::open_with_flags_and_vfs(&path, flags, c"unix-dotfile").unwrap();
    assert_eq!(prepare(&conn, true).unwrap(), "delete");
    let mut db = Db::without_tables(conn, Meta::default());
    let run = EntryKind::RunStart { run_id: "r".into() };
    db.write(&[Draft::new(run).unwrap()], &[], 7, Durability::Disk).unwrap();
    drop(db);
    let conn = connect_read_only(&path, BUSY).unwrap();
    assert_eq!(conn.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn a_normal_file_system_gets_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    std::fs::File::create(&path).unwrap();
    let conn = connect(&path).unwrap();
    assert_eq!(prepare(&conn, true).unwrap(), "wal");
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(synchronous, 1);
}
