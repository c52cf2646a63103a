//! Signing in to an MCP server through the program, with a browser that follows the redirect.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::zk::Person;

/// A request: method, path with query, token and body.
struct Asked {
    method: String,
    path: String,
    token: Option<String>,
    body: String,
}

impl Asked {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut token, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => token = Some(value.trim().to_owned()),
                "content-length" => length = value.trim().parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { method, path, token, body: String::from_utf8(body).ok()? })
    }

    fn query(&self) -> BTreeMap<String, String> {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query.split('&').filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect()
    }
}

/// The text of a part of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn say(mut stream: &TcpStream, status: &str, headers: &str, body: &str) {
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// An MCP server with its authorisation server. It ends with the test's process.
struct World {
    url: String,
    /// Paths that were asked for.
    paths: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let (base, seen) = (url.clone(), paths.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (base, seen) = (base.clone(), seen.clone());
                std::thread::spawn(move || {
                    let Some(asked) = Asked::read(&stream) else { return };
                    seen.lock().unwrap().push(asked.path.split('?').next().unwrap().to_owned());
                    answer(&stream, &asked, &base);
                });
            }
        });
        Self { url, paths }
    }

    fn count(&self, path: &str) -> usize {
        self.paths.lock().unwrap().iter().filter(|one| *one == path).count()
    }
}

fn answer(stream: &TcpStream, asked: &Asked, url: &str) {
    let json_type = "content-type: application/json\r\n";
    let json = |value: Value| say(stream, "200 OK", json_type, &value.to_string());
    match asked.path.split('?').next().unwrap() {
        "/mcp" if asked.token.as_deref() != Some("Bearer good") => {
            let place = format!("{url}/.well-known/oauth-protected-resource/mcp");
            let header = format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n");
            say(stream, "401 Unauthorized", &header, "");
        }
        "/mcp" if asked.method != "POST" => say(stream, "405 Method Not Allowed", "", ""),
        "/mcp" => {
            let message: Value = serde_json::from_str(&asked.body).unwrap();
            let Some(id) = message.get("id") else { return say(stream, "202 Accepted", "", "") };
            let result = match message["method"].as_str().unwrap() {
                "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                       "serverInfo": {"name": "s", "version": "1"}}),
                "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
                "tools/call" => json!({"content": [{"type": "text", "text": "called with a token"}]}),
                _ => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    return json(json!({"jsonrpc": "2.0", "id": id, "error": error}));
                }
            };
            json(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        "/.well-known/oauth-protected-resource/mcp" => {
            json(json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]}));
        }
        "/.well-known/oauth-authorization-server" => {
            json(json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                        "token_endpoint": format!("{url}/token"),
                        "registration_endpoint": format!("{url}/register"),
                        "code_challenge_methods_supported": ["S256"],
                        "token_endpoint_auth_methods_supported": ["none"]}));
        }
        "/register" => json(json!({"client_id": "registered"})),
        "/authorize" => {
            let query = asked.query();
            let place = format!("{}?code=c0de&state={}", decoded(&query["redirect_uri"]), query["state"]);
            say(stream, "302 Found", &format!("location: {place}\r\n"), "");
        }
        "/token" => {
            json(json!({"access_token": "good", "token_type": "Bearer", "expires_in": 3600}));
        }
        _ => say(stream, "404 Not Found", "", ""),
    }
}

/// Not a test: the program that the tests have opened as a browser, with the address as its last argument.
#[test]
fn browser() {
    let Some(mut url) = std::env::args().next_back().filter(|last| last.starts_with("http://127.0.0.1"))
    else {
        return;
    };
    // To the page, and where that sends it.
    for _ in 0..2 {
        let rest = url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let place = said.lines().find_map(|line| line.strip_prefix("location: "));
        match place {
            Some(place) => url = place.to_owned(),
            None => return,
        }
    }
}

#[test]
fn a_person_signs_in_by_the_browser_calls_a_tool_in_another_program_and_signs_out() {
    let world = World::start();
    let person = Person::new();
    let program = std::env::current_exe().unwrap();
    let opener =
        [program.to_str().unwrap(), "mcp_sign_in::browser", "--exact", "--nocapture", "--test-threads=1"];
    let settings = toml::Table::from_iter([(
        "mcp".to_owned(),
        toml::Value::try_from(json!({
            "opener": opener,
            "servers": {"far": {"url": format!("{}/mcp", world.url)}},
        }))
        .unwrap(),
    )]);
    person.settings(&toml::to_string(&settings).unwrap());
    let call = || person.run(&["mcp", "call", "far", "t", "{}"]);
    let before = call();
    assert_eq!(before.code, 1, "{}", before.stdout);
    assert!(before.stdout.contains("zk mcp login far"), "{}", before.stdout);
    assert_eq!(world.count("/authorize"), 0, "no browser opens by itself");
    let login = person.run(&["mcp", "login", "far"]);
    assert_eq!((login.code, login.stdout.trim()), (0, "signed in to MCP server far"), "{}", login.stderr);
    assert_eq!((world.count("/authorize"), world.count("/token")), (1, 1));
    let after = call();
    assert_eq!((after.code, after.stdout.trim()), (0, "called with a token"), "{}", after.stderr);
    let again = person.run(&["mcp", "login", "far"]);
    assert!(again.code == 0 && again.stdout.contains("wants no sign-in now"), "{}", again.stdout);
    assert_eq!(person.run(&["mcp", "logout", "far"]).code, 0);
    assert_eq!(call().code, 1, "the token is gone");
    assert_eq!(person.run(&["mcp", "logout", "far"]).code, 2, "nobody is signed in");
}
