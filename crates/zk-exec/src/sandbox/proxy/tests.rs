use super::*;

fn proxy(rules: &[&str], addresses: &'static [&'static str]) -> (Proxy, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let resolve: Resolve = Arc::new(move |_: &str| {
        let time = counted.fetch_add(1, Ordering::SeqCst);
        // A name that leads somewhere else the second time.
        let text = addresses.get(time).unwrap_or(&"127.0.0.1");
        Ok(text.split(' ').map(|address| address.parse().unwrap()).collect())
    });
    (Proxy { resolve, ..Proxy::new(HostRules::parse(rules).unwrap()) }, asked)
}

/// What the proxy answers to a request, and what a host behind it got.
fn ask(proxy: &Proxy, request: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    proxy.serve(listener).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A host that answers everything it gets with its length, and how many came.
fn host() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = came.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(format!("got {text}").as_bytes()).unwrap();
        }
    });
    (port, came)
}

#[test]
fn a_named_address_is_reached_by_a_tunnel_and_by_a_whole_address() {
    let (port, came) = host();
    let (proxy, _) = proxy(&[&format!("127.0.0.1:{port}")], &[]);
    let answer = ask(&proxy, &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nhello"));
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\ngot hello");
    let answer = ask(&proxy, &format!("GET http://127.0.0.1:{port}/x HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("got GET /x HTTP/1.1\r\n"), "{answer}");
    assert_eq!(came.load(Ordering::SeqCst), 2);
}

#[test]
fn what_is_not_named_is_refused_and_remembered_by_its_name() {
    let (port, came) = host();
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
    assert_eq!(
        (came.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)),
        (0, 0),
        "nothing is looked up either"
    );
    let refused = proxy.refused_since(since);
    assert_eq!((refused.len(), refused[2].target.as_str()), (5, "evil.org:443"));
    assert_eq!(proxy.refused_since(Instant::now()), []);
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused_and_looked_up_once() {
    let (port, came) = host();
    let rule = format!("crates.io:{port}");
    for addresses in
        [&["127.0.0.1"], &["10.0.0.1"], &["169.254.169.254"], &["8.8.8.8 127.0.0.1"], &["::ffff:127.0.0.1"]]
    {
        let (proxy, asked) = proxy(&[&rule], addresses);
        let answer = ask(&proxy, &format!("CONNECT crates.io:{port} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not a public address"), "{answer}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
    assert_eq!(came.load(Ordering::SeqCst), 0);
    // Named as well, it counts.
    let (proxy, _) = proxy(&[&rule, &format!("127.0.0.1:{port}")], &["127.0.0.1"]);
    let answer = ask(&proxy, &format!("CONNECT crates.io:{port} HTTP/1.1\r\n\r\nhello"));
    assert!(answer.ends_with("got hello"), "{answer}");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let (proxy, _) = proxy(&["crates.io"], &[]);
    proxy.open.store(CONNECTIONS, Ordering::SeqCst);
    let answer = ask(&proxy, "CONNECT crates.io:443 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"), "{answer}");
    proxy.open.store(0, Ordering::SeqCst);
    assert!(ask(&proxy, "CONNECT evil.org:443 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
}
