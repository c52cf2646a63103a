//! Sessions in a PostgreSQL server that the test starts, where its programs are installed.

use std::sync::Arc;
use std::time::Duration;

use zk_core::model::{Message, SessionId};
use zk_core::service::{
    Durability, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError,
};
use zk_stores::PostgresStore;
use zk_testkit::{PostgresServer, StoreOptions, check_store};

/// Starts the server of one test; `None` where PostgreSQL is not installed.
fn start(dir: &tempfile::TempDir) -> Option<PostgresServer> {
    let server = PostgresServer::start(dir.path()).unwrap();
    if server.is_none() {
        println!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
    }
    server
}

fn says(text: &str) -> Vec<EntryKind> {
    vec![EntryKind::Message { message: Message::user_text(text).shared(), usage: None }]
}

async fn add(session: &dyn OpenSession, text: &str) -> Result<(), StoreError> {
    session.append(says(text), Durability::Disk).await.map(drop)
}

fn new(id: &str) -> NewSession {
    NewSession { id: Some(id.into()), cwd: "/project".into(), parent: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_conforms_fences_and_outlives_its_server() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let Some(server) = start(&dir) else { return };
    let make = |place: u32| {
        let database = format!("place_{place}");
        // The second store of a place finds its database.
        let _ = server.create_database(&database);
        let store = PostgresStore::new(&server.address(&database)).unwrap();
        async move { Arc::new(store) as Arc<dyn SessionStore> }
    };
    let options = StoreOptions { restores_ids: false, ..StoreOptions::default() };
    let conformance = check_store(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");

    server.create_database("fence").unwrap();
    let first = PostgresStore::with_lease(&server.address("fence"), Duration::from_millis(1)).unwrap();
    let stale = first.create(new("s_1")).await.unwrap();
    add(&*stale, "one").await.unwrap();
    let second = PostgresStore::new(&server.address("fence")).unwrap();
    let taken = loop {
        match second.open(&"s_1".into()).await {
            Ok(taken) => break taken,
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    let late = add(&*stale, "late").await.unwrap_err();
    assert!(matches!(&late, StoreError::Fenced { id } if id.as_str() == "s_1"), "{late}");
    add(&*taken, "two").await.unwrap();
    assert!(matches!(add(&*stale, "late").await, Err(StoreError::Fenced { .. })));
    stale.close().await.unwrap();
    assert!(matches!(first.open(&"s_1".into()).await, Err(StoreError::InUse { .. })));

    // An append that its caller does not look at keeps nothing else waiting.
    let mut appending = std::pin::pin!(add(&*taken, "waiting"));
    tokio::select! {
        biased;
        ended = &mut appending => ended.unwrap(),
        () = std::future::ready(()) => {}
    }
    let mail = tokio::time::timeout(Duration::from_secs(30), taken.mail()).await;
    assert!(mail.expect("mail waits for an append that nobody looks at").unwrap().is_empty());
    appending.await.unwrap();

    // A server that dies keeps what it acknowledged, and the store connects again.
    server.control("restart").unwrap();
    let mut stored = vec!["one", "two", "waiting"];
    for text in ["three", "four"] {
        match add(&*taken, text).await {
            Ok(()) => stored.push(text),
            Err(error) => println!("while the server starts: {error}"),
        }
    }
    let read = second.read(&SessionId::from("s_1")).await.unwrap();
    let texts: Vec<String> = read.entries.iter().map(|entry| entry.kind.message().unwrap().text()).collect();
    assert_eq!(texts, stored);
    assert!(stored.contains(&"four"), "{stored:?}");
}

#[tokio::test]
async fn addresses_that_would_show_a_password_and_missing_servers_are_refused() {
    for address in [
        "postgres://zk:secret@db.example/zk",
        "postgres://zk:secret@127.0.0.1/zk?sslmode=require",
        "nonsense",
    ] {
        let error = PostgresStore::new(address).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
    let store = PostgresStore::new("postgres:///zk?host=/no/such/directory").unwrap();
    let error = store.list(&SessionFilter::default()).await.unwrap_err().to_string();
    assert!(error.contains("cannot connect to PostgreSQL"), "{error}");
}
