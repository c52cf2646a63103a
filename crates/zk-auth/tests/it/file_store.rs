use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use secrecy::ExposeSecret;
use zk_auth::{Credential, CredentialStore, FileStore, OAuthTokens, StoreError};

use crate::{ACCESS, REFRESH, assert_no_secret, tokens};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn key(text: &str) -> Credential {
    Credential::ApiKey(text.into())
}

async fn held(store: &FileStore, name: &str) -> String {
    match store.get(name).await.unwrap() {
        Some(Credential::ApiKey(key)) => key.expose_secret().to_owned(),
        other => panic!("no key but {other:?}"),
    }
}

#[tokio::test]
async fn the_file_is_its_owners_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zk/auth/credentials.json");
    let store = FileStore::new(&path);
    assert!(store.get("a").await.unwrap().is_none() && store.names().await.unwrap().is_empty());
    assert!(!store.remove("a").await.unwrap());
    assert!(!dir.path().join("zk").exists(), "reading makes nothing");
    store.put("a", &key(ACCESS)).await.unwrap();
    let _lock = store.lock("a").await.unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    store.get("a").await.unwrap();
    assert_eq!(mode(&path), 0o600, "it is closed again");
}

#[tokio::test]
async fn what_is_stored_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    let store = FileStore::new(&path);
    let full = OAuthTokens {
        account: Some("acc".into()),
        expires_at: Some(UNIX_EPOCH + Duration::from_secs(4_000_000_000)),
        ..tokens("https://issuer.example", 0)
    };
    store.put("full", &Credential::OAuth(full.clone())).await.unwrap();
    let bare = OAuthTokens { refresh: None, expires_at: None, account: None, ..full.clone() };
    store.put("bare", &Credential::OAuth(bare)).await.unwrap();
    store.put("key", &key("sk")).await.unwrap();
    // Second store on the same file, as in another process.
    let store = FileStore::new(&path);
    assert_eq!(store.names().await.unwrap(), ["bare", "full", "key"]);
    let Some(Credential::OAuth(back)) = store.get("full").await.unwrap() else { panic!("no tokens") };
    assert_eq!(back.access.expose_secret(), ACCESS);
    assert_eq!(back.refresh.as_ref().unwrap().expose_secret(), REFRESH);
    assert_eq!((back.account, back.expires_at, back.issuer), (full.account, full.expires_at, full.issuer));
    let Some(Credential::OAuth(back)) = store.get("bare").await.unwrap() else { panic!("no tokens") };
    assert!(back.refresh.is_none() && back.expires_at.is_none() && back.account.is_none());
    assert!(store.remove("full").await.unwrap() && !store.remove("full").await.unwrap());
    assert_eq!(store.names().await.unwrap(), ["bare", "key"]);
}

#[tokio::test]
async fn fields_of_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    let before = r#"{"version":1,"theirs":[1],"credentials":{
        "a":{"type":"api_key","key":"old","note":"work"},"b":{"type":"quantum","spin":0.5}}}"#;
    fs::write(&path, before).unwrap();
    let store = FileStore::new(&path);
    store.put("a", &key("new")).await.unwrap();
    store.put("c", &key("c")).await.unwrap();
    let now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(now["theirs"], serde_json::json!([1]));
    assert_eq!(now["credentials"]["a"], serde_json::json!({"type": "api_key", "key": "new", "note": "work"}));
    assert_eq!(now["credentials"]["b"], serde_json::json!({"type": "quantum", "spin": 0.5}));
    let error = store.get("b").await.unwrap_err();
    assert!(matches!(&error, StoreError::Entry { name, .. } if name == "b"), "{error}");
    let anew = Credential::OAuth(tokens("https://issuer.example", 60));
    store.put("a", &anew).await.unwrap();
    let now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(now["credentials"]["a"].get("note").is_none(), "another kind is another entry");
    assert!(now["credentials"]["a"].get("key").is_none());
}

#[tokio::test]
async fn a_damaged_file_is_reported_and_set_aside_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    let store = FileStore::new(&path);
    let damages = [
        format!("{{\"version\":1,\"credentials\":{{\"a\":{{\"key\":\"{ACCESS}\""),
        format!("[\"{ACCESS}\"]"),
        format!("{{\"credentials\":\"{ACCESS}\"}}"),
        format!("{{\"version\":\"{ACCESS}\"}}"),
        "\0\0\0\0".to_owned(),
    ];
    for (n, damage) in damages.iter().enumerate() {
        fs::write(&path, damage).unwrap();
        for error in [
            store.get("a").await.unwrap_err(),
            store.names().await.unwrap_err(),
            store.remove("a").await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert_no_secret(&format!("{error} {error:?}"));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), *damage, "it is left as it is");
        let aside = store.put("a", &key("new")).await.unwrap().unwrap();
        assert_eq!(fs::read_to_string(&aside.path).unwrap(), *damage, "nothing of it is lost");
        assert_no_secret(&aside.reason);
        assert_eq!(aside.path, dir.path().join(format!("credentials.json.damaged-{}", n + 1)));
        assert_eq!(held(&store, "a").await, "new");
    }
}

/// A file that is no regular file of a sane size never blocks and is never loaded.
#[tokio::test]
async fn what_is_no_file_of_a_sane_size_is_an_error_at_once() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    let pipe = |path: &Path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    type Put<'a> = &'a dyn Fn(&Path);
    let puts: [(Put<'_>, &str); 4] = [
        (&pipe, "it is no regular file"),
        (&|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(), "it is no regular file"),
        (&|path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap(), "it is larger than"),
        (&|path| pipe(&path.with_file_name("credentials.json.lock")), "cannot"),
    ];
    for (put, expected) in puts {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials.json");
        put(&path);
        let store = FileStore::new(&path);
        let key = key("k");
        let stored = tokio::time::timeout(Duration::from_secs(30), store.put("a", &key)).await;
        let error = stored.expect("nobody waits").expect_err("nothing is stored").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_file_of_a_later_zk_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    let text = r#"{"version":9,"credentials":[]}"#;
    fs::write(&path, text).unwrap();
    let store = FileStore::new(&path);
    for error in [store.get("a").await.unwrap_err(), store.put("a", &key("k")).await.unwrap_err()] {
        assert!(matches!(error, StoreError::TooNew { found: 9, .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn an_empty_file_and_a_half_written_one_are_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    fs::write(&path, "\n").unwrap();
    // A killed writer leaves such a file.
    fs::write(dir.path().join("credentials.json.tmp"), "{\"vers").unwrap();
    let store = FileStore::new(&path);
    assert!(store.get("a").await.unwrap().is_none());
    assert!(store.put("a", &key("k")).await.unwrap().is_none());
    assert_eq!(held(&store, "a").await, "k");
    assert!(!dir.path().join("credentials.json.tmp").exists());
}

#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.json"), dir.path().join("credentials.json"));
    fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = FileStore::new(&link);
    store.put("a", &key("k")).await.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(held(&FileStore::new(&real), "a").await, "k");
    assert_eq!(mode(&real), 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.json");
    let writing = (0..30).map(|n| {
        let store = FileStore::new(&path);
        tokio::spawn(async move { store.put(&format!("n{n:02}"), &key("k")).await.unwrap() })
    });
    futures_util::future::join_all(writing).await;
    assert_eq!(FileStore::new(&path).names().await.unwrap().len(), 30);
}

#[tokio::test]
async fn a_lock_holds_for_its_name_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path().join("credentials.json"));
    let held = store.lock("a/b").await.unwrap();
    let _other = store.lock("a_b").await.unwrap();
    let again = store.lock("a/b");
    tokio::pin!(again);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut again).await.is_err());
    store.put("a/b", &key("k")).await.unwrap();
    drop(held);
    again.await.unwrap();
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let store = FileStore::new(dir.path().join("file/auth/credentials.json"));
    let error = store.put("a", &key(ACCESS)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("file/auth"), "{error}");
    assert_no_secret(&format!("{error:?} {:?}", key(ACCESS)));
}
