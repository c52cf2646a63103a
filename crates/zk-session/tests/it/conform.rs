//! Behaviour of every store, by the public suite and by the functions that look sessions up.

use std::path::Path;
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{NewSession, SessionStore};
use zk_session::{MemoryStore, SharedStore, SqliteStore, latest, open_matching};
use zk_testkit::{StoreOptions, check_store};

use crate::support::{Add, Ticking, at, unit};

fn memory() -> Arc<dyn SessionStore> {
    Arc::new(MemoryStore::new().with_clock(Arc::new(Ticking::default())))
}

#[tokio::test]
async fn memory_conforms() {
    let options = StoreOptions { shares: false, ..StoreOptions::default() };
    let conformance = check_store(|_| async { memory() }, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn sqlite_conforms() {
    let dir = tempfile::tempdir().unwrap();
    // Real dates: a listing relies on the times of files.
    let make = |place: u32| {
        let store: Arc<dyn SessionStore> = Arc::new(SqliteStore::new(dir.path().join(place.to_string())));
        async move { store }
    };
    let conformance = check_store(make, &StoreOptions::default()).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn a_shared_store_conforms() {
    let options = StoreOptions { shares: false, ..StoreOptions::default() };
    let make = |_| async { Arc::new(SharedStore::new(memory())) as Arc<dyn SessionStore> };
    let conformance = check_store(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn sessions_are_found_in_each_store() {
    let dir = tempfile::tempdir().unwrap();
    for (n, make) in
        [|_: &Path| memory(), |dir: &Path| Arc::new(SqliteStore::new(dir.into())) as Arc<dyn SessionStore>]
            .into_iter()
            .enumerate()
    {
        let root = dir.path().join(n.to_string());
        an_id_may_be_shortened(&*make(&root.join("a")), dir.path()).await;
        the_newest_is_continued(&*make(&root.join("b")), dir.path()).await;
    }
}

async fn the_newest_is_continued(store: &dyn SessionStore, cwd: &Path) {
    let mut ids: Vec<SessionId> = Vec::new();
    for n in 0..2 {
        let session = store.create(at(cwd)).await.unwrap();
        session.add(unit(n)).await.unwrap();
        session.add(unit(1)).await.unwrap();
        session.close().await.unwrap();
        ids.push(session.id().clone());
        // Until the clock of files shows another time.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    assert_eq!(latest(store, cwd).await.unwrap().map(|info| info.id), ids.pop());
    assert_eq!(latest(store, Path::new("/no/such/directory")).await.unwrap().map(|info| info.id), None);
}

async fn an_id_may_be_shortened(store: &dyn SessionStore, cwd: &Path) {
    for id in ["s_abcd1", "s_abcd2", "s_xyz"] {
        let session = store.create(NewSession { id: Some(id.into()), ..at(cwd) }).await.unwrap();
        session.add(unit(0)).await.unwrap();
    }
    let found = async |text: &str| open_matching(store, text).await.map(|session| session.id().to_string());
    assert_eq!(found("s_xyz").await.unwrap(), "s_xyz");
    assert_eq!(found("xy").await.unwrap(), "s_xyz");
    assert_eq!(found("abcd2").await.unwrap(), "s_abcd2");
    let several = found("abcd").await.unwrap_err().to_string();
    assert!(several.contains("2 sessions begin with that") && several.contains("s_abcd1"), "{several}");
    let near = found("abcdefgh").await.unwrap_err().to_string();
    assert!(near.contains("did you mean `s_abcd"), "{near}");
    let none = found("").await.unwrap_err().to_string();
    assert!(none.starts_with("unknown session ``"), "{none}");
}
