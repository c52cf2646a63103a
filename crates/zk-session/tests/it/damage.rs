use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zk_core::model::SessionId;
use zk_core::service::{Entry, SessionStore, StoreError, Unreadable};
use zk_session::SqliteStore;

use crate::processes::{appender, lines};
use crate::support::{Add, at, every, file, files, stored, unit, whole_units};

/// A stored session that can be put back as it was.
struct Specimen {
    dir: TempDir,
    store: SqliteStore,
    id: SessionId,
    db: PathBuf,
    bytes: Vec<u8>,
    /// The write-ahead log and the lock file of a session that was not closed.
    log: Option<Vec<u8>>,
    lock: Option<Vec<u8>>,
    entries: Vec<Entry>,
}

impl Specimen {
    /// A session that was closed.
    fn closed(units: usize) -> Self {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s"));
        let id = runtime.block_on(stored(&store, dir.path(), units));
        Self::of(&runtime, dir, store, id)
    }

    /// A session whose process was killed: everything is in the log still.
    fn killed() -> Self {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s"));
        let id = SessionId::from("s_killed");
        let mut child = appender(&dir.path().join("s"), &id, None);
        assert!(lines(&mut child).nth(20).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        Self::of(&runtime, dir, store, id)
    }

    fn of(runtime: &Runtime, dir: TempDir, store: SqliteStore, id: SessionId) -> Self {
        let db = file(dir.path(), ".db");
        let bytes = fs::read(&db).unwrap();
        let log = fs::read(with(&db, "-wal")).ok();
        let lock = fs::read(db.with_extension("lock")).ok();
        let entries = runtime.block_on(async { store.open(&id).await.unwrap().entries().await.unwrap() });
        Self { dir, store, id, db, bytes, log, lock, entries }
    }

    /// Replaces the session's file by these bytes, without side files.
    fn put(&self, bytes: &[u8], log: Option<&[u8]>) {
        for path in files(self.dir.path()) {
            fs::remove_file(path).unwrap();
        }
        fs::write(&self.db, bytes).unwrap();
        if let Some(log) = log {
            fs::write(with(&self.db, "-wal"), log).unwrap();
        }
    }

    /// Puts a killed session back with this database and log, and with the lock file its process left.
    fn put_killed(&self, bytes: &[u8], log: Option<&[u8]>) {
        self.put(bytes, log);
        fs::write(self.db.with_extension("lock"), self.lock.as_ref().unwrap()).unwrap();
    }

    /// Whether a file with these bytes is still in the store.
    fn keeps(&self, bytes: &[u8]) -> bool {
        files(self.dir.path()).iter().any(|path| fs::read(path).unwrap() == bytes)
    }

    /// Opens the session after damage and checks the invariants. Returns the number of remaining entries, if
    /// it opens.
    async fn survive(&self, bytes: &[u8], log: Option<&[u8]>) -> Option<usize> {
        self.put(bytes, log);
        self.store.list(&every()).await.unwrap();
        assert_eq!(fs::read(&self.db).unwrap(), bytes, "listing changed the file");
        let opened = self.store.open(&self.id).await;
        let left = match &opened {
            Err(StoreError::Damaged { kept, .. }) => {
                assert!(kept.exists());
                None
            }
            Err(StoreError::TooNew { .. } | StoreError::Io { .. }) => None,
            Err(error) => panic!("{error}"),
            Ok(session) => {
                let entries = session.entries().await.unwrap();
                // Remaining entries are unchanged and in order; missing ones cause a notice.
                let mut written = self.entries.iter();
                assert!(
                    entries.iter().all(|entry| written.any(|original| original == entry)),
                    "a changed entry"
                );
                let whole = entries.len() == self.entries.len();
                assert!(whole || !session.notices().is_empty(), "entries are missing without a word");
                assert!(
                    !entries.is_empty() || bytes.is_empty(),
                    "a file with bytes passes for an empty session"
                );
                if whole && session.notices().is_empty() {
                    // Nothing is lost; opening may put the file's header right.
                    return Some(entries.len());
                }
                Some(entries.len())
            }
        };
        drop(opened);
        let kept = files(self.dir.path()).iter().any(|path| fs::read(path).unwrap() == bytes);
        assert!(kept, "the original bytes are gone: {:?}", files(self.dir.path()));
        left
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

#[test]
fn no_changed_byte_loses_or_falsifies_an_entry_in_silence() {
    let specimen = Specimen::closed(12);
    let runtime = Runtime::new().unwrap();
    let len = specimen.bytes.len();
    let mut whole = 0;
    // The headers of all pages and every part of the first ones.
    let heads = (0..len / 4096).flat_map(|page| [0, 3, 5, 8, 11].map(move |n| page * 4096 + n));
    for at in (0..100).chain(heads).chain((100..3 * 4096).step_by(97)) {
        let mut bytes = specimen.bytes.clone();
        bytes[at] ^= if at.is_multiple_of(2) { 0x01 } else { 0xff };
        let left = runtime.block_on(specimen.survive(&bytes, None));
        whole += usize::from(left == Some(specimen.entries.len()));
    }
    assert!(whole > 0, "some bytes do not matter");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_garbage_loses_the_bytes(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static SPECIMEN: (Specimen, Runtime) = (Specimen::closed(8), Runtime::new().unwrap());
        }
        SPECIMEN.with(|(specimen, runtime)| {
            let mut bytes = specimen.bytes.clone();
            for (at, flip) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            if let Some(cut) = &cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            runtime.block_on(specimen.survive(&bytes, None));
        });
    }
}

#[test]
fn a_changed_write_ahead_log_does_not_pass_for_a_short_one() {
    let specimen = Specimen::killed();
    let runtime = Runtime::new().unwrap();
    let log = specimen.log.clone().unwrap();
    assert!(log.len() > 20 * 4096, "nothing was folded into the database yet");
    for at in (0..32).chain((32..log.len() - 2 * 4120).step_by(4001)) {
        let mut changed = log.clone();
        changed[at] ^= 0x40;
        specimen.put(&specimen.bytes, Some(&changed));
        let listed = runtime.block_on(specimen.store.list(&every())).unwrap();
        assert_eq!(listed.len(), 1, "byte {at}: nobody would know of it");
        runtime.block_on(specimen.survive(&specimen.bytes, Some(&changed)));
        let kept = files(specimen.dir.path()).iter().any(|path| fs::read(path).unwrap() == changed);
        assert!(kept || at >= 32, "byte {at}: the log is gone");
    }
}

/// Opens the files of a killed process, with the log cut after `length` bytes: the number of entries and the
/// notices.
fn cut(specimen: &Specimen, runtime: &Runtime, length: usize) -> (usize, Vec<String>) {
    let log = &specimen.log.as_ref().unwrap()[..length];
    specimen.put_killed(&specimen.bytes, Some(log));
    let listed = runtime.block_on(specimen.store.list(&every())).unwrap();
    assert_eq!(listed.len(), 1, "cut at {length}: nobody would know of it");
    match runtime.block_on(specimen.store.open(&specimen.id)) {
        Ok(session) => {
            let entries = runtime.block_on(session.entries()).unwrap();
            let (told, left) = (session.notices(), entries.len());
            assert_eq!(&specimen.entries[..left], entries);
            drop(session);
            let again = runtime.block_on(specimen.store.open(&specimen.id)).unwrap();
            assert!(again.notices().is_empty(), "said once: {:?}", again.notices());
            assert_eq!(runtime.block_on(again.entries()).unwrap().len(), left);
            (left, told)
        }
        Err(error @ StoreError::Damaged { .. }) => (0, vec![error.to_string()]),
        Err(error) => panic!("cut at {length}: {error}"),
    }
}

#[test]
fn a_write_ahead_log_that_was_cut_says_what_is_missing() {
    let specimen = Specimen::killed();
    let runtime = Runtime::new().unwrap();
    let (log, all) = (specimen.log.clone().unwrap(), specimen.entries.len());
    let (mut shorter, frame) = (0, 4096 + 24);
    let whole_frames = (32..log.len()).step_by(frame * 7);
    for length in [0, 1, 31].into_iter().chain(whole_frames).chain((40..log.len()).step_by(9 * 4096 + 7)) {
        let (left, told) = cut(&specimen, &runtime, length);
        assert_eq!(left < all, told.len() == 1, "cut at {length}: {left} of {all}: {told:?}");
        if left < all {
            shorter += 1;
            let says = format!("entries were stored and {left} are there");
            assert!(told[0].contains(&says), "cut at {length}: {told:?}");
            assert!(specimen.keeps(&log[..length]), "cut at {length}: what was left of the log is gone");
        }
    }
    assert!(shorter > 10, "{shorter}");
    let (left, told) = cut(&specimen, &runtime, log.len());
    assert_eq!((left, told.len()), (all, 0), "what was only killed needs no word: {told:?}");
}

#[test]
fn an_empty_database_beside_its_log_is_read_from_the_log() {
    let specimen = Specimen::killed();
    let runtime = Runtime::new().unwrap();
    let (log, all) = (specimen.log.clone().unwrap(), specimen.entries.len());
    for gone in [false, true] {
        for (length, lost) in [(log.len(), false), (log.len() / 2, true)] {
            specimen.put_killed(b"", Some(&log[..length]));
            if gone {
                fs::remove_file(&specimen.db).unwrap();
            }
            let before = fs::read(with(&specimen.db, "-wal")).unwrap();
            let listed = runtime.block_on(specimen.store.list(&every())).unwrap().remove(0);
            assert!(listed.unreadable.unwrap().to_string().contains("write-ahead log"));
            assert!(runtime.block_on(specimen.store.read(&specimen.id)).is_err());
            assert_eq!(fs::read(with(&specimen.db, "-wal")).unwrap(), before, "looking removed the log");
            let session = runtime.block_on(specimen.store.open(&specimen.id)).unwrap();
            let (entries, told) = (runtime.block_on(session.entries()).unwrap(), session.notices());
            assert_eq!(entries, specimen.entries[..entries.len()]);
            assert_eq!(entries.len() < all, lost);
            assert!(told.len() == 1 && told[0].contains("its write-ahead log was read"), "{told:?}");
            assert_eq!(told[0].contains("entries were stored and"), lost, "{told:?}");
            runtime.block_on(session.add(unit(0))).unwrap();
            drop(session);
            assert!(specimen.keeps(&log[..length]), "the log is gone");
            let again = runtime.block_on(specimen.store.open(&specimen.id)).unwrap();
            assert_eq!(runtime.block_on(again.entries()).unwrap().len(), entries.len() + 1);
        }
    }
}

#[test]
fn an_empty_database_beside_a_log_that_cannot_be_read_keeps_both() {
    let specimen = Specimen::killed();
    let runtime = Runtime::new().unwrap();
    let noise = b"not a write-ahead log at all ".repeat(5000);
    specimen.put(b"", Some(&noise));
    for _ in 0..2 {
        let error = runtime.block_on(specimen.store.open(&specimen.id)).err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(specimen.keeps(&noise), "the log is gone");
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_kept_and_named_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    let db = file(dir.path(), ".db");
    let noise = b"{\"this\": \"was a session once\"}\n".repeat(300);
    fs::write(&db, &noise).unwrap();
    for _ in 0..2 {
        let error = store.open(&id).await.err().unwrap();
        let StoreError::Damaged { kept, .. } = &error else { panic!("{error}") };
        assert_eq!(fs::read(kept).unwrap(), noise);
        assert!(kept.to_string_lossy().ends_with(&format!("{id}.damaged-1")), "{kept:?}");
        assert!(!db.exists());
    }
    let listed = store.list(&every()).await.unwrap();
    assert!(listed[0].id == id && listed[0].unreadable.as_ref().unwrap().to_string().contains("damaged-1"));
    // The id is not free: a new session would look like the old one.
    let named = zk_core::service::NewSession { id: Some(id), ..at(dir.path()) };
    assert!(store.create(named).await.unwrap().add(unit(0)).await.is_err());
}

#[tokio::test]
async fn an_unreadable_entry_is_set_aside_verbatim_and_the_rest_opens() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 5).await;
    let conn = Connection::open(file(dir.path(), ".db")).unwrap();
    let json = r#"{"entry":"from_the_future","data":1}"#;
    conn.execute("UPDATE entries SET kind = ?1 WHERE seq = 3", [json]).unwrap();
    conn.execute("UPDATE entries SET kind = CAST(x'ff00fe' AS TEXT) WHERE seq = 4", []).unwrap();
    drop(conn);
    for _ in 0..2 {
        let session = store.open(&id).await.unwrap();
        let notices = session.notices();
        assert!(notices.len() == 1 && notices[0].contains("2 entries of session"), "{notices:?}");
        assert_eq!(session.entries().await.unwrap().len(), 6);
        assert_eq!(session.entries().await.unwrap().len(), 6);
        drop(session);
        let quarantine = fs::read_to_string(file(dir.path(), ".quarantine")).unwrap();
        assert_eq!(quarantine.lines().count(), 2, "each is kept once");
        let lines: Vec<serde_json::Value> =
            quarantine.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["seq"], lines[0]["kind"].as_str()), (&3.into(), Some(json)));
        assert_eq!(lines[1]["kind"]["hex"], "ff00fe");
    }
    // The rows are where they were, too.
    let conn = Connection::open(file(dir.path(), ".db")).unwrap();
    assert_eq!(conn.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap(), 8);
}

#[tokio::test]
async fn a_session_with_a_broken_page_goes_on_with_what_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 40).await;
    let db = file(dir.path(), ".db");
    let mut bytes = fs::read(&db).unwrap();
    let pages = bytes.len() / 4096;
    bytes[(pages / 2) * 4096..(pages / 2 + 1) * 4096].fill(0xaa);
    fs::write(&db, &bytes).unwrap();
    let session = store.open(&id).await.unwrap();
    let notices = session.notices();
    assert!(notices.len() == 1 && notices[0].contains("damaged-1"), "{notices:?}");
    let left = session.entries().await.unwrap().len();
    assert!(left > 10 && left < 67, "{left}");
    session.add(unit(0)).await.unwrap();
    drop(session);
    assert_eq!(fs::read(file(dir.path(), ".damaged-1")).unwrap(), bytes);
    let session = store.open(&id).await.unwrap();
    assert!(session.notices().is_empty());
    assert_eq!(session.entries().await.unwrap().len(), left + 1);
    assert_eq!(store.list(&every()).await.unwrap()[0].title, "prompt 0");
}

#[tokio::test]
async fn a_rescue_killed_before_its_last_step_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 4).await;
    let db = file(dir.path(), ".db");
    fs::rename(&db, db.with_extension("recovery")).unwrap();
    fs::write(db.with_extension("damaged-1"), "the damaged file").unwrap();
    let session = store.open(&id).await.unwrap();
    assert_eq!(whole_units(&session.entries().await.unwrap()), 4);
    drop(session);
    // One killed earlier leaves half a file, which is of no use.
    fs::write(db.with_extension("recovery"), "half").unwrap();
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 4);
    assert!(!db.with_extension("recovery").exists());
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    let db = file(dir.path(), ".db");
    Connection::open(&db).unwrap().execute_batch("PRAGMA user_version=9").unwrap();
    let before = fs::read(&db).unwrap();
    let error = store.open(&id).await.err().unwrap();
    assert!(matches!(error, StoreError::TooNew { found: 9, known: 3, .. }), "{error}");
    assert_eq!(fs::read(&db).unwrap(), before);
    let listed = store.list(&every()).await.unwrap().remove(0);
    assert_eq!(listed.unreadable, Some(Unreadable::TooNew { found: 9, known: 3 }));
}

#[tokio::test]
async fn a_log_that_is_left_and_cut_is_no_damage_where_every_entry_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let id = session.id().clone();
    session.add(unit(0)).await.unwrap();
    let db = file(dir.path(), ".db");
    // A reader keeps the log in its place, as a full disk does.
    let reader = Connection::open_with_flags(&db, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |reader: &Connection| {
        reader.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count(&reader), 1);
    session.add(unit(1)).await.unwrap();
    session.close().await.unwrap();
    drop(session);
    let log = with(&db, "-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend([7; 100]);
    fs::write(&log, bytes).unwrap();
    drop(reader);
    let again = store.open(&id).await.unwrap();
    assert_eq!((whole_units(&again.entries().await.unwrap()), again.notices()), (2, Vec::new()));
    again.close().await.unwrap();
    assert!(!log.exists() && !db.with_extension("lock").exists());
}

#[tokio::test]
async fn an_empty_file_is_an_empty_session_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    fs::write(file(dir.path(), ".db"), "").unwrap();
    assert!(store.list(&every()).await.unwrap().is_empty());
    let session = store.open(&id).await.unwrap();
    assert!(session.notices()[0].contains("is empty"));
    session.add(unit(0)).await.unwrap();
    drop(session);
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 1);
}

#[tokio::test]
async fn entries_that_vanished_are_noticed_wherever_they_were() {
    for (gone, says) in
        [("seq = 3", "entry 3 is missing"), ("seq > 6", "8 entries were written, 6 are there")]
    {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s"));
        let id = stored(&store, dir.path(), 5).await;
        let conn = Connection::open(file(dir.path(), ".db")).unwrap();
        conn.execute(&format!("DELETE FROM entries WHERE {gone}"), []).unwrap();
        drop(conn);
        let session = store.open(&id).await.unwrap();
        let notices = session.notices();
        assert!(notices.len() == 1 && notices[0].contains(says), "{notices:?}");
        assert!(!session.entries().await.unwrap().is_empty());
        assert!(file(dir.path(), ".damaged-1").exists());
    }
}
