//! Sessions in a PostgreSQL server that the test starts, where its programs are installed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zk_core::model::{Message, SessionId};
use zk_core::service::{
    Durability, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError,
};
use zk_stores::PostgresStore;
use zk_testkit::{StoreOptions, check_store};

/// Server of one test, at a Unix socket in its directory.
struct Server {
    dir: tempfile::TempDir,
    bin: PathBuf,
    user: Option<&'static str>,
}

/// Newest directory with the programs of a server, as Debian installs them.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max()
}

#[expect(clippy::disallowed_methods, reason = "a test starts its own server, as a user that is not root")]
fn run(user: Option<&str>, program: &Path, args: &[&str]) -> io::Result<()> {
    let mut command = match user {
        Some(user) => {
            let mut command = std::process::Command::new("runuser");
            command.args(["-u", user, "--"]).arg(program);
            command
        }
        None => std::process::Command::new(program),
    };
    let output = command.args(args).current_dir("/tmp").output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr))))
}

impl Server {
    /// `None` where PostgreSQL is not installed.
    fn start() -> Option<Self> {
        let Some(bin) = programs() else {
            println!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        // The server refuses to run as root.
        let is_root = run(None, Path::new("/bin/sh"), &["-c", "test \"$(id -u)\" = 0"]).is_ok();
        let user = is_root.then_some("postgres");
        if let Some(user) = user {
            run(None, Path::new("/bin/chown"), &[user, dir.path().to_str().unwrap()]).unwrap();
        }
        let server = Self { dir, bin, user };
        let data = server.data();
        run(
            server.user,
            &server.bin.join("initdb"),
            &["-D", &data, "-A", "trust", "-U", "zk", "-N", "-E", "UTF8"],
        )
        .unwrap();
        server.control("start");
        Some(server)
    }

    fn data(&self) -> String {
        format!("{}/data", self.dir.path().display())
    }

    fn control(&self, what: &str) {
        let options = format!("-k {} -c listen_addresses=", self.dir.path().display());
        let log = format!("{}/log", self.dir.path().display());
        let data = self.data();
        let mut args = vec!["-D", &data, "-w", "-m", "immediate", what];
        if what != "stop" {
            args.extend(["-o", &options, "-l", &log]);
        }
        run(self.user, &self.bin.join("pg_ctl"), &args).unwrap();
    }

    fn address(&self, database: &str) -> String {
        format!("postgres://zk@/{database}?host={}", self.dir.path().display())
    }

    fn create(&self, database: &str) {
        let host = self.dir.path().to_str().unwrap().to_owned();
        run(self.user, &self.bin.join("createdb"), &["-h", &host, "-U", "zk", database]).unwrap();
    }

    fn store(&self, database: &str) -> PostgresStore {
        PostgresStore::new(&self.address(database)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.data();
        let _ = run(self.user, &self.bin.join("pg_ctl"), &["-D", &data, "-m", "immediate", "stop"]);
    }
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
    let Some(server) = Server::start() else { return };
    let make = |place: u32| {
        let database = format!("place_{place}");
        let host = server.dir.path().to_str().unwrap().to_owned();
        // The second store of a place finds its database.
        let _ = run(server.user, &server.bin.join("createdb"), &["-h", &host, "-U", "zk", &database]);
        let store = server.store(&database);
        async move { Arc::new(store) as Arc<dyn SessionStore> }
    };
    let conformance = check_store(make, &StoreOptions::default()).await;
    assert!(conformance.is_met(), "{conformance}");

    server.create("fence");
    let first = PostgresStore::with_lease(&server.address("fence"), Duration::from_millis(1)).unwrap();
    let stale = first.create(new("s_1")).await.unwrap();
    add(&*stale, "one").await.unwrap();
    let second = server.store("fence");
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

    // A server that dies keeps what it acknowledged, and the store connects again.
    server.control("restart");
    let mut stored = vec!["one", "two"];
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
