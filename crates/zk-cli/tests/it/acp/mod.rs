//! Editors that drive the program by the Agent Client Protocol.

mod demands;
mod driven;
mod offers;
mod requirements;
mod work;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use crate::zk::{LONG, Person, program};

/// Answer to a request of the program; nothing for one that is left open.
type Answering = Box<dyn FnMut(&Value) -> Option<Value>>;

/// An editor at the other end of the program.
pub(crate) struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Everything that came, in order.
    pub(crate) seen: Vec<Value>,
    last_id: u64,
    answering: Answering,
}

impl Editor {
    /// Starts the program, and agrees on the version.
    pub(crate) fn start(person: &Person, capabilities: &Value) -> Self {
        let mut editor = Self::unannounced(person);
        let answer =
            editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    pub(crate) fn unannounced(person: &Person) -> Self {
        let mut child = person.spawn(program(), &["acp"], Stdio::piped());
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            eprint!("{text}");
        });
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let answering: Answering = Box::new(|request| panic!("nothing was to be asked: {request}"));
        Self { child, stdin, lines, seen: Vec::new(), last_id: 0, answering }
    }

    /// Answers what the program asks from now on.
    pub(crate) fn answering(&mut self, answering: impl FnMut(&Value) -> Option<Value> + 'static) {
        self.answering = Box::new(answering);
    }

    /// Chooses the first option of this kind whenever a permission is asked for.
    pub(crate) fn choosing(&mut self, kind: &'static str) {
        self.answering(move |request| Some(choice(request, kind)));
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    #[expect(clippy::needless_pass_by_value, reason = "a call reads like its message")]
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends a request, and gives its id.
    #[expect(clippy::needless_pass_by_value, reason = "a call reads like its message")]
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Waits for the answer of a request.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.until(|message| message.get("method").is_none() && message["id"] == *id)
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(&id)
    }

    /// The result of a request that has to succeed.
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none() && answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The error code of a request that has to fail.
    pub(crate) fn error(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}"));
        assert!(!message.is_empty() && !message.contains('\n'), "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    /// Waits for a message, and answers requests meanwhile.
    pub(crate) fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().expect("the program ended");
            if is_wanted(&message) {
                return message;
            }
        }
    }

    /// The next message; nothing once the program's output ends.
    fn next(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(LONG) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing came after {:#?}", self.seen.last()),
        };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        self.seen.push(message.clone());
        if message.get("method").is_some() && message.get("id").is_some() {
            let result = (self.answering)(&message);
            if let Some(result) = result {
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string());
            }
        }
        Some(message)
    }

    pub(crate) fn new_session(&mut self, person: &Person) -> String {
        let opened = self.result("session/new", json!({ "cwd": person.project(), "mcpServers": [] }));
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn begin_prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.begin("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Runs a prompt, and gives the reason for its end.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.begin_prompt(session, text);
        let answer = self.answer(&id);
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Updates of a kind.
    pub(crate) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.seen.iter().map(|message| &message["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// Text of all chunks of a kind.
    pub(crate) fn text(&self, kind: &str) -> String {
        self.updates(kind).into_iter().filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// Requests of the program by this method.
    pub(crate) fn asked(&self, method: &str) -> Vec<&Value> {
        self.seen.iter().filter(|message| message["method"] == method).collect()
    }

    /// Closes both ends at once, as the end of an editor that is killed does.
    pub(crate) fn vanish(&mut self) {
        drop(self.stdin.take());
        let (_, nobody) = channel();
        self.lines = nobody;
    }

    /// Closes the input, and gives the exit code. What still comes is kept.
    pub(crate) fn close(&mut self) -> i32 {
        drop(self.stdin.take());
        while self.next().is_some() {}
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer that chooses the first option of a kind.
pub(crate) fn choice(request: &Value, kind: &str) -> Value {
    let options = request["params"]["options"].as_array().unwrap();
    let option = options.iter().find(|option| option["kind"] == kind);
    let option = option.unwrap_or_else(|| panic!("no {kind}: {request}"));
    json!({ "outcome": { "outcome": "selected", "optionId": option["optionId"] } })
}
