use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use reqwest::Url;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zk_core::kernel::Bus;
use zk_core::model::{Block, Effect, Effects, ToolContent, ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::{Tool, ToolCx};

use super::address::Lookup;
use super::html::to_markdown;
use super::{Fetch, FetchOptions};

/// A server on this machine that answers by path, and counts who connects to it.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Server {
    async fn serving(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let (count, now_open, answer) = (connections.clone(), open.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                let now_open = now_open.clone();
                now_open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _closed = Closed(now_open);
                    let mut head = Vec::new();
                    let mut buffer = [0; 4096];
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        match stream.read(&mut buffer).await {
                            Ok(read @ 1..) => head.extend_from_slice(&buffer[..read]),
                            Ok(0) | Err(_) => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
                    let _ = stream.write_all(&answer(&path)).await;
                    let _ = stream.shutdown().await;
                    // Waits until the client closes the connection.
                    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
                });
            }
        });
        Self { address, connections, open }
    }

    /// Waits until no connection is open any more.
    async fn wait_until_all_closed(&self) {
        for _ in 0..1_000 {
            if self.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.open.load(Ordering::SeqCst), 0, "connections stay open");
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Counts one connection less when it is dropped.
struct Closed(Arc<AtomicUsize>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut all =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n")
            .into_bytes();
    all.extend_from_slice(body);
    all
}

fn page_response(kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", &format!("content-type: {kind}\r\n"), body.as_ref())
}

fn moved(to: &str) -> Vec<u8> {
    response("302 Found", &format!("location: {to}\r\n"), b"")
}

/// Resolver with given answers: one list after the other for each name, the last one repeated.
#[derive(Default)]
struct Names {
    known: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(known: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let known =
            known.iter().map(|(name, answers)| (name.to_string(), answers.iter().map(parse).collect()));
        Arc::new(Self { known: known.collect(), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.known.get(host).ok_or_else(|| io::Error::other("no such name"))?;
        let answer = answers.get(at).or(answers.last()).cloned().unwrap_or_default();
        // The port in a resolver's answer is ignored.
        Ok(answer.into_iter().map(|address| SocketAddr::new(address, 1)).collect())
    }
}

async fn fetch(tool: &Fetch, url: &str) -> Result<ToolOutput, ToolError> {
    let bus = Bus::new();
    let cx = ToolCx::new(bus.cx(), "/");
    let shared: Arc<dyn Tool> = Arc::new(Fetch::new(&FetchOptions::default()));
    tool.call(&cx.approve(shared, json!({ "url": url })).await.unwrap(), &cx).await
}

/// A tool that may reach `server` although it is on this machine, by the names given.
fn reaching(server: &Server, names: Arc<Names>) -> Fetch {
    let options = FetchOptions { also: vec![server.address], ..FetchOptions::default() };
    Fetch::looking_up(&options, names)
}

#[tokio::test]
async fn no_form_of_an_address_inside_is_connected_to() {
    let inside = Server::serving(|_| page_response("text/plain", "secret")).await;
    let port = inside.address.port();
    let names = Names::of(&[
        ("loopback.test", &[&["127.0.0.1"]]),
        ("loopback6.test", &[&["::1"]]),
        ("private.test", &[&["10.0.0.5"]]),
        ("mixed.test", &[&["93.184.215.14", "127.0.0.1"]]),
        ("mapped.test", &[&["::ffff:127.0.0.1"]]),
        ("nat64.test", &[&["64:ff9b::7f00:1"]]),
        ("sixtofour.test", &[&["2002:7f00:1::"]]),
        ("metadata.google.internal", &[&["169.254.169.254"]]),
        ("localhost", &[&["127.0.0.1"]]),
        ("localhost.", &[&["127.0.0.1"]]),
        ("a.localhost", &[&["127.0.0.1"]]),
        ("127.0.0.1.nip.test", &[&["127.0.0.1"]]),
        ("empty.test", &[&[]]),
    ]);
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "127.255.255.254",
        "0.0.0.0",
        "0",
        "10.0.0.5",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "2852039166",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[2001:db8::1]",
        "１２７.０.０.１",
        "①②⑦.0.0.1",
        "loopback.test",
        "LOOPBACK.TEST",
        "loopback6.test",
        "private.test",
        "mixed.test",
        "mapped.test",
        "nat64.test",
        "sixtofour.test",
        "metadata.google.internal",
        "localhost",
        "localhost.",
        "a.localhost",
        "127.0.0.1.nip.test",
        "empty.test",
        "nowhere.test",
        "%31%32%37.0.0.1",
    ];
    let tool = Fetch::looking_up(&FetchOptions::default(), names);
    for host in hosts {
        for url in [format!("http://{host}:{port}/"), format!("https://{host}:{port}/")] {
            let error = fetch(&tool, &url).await.unwrap_err();
            let is_refusal = matches!(
                error.kind,
                ToolErrorKind::Denied | ToolErrorKind::NotFound | ToolErrorKind::InvalidArgs
            );
            assert!(is_refusal, "{url}: {error:?}");
            assert!(!error.message.contains("secret"), "{url}: {error}");
        }
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn other_schemes_and_passwords_in_addresses_are_refused() {
    let tool = Fetch::looking_up(&FetchOptions::default(), Names::of(&[]));
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/plain,hi",
        "javascript:1",
        "unix:/run/docker.sock",
        "http+unix://%2frun%2fdocker.sock/",
        "ws://example.com",
        "//example.com",
        "/etc/passwd",
        "example.com",
        "http://",
        "https:///",
        "http://user:pass@example.com/",
        "http://127.0.0.1@example.com/",
        "http://example.com:99999/",
        "http://[::1",
        "",
    ] {
        let error = fetch(&tool, url).await.unwrap_err();
        let is_refusal = matches!(
            error.kind,
            ToolErrorKind::Denied | ToolErrorKind::NotFound | ToolErrorKind::InvalidArgs
        );
        assert!(is_refusal, "{url}: {error:?}");
    }
}

#[tokio::test]
async fn each_redirect_is_judged_before_it_is_followed() {
    let inside = Server::serving(|_| page_response("text/plain", "secret")).await;
    let port = inside.address.port();
    let outside = Server::serving(move |path| {
        let to = match path {
            "/loopback" => format!("http://127.0.0.1:{port}/"),
            "/decimal" => format!("http://2130706433:{port}/"),
            "/ipv6" => format!("http://[::ffff:127.0.0.1]:{port}/"),
            "/name" => format!("http://inside.test:{port}/"),
            "/relative" => format!("//127.0.0.1:{port}/"),
            "/scheme" => "file:///etc/passwd".to_owned(),
            "/user" => format!("http://a:b@127.0.0.1:{port}/"),
            "/same" => format!("http://page.test:{port}/"),
            "/loop" => "/loop".to_owned(),
            "/none" => String::new(),
            _ => "http://".to_owned(),
        };
        moved(&to)
    })
    .await;
    let names = Names::of(&[("page.test", &[&["127.0.0.1"]]), ("inside.test", &[&["127.0.0.1"]])]);
    let tool = reaching(&outside, names);
    for path in
        ["loopback", "decimal", "ipv6", "name", "relative", "scheme", "user", "same", "loop", "none", "bad"]
    {
        let url = format!("http://page.test:{}/{path}", outside.address.port());
        match fetch(&tool, &url).await {
            // Reported to the model, and not followed.
            Ok(output) => assert!(output.content.to_text().contains("redirects to another host"), "{path}"),
            Err(error) => assert!(
                error.message.contains("page.test")
                    || error.message.contains("cannot")
                    || error.message.contains("password"),
                "{path}: {error}"
            ),
        }
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_connected_to_where_it_was_judged() {
    let inside = Server::serving(|_| page_response("text/plain", "secret")).await;
    // The first answer is checked and used, without a second lookup.
    let names = Names::of(&[("rebind.test", &[&["192.0.2.1"], &["127.0.0.1"]])]);
    let tool = Fetch::looking_up(&FetchOptions::default(), names.clone());
    let url = format!("http://rebind.test:{}/", inside.address.port());
    assert_eq!(fetch(&tool, &url).await.unwrap_err().kind, ToolErrorKind::Denied);
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);

    let allowed = Server::serving(|_| moved("/again")).await;
    let names = Names::of(&[("rebind.test", &[&["127.0.0.1"], &["10.0.0.1"]])]);
    let tool = reaching(&allowed, names.clone());
    let url = format!("http://rebind.test:{}/", allowed.address.port());
    let error = fetch(&tool, &url).await.unwrap_err();
    assert!(error.message.contains("10.0.0.1"), "{error}");
    assert_eq!((allowed.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn a_page_comes_as_markdown_and_with_what_it_is() {
    let server = Server::serving(|path| match path {
        "/html" => page_response(
            "text/html; charset=utf-8",
            "<title>T &amp; U</title><h1>Hi</h1><p>a <a href='/b'>b</a></p>",
        ),
        "/latin" => page_response("text/html; charset=iso-8859-1", b"<p>gr\xfc\xdfe</p>"),
        "/json" => page_response("application/json", "{\"a\":1}"),
        "/png" => page_response("image/png", b"\x89PNG\r\n\x1a\n"),
        "/pdf" => page_response("application/pdf", b"%PDF-1.7"),
        "/zip" => page_response("application/zip", b"PK\x03\x04"),
        "/lies" => page_response("text/plain", b"\0\0\0\0"),
        "/gzip" => response("200 OK", "content-encoding: gzip\r\n", b"\x1f\x8b"),
        "/here" => moved("/json"),
        _ => response("404 Not Found", "content-type: text/plain\r\n", b"gone"),
    })
    .await;
    let tool = reaching(&server, Names::of(&[("page.test", &[&["127.0.0.1"]])]));
    let url = |path: &str| format!("http://page.test:{}{path}", server.address.port());
    let text = async |path: &str| fetch(&tool, &url(path)).await.unwrap().content.to_text();

    let html = text("/html").await;
    let expected = format!("# T & U\n# Hi\n\na [b]({})", url("/b"));
    assert!(html.ends_with(&expected), "{html}");
    assert!(text("/latin").await.ends_with("grüße"));
    assert!(text("/json").await.ends_with("{\"a\":1}"));
    assert!(text("/here").await.ends_with("{\"a\":1}"), "a redirect within the host is followed");
    let png = fetch(&tool, &url("/png")).await.unwrap();
    let ToolContent::Blocks(blocks) = &png.content else { panic!("{png:?}") };
    assert!(matches!(&blocks[1], Block::Image(image) if image.media_type == "image/png"));
    assert_eq!(png.details.unwrap()["status"], 200);
    let pdf = fetch(&tool, &url("/pdf")).await.unwrap().content;
    assert!(matches!(&pdf, ToolContent::Blocks(blocks) if matches!(&blocks[1], Block::Document(_))));
    for (path, why) in
        [("/zip", "application/zip"), ("/lies", "cannot be shown"), ("/gzip", "encoding"), ("/no", "gone")]
    {
        let error = fetch(&tool, &url(path)).await.unwrap_err();
        assert!(error.message.contains(why), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_page_is_read_to_its_limit_and_no_longer_than_its_time() {
    let server = Server::serving(|path| match path {
        "/endless" => page_response("text/plain", "a".repeat(1 << 20)),
        // Response that is shorter than its declared length.
        "/broken" => {
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nabc".to_vec()
        }
        _ => Vec::new(),
    })
    .await;
    let names = || Names::of(&[("page.test", &[&["127.0.0.1"]])]);
    let options = FetchOptions { also: vec![server.address], max_bytes: 1_000, ..FetchOptions::default() };
    let tool = Fetch::looking_up(&options, names());
    let url = |path: &str| format!("http://page.test:{}{path}", server.address.port());
    let text = fetch(&tool, &url("/endless")).await.unwrap().content.to_text();
    assert!(text.len() < 1_200 && text.contains("[cut: no more than 1000 B"), "{text}");
    let error = fetch(&tool, &url("/broken")).await.unwrap_err();
    assert!(error.message.contains("broke off"), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let options =
        FetchOptions { also: vec![address], timeout: Duration::from_millis(50), ..FetchOptions::default() };
    let tool = Fetch::looking_up(&options, names());
    let error = fetch(&tool, &format!("http://page.test:{}/", address.port())).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::TimedOut);
}

#[test]
fn permissions_see_the_host_of_a_call() {
    let tool = Fetch::new(&FetchOptions::default());
    let place = zk_core::service::CallPlace { cx: Bus::new().cx(), cwd: "/".into() };
    let hosts = |url: &str| match tool.effects(&json!({ "url": url }), &place) {
        Effects::Known { list } => match list.as_slice() {
            [Effect::Network { hosts }] => hosts.clone(),
            other => panic!("{other:?}"),
        },
        Effects::Unknown => panic!("unknown"),
    };
    assert_eq!(hosts("https://Docs.RS/serde"), ["docs.rs"]);
    assert_eq!(hosts("http://example.com:8080/"), ["example.com:8080"]);
    assert_eq!(hosts("http://2130706433/"), ["127.0.0.1"]);
    assert!(hosts("nonsense").is_empty());
}

fn markdown(html: &str) -> String {
    to_markdown(html, &Url::parse("https://example.com/a/").unwrap()).text
}

#[test]
fn a_hostile_page_is_converted_on_a_small_stack_and_grows_by_little() {
    for piece in [
        "<div>",
        "<b>",
        "<ul><li>",
        "<blockquote>a",
        "<table><tr><td>",
        "<a href=x>",
        "<p><b><i>",
        "<font>x<p>",
        "<pre><code>",
        "</div></ul></table>",
        "&amp",
        "<!--",
        "<x y='",
    ] {
        let html = piece.repeat(400_000 / piece.len());
        let converted = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
            let text = markdown(&html);
            (html.len(), text.len())
        });
        let (before, after) = converted.unwrap().join().unwrap();
        assert!(after <= 20 * before, "{piece}: {before} bytes became {after}");
    }
}

#[test]
fn a_block_of_nothing_but_backticks_gets_its_fence_in_one_pass() {
    let ticks = "`".repeat(400_000);
    let html = format!("<pre><code>{ticks}</code></pre>");
    let (done, converted) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(markdown(&html)));
    // A search for each longer fence in turn takes minutes.
    let text = converted.recv_timeout(Duration::from_secs(30)).unwrap();
    let fence = "`".repeat(400_001);
    assert_eq!(text.lines().collect::<Vec<_>>(), [&*fence, &*ticks, &*fence]);
}

#[test]
fn the_structure_of_a_page_stays() {
    assert_eq!(markdown("<h2>A</h2>text<p>b<br>c</p>"), "## A\n\ntext\n\nb\nc");
    assert_eq!(markdown("<ul><li>a<li>b<ol><li>c</ol></ul>d"), "- a\n- b\n  1. c\n\nd");
    assert_eq!(markdown("<blockquote><p>a<p>b</blockquote>"), "> a\n>\n> b");
    assert_eq!(
        markdown("<pre><code class='x language-rust'>fn a() {\n    1 &lt; 2\n}\n</code></pre>"),
        "```rust\nfn a() {\n    1 < 2\n}\n```"
    );
    assert_eq!(markdown("a <b>b </b>c <i></i><code>x</code>"), "a **b** c `x`");
    assert_eq!(
        markdown("<table><tr><th>a</th><th>b</th></tr><tr><td>1|2</td><td><p>3</p></td></tr></table>"),
        "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
    );
    assert_eq!(markdown("<table><tr><td>alone</td></tr></table>"), "alone");
    assert_eq!(
        markdown("<a href='../b'>up</a> <a href='javascript:x'>no</a> <a href='#c'>here</a>"),
        "[up](https://example.com/b) no here"
    );
    assert_eq!(
        markdown("<img alt='a cat' src='c.png'><img src='d.png'>"),
        "![a cat](https://example.com/a/c.png)"
    );
}

#[test]
fn scripts_styles_and_hidden_elements_are_left_out() {
    let html = "<script>if (a < b) { '</p>' }</script><style>p{}</style><!-- <p>no</p> --><svg><svg></svg><text>no</text></svg>\
                <noscript>no</noscript><p>yes</p><textarea>typed</textarea>";
    assert_eq!(markdown(html), "yes\n\ntyped");
    assert_eq!(markdown("1 < 2 & 3 &amp; 4 &#x41; &nosuch; <3"), "1 < 2 & 3 & 4 A &nosuch; <3");
    assert_eq!(markdown("<p>never closed <b>bold <a href='x'>link"), "never closed **bold link**");
}

proptest! {
    #[test]
    fn any_bytes_are_a_page(html in prop::collection::vec(prop_oneof![
        Just("<"), Just(">"), Just("</"), Just("/>"), Just("\""), Just("'"), Just("="), Just("<!--"), Just("-->"),
        Just("<table>"), Just("<td>"), Just("</table>"), Just("<li>"), Just("<ul>"), Just("</ul>"), Just("<pre>"),
        Just("</pre>"), Just("<code>"), Just("</code>"), Just("<b>"), Just("</b>"), Just("<i>"), Just("</i>"),
        Just("<a href=x>"), Just("</a>"), Just("<script>"), Just("</script>"), Just("<svg>"), Just("</svg>"), Just("&"),
        Just("&#"), Just(";"), Just("ä"), Just("word"), Just(" "), Just("\n"), Just("<p>"), Just("<blockquote>"),
    ], 0..60)) {
        let html = html.concat();
        let text = markdown(&html);
        prop_assert!(text.len() <= html.len() * 40 + 200);
    }
}

/// Variable with the address of the page, for the test of proxies in a separate process.
const PAGE: &str = "ZK_TEST_PAGE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the environment of a process is set before it starts")]
async fn a_proxy_that_the_environment_names_is_not_used() {
    let proxy = Server::serving(|_| page_response("text/plain", "by way of the proxy")).await;
    let server = Server::serving(|_| page_response("text/plain", "directly")).await;
    let (address, at) = (server.address, format!("http://{}", proxy.address));
    let run = move || {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "web::tests::gets_the_page_of_another_process", "--include-ignored"]);
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            child.env(name, &at);
        }
        child.env_remove("NO_PROXY").env_remove("no_proxy").env(PAGE, address.to_string()).output().unwrap()
    };
    let ended = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}

#[tokio::test]
#[ignore = "runs in a process of its own, started by another test"]
#[expect(clippy::disallowed_methods, reason = "told by the process that started it")]
async fn gets_the_page_of_another_process() {
    let Ok(address) = std::env::var(PAGE) else { return };
    let options = FetchOptions { also: vec![address.parse().unwrap()], ..FetchOptions::default() };
    let names = Names::of(&[("page.test", &[&["127.0.0.1"]])]);
    let port = address.rsplit(':').next().unwrap();
    let output =
        fetch(&Fetch::looking_up(&options, names), &format!("http://page.test:{port}/")).await.unwrap();
    assert!(output.content.to_text().ends_with("directly"));
}

#[tokio::test]
async fn a_call_that_is_stopped_ends_at_once_and_its_connection_with_it() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let options = FetchOptions { also: vec![address], ..FetchOptions::default() };
    let tool = Fetch::looking_up(&options, Names::of(&[("page.test", &[&["127.0.0.1"]])]));
    let stop = tokio_util::sync::CancellationToken::new();
    let cx = ToolCx::new(Bus::new().cx().with_stop(stop.clone()), "/");
    let shared: Arc<dyn Tool> = Arc::new(Fetch::new(&FetchOptions::default()));
    let url = format!("http://page.test:{}/", address.port());
    let approved = cx.approve(shared, json!({ "url": url })).await.unwrap();
    let connected = async {
        let (mut stream, _) = silent.accept().await.unwrap();
        stop.cancel();
        // Waits until the client closes the connection.
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    };
    let (result, ()) = tokio::join!(tool.call(&approved, &cx), connected);
    assert_eq!(result.unwrap_err().kind, ToolErrorKind::Aborted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_at_any_await_and_leaves_no_connection() {
    // A page of two parts, after a redirect.
    let body = "<p>word</p>".repeat(20_000);
    let server = Server::serving(move |path| match path {
        "/start" => moved("/page"),
        _ => page_response("text/html", &body),
    })
    .await;
    let tool = reaching(&server, Names::of(&[("page.test", &[&["127.0.0.1"]])]));
    let url = format!("http://page.test:{}/start", server.address.port());
    for is_dropped in [false, true] {
        let (mut whole, mut most) = (false, 0);
        for n in 0..400 {
            let stop = tokio_util::sync::CancellationToken::new();
            let cx = ToolCx::new(Bus::new().cx().with_stop(stop.clone()), "/");
            let shared: Arc<dyn Tool> = Arc::new(Fetch::new(&FetchOptions::default()));
            let approved = cx.approve(shared, json!({ "url": url })).await.unwrap();
            let mut call = tool.call(&approved, &cx);
            let (mut polls, mut reached) = (0, false);
            let result = std::future::poll_fn(|task| {
                if polls == n {
                    reached = true;
                    stop.cancel();
                    if is_dropped {
                        return std::task::Poll::Ready(None);
                    }
                }
                polls += 1;
                call.as_mut().poll(task).map(Some)
            })
            .await;
            drop(call);
            most = most.max(polls);
            match result {
                Some(Ok(output)) => {
                    assert!(!reached, "{n}");
                    assert!(output.content.to_text().contains("word"));
                    whole = true;
                    break;
                }
                Some(Err(error)) => assert_eq!(error.kind, ToolErrorKind::Aborted, "{n}: {error}"),
                None => assert!(is_dropped),
            }
        }
        assert!(whole && most > 1, "{most} polls");
        server.wait_until_all_closed().await;
    }
}
