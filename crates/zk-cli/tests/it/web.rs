use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::zk::{LONG, Person, program};

/// A server of the page, which ends with this.
struct Web {
    child: Child,
    address: String,
    key: String,
}

impl Web {
    fn start(person: &Person) -> Self {
        let mut child = person.spawn(program(), &["web"], Stdio::piped());
        let mut link = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut link).unwrap();
        let (address, key) = link.trim().strip_prefix("http://").unwrap().split_once("/#").unwrap();
        Self { child, address: address.to_owned(), key: key.to_owned() }
    }

    /// The answer to a request with these headers, whole.
    fn ask(&self, request: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn exchange(&self, host: &str, origin: Option<&str>, key: &str) -> String {
        let mut headers = vec![("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        self.ask("POST /session", &headers, key)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_is_served_to_its_own_host_under_strict_rules_and_holds_no_secret() {
    let person = Person::new();
    let web = Web::start(&person);
    let page = web.ask("GET /", &[("host", &web.address)], "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for rule in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "script-src 'nonce-",
        "no-store",
        "no-referrer",
        "nosniff",
    ] {
        assert!(page.contains(rule), "{rule}");
    }
    assert!(!page.contains(&web.key));
    // A name of elsewhere that leads here is another page's.
    for host in ["evil.example", "127.0.0.1:1"] {
        let refused = web.ask("GET /", &[("host", host)], "");
        assert!(refused.starts_with("HTTP/1.1 403"), "{host}: {refused}");
    }
    assert!(web.ask("GET /etc/passwd", &[("host", &web.address)], "").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_link_lets_one_page_of_this_server_in_and_nobody_else() {
    let person = Person::new();
    let web = Web::start(&person);
    let own = format!("http://{}", web.address);
    for (host, origin, key) in [
        (web.address.as_str(), Some("http://evil.example"), web.key.as_str()),
        (&web.address, None, &web.key),
        ("evil.example", Some(&own), &web.key),
        (&web.address, Some(&own), "0123456789abcdef"),
        (&web.address, Some(&own), ""),
        (&web.address, Some(&own), &"x".repeat(10_000)),
    ] {
        let refused = web.exchange(host, origin, key);
        assert!(refused.starts_with("HTTP/1.1 403"), "{host} {origin:?}: {refused}");
    }
    let granted = web.exchange(&web.address, Some(&own), &web.key);
    assert!(granted.starts_with("HTTP/1.1 200"), "{granted}");
    let token = granted.rsplit("\r\n\r\n").next().unwrap();
    assert!(token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let stolen = web.exchange(&web.address, Some(&own), &web.key);
    assert!(stolen.starts_with("HTTP/1.1 403") && stolen.contains("was used"), "{stolen}");
}
