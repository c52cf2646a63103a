use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::json;
use zk_core::model::{Block, Message, ModelRef, SessionId, ToolCall, TurnId, TurnUsage, Usage};
use zk_core::service::{EntryKind, SessionStore, StoreError};
use zk_session::{ChainFault, SearchFilter, SqliteStore};

use crate::support::{Add, at, entry, file, kinds, says, stored};

fn db(root: &Path) -> Connection {
    Connection::open(file(root, ".db")).unwrap()
}

/// Checksum of a row as the store computes it, which a forger can compute too.
fn checksum(seq: i64, id: &str, parent: Option<&str>, time_ms: i64, kind: &str) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let (seq, time) = (seq.to_le_bytes(), time_ms.to_le_bytes());
    for part in [&seq[..], id.as_bytes(), parent.unwrap_or("").as_bytes(), &time, kind.as_bytes()] {
        part.iter().copied().for_each(&mut eat);
        (part.len() as u64).to_le_bytes().into_iter().for_each(&mut eat);
    }
    hash.cast_signed()
}

/// Makes all checksums fit their rows.
fn mend_checksums(conn: &Connection) {
    let mut select = conn.prepare("SELECT seq, id, parent, time_ms, kind FROM entries").unwrap();
    let rows: Vec<(i64, i64)> = select
        .query_map([], |row| {
            let (id, parent): (String, Option<String>) = (row.get(1)?, row.get(2)?);
            let (seq, time, kind): (i64, i64, String) = (row.get(0)?, row.get(3)?, row.get(4)?);
            Ok((seq, checksum(seq, &id, parent.as_deref(), time, &kind)))
        })
        .unwrap()
        .flatten()
        .collect();
    for (seq, sum) in rows {
        conn.execute("UPDATE entries SET sum = ?2 WHERE seq = ?1", params![seq, sum]).unwrap();
    }
}

#[tokio::test]
async fn a_whole_session_verifies_also_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 9).await;
    let first = store.verify(&id).await.unwrap();
    assert!(first.is_whole() && first.removed.is_empty(), "{first:?}");
    assert_eq!((first.chain_from, first.entries), (Some(1), 15));
    let open = store.open(&id).await.unwrap();
    open.add(vec![says("more")]).await.unwrap();
    let second = store.verify(&id).await.unwrap();
    assert!(second.is_whole() && second.entries == 16 && second.head != first.head, "{second:?}");
    let unknown = store.verify(&"s_unknown".into()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_session_of_an_older_zk_opens_and_its_chain_begins_with_the_next_entry() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 4).await;
    let old = "ALTER TABLE entries DROP COLUMN hash; DELETE FROM meta WHERE key = 'chain_from'; PRAGMA user_version=2;";
    db(dir.path()).execute_batch(old).unwrap();
    let found = store.verify(&id).await.unwrap();
    assert!(found.is_whole() && found.chain_from.is_none() && found.head.is_none(), "{found:?}");
    let open = store.open(&id).await.unwrap();
    open.add(vec![says("new")]).await.unwrap();
    open.close().await.unwrap();
    let found = store.verify(&id).await.unwrap();
    assert_eq!((found.is_whole(), found.chain_from), (true, Some(found.entries)), "{found:?}");
}

#[tokio::test]
async fn a_session_of_a_newer_zk_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 1).await;
    db(dir.path()).execute_batch("PRAGMA user_version=9").unwrap();
    for result in [store.verify(&id).await.map(drop), store.remove_content(&id, "1").await.map(drop)] {
        assert!(matches!(result, Err(StoreError::TooNew { found: 9, .. })), "{result:?}");
    }
}

/// Changes one byte, row or order of a closed session, and says so; `None` if nothing was changed.
fn tamper(conn: &Connection, rng: &mut fastrand::Rng) -> Option<String> {
    let last: i64 = conn.query_row("SELECT max(seq) FROM entries", [], |row| row.get(0)).unwrap();
    let (seq, other) = (rng.i64(1..=last), rng.i64(1..=last));
    let column = ["kind", "id", "parent", "time_ms", "sum", "hash"][rng.usize(..6)];
    match rng.u8(..10) {
        0 => {
            conn.execute("DELETE FROM entries WHERE seq = ?1", [seq]).unwrap();
            Some(format!("row {seq} removed"))
        }
        1 => {
            // Removed without a gap, with a count that fits.
            conn.execute("DELETE FROM entries WHERE seq = ?1", [seq]).unwrap();
            conn.execute("UPDATE entries SET seq = -seq WHERE seq > ?1", [seq]).unwrap();
            conn.execute("UPDATE entries SET seq = -seq - 1 WHERE seq < 0", []).unwrap();
            let count = i64::from(seq != last);
            conn.execute("UPDATE meta SET value = value - ?1 WHERE key = 'entries'", [count]).unwrap();
            Some(format!("row {seq} removed without a gap"))
        }
        2 if seq != other => {
            for (from, to) in [(seq, -1), (other, seq), (-1, other)] {
                conn.execute("UPDATE entries SET seq = ?2 WHERE seq = ?1", [from, to]).unwrap();
            }
            Some(format!("rows {seq} and {other} swapped"))
        }
        3 => {
            conn.execute("UPDATE entries SET hash = NULL WHERE seq = ?1", [seq]).unwrap();
            Some(format!("hash of row {seq} removed"))
        }
        _ => {
            let query = format!("SELECT CAST({column} AS BLOB) FROM entries WHERE seq = ?1");
            let stored: Option<Vec<u8>> = conn.query_row(&query, [seq], |row| row.get(0)).unwrap();
            let mut bytes = stored?;
            let at = rng.usize(..bytes.len());
            if matches!(column, "time_ms" | "sum") {
                conn.execute(&format!("UPDATE entries SET {column} = {column} + 1 WHERE seq = ?1"), [seq])
                    .unwrap();
                return Some(format!("{column} of row {seq} increased"));
            }
            let flipped = loop {
                let byte = if column == "hash" { rng.u8(..) } else { rng.u8(b' '..=b'~') };
                if byte != bytes[at] {
                    break byte;
                }
            };
            bytes[at] = flipped;
            let cast = if column == "hash" { "?2" } else { "CAST(?2 AS TEXT)" };
            let update = format!("UPDATE entries SET {column} = {cast} WHERE seq = ?1");
            conn.execute(&update, params![seq, bytes]).unwrap();
            Some(format!("byte {at} of {column} of row {seq} changed"))
        }
    }
}

/// Number of random changes: `ZK_SESSION_TAMPERS`, or 100.
fn tampers() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the length of a test run")]
    let given = std::env::var("ZK_SESSION_TAMPERS");
    given.ok().and_then(|tampers| tampers.parse().ok()).unwrap_or(100)
}

#[tokio::test]
async fn any_change_of_a_byte_a_row_or_the_order_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 12).await;
    store.remove_content(&id, "3").await.unwrap();
    assert_eq!(store.verify(&id).await.unwrap().removed, [3]);
    let path = file(dir.path(), ".db");
    let whole = std::fs::read(&path).unwrap();
    let mut rng = fastrand::Rng::with_seed(31);
    let (mut done, mut kinds) = (0, BTreeMap::new());
    while done < tampers() {
        std::fs::write(&path, &whole).unwrap();
        let conn = Connection::open(&path).unwrap();
        let Some(change) = tamper(&conn, &mut rng) else { continue };
        // A forger makes the checksums fit, damage does not.
        let is_forged = rng.bool() && !change.starts_with("sum of");
        if is_forged {
            mend_checksums(&conn);
        }
        drop(conn);
        let found = store.verify(&id).await;
        assert!(
            found.as_ref().is_ok_and(|found| !found.is_whole()),
            "{change}, forged: {is_forged}: {found:?}"
        );
        for fault in found.unwrap().faults {
            let kind = match fault {
                ChainFault::Changed { .. } => "changed",
                ChainFault::Missing { .. } => "missing",
                ChainFault::Unreadable { .. } => "unreadable",
                ChainFault::Inconsistent(_) => "inconsistent",
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        done += 1;
    }
    assert!(kinds.contains_key("changed") && kinds.contains_key("missing"), "{kinds:?}");
}

#[tokio::test]
async fn any_byte_of_the_file_that_changes_a_content_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 6).await;
    let path = file(dir.path(), ".db");
    let whole = std::fs::read(&path).unwrap();
    let needle = br#""prompt 3""#;
    let at = whole.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
    for offset in 0..needle.len() {
        let mut changed = whole.clone();
        changed[at + offset] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        assert!(!store.verify(&id).await.unwrap().is_whole(), "byte {offset}");
    }
}

fn secret_turn() -> Vec<EntryKind> {
    let call = ToolCall::new("c_1", "shell", json!({"command": "echo hunter2"}));
    let answer =
        Message::assistant(vec![Block::text("I run hunter2"), Block::ToolCall(call)]).identified().shared();
    let results = Message::user(vec![Block::result("c_1", "hunter2 came out", false)]).identified();
    let result = results.results().next().unwrap().clone();
    let (turn_id, call_id) = (TurnId::from("t_1"), "c_1".into());
    let model = ModelRef::new("p", "m");
    let usage = TurnUsage { turn_id: turn_id.clone(), model, usage: Usage::default(), cost: None };
    vec![
        EntryKind::OpenTurn { turn_id: turn_id.clone(), message: answer.clone(), usage: Box::new(usage) },
        EntryKind::CallEnd {
            turn_id,
            call_id,
            summary: Some("hunter2".into()),
            result: Box::new(result),
            display: None,
            details: Some(json!({"out": "hunter2"})),
            elapsed_ms: 3,
        },
        EntryKind::Message { message: answer, usage: None },
        entry(results),
    ]
}

/// Whether any file below `root` contains the word.
fn is_anywhere(root: &Path, word: &str) -> bool {
    let contains = |path: &std::path::PathBuf| {
        std::fs::read(path).unwrap().windows(word.len()).any(|bytes| bytes == word.as_bytes())
    };
    crate::support::files(root).iter().any(contains)
}

#[tokio::test]
async fn removed_content_is_nowhere_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let session = store.create(at(dir.path())).await.unwrap();
    session.add(vec![says("the word is hunter2")]).await.unwrap();
    session.add(secret_turn()).await.unwrap();
    let id: SessionId = session.id().clone();
    let busy = store.remove_content(&id, "1").await;
    assert!(matches!(busy, Err(StoreError::InUse { pid, .. }) if pid == std::process::id()), "{busy:?}");
    session.close().await.unwrap();
    let words = store.search("hunter2", &SearchFilter::default()).await.unwrap();
    assert_eq!(words.sessions.len(), 1);

    assert_eq!(store.remove_content(&id, "1").await.unwrap().entries, [1]);
    assert_eq!(store.remove_content(&id, "4").await.unwrap().entries, [2, 3, 4]);
    assert_eq!(store.remove_content(&id, "5").await.unwrap().entries, [5]);
    let again = store.remove_content(&id, "5").await.unwrap_err();
    assert!(again.to_string().contains("removed before"), "{again}");
    let missing = store.remove_content(&id, "99").await.unwrap_err();
    assert!(missing.to_string().contains("numbered 1 to 8"), "{missing}");
    let record = store.remove_content(&id, "7").await.unwrap_err();
    assert!(record.to_string().contains("no content to remove"), "{record}");

    let found = store.verify(&id).await.unwrap();
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(found.removed, [1, 2, 3, 4, 5]);
    assert!(store.search("hunter2", &SearchFilter::default()).await.unwrap().sessions.is_empty());
    assert!(!is_anywhere(&root, "hunter2"));

    let session = store.open(&id).await.unwrap();
    assert_eq!(session.notices(), Vec::<String>::new());
    let live = kinds(&session).await;
    let [
        _,
        _,
        _,
        EntryKind::Message { message: answer, .. },
        EntryKind::Message { message: results, .. },
        ..,
    ] = &*live
    else {
        panic!("{live:?}")
    };
    let call = answer.calls().next().unwrap();
    assert_eq!((call.id.as_str(), answer.text().as_str()), ("c_1", "[removed]"));
    assert_eq!(results.results().next().unwrap().content.to_text(), "[removed]");
    session.add(vec![says("on")]).await.unwrap();
    session.close().await.unwrap();
    assert!(store.verify(&id).await.unwrap().is_whole());
}
