//! Two processes that need the same refresh: the second is this test program, started again with a part to
//! play.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use zk_auth::Http;
use zk_auth::{Credential, CredentialStore, FileStore, OAuthSession, TokenSource};
use zk_core::kernel::Bus;

use crate::client;
use crate::refresh::{first, rotating};

/// Variable that gives a started test program its role: the server and the file of the store.
const PART: &str = "ZK_AUTH_TEST_PART";
/// Tasks that ask at once in each process.
const TASKS: usize = 10;

/// Requests a token concurrently in sessions that share only the file.
async fn ask(url: &str, path: &Path) -> Vec<String> {
    let asking = (0..TASKS).map(|_| {
        let store = Arc::new(FileStore::new(path));
        let session = OAuthSession::new(client(url), store, Http::new());
        async move {
            let token = session.token(&Bus::new().cx()).await;
            token.map_or_else(|error| error.to_string(), |token| token.expose_secret().to_owned())
        }
    });
    futures_util::future::join_all(asking).await
}

#[expect(clippy::disallowed_methods, reason = "the other process is this test program")]
fn other_process(url: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::part_asker", "--nocapture"])
        .env(PART, format!("{url}={}", path.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The part itself. Without the variable there is no part to play.
#[tokio::test]
async fn part_asker() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(part) = std::env::var(PART) else { return };
    let (url, path) = part.split_once('=').unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nready").unwrap();
    out.flush().unwrap();
    for token in ask(url, Path::new(path)).await {
        writeln!(out, "token {token}").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_askers_in_two_processes_make_one_refresh() {
    let server = rotating(Duration::from_millis(50)).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth/credentials.json");
    let store = FileStore::new(&path);
    store.put("test", &Credential::OAuth(first(&server.url, 0))).await.unwrap();

    // Barrier: all start together.
    let lock = store.lock("test").await.unwrap();
    let mut other = other_process(&server.url, &path);
    let lines = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (ready, waiting) = tokio::sync::oneshot::channel();
    let reader = tokio::task::spawn_blocking(move || {
        let mut lines = lines.skip_while(|line| line != "ready");
        lines.next().unwrap();
        ready.send(()).unwrap();
        lines.filter_map(|line| line.strip_prefix("token ").map(str::to_owned)).collect::<Vec<_>>()
    });
    waiting.await.unwrap();
    let (url, here) = (server.url.clone(), path.clone());
    let asking = tokio::spawn(async move { ask(&url, &here).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.received().is_empty(), "the lock holds");
    drop(lock);

    let expected = vec!["access-1".to_owned(); TASKS];
    assert_eq!(asking.await.unwrap(), expected);
    assert_eq!(reader.await.unwrap(), expected);
    assert!(other.wait().unwrap().success());
    assert_eq!(server.received().len(), 1, "one refresh");
}
