//! Fake MCP server, with optional faults.
#![expect(clippy::indexing_slicing, reason = "what JSON does not have is null")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Behaviour of a [`FakeMcpServer`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FakeMcpScript {
    /// Tools of the server; `None` for those of [`FakeMcpServer`].
    pub tools: Option<Vec<Value>>,
    /// Tools after a call of `mutate`, or after a restart if the host changes this.
    pub then: Option<Vec<Value>>,
    /// Instructions of the server for the model.
    pub instructions: Option<String>,
    /// Protocol revisions that the server speaks.
    pub era: FakeMcpEra,
    /// Entries of the server's skills; with any, it declares the extension for skills.
    pub skills: Vec<Value>,
    /// Texts of its resources by URI, besides the default one.
    pub files: BTreeMap<String, String>,
    /// Fault of the server, if any.
    pub fault: Option<FakeMcpFault>,
    /// Whether `mutate` sends no notification that the tools have changed.
    pub is_quiet: bool,
    /// Delay of the first response, in milliseconds.
    pub delay_ms: u64,
    /// Method after whose responses the server sends an elicitation and a ping, without waiting for either.
    pub asks_behind: Option<String>,
    /// Methods that the server never answers.
    pub silent_on: Vec<String>,
}

/// Protocol revisions of a [`FakeMcpServer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FakeMcpEra {
    /// Revisions up to 2025-11-25, with a handshake.
    #[default]
    Legacy,
    /// Revisions from 2026-07-28 on, without a handshake.
    Modern,
    /// Revisions up to 2025-11-25, with an empty result for unknown requests.
    Careless,
}

/// Fault of a [`FakeMcpServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FakeMcpFault {
    /// No response, and no exit at the end of the input.
    Silent,
    /// Exit in the middle of the first response.
    DiesInFrame,
    /// Unrelated progress notifications, as fast as possible, before each response.
    Floods,
    /// Repeated notifications that the tools have changed.
    Storms,
    /// Responses with unknown ids.
    WrongIds,
    /// 100 MB on one line in response to a call.
    Huge,
    /// 15 MB of zeros on one line in response to a call.
    ManyValues,
    /// Lines that are no JSON-RPC messages.
    Chatty,
}

/// MCP server on a pair of streams, for a test program that acts as the server.
///
/// Tools of the server: `echo` returns `text`; `add` returns `{"sum"}` as structured content; `image` returns
/// an image; `fail` fails; `slow` reports `steps` of progress, each after `step_ms`, and can be cancelled.
/// With `task`, `slow` is a task that completes after so many status requests, samples the model first if
/// `asked` is set, and can be made to `fail`. `mutate` switches to the tools of [`FakeMcpScript::then`];
/// `crash` ends the process; `env` lists the names of `vars`, and the place in a trace that the call has;
/// `roots`, `ask` and `sample` send requests to the client.
#[derive(Debug)]
pub struct FakeMcpServer<W> {
    script: FakeMcpScript,
    vars: Vec<String>,
    tools: Vec<Value>,
    output: W,
    input: Receiver<Value>,
    waiting: VecDeque<Value>,
    asked: u64,
    /// Task of the last call: its arguments, and the number of status requests.
    task: Option<(Value, u64)>,
}

/// Reason why a fake server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeMcpEnd {
    /// The input ended.
    Input,
    /// A call of `crash`: the process exits with code 3.
    Crash,
}

impl<W: Write> FakeMcpServer<W> {
    /// Server between two streams; `vars` are the names of its environment variables.
    pub fn new(
        script: FakeMcpScript,
        vars: Vec<String>,
        input: impl BufRead + Send + 'static,
        output: W,
    ) -> Self {
        let (lines, received) = channel();
        std::thread::spawn(move || {
            for line in input.lines().map_while(Result::ok) {
                if let Ok(message) = serde_json::from_str(&line)
                    && lines.send(message).is_err()
                {
                    return;
                }
            }
        });
        let tools = script.tools.clone().unwrap_or_else(own_tools);
        Self { script, vars, tools, output, input: received, waiting: VecDeque::new(), asked: 0, task: None }
    }

    /// Serves requests until the input ends.
    ///
    /// # Errors
    /// Errors of the output stream.
    pub fn serve(mut self) -> io::Result<FakeMcpEnd> {
        while let Some(message) = self.next_message() {
            if self.script.fault == Some(FakeMcpFault::Silent) {
                continue;
            }
            if self.answer_request(&message)? == Some(FakeMcpEnd::Crash) {
                return Ok(FakeMcpEnd::Crash);
            }
        }
        if self.script.fault == Some(FakeMcpFault::Silent) {
            std::thread::sleep(Duration::from_secs(3600));
        }
        Ok(FakeMcpEnd::Input)
    }

    fn next_message(&mut self) -> Option<Value> {
        self.waiting.pop_front().or_else(|| self.input.recv().ok())
    }

    fn answer_request(&mut self, message: &Value) -> io::Result<Option<FakeMcpEnd>> {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return Ok(None);
        };
        if self.script.silent_on.iter().any(|silent| silent == method) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(std::mem::take(&mut self.script.delay_ms)));
        match self.script.fault {
            Some(FakeMcpFault::DiesInFrame) => {
                write!(self.output, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu")?;
                self.output.flush()?;
                return Ok(Some(FakeMcpEnd::Crash));
            }
            Some(FakeMcpFault::Floods) => {
                let progress = json!({"progressToken": "nobody", "progress": 1});
                for _ in 0..2_000 {
                    self.notify_client("notifications/progress", &progress)?;
                }
            }
            Some(FakeMcpFault::Storms) if method != "initialize" && method != "server/discover" => {
                for _ in 0..200 {
                    self.notify_client("notifications/tools/list_changed", &json!({}))?;
                }
            }
            Some(FakeMcpFault::Chatty) => {
                writeln!(self.output, "Starting up...\n[1, 2]\n{{\"no\": \"message\"}}\n")?;
            }
            Some(FakeMcpFault::WrongIds) => {
                for wrong in [json!(4242), json!("x"), Value::Null] {
                    self.send(&json!({"jsonrpc": "2.0", "id": wrong, "result": {}}))?;
                }
            }
            Some(
                FakeMcpFault::Silent | FakeMcpFault::Huge | FakeMcpFault::ManyValues | FakeMcpFault::Storms,
            )
            | None => {}
        }
        let is_modern = self.script.era == FakeMcpEra::Modern;
        let mut capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}});
        if !self.script.skills.is_empty() {
            capabilities["extensions"] = json!({"io.modelcontextprotocol/skills": {}});
        }
        let result = match method {
            "initialize" if !is_modern => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": {"name": "fake", "version": "1"},
                "instructions": self.script.instructions,
            }),
            "server/discover" if is_modern => json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                "instructions": self.script.instructions,
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "tools/list" => json!({"tools": self.tools, "ttlMs": 0, "cacheScope": "private"}),
            "prompts/list" => json!({"prompts": [
                {"name": "review", "description": "Reviews a file", "arguments": [{"name": "path", "required": true}]},
            ], "ttlMs": 0, "cacheScope": "private"}),
            "prompts/get" => {
                let path = &message["params"]["arguments"]["path"];
                if path == "ask" {
                    self.ask_client("elicitation/create", &elicitation_form())?;
                }
                let text = format!("Review {}", path.as_str().unwrap_or_default());
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            }
            "resources/list" => json!({"resources": [
                {"uri": "fake://readme", "name": "readme", "description": "What it is", "mimeType": "text/plain"},
            ], "ttlMs": 0, "cacheScope": "private"}),
            "skills/list" => json!({"skills": self.script.skills, "ttlMs": 0, "cacheScope": "private"}),
            "resources/read" => {
                let uri = &message["params"]["uri"];
                if uri == "fake://ask" {
                    self.ask_client("elicitation/create", &elicitation_form())?;
                }
                let text =
                    uri.as_str().and_then(|uri| self.script.files.get(uri)).map_or("A fake.", |text| text);
                json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}],
                       "ttlMs": 0, "cacheScope": "private"})
            }
            "ping" => json!({}),
            "tasks/update" if self.task.is_some() => {
                if let Some((task, _)) = &mut self.task {
                    task["asked"] = json!(false);
                }
                json!({})
            }
            "tasks/get" if self.task.is_some() => self.poll_task(),
            "tasks/cancel" if self.task.is_some() => {
                let told = json!({"level": "info", "data": "the task is cancelled"});
                self.notify_client("notifications/message", &told)?;
                json!({})
            }
            "tools/call" => match self.call_tool(id, &message["params"])? {
                Called::Result(result) => result,
                Called::Nothing => return Ok(None),
                Called::Crash => return Ok(Some(FakeMcpEnd::Crash)),
            },
            _ if self.script.era == FakeMcpEra::Careless => json!({}),
            _ => {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
                return Ok(None);
            }
        };
        let mut result = result;
        if is_modern && let Value::Object(result) = &mut result {
            result.entry("resultType").or_insert_with(|| json!("complete"));
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        if self.script.asks_behind.as_deref() == Some(method) {
            for (id, method, params) in
                [("asked", "elicitation/create", elicitation_form()), ("pinged", "ping", json!({}))]
            {
                self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
            }
        }
        Ok(None)
    }

    fn call_tool(&mut self, id: &Value, params: &Value) -> io::Result<Called> {
        let args = &params["arguments"];
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        let result = match params["name"].as_str().unwrap_or_default() {
            "echo" if self.script.fault == Some(FakeMcpFault::Huge) => {
                write!(
                    self.output,
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
                )?;
                let piece = vec![b'x'; 1 << 20];
                for _ in 0..100 {
                    self.output.write_all(&piece)?;
                }
                writeln!(self.output, "\"}}]}}}}")?;
                self.output.flush()?;
                return Ok(Called::Nothing);
            }
            "echo" if self.script.fault == Some(FakeMcpFault::ManyValues) => {
                let zeros = "0,".repeat(7 << 20);
                writeln!(
                    self.output,
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"x":[{zeros}0]}}}}}}"#
                )?;
                self.output.flush()?;
                return Ok(Called::Nothing);
            }
            "echo" => text(args["text"].as_str().unwrap_or_default().to_owned()),
            "add" => {
                let sum = args["a"].as_f64().unwrap_or_default() + args["b"].as_f64().unwrap_or_default();
                json!({"content": [], "structuredContent": {"sum": sum}})
            }
            "image" => {
                json!({"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]})
            }
            "fail" => json!({"content": [{"type": "text", "text": "it is broken"}], "isError": true}),
            "slow" if args["task"].is_object() => {
                self.task = Some((args["task"].clone(), 0));
                self.task_state("working", &json!({"resultType": "task"}))
            }
            "slow" => return self.run_slow_tool(id, params),
            "mutate" => {
                self.tools = self.script.then.clone().unwrap_or_default();
                if !self.script.is_quiet {
                    self.notify_client("notifications/tools/list_changed", &json!({}))?;
                }
                text("changed".to_owned())
            }
            "crash" => return Ok(Called::Crash),
            "env" => {
                let trace = params["_meta"]["traceparent"].as_str().map(str::to_owned);
                text(self.vars.iter().cloned().chain(trace).collect::<Vec<_>>().join(" "))
            }
            "roots" => text(self.ask_client("roots/list", &json!({}))?.to_string()),
            "sample" => {
                let asked = json!({
                    "systemPrompt": "Be brief.",
                    "messages": [{"role": "user", "content": {"type": "text", "text": "What is a cat?"}}],
                    "maxTokens": 50,
                });
                if self.script.era != FakeMcpEra::Modern {
                    text(self.ask_client("sampling/createMessage", &asked)?.to_string())
                } else if let Some(answer) = params["inputResponses"].get("s") {
                    text(answer.to_string())
                } else {
                    let request = json!({"method": "sampling/createMessage", "params": asked});
                    json!({"resultType": "input_required", "inputRequests": {"s": request}})
                }
            }
            "ask" => text(self.ask_client("elicitation/create", &elicitation_form())?.to_string()),
            other => {
                let error = json!({"code": -32602, "message": format!("no tool {other}")});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
                return Ok(Called::Nothing);
            }
        };
        Ok(Called::Result(result))
    }

    /// Sends a request to the client, and waits for the response.
    fn ask_client(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        self.asked += 1;
        let id = json!(format!("s{}", self.asked));
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        while let Ok(message) = self.input.recv() {
            if message.get("method").is_none() && message["id"] == id {
                return Ok(message
                    .get("result")
                    .or_else(|| message.get("error"))
                    .cloned()
                    .unwrap_or_default());
            }
            self.waiting.push_back(message);
        }
        Ok(Value::Null)
    }

    /// State of the task, with additional fields.
    fn task_state(&self, status: &str, more: &Value) -> Value {
        let polled = self.task.as_ref().map_or(0, |(_, polled)| *polled);
        let mut state = json!({
            "taskId": "t1", "status": status, "statusMessage": format!("polled {polled} times"),
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": format!("2026-01-01T00:00:{polled:02}Z"),
            "ttlMs": null, "pollIntervalMs": 1,
        });
        if let (Value::Object(state), Value::Object(more)) = (&mut state, more) {
            state.extend(more.clone());
        }
        state
    }

    fn poll_task(&mut self) -> Value {
        let Some((task, polled)) = &mut self.task else { return Value::Null };
        *polled += 1;
        let (task, polled) = (task.clone(), *polled);
        if polled < task["polls"].as_u64().unwrap_or(2) {
            return self.task_state("working", &json!({}));
        }
        if task["asked"] == json!(true) {
            let message = json!({"role": "user", "content": {"type": "text", "text": "Go on?"}});
            let params = json!({"messages": [message], "maxTokens": 5});
            let request = json!({"method": "sampling/createMessage", "params": params});
            return self.task_state("input_required", &json!({"inputRequests": {"s": request}}));
        }
        if task["fail"] == json!(true) {
            let error = json!({"code": -32000, "message": "the task is broken"});
            return self.task_state("failed", &json!({"error": error}));
        }
        let result = json!({"content": [{"type": "text", "text": "done as a task"}]});
        self.task_state("completed", &json!({"result": result}))
    }

    fn run_slow_tool(&mut self, id: &Value, params: &Value) -> io::Result<Called> {
        let args = &params["arguments"];
        let steps = args["steps"].as_u64().unwrap_or(3);
        let pause = Duration::from_millis(args["step_ms"].as_u64().unwrap_or(10));
        for step in 1..=steps {
            if !args["is_quiet"].as_bool().unwrap_or(false) {
                let token = &params["_meta"]["progressToken"];
                let progress =
                    json!({"progressToken": token, "progress": step, "total": steps, "message": "working"});
                self.notify_client("notifications/progress", &progress)?;
            }
            match self.input.recv_timeout(pause) {
                Ok(message)
                    if message["method"] == "notifications/cancelled"
                        && message["params"]["requestId"] == *id =>
                {
                    // The test sees the cancellation in the log.
                    return Ok(Called::Nothing);
                }
                Ok(message) => self.waiting.push_back(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Called::Nothing),
            }
        }
        Ok(Called::Result(json!({"content": [{"type": "text", "text": "done"}]})))
    }

    fn notify_client(&mut self, method: &str, params: &Value) -> io::Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        writeln!(self.output, "{message}")?;
        self.output.flush()
    }
}

enum Called {
    Result(Value),
    Nothing,
    Crash,
}

/// Parameters of an elicitation with a form for the person.
fn elicitation_form() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "default": "nobody"},
            "age": {"type": "integer"},
            "sure": {"type": "boolean"},
            "colour": {"type": "string", "enum": ["red", "green"]},
        },
        "required": ["name"],
    });
    json!({"mode": "form", "message": "Who are you?", "requestedSchema": schema})
}

fn own_tools() -> Vec<Value> {
    let tool = |name: &str, about: &str, properties: Value| {
        let schema = json!({"type": "object", "properties": properties});
        json!({"name": name, "description": about, "inputSchema": schema})
    };
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    vec![
        tool("echo", "Gives back a text", json!({"text": text})),
        tool("add", "Adds two numbers", json!({"a": number, "b": number})),
        tool("image", "Gives an image", json!({})),
        tool("fail", "Fails", json!({})),
        tool(
            "slow",
            "Takes its time",
            json!({"steps": number, "step_ms": number, "is_quiet": {"type": "boolean"}, "task": {"type": "object"}}),
        ),
        tool("mutate", "Changes the tools", json!({})),
        tool("crash", "Ends the server", json!({})),
        tool("env", "Lists the environment", json!({})),
        tool("roots", "Asks for the roots", json!({})),
        tool("ask", "Asks the person", json!({})),
        tool("sample", "Asks the model", json!({})),
    ]
}
