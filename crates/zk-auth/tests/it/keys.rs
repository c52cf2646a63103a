use std::sync::Arc;

use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use zk_auth::{KeyError, KeyRing, KeySource};
use zk_exec::{Environment, ProcessExec};

use crate::{ACCESS, assert_no_secret};

fn ring(dir: &tempfile::TempDir) -> KeyRing {
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let lookup = |name: &str| match name {
        "SET" => Some(format!(" {ACCESS}\n")),
        "BLANK" => Some("  ".to_owned()),
        _ => None,
    };
    KeyRing::new(lookup).running(Arc::new(ProcessExec::new(environment)), dir.path())
}

async fn key(ring: &KeyRing, source: &str) -> Result<String, KeyError> {
    let source = KeySource::parse(source);
    assert_no_secret(&format!("{source:?}"));
    let key = ring.key(&source, &CancellationToken::new()).await;
    if let Err(error) = &key {
        assert_no_secret(&format!("{error} {error:?}"));
    }
    key.map(|key| key.expose_secret().to_owned())
}

#[tokio::test]
async fn a_key_comes_from_itself_a_variable_or_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(&dir);
    for source in [ACCESS, " env:SET ", &format!("!printf '%s\\n' {ACCESS}; echo noise >&2")] {
        assert_eq!(key(&ring, source).await.unwrap(), ACCESS, "{source}");
    }
}

#[tokio::test]
async fn a_command_runs_once_however_many_ask() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(&dir);
    let command = "!echo x >> runs; sleep 0.05; echo key";
    let keys = futures_util::future::join_all((0..10).map(|_| key(&ring, command))).await;
    assert!(keys.into_iter().all(|key| key.unwrap() == "key"));
    key(&ring, command).await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_command_that_failed_runs_again() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(&dir);
    let command = "!test -e unlocked && echo key";
    let error = key(&ring, command).await.unwrap_err();
    assert!(matches!(error, KeyError::Failed { .. }), "{error}");
    std::fs::write(dir.path().join("unlocked"), "").unwrap();
    assert_eq!(key(&ring, command).await.unwrap(), "key");
}

#[tokio::test]
async fn what_gives_no_key_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(&dir);
    for (source, part) in [
        ("env:UNSET".to_owned(), "`UNSET`"),
        ("env:BLANK".to_owned(), "`BLANK`"),
        (format!("!echo {ACCESS} >&2; exit 3"), "exit code 3"),
        (format!("!true {ACCESS}"), "nothing"),
        (format!("!printf 'a\\nb'; true {ACCESS}"), "several lines"),
        ("!printf '\\377'".to_owned(), "no text"),
        ("!head -c 100000 /dev/zero".to_owned(), "far more than a key"),
        ("!kill -9 $$".to_owned(), "signal 9"),
    ] {
        let error = key(&ring, &source).await.unwrap_err().to_string();
        assert!(error.contains(part), "{source}: {error}");
    }
}

#[tokio::test]
async fn a_host_without_commands_says_so() {
    let ring = KeyRing::new(|_| None);
    let error = key(&ring, "!pass show key").await.unwrap_err();
    assert!(matches!(&error, KeyError::NoExec { program } if program == "pass"), "{error}");
}

#[tokio::test]
async fn a_stopped_program_does_not_wait_for_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(&dir);
    let stop = CancellationToken::new();
    stop.cancel();
    let error = ring.key(&KeySource::parse("!sleep 60"), &stop).await.unwrap_err();
    assert!(matches!(error, KeyError::Failed { .. }), "{error}");
}
