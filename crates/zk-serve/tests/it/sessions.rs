use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use zk_auth::Http;
use zk_core::model::Message;
use zk_core::service::{
    Durability, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError,
};
use zk_serve::LoopbackListener;
use zk_serve::sessions::SessionServer;
use zk_session::{MemoryStore, SqliteStore};
use zk_stores::RemoteStore;
use zk_testkit::{StoreOptions, check_store};

const TOKEN: &str = "a-token-for-tests";

/// Server in the background.
struct Running {
    url: String,
    server: Arc<SessionServer>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(store: Arc<dyn SessionStore>, lease: Duration) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), store, lease).await
    }

    async fn start_at(address: SocketAddr, store: Arc<dyn SessionStore>, lease: Duration) -> Self {
        let listener = LoopbackListener::bind(address).await.unwrap();
        let url = listener.url();
        let server = SessionServer::with_lease(store, TOKEN.to_owned(), lease);
        let serving = server.clone();
        let task = tokio::spawn(async move { serving.serve(&listener).await.unwrap() });
        Self { url, server, task }
    }

    fn client(&self) -> RemoteStore {
        client(&self.url)
    }

    fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Ends the server and gives its sessions free.
    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
        self.server.close().await;
    }
}

fn client(url: &str) -> RemoteStore {
    RemoteStore::new(url, Some(TOKEN.to_owned()), Http::new()).unwrap()
}

fn sqlite(dir: &Path) -> Arc<dyn SessionStore> {
    Arc::new(SqliteStore::new(dir.join("sessions")))
}

fn says(text: &str) -> Vec<EntryKind> {
    vec![EntryKind::Message { message: Message::user_text(text).shared(), usage: None }]
}

fn new(id: &str) -> NewSession {
    NewSession { id: Some(id.into()), cwd: "/project".into(), parent: None }
}

async fn add(session: &dyn OpenSession, text: &str) -> Result<(), StoreError> {
    session.append(says(text), Durability::Process).await.map(drop)
}

async fn texts(store: &dyn SessionStore, id: &str) -> Vec<String> {
    let read = store.read(&id.into()).await.unwrap();
    read.entries.iter().map(|entry| entry.kind.message().unwrap().text()).collect()
}

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_store_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let servers: Mutex<Vec<(u32, Arc<Running>)>> = Mutex::default();
    let make = |place: u32| {
        let (dir, servers) = (dir.path().join(place.to_string()), &servers);
        async move {
            let known =
                servers.lock().unwrap().iter().find(|(at, _)| *at == place).map(|(_, one)| one.clone());
            let server = match known {
                Some(server) => server,
                None => Arc::new(Running::start(sqlite(&dir), LONG).await),
            };
            servers.lock().unwrap().push((place, server.clone()));
            Arc::new(server.client()) as Arc<dyn SessionStore>
        }
    };
    let options = StoreOptions { restores_ids: false, ..StoreOptions::default() };
    let conformance = check_store(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_store_can_be_served() {
    let server = Running::start(Arc::new(MemoryStore::new()), LONG).await;
    let store = server.client();
    let session = store.create(new("s_1")).await.unwrap();
    for text in ["one", "two"] {
        add(&*session, text).await.unwrap();
    }
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let visit = Box::new(move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    store.scan(&"s_1".into(), visit).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn what_keeps_a_client_out_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), LONG).await;
    let filter = SessionFilter::default();
    let wrong =
        |token: Option<&str>| RemoteStore::new(&server.url, token.map(String::from), Http::new()).unwrap();
    for store in [wrong(Some("another")), wrong(None)] {
        let error = store.list(&filter).await.unwrap_err().to_string();
        assert!(error.contains("refuses the token") && error.contains(&server.url), "{error}");
        assert!(!error.contains(TOKEN) && !format!("{store:?}").contains("another"));
    }
    // A newer server, something else that answers, nothing.
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\nzk-sessions-version: 9\r\ncontent-length: 2\r\n\r\n{}",
            "version 9 of the protocol",
        ),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello", "no server of sessions"),
        (
            "HTTP/1.1 200 OK\r\nzk-sessions-version: 1\r\ncontent-length: 5\r\n\r\nhello",
            "no server of sessions",
        ),
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", "502 Bad Gateway"),
        ("HTTP/1.1 200 OK\r\nzk-sessions-version: 1\r\ncontent-length: 50\r\n\r\nhe", "broke off"),
    ] {
        let url = answering(answer).await;
        let error = client(&url).list(&filter).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let unused = { TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let error = client(&format!("http://{unused}")).list(&filter).await.unwrap_err().to_string();
    assert!(error.contains("cannot reach") && error.contains("zk serve-sessions"), "{error}");
    for address in ["http://example.com", "http://u:p@127.0.0.1:1", "ftp://x", "nonsense"] {
        let error = RemoteStore::new(address, None, Http::new()).unwrap_err().to_string();
        assert!(error.contains("the address of the session server"), "{error}");
    }
    assert!(LoopbackListener::bind("0.0.0.0:0".parse().unwrap()).await.is_err());
}

/// Server that gives one answer to everything.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

/// Proxy that drops its connections after a number of bytes of answers.
struct Cutter {
    url: String,
    /// Bytes of answers until the cut; as many as there are if negative.
    left: Arc<Mutex<i64>>,
    task: AbortHandle,
}

impl Cutter {
    async fn before(server: SocketAddr) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), server)
    }

    fn on(listener: TcpListener, server: SocketAddr) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let left = Arc::new(Mutex::new(-1));
        let budget = left.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let budget = budget.clone();
                connections.spawn(async move {
                    let ((mut from, mut to), (mut back, mut out)) =
                        (client.into_split(), server.into_split());
                    let forth = async { tokio::io::copy(&mut from, &mut out).await.map(drop) };
                    let answers = async {
                        let mut bytes = [0; 64];
                        loop {
                            let count = back.read(&mut bytes).await?;
                            if count == 0 {
                                return Ok::<_, std::io::Error>(());
                            }
                            let allowed = {
                                let mut left = budget.lock().unwrap();
                                if *left >= 0 && *left < count as i64 {
                                    *left = -1;
                                    return Ok(());
                                }
                                *left -= if *left >= 0 { count as i64 } else { 0 };
                                count
                            };
                            to.write_all(&bytes[..allowed]).await?;
                        }
                    };
                    tokio::select! { _ = forth => {}, _ = answers => {} }
                });
            }
        });
        Self { url, left, task: task.abort_handle() }
    }

    fn cut_after(&self, bytes: i64) {
        *self.left.lock().unwrap() = bytes;
    }

    /// Ends every connection and takes no other.
    fn silence(&self) {
        self.task.abort();
    }

    /// Connects its clients again, under the address they know.
    async fn connect_again(&self, server: SocketAddr) -> Self {
        loop {
            match TcpListener::bind(self.url.trim_start_matches("http://")).await {
                Ok(listener) => return Self::on(listener, server),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_is_lost_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), LONG).await;
    let cutter = Cutter::before(server.address()).await;
    let store = client(&cutter.url);
    let session = store.create(new("s_1")).await.unwrap();
    let mut expected = Vec::new();
    for bytes in 0..40 {
        cutter.cut_after(bytes * 7);
        let text = format!("{bytes}");
        session.append(says(&text), Durability::Process).await.unwrap();
        expected.push(text);
    }
    assert_eq!(texts(&server.client(), "s_1").await, expected);
    // Entries whose answer is cut are an error, and no shorter session.
    cutter.cut_after(500);
    let error = store.read(&"s_1".into()).await.unwrap_err().to_string();
    assert!(error.contains("broke off"), "{error}");
    assert_eq!(session.entries().await.unwrap().len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_survives_a_server_that_is_started_again_and_is_in_doubt_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), LONG).await;
    let address = server.address();
    let cutter = Cutter::before(address).await;
    let store = client(&cutter.url);
    let session = store.create(new("s_1")).await.unwrap();
    let empty = store.create(new("s_2")).await.unwrap();
    add(&*session, "one").await.unwrap();
    // The append arrives, its answer does not, and the next request finds another server.
    cutter.cut_after(0);
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { add(&*session, "two").await })
    };
    while texts(&server.client(), "s_1").await.len() < 2 {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let server = Running::start_at(address, sqlite(dir.path()), LONG).await;
    appending.await.unwrap().unwrap();
    add(&*session, "three").await.unwrap();
    add(&*empty, "first").await.unwrap();
    assert_eq!(texts(&server.client(), "s_1").await, ["one", "two", "three"]);
    assert_eq!(texts(&server.client(), "s_2").await, ["first"]);

    cutter.cut_after(0);
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { add(&*session, "four").await })
    };
    while texts(&server.client(), "s_1").await.len() < 4 {
        tokio::task::yield_now().await;
    }
    cutter.silence();
    server.stop().await;
    let error = appending.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("may or may not be stored"), "{error}");
    let again = add(&*session, "five").await.unwrap_err().to_string();
    assert!(again.contains("open the session again"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_silent_loses_its_session_and_one_that_renews_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), Duration::from_millis(200)).await;
    let cutter = Cutter::before(server.address()).await;
    let silent = client(&cutter.url);
    let session = silent.create(new("s_1")).await.unwrap();
    add(&*session, "one").await.unwrap();
    let kept = server.client().create(new("s_2")).await.unwrap();
    add(&*kept, "one").await.unwrap();
    cutter.silence();
    let other = server.client();
    let taken = loop {
        match other.open(&"s_1".into()).await {
            Ok(taken) => break taken,
            Err(StoreError::InUse { pid, .. }) => assert_eq!(pid, std::process::id()),
            Err(error) => panic!("{error}"),
        }
        assert!(matches!(other.open(&"s_2".into()).await, Err(StoreError::InUse { .. })));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    add(&*taken, "two").await.unwrap();
    add(&*kept, "two").await.unwrap();
    assert_eq!(texts(&other, "s_1").await, ["one", "two"]);
    assert_eq!(texts(&other, "s_2").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_session_was_taken_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), Duration::from_secs(1)).await;
    let cutter = Cutter::before(server.address()).await;
    let first = client(&cutter.url).create(new("s_1")).await.unwrap();
    add(&*first, "one").await.unwrap();
    cutter.silence();
    let other = server.client();
    let taken = loop {
        match other.open(&"s_1".into()).await {
            Ok(taken) => break taken,
            Err(StoreError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    };
    add(&*taken, "two").await.unwrap();
    let _connected = cutter.connect_again(server.address()).await;
    match add(&*first, "late").await {
        Err(StoreError::Fenced { id }) => assert_eq!(id.as_str(), "s_1"),
        other => panic!("{other:?}"),
    }
    assert_eq!(texts(&other, "s_1").await, ["one", "two"]);
}

#[tokio::test]
async fn foreign_requests_are_refused_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(sqlite(dir.path()), LONG).await;
    let ask = async |request: String| {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = format!(
        "host: x\r\nauthorization: Bearer {TOKEN}\r\nzk-sessions-version: 1\r\nconnection: close\r\n"
    );
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "401"),
        (format!("GET /v1/list HTTP/1.1\r\n{head}\r\n"), "400"),
        (
            format!("POST /v1/nothing HTTP/1.1\r\n{head}content-length: 2\r\n\r\n{{}}"),
            "there is no operation",
        ),
        (format!("POST /v1/list HTTP/1.1\r\n{head}content-length: 3\r\n\r\nabc"), "400"),
        (format!("POST /v1/list HTTP/1.1\r\n{head}content-length: 999999999999\r\n\r\n"), "400"),
        (
            format!(
                "POST /v1/append HTTP/1.1\r\n{head}content-length: 71\r\n\r\n{}",
                r#"{"handle":"no","append":"a","branch":null,"disk":false,"kinds":[]}     "#
            ),
            "no_handle",
        ),
        ("nonsense\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = ask(request.clone()).await;
        assert!(answer.contains(expected), "{request}: {answer}");
    }
    assert!(server.client().list(&SessionFilter::default()).await.unwrap().is_empty());
}
