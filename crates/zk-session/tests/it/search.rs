use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use zk_core::model::{Block, Message, SessionId, ToolCall};
use zk_core::service::{EntryKind, SessionStore};
use zk_session::{SearchError, SearchFilter, SearchResults, SqliteStore, TextKind};

use crate::support::{Add, Ticking, at, entry, file, files, says, stored};

async fn find(store: &SqliteStore, words: &str) -> SearchResults {
    store.search(words, &SearchFilter::default()).await.unwrap()
}

fn ids(found: &SearchResults) -> Vec<&SessionId> {
    found.sessions.iter().map(|session| &session.id).collect()
}

#[tokio::test]
async fn words_phrases_and_beginnings_are_found_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    let call = ToolCall::new("c", "shell", json!({"command": "df --human"}));
    session.add(vec![says("Why is the disk full?")]).await.unwrap();
    session
        .add(vec![
            entry(Message::assistant(vec![Block::text("I look."), Block::ToolCall(call)])),
            entry(Message::user(vec![Block::result("c", "/dev/vda 98% Übergröße", false)])),
        ])
        .await
        .unwrap();
    for (words, entry, kind, tool) in [
        ("disk full", 1, TextKind::Prompt, None),
        ("full disk", 1, TextKind::Prompt, None),
        ("\"disk full\"", 1, TextKind::Prompt, None),
        ("dis*", 1, TextKind::Prompt, None),
        ("look", 2, TextKind::Answer, None),
        ("--human", 2, TextKind::Call, Some("shell")),
        ("/dev/vda", 3, TextKind::Result, Some("shell")),
        ("ubergroße", 3, TextKind::Result, Some("shell")),
    ] {
        let found = find(&store, words).await;
        let [session] = &*found.sessions else { panic!("{words}: {found:?}") };
        let hit = &session.hits[0];
        assert_eq!((hit.entry, hit.kind, hit.tool.as_deref()), (entry, kind, tool), "{words}");
        assert!(hit.snippet.iter().any(|part| part.is_match), "{words}: {hit:?}");
    }
    for words in ["\"full disk\"", "disks", "vda prompt"] {
        assert!(find(&store, words).await.sessions.is_empty(), "{words}");
    }
    let nothing = store.search(" -- ", &SearchFilter::default()).await.unwrap_err();
    assert!(matches!(nothing, SearchError::Nothing(_)));

    let filter = |tool: Option<&str>, project: Option<&Path>| SearchFilter {
        tool: tool.map(str::to_owned),
        project: project.map(Path::to_path_buf),
        ..SearchFilter::default()
    };
    for (filter, sessions) in [
        (filter(Some("shell"), None), 1),
        (filter(Some("read"), None), 0),
        (filter(None, Some(dir.path())), 1),
        (filter(None, Some("/elsewhere".as_ref())), 0),
    ] {
        assert_eq!(store.search("vda", &filter).await.unwrap().sessions.len(), sessions, "{filter:?}");
    }
    let mode = std::fs::metadata(file(dir.path(), "search.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_was_added_renamed_or_deleted_since_is_found_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    session.add(vec![says("first thing")]).await.unwrap();
    assert_eq!(find(&store, "first").await.sessions.len(), 1);
    session.add(vec![says("second thing")]).await.unwrap();
    let found = find(&store, "thing").await;
    assert_eq!(found.sessions[0].hits.iter().map(|hit| hit.entry).collect::<Vec<_>>(), [2, 1]);
    store.rename(session.id(), "zebra stripes").await.unwrap();
    assert_eq!(find(&store, "zebra").await.sessions[0].hits[0].kind, TextKind::Title);
    store.rename(session.id(), "").await.unwrap();
    assert!(find(&store, "zebra").await.sessions.is_empty());
    let id = session.id().clone();
    session.close().await.unwrap();
    store.delete(&id).await.unwrap();
    assert_eq!(store.search_index().await.unwrap().unwrap().gone, 1);
    assert!(find(&store, "thing").await.sessions.is_empty());
    assert_eq!(store.search_index().await.unwrap().unwrap().sessions, 0);
}

#[tokio::test]
async fn the_newest_session_comes_first_and_times_and_limits_hold() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Ticking::default());
    let store = SqliteStore::new(dir.path().join("s")).with_clock(clock);
    let mut all = Vec::new();
    for n in 0..5 {
        let session = store.create(at(dir.path())).await.unwrap();
        session.add(vec![says(&format!("prompt number {n}"))]).await.unwrap();
        session.close().await.unwrap();
        all.push(session.id().clone());
    }
    let found = find(&store, "number").await;
    let newest: Vec<&SessionId> = all.iter().rev().collect();
    assert_eq!(ids(&found), newest);
    let limited = SearchFilter { limit: Some(2), ..SearchFilter::default() };
    let found_limited = store.search("number", &limited).await.unwrap();
    assert_eq!(ids(&found_limited), newest[..2]);
    assert!(found_limited.has_more && !found.has_more);
    let [first, .., last] = &*found.sessions else { panic!("{found:?}") };
    let since = SearchFilter { since: Some(first.hits[0].time), ..SearchFilter::default() };
    assert_eq!(ids(&store.search("number", &since).await.unwrap()), newest[..1]);
    let until = SearchFilter { until: Some(first.hits[0].time), ..SearchFilter::default() };
    assert_eq!(ids(&store.search("number", &until).await.unwrap()), newest[1..]);
    assert_eq!(last.id, all[0]);
}

#[tokio::test]
async fn a_damaged_or_missing_index_comes_back_and_a_newer_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 30).await;
    assert_eq!(ids(&find(&store, "prompt").await), [&id]);
    let path = file(dir.path(), "search.db");
    let whole = std::fs::read(&path).unwrap();
    let half = whole.len() / 2;
    let zeroed: Vec<u8> =
        whole.iter().enumerate().map(|(at, byte)| if at > 4096 { 0 } else { *byte }).collect();
    for damaged in [b"no database at all".to_vec(), whole[..half].to_vec(), zeroed] {
        std::fs::write(&path, &damaged).unwrap();
        let found = find(&store, "prompt").await;
        assert_eq!(ids(&found), [&id]);
        assert!(found.notices.iter().any(|notice| notice.contains("built anew")), "{:?}", found.notices);
        assert_eq!(find(&store, "prompt").await.notices, Vec::<String>::new());
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ids(&find(&store, "prompt").await), [&id]);
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version=9").unwrap();
    let newer = store.search("prompt", &SearchFilter::default()).await.unwrap_err();
    assert!(matches!(newer, SearchError::TooNew { found: 9, .. }), "{newer}");
    assert!(newer.to_string().contains("newer zk"));
}

#[tokio::test]
async fn without_a_place_for_the_index_everything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let id = stored(&store, dir.path(), 3).await;
    // A directory in its place: no file can be created there.
    std::fs::create_dir(root.join("search.db")).unwrap();
    let found = find(&store, "prompt").await;
    assert_eq!(ids(&found), [&id]);
    assert!(found.notices.iter().any(|notice| notice.contains("search index")), "{:?}", found.notices);
    assert_eq!(find(&SqliteStore::new(dir.path().join("none")), "prompt").await.sessions.len(), 0);
}

#[tokio::test]
async fn an_unreadable_session_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let broken = stored(&store, dir.path(), 3).await;
    std::fs::write(file(dir.path(), &format!("{broken}.db")), "garbage").unwrap();
    let id = stored(&store, dir.path(), 3).await;
    let found = find(&store, "prompt").await;
    assert_eq!(ids(&found), [&id]);
    assert!(found.notices.iter().any(|notice| notice.contains("1 session")), "{:?}", found.notices);
    assert!(files(&root).iter().any(|path| std::fs::read(path).is_ok_and(|bytes| bytes == b"garbage")));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_at_once_all_find_everything() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    for _ in 0..4 {
        stored(&store, dir.path(), 20).await;
    }
    let searches: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { find(&store, "prompt").await.sessions.len() })
        })
        .collect();
    for search in searches {
        assert_eq!(search.await.unwrap(), 4);
    }
}

const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "Über", "x1", "naïve", "omega"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A search finds the entries that a scan finds, also when the index grew in steps.
    #[test]
    fn a_search_finds_exactly_what_a_scan_finds(
        sessions in prop::collection::vec(prop::collection::vec(prop::collection::vec(0..8_usize, 1..6), 1..6), 1..5),
        asked in prop::collection::vec(0..8_usize, 1..3),
        step in 0..6_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let store = SqliteStore::new(dir.path().join("s"));
            let mut expected: HashMap<SessionId, BTreeSet<u64>> = HashMap::new();
            for (n, texts) in sessions.iter().enumerate() {
                let session = store.create(at(dir.path())).await.unwrap();
                for (number, words) in (1..).zip(texts) {
                    let text: Vec<&str> = words.iter().map(|word| WORDS[*word]).collect();
                    session.add(vec![says(&text.join(", "))]).await.unwrap();
                    if n == step {
                        find(&store, "alpha").await;
                    }
                    if asked.iter().all(|word| words.contains(word)) {
                        expected.entry(session.id().clone()).or_default().insert(number);
                    }
                }
            }
            let query: Vec<&str> = asked.iter().map(|word| WORDS[*word]).collect();
            let found = find(&store, &query.join(" ")).await;
            prop_assert_eq!(found.sessions.len(), expected.len());
            for session in found.sessions {
                let newest: Vec<u64> = expected[&session.id].iter().rev().copied().take(3).collect();
                prop_assert_eq!(session.hits.iter().map(|hit| hit.entry).collect::<Vec<_>>(), newest);
            }
            Ok(())
        })?;
    }
}

/// Time of searches over `ZK_SEARCH_MESSAGES` messages, printed: run with `--nocapture`.
#[tokio::test]
async fn a_search_over_many_messages_is_quick() {
    #[expect(clippy::disallowed_methods, reason = "the size of a measurement")]
    let given = std::env::var("ZK_SEARCH_MESSAGES");
    let messages: usize = given.ok().and_then(|given| given.parse().ok()).unwrap_or(1_000);
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let mut rng = fastrand::Rng::with_seed(7);
    let each = 500;
    for n in 0..messages.div_ceil(each) {
        let session = store.create(at(dir.path())).await.unwrap();
        let kinds: Vec<EntryKind> = (0..each)
            .map(|m| {
                let words: Vec<String> =
                    (0..40).map(|_| format!("w{}", (rng.f64().powi(3) * 5_000.0) as u32)).collect();
                says(&format!("common {} rare{}", words.join(" "), n * each + m))
            })
            .collect();
        session.add(kinds).await.unwrap();
        session.close().await.unwrap();
    }
    let begun = std::time::Instant::now();
    find(&store, "rare7").await;
    println!("{messages} messages indexed in {:?}", begun.elapsed());
    for words in ["rare7", "common", "w1 w2 w3", "w12*", "\"common w1\"", "nowhere"] {
        let begun = std::time::Instant::now();
        let found = find(&store, words).await;
        println!("{words}: {} sessions in {:?}", found.sessions.len(), begun.elapsed());
        assert_eq!(found.sessions.is_empty(), words == "nowhere", "{words}");
    }
}
