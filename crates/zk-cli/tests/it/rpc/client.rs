use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use serde_json::{Value, json};
use zk_view::{Card, View};

use crate::zk::{LONG, Person, program, until};

/// Running server, stopped on drop.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) access: Value,
    pub(super) access_file: PathBuf,
}

impl Serving {
    pub(super) fn start(person: &Person, args: &[&str]) -> Self {
        let args = [&["rpc"][..], args].concat();
        let mut child = person.spawn(program(), &args, Stdio::null());
        // A server whose output nobody reads waits once the pipe is full.
        let (mut printed, mut said) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let path = person.home().join("auth").join(format!("rpc-{}.json", child.id()));
        let mut access = Value::Null;
        until("the access file", || {
            access = std::fs::read(&path)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default();
            !access.is_null()
        });
        Self { child, access, access_file: path }
    }

    pub(super) fn token(&self, role: &str) -> &str {
        self.access[format!("{role}_token")].as_str().unwrap()
    }

    pub(super) fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.access["socket"].as_str().unwrap()).unwrap();
        let lost = stream.try_clone().unwrap();
        let mut client = Client::new(stream.try_clone().unwrap(), stream);
        client.lost = Some(lost);
        client
    }

    /// A client of the socket that may answer questions.
    pub(super) fn approver(&self) -> Client {
        let mut client = self.connect();
        let token = self.token("approver");
        let params = json!({ "protocol_version": "1.0", "role": "approver", "token": token });
        client.call("initialize", &params).unwrap();
        client
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Params of the answer *yes, this once*.
pub(super) fn agreed(conversation: &str, card: &Card) -> Value {
    let digest = String::from(card.digest);
    json!({ "conversation": conversation, "id": card.id, "digest": digest, "answer": { "answer": "once" } })
}

/// Client of `zk rpc`: requests, and the view that the notifications make.
pub(super) struct Client {
    to: Box<dyn Write + Send>,
    /// Connection that closes when this client is dropped.
    lost: Option<UnixStream>,
    lines: Receiver<Value>,
    last_id: u64,
    pub(super) view: View,
    pub(super) seq: u64,
    pub(super) notes: Vec<Value>,
    /// Whether the client subscribes from arbitrary numbers, so that it has no consistent view.
    pub(super) is_wild: bool,
    /// Errors of lines that had no id.
    pub(super) refused: Vec<Value>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(stream) = &self.lost {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Client {
    pub(super) fn new(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        let (send, lines): (Sender<Value>, _) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let parsed = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if send.send(parsed).is_err() {
                    return;
                }
            }
        });
        Self {
            to: Box::new(to),
            lost: None,
            lines,
            last_id: 0,
            view: View::default(),
            seq: 0,
            notes: Vec::new(),
            is_wild: false,
            refused: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, line: &str) {
        let _ = self.to.write_all(line.as_bytes()).and_then(|()| self.to.write_all(b"\n"));
    }

    /// Writes a part of a line.
    pub(super) fn write_part(&mut self, part: &str) {
        let _ = self.to.write_all(part.as_bytes());
    }

    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.write(&request.to_string());
        self.last_id
    }

    /// The result of a request, or its error.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        loop {
            let line = self.next().unwrap_or_else(|| panic!("no answer to {method}"));
            if line["id"] == id {
                let error = line.get("error").cloned();
                return error.map_or_else(|| Ok(line["result"].clone()), Err);
            }
        }
    }

    /// The next line that is no notification.
    pub(super) fn next_answer(&mut self) -> Value {
        let lines = std::iter::repeat_with(|| self.next().unwrap_or_else(|| panic!("no answer")));
        lines.into_iter().find(|line| line.get("method").is_none()).unwrap()
    }

    /// The next line; nothing once the connection is over. Notifications change the view.
    pub(super) fn next(&mut self) -> Option<Value> {
        let line = self.lines.recv_timeout(LONG).ok()?;
        let params = &line["params"];
        if let Some(seq) = params["seq"].as_u64().filter(|_| !self.is_wild) {
            let patch = &params["patch"];
            assert!(seq == self.seq + 1 || patch["patch"] == "reset", "{} {line}", self.seq);
            self.seq = seq;
            if !patch.is_null() {
                self.view.apply(&serde_json::from_value(patch.clone()).unwrap());
            }
        }
        if line.get("method").is_some() {
            self.notes.push(line.clone());
        }
        if line.get("id") == Some(&Value::Null) {
            self.refused.push(line["error"].clone());
        }
        Some(line)
    }

    /// Returns a line that has already arrived.
    pub(super) fn here(&mut self) -> Option<Value> {
        self.lines.try_recv().ok()
    }

    /// Reads until the view, or the last line, is as wanted.
    pub(super) fn until(&mut self, what: &str, mut done: impl FnMut(&View, &Value) -> bool) {
        let begun = Instant::now();
        let mut last = Value::Null;
        while !done(&self.view, &last) {
            assert!(begun.elapsed() < LONG, "{what} did not happen: {last}");
            last = self.next().unwrap_or_else(|| panic!("{what} did not happen: the connection is over"));
        }
    }

    pub(super) fn settled(&mut self) {
        self.until("the end", |_, line| line["method"] == "conversation/settled");
    }

    pub(super) fn card(&mut self) -> Card {
        self.until("a question", |view, _| !view.cards.is_empty());
        self.view.cards[0].clone()
    }
}
