use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

/// Registry on this machine, which takes crates and forgets nothing.
pub(crate) struct Registry {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Lines of the index by the name of the crate, in the order in which they came.
    taken: Vec<(String, String)>,
    /// Name of the crate in whose upload the connection ends.
    breaks_off_at: Option<String>,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let (at, shared) = (address.clone(), Arc::clone(&state));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &at, &shared);
            }
        });
        Self { address, state }
    }

    /// Configuration of cargo that has this registry in the place of crates.io.
    pub(crate) fn configuration(&self) -> String {
        let index = format!("sparse+{}/index/", self.address);
        format!(
            "[source.crates-io]\nreplace-with = \"standin\"\n[source.standin]\nregistry = \"{index}\"\n\
             [registries.standin]\nindex = \"{index}\"\ntoken = \"none\"\n[net]\nretry = 0\n"
        )
    }

    pub(crate) fn break_off_at(&self, name: Option<&str>) {
        self.state.lock().unwrap().breaks_off_at = name.map(str::to_owned);
    }

    /// Has a package of somebody else in the place of the one that it took.
    pub(crate) fn replace(&self, name: &str) {
        let mut state = self.state.lock().unwrap();
        let (_, line) = state.taken.iter_mut().find(|(taken, _)| taken == name).unwrap();
        let mut about: serde_json::Value = serde_json::from_str(line).unwrap();
        about["cksum"] = "0".repeat(64).into();
        *line = about.to_string();
    }

    /// Names of the crates in the order in which they came.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.state.lock().unwrap().taken.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn answer(stream: TcpStream, address: &str, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).is_err() || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut state = state.lock().unwrap();
    let (status, text) = match (method, path) {
        ("GET", "/index/config.json") => {
            ("200 OK", format!("{{\"dl\":\"{address}/dl\",\"api\":\"{address}\"}}"))
        }
        ("GET", _) => {
            let name = path.rsplit('/').next().unwrap_or_default();
            match state.taken.iter().find(|(taken, _)| taken == name) {
                Some((_, line)) => ("200 OK", format!("{line}\n")),
                None => ("404 Not Found", String::new()),
            }
        }
        _ => {
            let size = usize::try_from(u32::from_le_bytes(body[..4].try_into().unwrap())).unwrap();
            let about: serde_json::Value = serde_json::from_slice(&body[4..4 + size]).unwrap();
            let name = about["name"].as_str().unwrap().to_owned();
            if state.breaks_off_at.as_ref() == Some(&name) {
                return;
            }
            let line = serde_json::json!({
                "name": name, "vers": about["vers"], "deps": [], "features": {}, "yanked": false, "cksum": sha256(&body[8 + size..]),
            });
            state.taken.push((name, line.to_string()));
            (
                "200 OK",
                "{\"warnings\":{\"invalid_categories\":[],\"invalid_badges\":[],\"other\":[]}}".to_owned(),
            )
        }
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    // Cargo may have gone away.
    let _ = reader.get_mut().write_all([head, text].concat().as_bytes());
}
