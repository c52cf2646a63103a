use zk_testkit::CountingHost;

use super::*;

fn proxy(rules: &[&str], addresses: &'static [&'static str]) -> (Proxy, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let resolve: Resolve = Arc::new(move |_: &str| {
        let time = counted.fetch_add(1, Ordering::SeqCst);
        // The host name resolves to this machine at the second look-up.
        let text = addresses.get(time).unwrap_or(&"127.0.0.1");
        Ok(text.split(' ').map(|address| address.parse().unwrap()).collect())
    });
    (Proxy { resolve, ..Proxy::new(HostRules::parse(rules).unwrap()) }, asked)
}

/// Proxy's answer to a request, and the request as received by the host.
fn ask(proxy: &Proxy, request: &str) -> String {
    String::from_utf8(ask_in_bytes(proxy, request.as_bytes())).unwrap()
}

fn ask_in_bytes(proxy: &Proxy, request: &[u8]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    proxy.serve(listener).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// SOCKS request to connect to a host name.
fn socks(name: &[u8], port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 5, 1, 0, 3, length], name, &port.to_be_bytes()].concat()
}

/// Host that answers each request with `got` and the request.
fn answering_host() -> CountingHost {
    CountingHost::start(|mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        stream.write_all(format!("got {text}").as_bytes()).unwrap();
    })
    .unwrap()
}

#[test]
fn a_named_address_is_reached_by_a_tunnel_and_by_a_whole_address() {
    let host = answering_host();
    let port = host.port();
    let (proxy, _) = proxy(&[&format!("127.0.0.1:{port}")], &[]);
    let answer = ask(&proxy, &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nhello"));
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\ngot hello");
    let answer = ask(&proxy, &format!("GET http://127.0.0.1:{port}/x HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("got GET /x HTTP/1.1\r\n"), "{answer}");
    assert_eq!(host.connections(), 2);
}

#[test]
fn what_is_not_named_is_refused_and_remembered_by_its_name() {
    let host = answering_host();
    let port = host.port();
    let (proxy, asked) = proxy(&["crates.io", "*.npmjs.org"], &[]);
    let since = Instant::now();
    for target in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "evil.org:443".into(),
        "crates.io:22".into(),
        "evil.org\0.npmjs.org:443".into(),
    ] {
        let answer = ask(&proxy, &format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{target}: {answer}");
    }
    assert_eq!((host.connections(), asked.load(Ordering::SeqCst)), (0, 0), "nothing is looked up either");
    let refused = proxy.refused_since(since);
    assert_eq!((refused.len(), refused[2].target.as_str()), (5, "evil.org:443"));
    assert_eq!(proxy.refused_since(Instant::now()), []);
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused_and_looked_up_once() {
    let host = answering_host();
    let port = host.port();
    let rule = format!("crates.io:{port}");
    for addresses in
        [&["127.0.0.1"], &["10.0.0.1"], &["169.254.169.254"], &["8.8.8.8 127.0.0.1"], &["::ffff:127.0.0.1"]]
    {
        let (proxy, asked) = proxy(&[&rule], addresses);
        let answer = ask(&proxy, &format!("CONNECT crates.io:{port} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not a public address"), "{answer}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
    assert_eq!(host.connections(), 0);
    // A further rule that names the address allows it.
    let (proxy, _) = proxy(&[&rule, &format!("127.0.0.1:{port}")], &["127.0.0.1"]);
    let answer = ask(&proxy, &format!("CONNECT crates.io:{port} HTTP/1.1\r\n\r\nhello"));
    assert!(answer.ends_with("got hello"), "{answer}");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let (proxy, _) = proxy(&["crates.io"], &[]);
    proxy.open.store(MAX_CONNECTIONS, Ordering::SeqCst);
    let answer = ask(&proxy, "CONNECT crates.io:443 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"), "{answer}");
    proxy.open.store(0, Ordering::SeqCst);
    assert!(ask(&proxy, "CONNECT evil.org:443 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
}

#[test]
fn a_named_host_is_reached_by_socks_and_its_name_looked_up_once() {
    let host = answering_host();
    let port = host.port();
    let rules = [format!("crates.io:{port}"), host.address()];
    let (proxy, asked) = proxy(&[&rules[0], &rules[1]], &["127.0.0.1"]);
    let connected = [&[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"got hello"].concat();
    assert_eq!(ask_in_bytes(&proxy, &[&socks(b"crates.io", port)[..], b"hello"].concat()), connected);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let by_address = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes(), b"hello"].concat();
    assert_eq!(ask_in_bytes(&proxy, &by_address), connected);
    assert_eq!(host.connections(), 2);
}

#[test]
fn socks_is_refused_what_is_not_named_is_no_name_or_leads_to_a_private_address() {
    let host = answering_host();
    let port = host.port();
    let (proxy, asked) = proxy(&["crates.io", "*.npmjs.org"], &[]);
    let since = Instant::now();
    let refused = [5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0];
    for (name, port) in [
        (&b"evil.org"[..], 443),
        (b"evil.org\0.npmjs.org", 443),
        (b"evil.org\r\n.npmjs.org", 443),
        (b"cr\xc3\xa4tes.npmjs.org", 443),
        (b"\xff\xfe.npmjs.org", 443),
        (b"", 443),
        (b"crates.io", 22),
        (b"127.0.0.1", port),
        (b"localhost", port),
    ] {
        assert_eq!(ask_in_bytes(&proxy, &socks(name, port)), refused, "{}", name.escape_ascii());
    }
    assert_eq!((host.connections(), asked.load(Ordering::SeqCst)), (0, 0), "nothing is looked up either");
    assert_eq!(proxy.refused_since(since)[1].target, "evil.org\\u{0}.npmjs.org:443");
    // The host name is allowed, and resolves to this machine.
    assert_eq!(ask_in_bytes(&proxy, &socks(b"crates.io", 443)), refused);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn other_requests_of_socks_are_answered_in_its_own_way() {
    let (proxy, _) = proxy(&["crates.io"], &[]);
    let told = |code| vec![5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    for (request, answer) in [
        // Password authentication, requests to listen and to send datagrams, an unknown kind of address.
        (vec![5, 1, 2], vec![5, 0xff]),
        ([&[5, 1, 0, 5, 2, 0, 3, 9][..], b"crates.io", &[0, 80]].concat(), told(7)),
        ([&[5, 1, 0, 5, 3, 0, 3, 9][..], b"crates.io", &[0, 80]].concat(), told(7)),
        (vec![5, 1, 0, 5, 1, 0, 9], told(8)),
        (vec![5, 1, 0, 5, 1], vec![5, 0]),
    ] {
        assert_eq!(ask_in_bytes(&proxy, &request), answer, "{request:?}");
    }
}
